"""The generated pages of docs/reference.

In: the schemas, tables and help texts of the project. Out: Markdown pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernelbook.reference.pages import commands_page, config_page, findings_page, guesses_page
from kernelbook.reference.summary_page import summary_page, trace_page
from kernelbook.reference.tables_page import tables_page

NOTE = "<!-- Made by scripts/reference_docs.py; change what it is made from instead. -->\n"


def reference_pages(home: Path) -> Mapping[str, str]:
    """File name -> text of every generated page. home: the checkout."""
    schemas = home / "workflow" / "schemas"
    pages = {
        "config.md": config_page(schemas),
        "guesses.md": guesses_page(schemas),
        "tables.md": tables_page(home),
        "findings.md": findings_page(),
        "summary.md": summary_page(),
        "trace-json.md": trace_page(),
        "commands.md": commands_page(home / "scripts"),
    }
    return {name: NOTE + text for name, text in pages.items()}
