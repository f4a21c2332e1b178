"""What is wrong with a folder that a subcommand is to write, found before it reads anything."""

from __future__ import annotations

import os
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
