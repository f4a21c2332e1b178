"""The commands of the how-to pages work, each page from top to bottom."""

import pytest

from tests.docs.doc_pages import blocks, pages, work_through
from tests.helpers import ROOT

TRIED = ("run", "dry run")
RUN = [
    page.relative_to(ROOT).as_posix()
    for page in pages(ROOT)
    if page.name != "tutorial.md" and any(block.mark in TRIED for block in blocks(page))
]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page(checkout, name):
    work_through(checkout, ROOT / name)
