"""Processes that tests started or stopped."""

from __future__ import annotations

from pathlib import Path


def ended(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def descendants(pid: int) -> set[int]:
    """The processes below this one, by /proc."""
    parents = {}
    for folder in Path("/proc").iterdir():
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):  # it is no process, or has ended meanwhile
            continue
    below: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        below |= level
    return below
