"""What a field means, as the docs and the JSON schemas state it, and dataclasses as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from msgspec import Meta

T = TypeVar("T")


def doc(meaning: str, *values: str | None) -> Meta:
    """For use in `Annotated[type, doc("...")]`. values: all that are possible. `records.meanings` reads it."""
    return Meta(description=meaning or None, extra_json_schema={"enum": list(values)} if values else None)


def codes(meanings: Mapping[str, str]) -> Meta:
    """Of a text that is one of these codes."""
    return Meta(extra_json_schema={"oneOf": [{"const": code, "description": text} for code, text in meanings.items()]})


def object_of(kind: type[T], source: Any, **values: Any) -> T:
    """An object of a typed dict: of `values`, and for keys that they lack of the attributes of `source`."""
    made = {key: values[key] if key in values else getattr(source, key) for key in kind.__annotations__}
    return cast(T, made)


def plain(value: Any) -> Any:
    """The value with dataclasses as dicts and tuples as lists. Fields that a class lists as `INTERNAL` are left out."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        hidden = getattr(value, "INTERNAL", ())
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name not in hidden}
    return value
