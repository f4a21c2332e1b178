"""Mistakes in config.yaml, each said as path, fact and remedy."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

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
    """End the process with the place of a mistake that makes a file no YAML; Snakemake would not say where.

    Keys that are given twice are refused too, since the last of them would win without a word. A file that is missing
    or is sound is left to Snakemake.
    """
    for path in paths:
        _refuse_bad_yaml(path)


def _refuse_bad_yaml(path: str | Path) -> None:
    try:
        text = Path(path).read_text(encoding="utf-8")
        yaml.safe_load(text)
        twice = given_twice(text)
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except FileNotFoundError:
        return
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        fact = getattr(error, "problem", None) or str(error)
        raise SystemExit(f"{path}: {where}no YAML: {fact}\nNothing was run.") from error
    if not isinstance(top, yaml.MappingNode):
        raise SystemExit(f"{path}: must hold keys and values, beginning with runs:\nNothing was run.")
    if twice:
        raise SystemExit("\n".join([*(f"{path}: {fact}" for fact in twice), "Nothing was run."]))


def given_twice(text: str) -> list[str]:
    """Keys that one map of a YAML text gives more than once, a line each; raises yaml.YAMLError for what is no YAML."""
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    return [] if top is None else list(_given_twice(top, set()))


def _given_twice(node: yaml.Node, seen: set[int]) -> Iterator[str]:
    """Keys of one map that are given more than once, each with both its lines."""
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, _ in node.value:
            word, line = str(key.value), key.start_mark.line + 1
            if word != "<<" and word in lines:
                yield f"line {line}: the key {word!r} is there already, in line {lines[word]}: rename or delete one"
            lines[word] = line
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _given_twice(part, seen)


def schema_errors(given: Mapping[str, Any], schemas: Path) -> list[str]:
    """Every breach of the schema, one line each, in the order of the file; empty where all is well."""
    schema = config_schema(schemas)
    parts = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in schemas.glob("*.schema.json")]
    registry = Registry().with_resources(
        (name, Resource.from_contents(contents, default_specification=DRAFT202012)) for name, contents in parts
    )
    validator = Draft202012Validator(schema, registry=registry)
    return [line for error in validator.iter_errors(given) for line in _said(error)]


def near_miss(word: Any, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the nearest one, or all there are."""
    names = sorted(str(name) for name in known)
    spelled = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(word), names, n=1) or [
        spelled[name] for name in difflib.get_close_matches(str(word).lower(), spelled, n=1)
    ]
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there is: {', '.join(names)}" if names else "there is none"


def _said(error: ValidationError) -> list[str]:
    where = ".".join(str(part) for part in error.absolute_path) or "the top level"
    say = _SAYINGS.get(error.validator)
    if error.validator in ("type", "pattern", "enum", *_EMPTY) and "must" in error.schema:
        return [f"{where}: must be {error.schema['must']}, got {_shown(error.instance)}"]
    if say is None:
        return [f"{where}: {error.message}: see workflow/schemas/config.schema.yaml"]
    return [f"{where}: {line}" if line[0] != "." else f"{where}{line}" for line in say(error)]


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
