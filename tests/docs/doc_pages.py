"""The fenced blocks of a Markdown page, with the mark that says how each is tested.

The line before a block is `<!-- test: MARK -->`:
    run             a shell block, run in a copy of the checkout
    dry run         Snakemake calls that are run with --dry-run, since they need a GPU, images or hours
    file NAME       a file, written there
    shows           each line of it must be in what the block before printed
    elsewhere: WHY  a shell block that cannot run here: checked for syntax, and that the files it names exist
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- test: (?P<mark>.+?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    mark: str | None
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["text"], found["mark"], text.count("\n", 0, found.start()) + 1)
        for found in BLOCK.finditer(text)
    ]


def pages(root: Path) -> list[Path]:
    """Every page that people read."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def normal(text: str) -> str:
    """Text for comparison: without Markdown's escapes and with single spaces."""
    return " ".join(text.replace("\\", "").split())
