"""Meanings of fields for the docs and the JSON schemas, and dataclasses as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from msgspec import Meta

T = TypeVar("T")


def doc(meaning: str, *values: str | None) -> Meta:
    """The meaning of a field, for `Annotated[type, doc("...")]`. values: all possible ones, if they are few."""
    return Meta(description=meaning or None, extra_json_schema={"enum": list(values)} if values else None)


def codes(meanings: Mapping[str, str]) -> Meta:
    """The meaning of a field whose value is one of these codes. meanings: code -> its meaning."""
    return Meta(extra_json_schema={"oneOf": [{"const": code, "description": text} for code, text in meanings.items()]})


def object_of(kind: type[T], source: Any, **values: Any) -> T:
    """An object of a typed dict from `values`, and from attributes of `source` for the other keys."""
    made = {key: values[key] if key in values else getattr(source, key) for key in kind.__annotations__}
    return cast(T, made)


def plain(value: Any) -> Any:
    """The value with dataclasses as dicts and tuples as lists, without the fields that a class lists as `INTERNAL`."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        hidden = getattr(value, "INTERNAL", ())
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name not in hidden}
    return value
