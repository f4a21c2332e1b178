"""The tutorial works from top to bottom."""

import pytest

from tests.docs.doc_pages import work_through
from tests.helpers import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"


@pytest.mark.slow
@pytest.mark.torch
def test_the_tutorial(checkout):
    work_through(checkout, TUTORIAL)
