"""The schemas of the JSON files and lines that other programs read, from the types that are written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

import msgspec

from kernelbook.cli.json_types import CheckedConfig, CheckedTrace, ReportLine, StatedName, TopJson
from kernelbook.compare.output import CompareJson
from kernelbook.diffs.as_json import DiffJson
from kernelbook.report.summary_json import SummaryJson
from kernelbook.summarize.line import TraceLine

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{name}"
NULL = {"type": "null"}
Schema = dict[str, Any]


class DescribedJson(NamedTuple):
    """A file or line of JSON: its type or types, its title and its description."""

    kind: Any
    title: str
    description: str


#: Path in scripts/kernelbook/ without .schema.json -> what it describes.
SCHEMAS: Mapping[str, DescribedJson] = {
    "report/summary": DescribedJson(
        SummaryJson,
        "summary.json of a Kernelbook report",
        "One edition in short, for other programs. Times are microseconds, sizes bytes; null is what was not measured, "
        "never 0. `schema` grows when a field changes its meaning or goes; new fields may come without.",
    ),
    "trace/trace": DescribedJson(
        TraceLine,
        "One line of kernelbook summarize --json",
        "One trace in short. Times are microseconds. null is what the file does not have: every device figure of a "
        "file without device activities is null, and 0 if there are some elsewhere in the file. `schema` grows "
        "when a key changes its meaning or is removed; new keys may be added without.",
    ),
    "diffs/diff": DescribedJson(
        DiffJson,
        "kernelbook diff --json",
        "B against A, range by range or case by case. Times are in microseconds, sizes in bytes; null is what is not "
        "known. Keys are only ever added.",
    ),
    "compare/compare": DescribedJson(
        CompareJson, "compare.json", "B against A, measured in turns. Keys are only ever added."
    ),
    "cli/top": DescribedJson(
        TopJson,
        "kernelbook top --json",
        "Kernels over all traces. Times are in microseconds; null is what a file does not have.",
    ),
    "cli/check": DescribedJson(
        (CheckedTrace, CheckedConfig),
        "One line of kernelbook check --json",
        "One path: a trace or a configuration.",
    ),
    "cli/name": DescribedJson(
        StatedName,
        "One line of kernelbook name --json",
        "What a kernel's name states; null is what it does not state.",
    ),
    "cli/report": DescribedJson(ReportLine, "kernelbook report --json", "About the report that was made."),
}


def schema_files() -> dict[str, str]:
    """Path from the checkout -> text of each schema."""
    return {
        f"scripts/kernelbook/{name}.schema.json": json.dumps(json_schema(*each), indent=1, ensure_ascii=False) + "\n"
        for name, each in SCHEMAS.items()
    }


def json_schema(kind: Any, title: str, description: str) -> Schema:
    """The schema of the JSON that `text.meaning.plain` makes of a typed dict or dataclass, or of one of several.

    Objects have no further keys, and whole numbers count from 0. A field is required unless it has a default; its
    meaning is in its `doc`.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    roots, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    seen: set[type] = set()
    classes = {each.__name__: each for node in map(msgspec.inspect.type_info, kinds) for each in _classes(node, seen)}
    parts = {name: _tidy(part, classes.get(name)) for name, part in components.items()}
    root = {"oneOf": roots} if len(roots) > 1 else parts.pop(roots[0]["$ref"].rpartition("/")[2])
    definitions = {"$defs": parts} if parts else {}
    return {"$schema": DIALECT, "title": title, "description": description, **root, **definitions}


def _classes(node: Any, seen: set[type]) -> Iterator[type]:
    """The dataclasses and typed dicts that a type refers to."""
    if isinstance(node, msgspec.inspect.DataclassType | msgspec.inspect.TypedDictType):
        if node.cls in seen:
            return
        seen.add(node.cls)
        yield node.cls
    if isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in node.__struct_fields__:
            yield from _classes(getattr(node, name), seen)
    if isinstance(node, tuple):
        for item in node:
            yield from _classes(item, seen)


def _tidy(schema: Schema, kind: type | None) -> Schema:
    """A schema of msgspec, simplified. kind: the class that it describes, if any."""
    made = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if kind is not None:
        made.pop("description", None)  # the docstring of the class is for readers of the code
        names = [name for name in get_type_hints(kind) if name not in getattr(kind, "INTERNAL", ())]
        properties = made["properties"]
        made["properties"] = {name: _tidy(properties[name], None) for name in names if name in properties}
        made["required"] = [name for name in names if name in made.get("required", ())]
        made["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _tidy(made[key], None)
    options = [_tidy(each, None) for each in made.pop("anyOf", ())]
    if options:
        made |= _either(options)
    if made.get("type") == "integer":
        made["minimum"] = 0
    return made


def _either(options: list[Schema]) -> Schema:
    """A schema for one of the options: `type` with "null" if there is one beside null, else `anyOf`."""
    first, *others = sorted(options, key=lambda each: each == NULL)
    if others == [NULL] and "type" in first:
        return first | {"type": [first["type"], "null"]}
    if others == [NULL] and "enum" in first:
        return first | {"enum": [*first["enum"], None]}
    return {"anyOf": options}
