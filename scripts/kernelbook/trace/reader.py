"""From a file to batches of events: what stands before the array of events, the array, what stands after it.

The file is never held whole: blocks of it are cut at the borders between events, each piece is decoded strictly, and
only a piece that fails goes to `salvage`. A wrong cut cannot do harm: both of its sides would have to be strict JSON.
At most `_MOST_HELD` bytes are held besides a block, whatever the file holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kernelbook.trace.events import PLAIN, STRICT_FAILURES, Decoder, Document, Event
from kernelbook.trace.metadata import (
    begins_a_document,
    damaged_metadata,
    find_array,
    has_array,
    is_whole,
    members,
    read_metadata,
)
from kernelbook.trace.salvage import (
    EACH_WASTED,
    EVENT_START,
    MOST_WASTED,
    Salvage,
    UnreadableError,
    read_object,
    salvage,
)
from kernelbook.trace.source import Source
from kernelbook.trace.types import TraceError

BLOCK = 1 << 20
_MOST_HELD = 8 << 20  # bytes: a longer event, head or tail is not read
_MOST_WASTED_EACH = 10_000  # letters read in vain for each event, where these are many
_SMALL = 64 << 10
_WINDOW = 1 << 20  # bytes that are salvaged at once: the objects made of them take many times as much
_BORDER = re.compile(rb"\}\s*+(,)\s*+(?=" + EVENT_START.encode() + rb")")
_ANY_BORDER = re.compile(rb"\}\s*+(,)\s*+(?=\{)")
_HEAD_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|traceEvents|displayTimeUnit|baseTimeNanoseconds)"')
_ARRAY_START = b'{"traceEvents":['
_TAIL_START = b'{"":0'  # makes an object of the text after an array
_BETWEEN = b", \t\r\n"


class EventReader:
    """Iterate `batches()` once; the other attributes are complete after it.

    lost: events, and parts of the file before or after them, that are damaged and were skipped; repaired: events that
    are damaged and were read. checks: what is wrong with a damaged gzip file, in words.
    """

    def __init__(self, path: str | Path, block: int = BLOCK, decode: Decoder = PLAIN) -> None:
        self.path = Path(path)
        self.block = block
        self.metadata: dict[str, Any] = {}
        self.truncated = False
        self.lost = 0
        self.repaired = 0
        self.checks: list[str] = []
        self.bare_array = False  # the file's top level is the array of events
        self._decode = decode
        self._rest = b""  # text that was read and not used yet
        self._inside = False  # whether that text is inside an array of events
        self._entered = False  # whether an array of events has begun
        self._over = False  # whether nothing of the file is of use any more
        self._sound = True  # whether an event is sure to start where `_rest` does
        self._wasted = 0
        self._seen = 0  # elements of the arrays of events
        self._phases = 0  # those of them with a "ph"

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events in the order of the file. Raises TraceError for a file that is no torch trace."""
        source = Source(self.path, self.block)
        self.checks = source.checks
        for block in source.blocks():
            yield from self._read(block, final=False)
        yield from self._read(b"", final=True)
        self.truncated |= not source.complete
        if not self._phases and (self._seen or (self.bare_array and not self.truncated)):
            what = "the array" if self.bare_array else "traceEvents"
            raise TraceError(f"{self.path}: not a torch trace: {what} holds no trace event")

    def _read(self, block: bytes, final: bool) -> Iterator[list[Event]]:
        """Use the text so far and a block; a file may have several arrays of events."""
        while not self._over:
            inside = self._inside
            if inside:
                yield from self._events(block, final)
            else:
                self._outside(block, final)
            if self._inside is inside:
                return
            block = b""

    def _outside(self, block: bytes, final: bool) -> None:
        """Text before or after an array: find the next array, or at the end of the file read the metadata after it."""
        text = _without_padding(self._rest + block)
        if not self._entered:
            text = text.removeprefix(b"\xef\xbb\xbf").lstrip()
            if text.startswith(b"["):
                self.bare_array = True
                return self._enter(text[1:])
        last = final or len(text) > _MOST_HELD
        start = None if self.bare_array else find_array(text, guess=last and not is_whole(text))
        if start is not None:
            self.metadata |= start.metadata
            self.lost += start.damaged
            return self._enter(text[start.position :])
        if last:
            self._over = True
            return self._end(text, final) if self._entered else self._refuse(text, final)
        self._rest = text
        return None

    def _enter(self, text: bytes) -> None:
        self._inside = self._entered = self._sound = True
        self._rest = text

    def _leave(self, tail: bytes) -> None:
        self._inside = False
        self._rest = (b"" if self.bare_array else _TAIL_START) + tail

    def _events(self, block: bytes, final: bool) -> Iterator[list[Event]]:
        """The whole events of the text so far."""
        if final:
            yield from self._last(self._rest)
            return
        text = bytearray().join((b"[", self._rest, block))
        comma = _last_border(text)
        if comma is None:
            self._rest = bytes(memoryview(text)[1:]).lstrip(_BETWEEN)
            if len(self._rest) > _MOST_HELD or not self._sound:
                piece, self._rest = self._rest, b""
                yield from self._damaged(piece, final=False)
            return
        self._rest = bytes(memoryview(text)[comma + 1 :])
        text[comma : comma + 1] = b"]"
        try:
            events = self._decode.events(memoryview(text)[: comma + 1])
        except STRICT_FAILURES:
            text[comma : comma + 1] = b","
            yield from self._damaged(bytes(memoryview(text)[1 : comma + 1]), final=False)
        else:
            self._sound = True
            yield self._count(events)

    def _damaged(self, piece: bytes, final: bool) -> Iterator[list[Event]]:
        """Narrow the damage down to small parts, then salvage those."""
        start = 0
        carried = b""
        while start < len(piece):
            border = _BORDER.search(piece, start + _SMALL, start + _WINDOW)
            end = border.start() + 1 if border else min(start + _WINDOW, len(piece))
            part = carried + piece[start:end]
            start = end
            carried = b""
            try:
                events = self._decode.events(b"".join((b"[", part.strip(_BETWEEN), b"]")))
            except STRICT_FAILURES:
                text = part.decode("utf-8", "surrogateescape")
                found = salvage(text, final and end == len(piece), self._sound)
                yield self._take(found)
                if found.tail is not None:
                    tail = found.tail.encode("utf-8", "surrogateescape")
                    self._leave(b"".join((tail, piece[end:], self._rest)))
                    return
                carried = found.rest.encode("utf-8", "surrogateescape")
            else:
                self._sound |= bool(events)
                yield self._count(events)
        self._rest = carried + self._rest

    def _last(self, text: bytes) -> Iterator[list[Event]]:
        """The last events, and the end of the file where that is sound."""
        self._rest = b""
        document = None if has_array(text) else self._sound_end(text)  # which would keep one array alone
        if document is not None:
            self._over = True
            self.metadata |= members(document)
            yield self._count(document.traceEvents)
            return
        yield from self._damaged(text, final=True)
        if self._inside:
            self._over = True
            self.truncated |= bool(self._rest.strip(_BETWEEN)) or not self.bare_array

    def _sound_end(self, text: bytes) -> Document | None:
        """The last events and the metadata after them; None where they are damaged."""
        try:
            return self._decode.document(b"".join((_ARRAY_START, text, b"}" if self.bare_array else b"")))
        except STRICT_FAILURES:
            return None

    def _take(self, found: Salvage) -> list[Event]:
        self.lost += found.lost
        self.repaired += found.repaired
        self._seen += found.lost
        self._sound = found.sound
        self._wasted += found.wasted
        return self._count(found.events)

    def _count(self, events: list[Event]) -> list[Event]:
        usual = self._phases and events and events[-1].ph is not None  # then the others are not looked at
        phases = len(events) if usual else sum(event.ph is not None for event in events)
        self._seen += len(events)
        self._phases += phases
        self._wasted += EACH_WASTED * (len(events) - phases)
        if self._wasted > MOST_WASTED + _MOST_WASTED_EACH * self._phases:
            raise TraceError(f"{self.path}: too damaged: nearly all of a long part is no event; record the trace again")
        return events

    def _end(self, text: bytes, final: bool) -> None:
        """Read what follows the last array, and judge whether the file ends there. final: it was read to its end."""
        following = text.strip()
        if not self.bare_array:
            try:
                metadata, following = read_metadata(following)
            except UnreadableError as error:
                ended = error.in_string and following.endswith(b"}")  # with a quote too few, or too many
                cut = final and error.unfinished and not ended
                self.truncated |= cut
                self.lost += not cut
                self.metadata |= damaged_metadata(following)
                return
            self.metadata |= metadata
        if begins_a_document(following):
            raise TraceError(f"{self.path}: not a torch trace: two JSON documents in one file; split it")
        self.lost += bool(following)

    def _refuse(self, text: bytes, final: bool) -> None:
        """No array of events began: a cut head is an empty reading, anything else an error."""
        found = text[:_WINDOW].decode("utf-8", "replace").strip()
        if not found:
            why = self.checks[0] if self.checks else "the file holds only blanks"
            raise TraceError(f"{self.path}: not a torch trace: {why}")
        if not final:
            size = f"{_MOST_HELD >> 20} MiB"
            raise TraceError(f"{self.path}: not a torch trace: no array traceEvents begins in the first {size}")
        try:
            value, end, found, _ = read_object(found, 0)
        except UnreadableError as error:
            if error.unfinished and found.startswith("{") and _HEAD_KEYS.search(text):
                self.truncated = True
                return
            why = "; ".join([f"not JSON, begins with {found[:20]!r}", *self.checks])
            raise TraceError(f"{self.path}: not a torch trace: {why}") from error
        more = ", and more after it" if found[end:].strip() else ""
        raise TraceError(f"{self.path}: not a torch trace: found {_kind(value)}{more}")


def _without_padding(text: bytes) -> bytes:
    """The text with at most one blank at its end, where that is a long run of them."""
    plain = text.rstrip()
    return text if len(text) - len(plain) < _SMALL else plain + b" "


def _last_border(text: bytearray) -> int | None:
    """The comma of the last border between two events, looked for near the end first.

    Where long text has none of the usual ones, that of any two objects.
    """
    for pattern in (_BORDER, _ANY_BORDER) if len(text) > _MOST_HELD // 2 else (_BORDER,):
        for start in (max(0, len(text) - _SMALL), 0):
            last = None
            for last in pattern.finditer(text, start):  # noqa: B007 (the last one is meant)
                pass
            if last is not None:
                return last.start(1)
    return None


def _kind(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a JSON {type(value).__name__}" if value is not None else "null"
    if "traceEvents" in value:
        return f"traceEvents that is no array but {msgspec.json.encode(value['traceEvents'])[:30].decode()}"
    keys = ", ".join(repr(key[:30]) for key in list(value)[:5])
    return f"a JSON object with the keys {keys}" if keys else "an empty JSON object"
