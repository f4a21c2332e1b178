"""docs/reference/summary.md, from the schema of summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelbook.reference.config import Resolver
from kernelbook.reference.markdown import table
from kernelbook.reference.tables import described

Schema = Mapping[str, Any]
INTRO = """# summary.json

What other programs read of a report: `reports/<edition>/summary.json`, strict JSON after the schema in
[summary.schema.json](../../scripts/kernelbook/report/summary.schema.json).

"""


def summary_page(scripts: Path) -> str:
    """Every key of summary.json; a list's entries are `key[]`."""
    schema = json.loads((scripts / "kernelbook/report/summary.schema.json").read_text(encoding="utf-8"))
    rows = _rows(Resolver(scripts, schema), "", schema)
    return INTRO + schema["description"] + "\n\n" + table(("key", "value", "meaning"), rows)


def _rows(whole: Resolver, prefix: str, schema: Schema) -> Iterator[tuple[str, str, str]]:
    columns = described()["tables"].get(prefix.removesuffix("[]."), {}).get("columns", {})
    for name, value in schema.get("properties", {}).items():
        path, found = prefix + name, whole.follow(value)
        yield f"`{path}`", _kind(found), found.get("description") or columns.get(name, "")
        entries = found.get("items", {})
        if found.get("type") == "array":
            yield from _rows(whole, f"{path}[].", whole.follow(entries))
        else:
            yield from _rows(whole, f"{path}.", found)


def _kind(schema: Schema) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)
