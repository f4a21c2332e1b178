"""Mistakes in config.yaml, each reported as path, fact and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from kernelbook.config.origins import ConfigSource, written_value
from kernelbook.config.yaml_text import QUICK, YamlError, read_yaml
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
    """All mistakes of a configuration. Each line of `problems` begins with the file that the mistake is in."""

    def __init__(self, source: Callable[[str], str], problems: Iterable[str]) -> None:
        self.problems = tuple(f"{source(problem)}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


@cache
def config_schema(schemas: Path) -> dict[str, Any]:
    """The schema of config.yaml: config.schema.yaml and the top-level sections of nights.schema.json."""
    schema = yaml.load((schemas / "config.schema.yaml").read_text(encoding="utf-8"), Loader=QUICK)
    nights = schemas / "nights.schema.json"
    if nights.is_file():
        for section in json.loads(nights.read_text(encoding="utf-8"))["properties"]:
            schema["properties"][section] = {"$ref": f"nights.schema.json#/properties/{section}"}
    return schema


def refuse_bad_yaml(*paths: str | Path) -> None:
    """Exit with the position of a mistake in a file that is not usable YAML; Snakemake would not report it.

    Files that are missing or valid are left to Snakemake.
    """
    for path in paths:
        problems: tuple[str, ...] = ()
        try:
            if not isinstance(read_yaml(Path(path).read_text(encoding="utf-8")), Mapping):
                problems = ("must hold keys and values, beginning with runs:",)
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            problems = (f"no YAML: {error}",)
        except YamlError as error:
            problems = error.problems
        if problems:
            raise SystemExit("\n".join([*(f"{path}: {fact}" for fact in problems), "Nothing was run."]))


def schema_errors(raw: Mapping[str, Any], schemas: Path, sources: Sequence[ConfigSource] = ()) -> list[str]:
    """Every violation of the schema, one line each, in the order of the file.

    sources: the files that `raw` was merged from, for values as they were written.
    """
    schema = config_schema(schemas)
    parts = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in schemas.glob("*.schema.json")]
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(contents, default_specification=DRAFT202012)) for name, contents in parts
    )
    validator = Draft202012Validator(schema, registry=registry)
    return [line for error in validator.iter_errors(raw) for line in _lines(error, sources)]


class _Violation(NamedTuple):
    """A value, the keyword of the schema that it violates, what the keyword demands, and the schema of the value."""

    value: Any
    keyword: str
    demand: Any
    schema: Mapping[str, Any]
    message: str


def _lines(error: ValidationError, sources: Sequence[ConfigSource]) -> list[str]:
    where = ".".join(str(part) for part in error.absolute_path) or "the top level"
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    it = _Violation(error.instance, str(error.validator), error.validator_value, schema, error.message)
    if it.keyword in ("type", "pattern", "enum", *_EMPTY) and "must" in schema:
        return [f"{where}: must be {schema['must']}, got {_json(it.value)}"]
    if it.keyword == "type" and it.demand == "string" and _is_single(it.value):
        written = written_value(sources, *error.absolute_path) or _json(it.value).strip('"')
        return [f'{where}: must be a word, got {written}, which is none to YAML: write "{written}" in quotes']
    if it.keyword not in _MESSAGES:
        return [f"{where}: {it.message}: see workflow/schemas/config.schema.yaml"]
    return [f"{where}: {line}" for line in _MESSAGES[it.keyword](it)]


def _is_single(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list)


def _json(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _type(it: _Violation) -> list[str]:
    kinds = it.demand if isinstance(it.demand, list) else [it.demand]
    return [f"must be {' or '.join(TYPE_NAMES[kind] for kind in kinds)}, got {_json(it.value)}"]


def _unknown_keys(it: _Violation) -> list[str]:
    allowed = it.schema.get("properties", {})
    extras = [key for key in it.value if key not in allowed]
    if isinstance(it.demand, Mapping) or not extras:
        return [it.message]
    return [f"unknown key {str(key)!r}: {near_miss(key, allowed)}" for key in extras]


def _enum(it: _Violation) -> list[str]:
    return [f"got {_json(it.value)}: {near_miss(it.value, map(str, it.demand))}"]


def _const(it: _Violation) -> list[str]:
    return [f"must be {_json(it.demand)}, got {_json(it.value)}"]


def _required(it: _Violation) -> list[str]:
    key = next(key for key in it.demand if key not in it.value and repr(key) in it.message)
    about = it.schema.get("properties", {}).get(key, {}).get("description", "")
    return [f"the key {key!r} is missing: add it{f' ({about})' if about else ''}"]


def _one_of(it: _Violation) -> list[str]:
    keys = [option["required"][0] for option in it.demand if option.get("required")]
    if keys and not isinstance(it.value, Mapping):
        return []  # the wrong type is reported separately
    if not keys:
        return [f"{_json(it.value)} fits none or several of the forms it may have"]
    present = [key for key in keys if key in it.value]
    fact = f"has {' and '.join(present)}" if present else "has none of them"
    return [f"{fact}: give exactly one of {', '.join(keys)}"]


def _pattern(it: _Violation) -> list[str]:
    about = it.schema.get("description", f"must match {it.demand}")
    return [f"{_json(it.value)} is not a valid name here: {about}"]


def _bound(words: str) -> Callable[[_Violation], list[str]]:
    return lambda it: [f"must be {words} {it.demand}, got {_json(it.value)}"]


def _size(words: str) -> Callable[[_Violation], list[str]]:
    def message(it: _Violation) -> list[str]:
        entries = "entry" if it.demand == 1 else "entries"
        return [f"must have {words} {it.demand} {entries}, got {len(it.value) or 'none'}"]

    return message


_EMPTY = ("minItems", "minProperties", "minLength")
_MESSAGES: Mapping[str, Callable[[_Violation], list[str]]] = {
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
    "maxProperties": _size("at most"),
    "minLength": lambda it: ["must not be empty"],
}
