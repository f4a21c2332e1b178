"""Files of the checkout in folders that tests work in."""

from __future__ import annotations

import os
import shutil


def link_or_copy(source: os.PathLike[str], target: os.PathLike[str]) -> None:
    """Another name for the same file, which takes a fifth of a copy's time; a copy on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
