"""What a field of a dataclass or typed dict means, as the docs and the JSON schemas state it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Meta


def doc(meaning: str, *values: str | None) -> Meta:
    """For use in `Annotated[type, doc("...")]`. values: all that are possible. `records.meanings` reads it."""
    return Meta(description=meaning or None, extra_json_schema={"enum": list(values)} if values else None)


def codes(meanings: Mapping[str, str]) -> Meta:
    """Of a text that is one of these codes."""
    return Meta(extra_json_schema={"oneOf": [{"const": code, "description": text} for code, text in meanings.items()]})
