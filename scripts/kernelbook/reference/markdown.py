"""Markdown: a table cell, a table, a YAML value on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml


def cell(text: str) -> str:
    """Text that can neither leave its table cell nor be read as HTML."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines) + "\n"


def inline(value: Any) -> str:
    """A value as one line of YAML, formatted as code."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("\n...").strip()
    return f"`{text}`"
