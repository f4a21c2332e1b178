"""The metadata of a trace file, before and after its events: device properties and the ranks of the job.

All text here begins with the opening brace of the file's object. The reader limits it to a few MiB.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from kernelbook.trace.events import PLAIN, STRICT_FAILURES, Document
from kernelbook.trace.salvage import UnreadableError, read_object

_LARGEST = 1 << 20  # bytes that are decoded to Python objects, which take many times as much memory
_KEYS = ("deviceProperties", "distributedInfo")
_MOST_ARRAYS = 20  # candidates that are tried, each of which reads the text before it again
# Without a backslash before it; that is checked behind the word because `re` searches fastest for a fixed start.
_ARRAY = re.compile(rb'"traceEvents"(?<!\\"traceEvents")\s*+:\s*+\[')
_EVENT_OR_END = re.compile(rb"\s*+(?:\{|\]|\Z)")


class ArrayStart(NamedTuple):
    """Position after the opening bracket of an array of events, and the metadata before it."""

    position: int
    metadata: dict[str, Any]
    damaged: bool


def has_array(text: bytes | memoryview) -> bool:
    """Whether an array of events begins anywhere in the text."""
    return _ARRAY.search(text) is not None


def find_array(text: bytes, guess: bool) -> ArrayStart | None:
    """The first array of events that is a direct member of the object, or None.

    If the text before it is damaged, an array that looks like events is accepted. guess: accept it also if it seems to
    be deeper inside the object, because no more text follows that could decide.
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
    """(metadata of an object, text after it). Words such as NaN are missing values, as in events.

    Raises UnreadableError if the text is damaged or ends too early.
    """
    try:
        return members(PLAIN.document(text)), b""
    except STRICT_FAILURES as error:
        value, end, plain, _ = _read_start(text, unfinished="truncated" in str(error))
        if not isinstance(value, dict):
            raise UnreadableError(end) from error
        metadata = {key: value[key] for key in _KEYS if key in value}
        return metadata, plain[end:].strip().encode("utf-8", "surrogateescape")


def members(document: Document) -> dict[str, Any]:
    """Metadata of a decoded document."""
    return {key: _value(raw) for key in _KEYS if (raw := bytes(getattr(document, key)))}


def _read_start(text: bytes, unfinished: bool) -> tuple[Any, int, str, bool]:
    """`read_object` at the start of the text. unfinished: set in the error for a text longer than `_LARGEST`."""
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
    """Whether the text begins with a JSON object or array, complete or not."""
    if not text.startswith((b"{", b"[")):
        return False
    try:
        read_object(text[:_LARGEST].decode("utf-8", "surrogateescape"), 0)
    except UnreadableError as error:
        return error.unfinished
    return True


def damaged_metadata(text: bytes) -> dict[str, Any]:
    """The metadata that can be read in a damaged object."""
    metadata = {}
    for key in _KEYS:
        place = re.search(rb'"%s"\s*+:\s*+' % key.encode(), text)
        value = _value(text[place.end() :]) if place else None
        if value is not None:
            metadata[key] = value
    return metadata


def _value(text: bytes) -> Any:
    """The value at the start of the text, or None if it is damaged or larger than in any trace."""
    try:
        return read_object(text[:_LARGEST].decode("utf-8", "replace"), 0)[0]
    except UnreadableError:
        return None
