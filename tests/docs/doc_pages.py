"""The fenced blocks of a Markdown page, with the mark that says how each is tested.

The line before a block is `<!-- test: MARK -->`:
    run             a shell or Python block, run in a copy of the checkout
    dry run         Snakemake calls that are run with --dry-run, since they need a GPU, images or hours
    file NAME       a file, written there
    shows           each line of it must be in what the block before printed
    elsewhere: WHY  a shell block that cannot run here: checked for syntax, and that the files it names exist
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def work_through(checkout: Any, page: Path) -> None:
    """Do what the page says in a copy of the checkout, from top to bottom; fails where it does not go as it says."""
    printed = ""
    for block in blocks(page):
        if block.mark == "run":
            printed = checkout.python(block.text) if block.kind == "python" else checkout.shell(block.text)
        elif block.mark == "dry run":
            _run_dry(checkout, block)
        elif block.mark and block.mark.startswith("file "):
            file = checkout.path / block.mark.removeprefix("file ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.mark == "shows":
            missing = [line for line in block.text.splitlines() if normal(line) not in normal(printed)]
            assert not missing, f"{page.name}, line {block.line}: not printed: {missing}\n{printed}"


def _run_dry(checkout: Any, block: Block) -> None:
    for line in block.text.splitlines():
        assert line.startswith("snakemake "), f"line {block.line}: only Snakemake runs dry: {line}"
        assert re.search("This was a dry-run|Nothing to be done", checkout.shell(f"{line} --dry-run"))
