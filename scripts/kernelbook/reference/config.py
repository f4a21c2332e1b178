"""docs/reference/config.md and guesses.md, from the schema of config.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelbook.config.errors import TYPE_NAMES, config_schema
from kernelbook.judge.expectations import expect_schema
from kernelbook.reference.markdown import inline, table

Schema = Mapping[str, Any]
INTRO = """# config.yaml

Every key, what it may hold and what it means. Unknown keys are errors, and all errors are reported together, before
anything runs. `<name>` stands for a name of your choice.

On the command line: `--config edition=NAME only_runs=a,b only_cases=x,y retry_failed=true`.

"""
GUESSES = """# Guesses

The words under `expect:` of a case, each judged against the trace: confirmed, broken, or not applicable (on a CPU,
for instance, there are no kernels to count). A word without a value is not judged.

A count must hold in every forward, a figure in every process, a comparison of times or memory in every pair of
processes of the two cases. If only some agree, the guess is not applicable, and the judgement says how many. Times
within 3 % are about equal: neither slower nor faster.

A guess that a name is absent (`ops_absent`, `activity_names_absent`, `op_counts` of 0) also holds for a misspelled
name. If the name occurs nowhere in the run, the judgement suggests a similar name that does.

"""


def config_page(schemas: Path) -> str:
    whole = Resolver(schemas, config_schema(schemas))
    top = [key for key, value in whole.root["properties"].items() if not _is_section(whole.follow(value))]
    parts = [INTRO, "## Top level\n\n", _keys(whole, "", {key: whole.root["properties"][key] for key in top})]
    for key, value in whole.root["properties"].items():
        section = whole.follow(value)
        if key not in top:
            parts.append(f"\n## {key}\n\n{_about(section)}\n\n")
            parts.append(
                _keys(whole, f"{key}.", section.get("properties") or {"<name>": section["additionalProperties"]})
            )
    return "".join(parts)


def guesses_page(schemas: Path) -> str:
    schema = expect_schema()
    whole = Resolver(schemas, schema)
    words = schema["properties"].items()
    rows = [(f"`{word}`", _kind(whole.follow(value)), _about(whole.follow(value))) for word, value in words]
    return GUESSES + table(("word", "value", "meaning"), rows)


class Resolver:
    """Follows `$ref` within one schema and to the files beside it."""

    def __init__(self, schemas: Path, root: Schema) -> None:
        self.root = root
        self._files = {
            path.name: json.loads(path.read_text(encoding="utf-8")) for path in schemas.glob("*.schema.json")
        }

    def follow(self, schema: Schema) -> Schema:
        """The schema, or the target of its reference with its own keys on top."""
        reference = schema.get("$ref")
        if reference is None:
            return schema
        file, _, pointer = reference.partition("#")
        target: Any = self._files[file] if file else self.root
        for part in filter(None, pointer.split("/")):
            target = target[part]
        return {**self.follow(target), **{key: value for key, value in schema.items() if key != "$ref"}}


def _is_section(schema: Schema) -> bool:
    return "properties" in schema or isinstance(schema.get("additionalProperties"), Mapping)


def _keys(whole: Resolver, prefix: str, properties: Mapping[str, Schema]) -> str:
    rows = list(_rows(whole, prefix, properties))
    return table(("key", "value", "default", "meaning"), rows)


def _rows(whole: Resolver, prefix: str, properties: Mapping[str, Schema]) -> Iterator[tuple[str, str, str, str]]:
    for name, value in properties.items():
        schema = whole.follow(value)
        path = prefix + name
        if path.endswith(".expect"):
            yield f"`{path}`", "a map", "", f"{_about(schema)} See [guesses](guesses.md)."
            continue
        inner = schema.get("properties")
        if not inner or name != "<name>":
            default = inline(schema["default"]) if "default" in schema else ""
            yield f"`{path}`", _kind(schema), default, _about(schema)
        if inner:
            shared = whole.root["$defs"]["measure"]["properties"] if name == "<name>" else {}
            inner = dict(sorted(inner.items(), key=lambda item: item[0] in shared))  # its own keys first
            yield from _rows(whole, f"{path}.", inner)


def _about(schema: Schema) -> str:
    return str(schema.get("description", ""))


def _kind(schema: Schema) -> str:
    if "must" in schema:
        return str(schema["must"])
    if "const" in schema:
        return inline(schema["const"])
    if "enum" in schema:
        return ", ".join(inline(value) for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "object" if "properties" in schema else [])
    kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    words = " or ".join(TYPE_NAMES[kind] for kind in kinds) or "anything"
    limits = [f"{word} {schema[key]}" for key, word in LIMITS.items() if key in schema]
    return ", ".join([words, *limits])


LIMITS = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
