"""What a column of a table means, at the field of the dataclass that is its row."""

from __future__ import annotations

from msgspec import Meta


def doc(meaning: str) -> Meta:
    """For use in `Annotated[type, doc("...")]`; `cases.records.meanings` reads it back."""
    return Meta(description=meaning)
