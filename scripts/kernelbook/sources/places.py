"""Where files lie that the configuration names: in the working folder, else among the project's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """root: the working folder. home: the project's checkout, often the same."""

    root: Path
    home: Path

    def ours(self, path: str) -> str:
        """A file of the project's own: relative where the work is done in the checkout itself, else absolute."""
        return path if self.home == self.root else (self.home / path).as_posix()

    def named(self, path: str) -> Path:
        """A file or folder as the configuration names it."""
        if Path(path).is_absolute() or os.path.exists(self.root / path):
            return Path(path)
        return Path(self.ours(path))
