"""The tutorial works from top to bottom."""

from pathlib import Path

import pytest

from tests.docs.doc_pages import work_through

TUTORIAL = Path(__file__).resolve().parents[2] / "docs/tutorial.md"


@pytest.mark.slow
@pytest.mark.torch
def test_the_tutorial(checkout):
    work_through(checkout, TUTORIAL)
