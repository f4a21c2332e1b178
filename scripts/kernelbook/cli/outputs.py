"""What is wrong with a folder that a subcommand is to write, before it reads anything and while it writes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def output_problem(output: Path, kind: str, mark: str, option: str) -> str | None:
    """Why `output` cannot become a folder of this kind, with the remedy; None where it can.

    mark: a file that every such folder has. A folder with other content is not replaced.
    """
    remedy = f"name another folder with {option}"
    try:
        if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / mark).is_file()):
            return f"{output}: is not a {kind}, and is not replaced: {remedy}"
    except OSError as error:
        return f"{output}: cannot be read: {error.strerror}: {remedy}"
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not above.is_dir():
        return f"{output}: {above} is a file: {remedy}"
    for folder in (above, output):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            return f"{output}: cannot be written, {folder} is read-only for you: {remedy}"
    return None


@contextmanager
def writing(output: Path, option: str) -> Iterator[None]:
    """Raise a ValueError with the remedy where the disk of `output`, or of temporary files, is full or read-only."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        remedy = f"make room there and in {tempfile.gettempdir()}, or name another folder with {option}"
        raise ValueError(f"{output}: cannot be written: {error.strerror}: {remedy}") from error
