"""What a test does if a program or package that it needs is missing."""

from __future__ import annotations

import os
import shutil

import pytest


def all_required() -> bool:
    """Whether KERNELBOOK_REQUIRE_ALL=1 forbids skipping."""
    return os.environ.get("KERNELBOOK_REQUIRE_ALL") == "1"


def skip_or_fail(reason: str) -> None:
    """Skip the test with this reason, or fail it under KERNELBOOK_REQUIRE_ALL=1."""
    if all_required():
        pytest.fail(f"KERNELBOOK_REQUIRE_ALL=1, but {reason}")
    pytest.skip(reason)


def required_program(name: str) -> str:
    """Path of a program; the test is skipped or fails where it is not installed."""
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"{name} is not installed")
    return str(path)
