"""docs/reference/summary.md and trace-json.md, from the JSON schemas of the files that other programs read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelbook.reference.config import Resolver
from kernelbook.reference.markdown import table
from kernelbook.reference.tables_page import described

Schema = Mapping[str, Any]
INTRO = """# summary.json

The results of an edition for other programs: `reports/<edition>/summary.json`, strict JSON with the schema
[summary.schema.json](../../scripts/kernelbook/report/summary.schema.json).

For people there is `reports/<edition>/summary.md` beside it: the verdict, what broke or costs most, and one table, in
at most 10,000 characters, for a comment on a pull request or a chat.

"""
TRACE_INTRO = """# summarize_trace.py --json

One JSON object per line for each trace, with the schema
[trace.schema.json](../../scripts/kernelbook/trace/trace.schema.json).

"""
CODES = {"warning_code": "Codes of warnings", "note_code": "Codes of notes"}


def summary_page(scripts: Path) -> str:
    """Every key of summary.json; a list's entries are `key[]`."""
    return INTRO + _keys(scripts, _read(scripts / "kernelbook/report/summary.schema.json"))


def trace_page(scripts: Path) -> str:
    """Every key of `summarize_trace.py --json`, and every code of its warnings and notes."""
    schema = _read(scripts / "kernelbook/trace/trace.schema.json")
    parts = [TRACE_INTRO, _keys(scripts, schema)]
    for name, title in CODES.items():
        rows = [(f"`{code['const']}`", code["description"]) for code in schema["$defs"][name]["oneOf"]]
        parts.append(f"\n## {title}\n\n" + table(("code", "meaning"), rows))
    return "".join(parts)


def _read(file: Path) -> Schema:
    schema: Schema = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _keys(scripts: Path, schema: Schema) -> str:
    rows = _rows(Resolver(scripts, schema), "", schema)
    return str(schema["description"]) + "\n\n" + table(("key", "value", "meaning"), rows)


def _rows(whole: Resolver, prefix: str, schema: Schema) -> Iterator[tuple[str, str, str]]:
    columns = described()["tables"].get(prefix.removesuffix("[]."), {}).get("columns", {})
    for name, value in schema.get("properties", {}).items():
        path, resolved = prefix + name, whole.follow(value)
        yield f"`{path}`", _kind(resolved), resolved.get("description") or columns.get(name, "")
        entries = resolved.get("items", {})
        if resolved.get("type") == "array":
            yield from _rows(whole, f"{path}[].", whole.follow(entries))
        else:
            yield from _rows(whole, f"{path}.", resolved)


def _kind(schema: Schema) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "oneOf" in schema:
        return "a code listed below"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)
