"""Paths with spaces: torch's compiler backend hands them to g++ without quotes, so it is given links without spaces."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path


def without_spaces(path: Path) -> Path:
    """The path itself, or where it holds white space a link to it that holds none.

    The link's name follows from the path, so that what is cached under it is found again; it is left where it is, for
    another process may be using it. Where none can be made the path itself must do.
    """
    if not any(letter.isspace() for letter in str(path)):
        return path
    name = f"kernelbook-{os.getuid()}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        link = Path(folder) / name
        if not any(letter.isspace() for letter in folder) and _linked(link, path):
            return link
    return path


def _linked(link: Path, path: Path) -> bool:
    try:
        if not link.is_symlink():
            link.symlink_to(path, target_is_directory=True)
        return os.readlink(link) == str(path)
    except OSError:
        return False


def packages_of_torch() -> Path | None:
    """The folder that torch is imported from, found without importing it; None where there is none."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parents[1] if spec and spec.origin else None
