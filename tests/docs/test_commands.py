"""The commands of the how-to pages work, each page from top to bottom."""

from pathlib import Path

import pytest

from tests.docs.doc_pages import blocks, pages, work_through

ROOT = Path(__file__).resolve().parents[2]
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
