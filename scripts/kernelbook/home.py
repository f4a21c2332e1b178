"""The checkout of the project, or an installed package's copy of the parts that it needs."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def home() -> Path:
    """The folder that holds `workflow/schemas` and `scripts/workloads`."""
    installed = _PACKAGE / "checkout"
    return installed if installed.is_dir() else _PACKAGE.parent.parent
