"""The pytest fixture `kernelbook_expect`: guesses about kernels in your tests. Importing it does not import torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernelbook.api.expectation import Result


@pytest.fixture
def kernelbook_expect() -> Callable[..., AbstractContextManager[Result]]:
    """`kernelbook.expect`; skips the test if torch is missing or a guess cannot be judged, as without a GPU."""
    return _expect_or_skip


@contextmanager
def _expect_or_skip(**guess: Any) -> Iterator[Result]:
    from kernelbook.api.expectation import NotJudged, expect

    if importlib.util.find_spec("torch") is None:
        pytest.skip("kernelbook_expect needs torch")
    try:
        with expect(**guess) as result:
            yield result
    except NotJudged as error:
        pytest.skip(str(error))
