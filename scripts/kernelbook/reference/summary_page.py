"""docs/reference/summary.md and trace-json.md, from the JSON schemas of the files that other programs read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kernelbook.reference.json_schemas import NULL, SCHEMAS, json_schema
from kernelbook.reference.pages import table
from kernelbook.reference.tables_page import TABLE_DOCS, columns_of
from kernelbook.summarize.line import NOTE_CODES, WARNING_CODES

Schema = Mapping[str, Any]
INTRO = """# summary.json

The results of an edition for other programs: `reports/<edition>/summary.json`, strict JSON with the schema
[summary.schema.json](../../scripts/kernelbook/report/summary.schema.json).

For people there is `reports/<edition>/summary.md` beside it: the verdict, what broke or costs most, and one table, in
at most 10,000 characters, for a comment on a pull request or a chat.

"""
TRACE_INTRO = """# kernelbook summarize --json

One JSON object per line for each trace, with the schema
[trace.schema.json](../../scripts/kernelbook/trace/trace.schema.json).

"""
CODES = {"Codes of warnings": WARNING_CODES, "Codes of notes": NOTE_CODES}


def summary_page() -> str:
    """Every key of summary.json; a list's entries are `key[]`."""
    return INTRO + _keys("report/summary")


def trace_page() -> str:
    """Every key of `kernelbook summarize --json`, and every code of its warnings and notes."""
    parts = [TRACE_INTRO, _keys("trace/trace")]
    for title, meanings in CODES.items():
        rows = [(f"`{code}`", text) for code, text in meanings.items()]
        parts.append(f"\n## {title}\n\n" + table(("code", "meaning"), rows))
    return "".join(parts)


def _keys(name: str) -> str:
    schema = json_schema(*SCHEMAS[name])
    return str(schema["description"]) + "\n\n" + table(("key", "value", "meaning"), _rows(schema, "", schema))


def _rows(whole: Schema, prefix: str, schema: Schema) -> Iterator[tuple[str, str, str]]:
    columns = columns_of(table_name) if (table_name := prefix.removesuffix("[].")) in TABLE_DOCS else {}
    for name, value in schema.get("properties", {}).items():
        path, inner = prefix + name, _followed(whole, value)
        yield f"`{path}`", _kind(inner), inner.get("description") or columns.get(name, "")
        if inner.get("type") == "array":
            yield from _rows(whole, f"{path}[].", _followed(whole, inner["items"]))
        else:
            yield from _rows(whole, f"{path}.", inner)


def _followed(whole: Schema, schema: Schema) -> Schema:
    """The schema with its reference resolved; for one that may be null, the other option."""
    options = [each for each in schema.get("anyOf", (schema,)) if each != NULL]
    target = whole["$defs"][options[0]["$ref"].rpartition("/")[2]] if "$ref" in options[0] else options[0]
    kind = [target["type"], "null"] if "anyOf" in schema else target.get("type")
    return {**target, "type": kind, **{key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}}


def _kind(schema: Schema) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "oneOf" in schema:
        return "a code listed below"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kinds = schema.get("type") or "any"
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)
