"""docs/reference/summary.md, from the schema of summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelbook.reference.markdown import table

INTRO = """# summary.json

What other programs read of a report: `reports/<edition>/summary.json`, strict JSON after the schema in
[summary.schema.json](../../workflow/schemas/summary.schema.json). Times are microseconds, sizes bytes; `null` is what
could not be had. A key may be added at any time; a breaking change raises `schema`.

"""


def summary_page(schemas: Path) -> str:
    """Every key of summary.json; a list's entries are `key[]`."""
    schema = json.loads((schemas / "summary.schema.json").read_text(encoding="utf-8"))
    return INTRO + table(("key", "value", "meaning"), _rows("", schema))


def _rows(prefix: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, value in schema.get("properties", {}).items():
        path = prefix + name
        yield f"`{path}`", _kind(value), value.get("description", "")
        if value.get("type") == "array":
            yield from _rows(f"{path}[].", value["items"])
        else:
            yield from _rows(f"{path}.", value)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)
