"""Reads a file as batches of events: the text before the array of events, the array, and the text after it.

The file is never held as a whole. Blocks of it are split at the borders between events and decoded strictly; only a
piece that fails is passed to `salvage`. A wrong split does no harm, because both of its sides would have to be strict
JSON. At most `_MOST_HELD` bytes are held besides a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kernelbook.trace.events import PLAIN, STRICT_FAILURES, WITH_COLLECTIVES, Decoder, Document, Event
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
from kernelbook.trace.types import OtherJsonError, TraceError

BLOCK = 1 << 20
_PIECE = 1 << 18  # bytes of usual events decoded together: their objects fit into the caches of a processor
_MOST_HELD = 8 << 20  # bytes: a longer event, head or tail is not read
_MOST_WASTED_EACH = 10_000  # characters read without result per event of a long file
_SMALL = 64 << 10
_USUAL_EVENT = 2 << 10  # bytes: few events are longer
_WINDOW = 1 << 20  # bytes salvaged together: their objects take many times as much memory
_BORDER = re.compile(rb"\}\s*+(,)\s*+(?=" + EVENT_START.encode() + rb")")
_ANY_BORDER = re.compile(rb"\}\s*+(,)\s*+(?=\{)")
_HEAD_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|traceEvents|displayTimeUnit|baseTimeNanoseconds)"')
_ARRAY_START = b'{"traceEvents":['
_TAIL_START = b'{"":0'  # makes the text after an array an object
_BETWEEN = b", \t\r\n"


class EventReader:
    """Reads one file. Iterate over `batches()` once; the attributes are complete after that.

    metadata: device properties and distributed info.
    truncated: whether the file ends too early.
    lost: number of damaged events, and of other damaged parts, that were skipped.
    repaired: number of damaged events that were read.
    checks: what is wrong with a damaged gzip file.
    bare_array: whether the top level of the file is the array of events.
    """

    def __init__(self, path: str | Path, block: int = BLOCK, decode: Decoder = PLAIN) -> None:
        self.path = Path(path)
        self.block = block
        self.metadata: dict[str, Any] = {}
        self.truncated = False
        self.lost = 0
        self.repaired = 0
        self.checks: list[str] = []
        self.bare_array = False
        self._decode = decode
        self._rest = b""  # text that was read and not yet used
        self._inside = False  # whether that text is inside an array of events
        self._entered = False  # whether an array of events has begun
        self._finished = False  # whether the rest of the file is not needed
        self._sound = True  # whether an event certainly starts where `_rest` starts
        self._wasted = 0
        self._elements = 0  # of the arrays of events
        self._phases = 0  # elements with a "ph"

    def batches(self) -> Iterator[Sequence[Event]]:
        """Yield the events in file order. Raises TraceError if the file is not a torch trace."""
        source = Source(self.path, self.block)
        self.checks = source.checks
        for block in source.blocks():
            yield from self._read(block, final=False)
            source.block = min(self.block, max(_PIECE, len(self._rest))) if self._inside else self.block
        yield from self._read(b"", final=True)
        self.truncated |= not source.complete
        if not self._phases and (self._elements or (self.bare_array and not self.truncated)):
            what = "the array" if self.bare_array else "traceEvents"
            raise TraceError(f"{self.path}: not a torch trace: {what} holds no trace event")

    def other_json(self) -> str | None:
        """The error of a file that is JSON of another kind, else None. Reads no further than the first events."""
        try:
            next(iter(self.batches()), None)
        except OtherJsonError as error:
            return str(error)
        except TraceError:
            return None
        return None

    def _read(self, block: bytes, final: bool) -> Iterator[Sequence[Event]]:
        """Process the text so far and a block. A file may have several arrays of events."""
        while not self._finished:
            inside = self._inside
            if inside:
                yield from self._events(block, final)
            else:
                self._outside(block, final)
            if self._inside is inside:
                return
            block = b""

    def _outside(self, block: bytes, final: bool) -> None:
        """Outside an array: find the next one, or at the end of the file read the metadata after the last."""
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
            if "distributedInfo" in self.metadata and self._decode is PLAIN:
                self._decode = WITH_COLLECTIVES
            return self._enter(text[start.position :])
        if last:
            self._finished = True
            return self._end(text, final) if self._entered else self._refuse(text, final)
        self._rest = text
        return None

    def _enter(self, text: bytes) -> None:
        self._inside = self._entered = self._sound = True
        self._rest = text

    def _leave(self, tail: bytes) -> None:
        self._inside = False
        self._rest = (b"" if self.bare_array else _TAIL_START) + tail

    def _events(self, block: bytes, final: bool) -> Iterator[Sequence[Event]]:
        """The complete events of the text so far."""
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
        self._rest = bytes(text[comma + 1 :])
        text[comma:] = b"]"
        try:
            events = self._decode.events(text)
        except STRICT_FAILURES:
            yield from self._damaged(bytes(text[1:comma] + b","), final=False)
            return
        self._sound = True
        yield self._count(events)
        del events  # free them before the next ones are decoded

    def _damaged(self, piece: bytes, final: bool) -> Iterator[Sequence[Event]]:
        """Find the small parts that are damaged, and salvage those."""
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
                result = salvage(text, final and end == len(piece), self._sound)
                yield self._take(result)
                if result.tail is not None:
                    tail = result.tail.encode("utf-8", "surrogateescape")
                    self._leave(b"".join((tail, piece[end:], self._rest)))
                    return
                carried = result.rest.encode("utf-8", "surrogateescape")
            else:
                self._sound |= bool(events)
                yield self._count(events)
        self._rest = carried + self._rest

    def _last(self, text: bytes) -> Iterator[Sequence[Event]]:
        """The last events and, if it is valid, the end of the file."""
        self._rest = b""
        document = None if has_array(text) else self._valid_end(text)  # a document holds only one array
        if document is not None:
            self._finished = True
            self.metadata |= members(document)
            yield self._count(document.traceEvents)
            return
        yield from self._damaged(text, final=True)
        if self._inside:
            self._finished = True
            self.truncated |= bool(self._rest.strip(_BETWEEN)) or not self.bare_array

    def _valid_end(self, text: bytes) -> Document | None:
        """The last events and the metadata after them, or None if they are damaged."""
        try:
            return self._decode.document(b"".join((_ARRAY_START, text, b"}" if self.bare_array else b"")))
        except STRICT_FAILURES:
            return None

    def _take(self, result: Salvage) -> Sequence[Event]:
        self.lost += result.lost
        self.repaired += result.repaired
        self._elements += result.lost
        self._sound = result.sound
        self._wasted += result.wasted
        return self._count(result.events)

    def _count(self, events: Sequence[Event]) -> Sequence[Event]:
        usual = self._phases and events and events[-1].ph is not None  # then the others are not checked
        phases = len(events) if usual else sum(event.ph is not None for event in events)
        self._elements += len(events)
        self._phases += phases
        self._wasted += EACH_WASTED * (len(events) - phases)
        if self._wasted > MOST_WASTED + _MOST_WASTED_EACH * self._phases:
            raise TraceError(
                f"{self.path}: too damaged: nearly all of a long part is not an event; record the trace again"
            )
        return events

    def _end(self, text: bytes, final: bool) -> None:
        """Read the metadata after the last array, and check that the file ends there. final: it was read to its end."""
        following = text.strip()
        if not self.bare_array:
            try:
                metadata, following = read_metadata(following)
            except UnreadableError as error:
                ended = error.in_string and following.endswith(b"}")  # a quotation mark is missing or surplus
                truncated = final and error.unfinished and not ended
                self.truncated |= truncated
                self.lost += not truncated
                self.metadata |= damaged_metadata(following)
                return
            self.metadata |= metadata
        if begins_a_document(following):
            raise TraceError(f"{self.path}: not a torch trace: two JSON documents in one file; split it")
        self.lost += bool(following)

    def _refuse(self, text: bytes, final: bool) -> None:
        """No array of events began: an incomplete head is an empty trace, anything else an error."""
        start = text[:_WINDOW].decode("utf-8", "replace").strip()
        if not start:
            why = self.checks[0] if self.checks else "the file holds only blanks"
            raise TraceError(f"{self.path}: not a torch trace: {why}")
        if not final:
            size = f"{_MOST_HELD >> 20} MiB"
            raise TraceError(f"{self.path}: not a torch trace: no array traceEvents begins in the first {size}")
        try:
            value, end, start, _ = read_object(start, 0)
        except UnreadableError as error:
            if error.unfinished and start.startswith("{") and _HEAD_KEYS.search(text):
                self.truncated = True
                return
            if text.startswith((b"\xff\xfe", b"\xfe\xff")):
                why = "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8"
                raise TraceError(f"{self.path}: not a torch trace: {why}") from error
            why = "; ".join([f"not JSON, begins with {start[:20]!r}", *self.checks])
            raise TraceError(f"{self.path}: not a torch trace: {why}") from error
        more = ", and more after it" if start[end:].strip() else ""
        other = isinstance(value, dict) and "traceEvents" not in value and not more
        kind = OtherJsonError if other else TraceError
        raise kind(f"{self.path}: not a torch trace: found {_kind(value)}{more}")


def _without_padding(text: bytes) -> bytes:
    """The text with a long run of blanks at its end replaced by one."""
    plain = text.rstrip()
    return text if len(text) - len(plain) < _SMALL else plain + b" "


def _last_border(text: bytearray) -> int | None:
    """Position of the comma between the last two events, or in long text without one, between any two objects."""
    if b"}" not in text:  # found much faster than by the patterns: a disk may hold a GB of zeros after a crash
        return None
    for pattern in (_BORDER, _ANY_BORDER) if len(text) > _MOST_HELD // 2 else (_BORDER,):
        for start in (max(0, len(text) - _USUAL_EVENT), max(0, len(text) - _SMALL), 0):
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
        return f"traceEvents that is not an array but {msgspec.json.encode(value['traceEvents'])[:30].decode()}"
    keys = ", ".join(repr(key[:30]) for key in list(value)[:5])
    return f"a JSON object with the keys {keys}" if keys else "an empty JSON object"
