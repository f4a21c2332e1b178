"""Dataclasses as JSON objects. `reference.json_schemas` derives the schemas of such objects from their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


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
