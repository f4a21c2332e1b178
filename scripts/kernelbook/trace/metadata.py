"""What a trace file says beside its events, before and after them: the device's properties and the job's ranks.

All text here begins with the brace of the file's object. It is at most some MiB long: the reader sees to that.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from kernelbook.trace.events import PLAIN, STRICT_FAILURES, Document
from kernelbook.trace.salvage import UnreadableError, read_object

_LARGEST = 1 << 20  # bytes of text that are made into Python objects, each of which takes many times its text
_KEYS = ("deviceProperties", "distributedInfo")
_MOST_ARRAYS = 20  # that are tried: each costs a reading of the text before it
_ARRAY = re.compile(rb'(?<!\\)"traceEvents"\s*+:\s*+\[')
_EVENT_OR_END = re.compile(rb"\s*+(?:\{|\]|\Z)")


class ArrayStart(NamedTuple):
    """Where an array of events begins (behind its bracket), the metadata before it, and whether that is damaged."""

    position: int
    metadata: dict[str, Any]
    damaged: bool


def has_array(text: bytes | memoryview) -> bool:
    """Whether an array of events begins somewhere in the text."""
    return _ARRAY.search(text) is not None


def find_array(text: bytes, guess: bool) -> ArrayStart | None:
    """The first array of events that is a member of the object itself, or None.

    Where the text before it is damaged, it is taken for one if its content looks like events. `guess`: also where the
    array seems to be deeper inside the object: no more text will tell.
    """
    for match in islice(_ARRAY.finditer(text), _MOST_ARRAYS):
        try:
            metadata, following = read_metadata(text[: match.end()] + b"]}")
        except UnreadableError as error:
            if (guess or not error.unfinished) and _EVENT_OR_END.match(text, match.end()):
                return ArrayStart(match.end(), damaged_metadata(text[: match.start()]), damaged=True)
        else:
            if not begins_a_document(following):
                return ArrayStart(match.end(), metadata, damaged=bool(following))
    return None


def read_metadata(text: bytes) -> tuple[dict[str, Any], bytes]:
    """The metadata of an object, and the text that follows it. Raises UnreadableError for text that is damaged or cut.

    Words like NaN are missing values, as in events.
    """
    try:
        return members(PLAIN.document(text)), b""
    except STRICT_FAILURES as error:
        value, end, plain, _ = _read_start(text, unfinished="truncated" in str(error))
        if not isinstance(value, dict):
            raise UnreadableError(end) from error
        found = {key: value[key] for key in _KEYS if key in value}
        return found, plain[end:].strip().encode("utf-8", "surrogateescape")


def members(document: Document) -> dict[str, Any]:
    """The metadata of a decoded document."""
    return {key: _value(raw) for key in _KEYS if (raw := bytes(getattr(document, key)))}


def _read_start(text: bytes, unfinished: bool) -> tuple[Any, int, str, bool]:
    """The object that the text begins with, as `read_object` does. unfinished: for a text too long to be read so."""
    try:
        return read_object(text[:_LARGEST].decode("utf-8", "surrogateescape"), 0)
    except UnreadableError as error:
        if len(text) > _LARGEST:
            raise UnreadableError(error.read, unfinished) from error
        raise


def is_whole(text: bytes) -> bool:
    """Whether the text is one JSON object."""
    try:
        return not read_metadata(text)[1]
    except UnreadableError:
        return False


def begins_a_document(text: bytes) -> bool:
    """Whether the text begins with a JSON object or array, or with the start of one that is cut."""
    if not text.startswith((b"{", b"[")):
        return False
    try:
        read_object(text[:_LARGEST].decode("utf-8", "surrogateescape"), 0)
    except UnreadableError as error:
        return error.unfinished
    return True


def damaged_metadata(text: bytes) -> dict[str, Any]:
    """The values that can be read of an object that is damaged somewhere."""
    found = {}
    for key in _KEYS:
        place = re.search(rb'"%s"\s*+:\s*+' % key.encode(), text)
        value = _value(text[place.end() :]) if place else None
        if value is not None:
            found[key] = value
    return found


def _value(text: bytes) -> Any:
    """The value at the start of the text; None where it is damaged, or larger than any trace needs."""
    try:
        return read_object(text[:_LARGEST].decode("utf-8", "replace"), 0)[0]
    except UnreadableError:
        return None
