"""Mistakes in config.yaml, each said as path, fact and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from kernelbook.config.origins import Source, written_value
from kernelbook.config.yaml_text import YamlError, read_yaml
from kernelbook.text.suggestions import near_miss

TYPE_NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a word",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map of keys and values",
    "null": "empty",
}


class ConfigError(ValueError):
    """All mistakes of one configuration; `problems` holds one line each, which begins with where it is written."""

    def __init__(self, source: Callable[[str], str], problems: Iterable[str]) -> None:
        self.problems = tuple(f"{source(problem)}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


def config_schema(schemas: Path) -> dict[str, Any]:
    """The schema of config.yaml: config.schema.yaml with the top-level sections of nights.schema.json added."""
    schema = yaml.safe_load((schemas / "config.schema.yaml").read_text(encoding="utf-8"))
    nights = schemas / "nights.schema.json"
    if nights.is_file():
        for section in json.loads(nights.read_text(encoding="utf-8"))["properties"]:
            schema["properties"][section] = {"$ref": f"nights.schema.json#/properties/{section}"}
    return schema


def refuse_bad_yaml(*paths: str | Path) -> None:
    """End the process with the place of a mistake that makes a file no usable YAML; Snakemake would not say where.

    A file that is missing or sound is left to Snakemake.
    """
    for path in paths:
        try:
            found = read_yaml(Path(path).read_text(encoding="utf-8"))
            problems = () if isinstance(found, Mapping) else ("must hold keys and values, beginning with runs:",)
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            problems = (f"no YAML: {error}",)
        except YamlError as error:
            problems = error.problems
        if problems:
            raise SystemExit("\n".join([*(f"{path}: {fact}" for fact in problems), "Nothing was run."]))


def schema_errors(given: Mapping[str, Any], schemas: Path, sources: Sequence[Source] = ()) -> list[str]:
    """Every breach of the schema, one line each, in the order of the file; empty where all is well.

    sources: where values are looked up as they were written.
    """
    schema = config_schema(schemas)
    parts = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in schemas.glob("*.schema.json")]
    registry = Registry().with_resources(
        (name, Resource.from_contents(contents, default_specification=DRAFT202012)) for name, contents in parts
    )
    validator = Draft202012Validator(schema, registry=registry)
    return [line for error in validator.iter_errors(given) for line in _said(error, sources)]


def _said(error: ValidationError, sources: Sequence[Source]) -> list[str]:
    where = ".".join(str(part) for part in error.absolute_path) or "the top level"
    say = _SAYINGS.get(error.validator)
    if error.validator in ("type", "pattern", "enum", *_EMPTY) and "must" in error.schema:
        return [f"{where}: must be {error.schema['must']}, got {_shown(error.instance)}"]
    if error.validator == "type" and error.validator_value == "string" and _is_single(error.instance):
        written = written_value(sources, *error.absolute_path) or _shown(error.instance).strip('"')
        return [f'{where}: must be a word, got {written}, which is none to YAML: write "{written}" in quotes']
    if say is None:
        return [f"{where}: {error.message}: see workflow/schemas/config.schema.yaml"]
    return [f"{where}: {line}" if line[0] != "." else f"{where}{line}" for line in say(error)]


def _is_single(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _type(error: ValidationError) -> list[str]:
    kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
    wanted = " or ".join(TYPE_NAMES[kind] for kind in kinds)
    return [f"must be {wanted}, got {_shown(error.instance)}"]


def _unknown_keys(error: ValidationError) -> list[str]:
    known = error.schema.get("properties", {})
    extras = [key for key in error.instance if key not in known]
    if isinstance(error.validator_value, Mapping) or not extras:
        return [error.message]
    return [f"unknown key {str(key)!r}: {near_miss(key, known)}" for key in extras]


def _enum(error: ValidationError) -> list[str]:
    return [f"got {_shown(error.instance)}: {near_miss(error.instance, map(str, error.validator_value))}"]


def _const(error: ValidationError) -> list[str]:
    return [f"must be {_shown(error.validator_value)}, got {_shown(error.instance)}"]


def _required(error: ValidationError) -> list[str]:
    missing = [key for key in error.validator_value if key not in error.instance]
    key = next(key for key in missing if repr(key) in error.message)
    about = error.schema.get("properties", {}).get(key, {}).get("description", "")
    return [f"the key {key!r} is missing: add it{f' ({about})' if about else ''}"]


def _one_of(error: ValidationError) -> list[str]:
    keys = [option["required"][0] for option in error.validator_value if option.get("required")]
    if not keys or not isinstance(error.instance, Mapping):
        return [f"{_shown(error.instance)} fits none or several of the forms it may have"]
    found = [key for key in keys if key in error.instance]
    fact = f"has {' and '.join(found)}" if found else "has none of them"
    return [f"{fact}: give exactly one of {', '.join(keys)}"]


def _pattern(error: ValidationError) -> list[str]:
    about = error.schema.get("description", f"must match {error.validator_value}")
    return [f"{_shown(error.instance)} is no good name here: {about}"]


def _bound(words: str) -> Any:
    return lambda error: [f"must be {words} {error.validator_value}, got {_shown(error.instance)}"]


def _size(words: str) -> Any:
    def said(error: ValidationError) -> list[str]:
        entries = "entry" if error.validator_value == 1 else "entries"
        return [f"must have {words} {error.validator_value} {entries}, got {len(error.instance) or 'none'}"]

    return said


_EMPTY = ("minItems", "minProperties", "minLength")


_SAYINGS = {
    "type": _type,
    "additionalProperties": _unknown_keys,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "oneOf": _one_of,
    "pattern": _pattern,
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("more than"),
    "minItems": _size("at least"),
    "maxItems": _size("at most"),
    "minProperties": _size("at least"),
    "minLength": lambda error: ["must not be empty"],
}
