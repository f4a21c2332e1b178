"""From a file to batches of events: head, array of events, tail, cut where the file can be cut.

The file is never held whole: blocks of it are cut at the borders between events, each piece is decoded strictly, and
only a piece that fails goes to `salvage`. A wrong cut cannot do harm: both of its sides would have to be strict JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kernelbook.trace.events import PLAIN, STRICT_FAILURES, Decoder, Document, Event
from kernelbook.trace.model import TraceError
from kernelbook.trace.salvage import Salvage, UnreadableError, read_object, salvage
from kernelbook.trace.source import Source

BLOCK = 4 << 20
_SMALL = 64 << 10
_BORDER = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)"\s*:)')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*')
_HEAD_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|traceEvents|displayTimeUnit|baseTimeNanoseconds)"')
_OPEN = b'{"traceEvents":['
_BETWEEN = b", \t\r\n"


class EventReader:
    """Iterate `batches()` once; the other attributes are complete after it."""

    def __init__(self, path: str | Path, block: int = BLOCK, decode: Decoder = PLAIN) -> None:
        self.path = Path(path)
        self._decode = decode
        self.block = block
        self.metadata: dict[str, Any] = {}
        self.truncated = False
        self.lost = 0
        self.repaired = 0
        self.bare_array = False  # the file's top level is the array of events
        self._opened = False
        self._rest = b""
        self._tail: list[str] | None = None
        self._seen = 0  # elements of the array of events
        self._phases = 0  # those of them with a "ph"

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events in the order of the file. Raises TraceError for a file that is no torch trace."""
        source = Source(self.path, self.block)
        for block in self._grown(source.blocks()):
            if self._tail is not None:
                self._tail.append(block.decode("utf-8", "replace"))
                continue
            if not self._opened:
                block = self._open(self._rest + block)
                if block is None:
                    continue
                self._rest = b""
            held = self._rest.lstrip(_BETWEEN)
            border = _last_border(block)
            if border is None:
                block, held = held + block, b""
                border = _last_border(block)
            self._rest = block[border.start() + 1 :] if border else block
            if border:
                yield from self._between((held, memoryview(block)[: border.start() + 1]))
        if not self._opened:
            self._refuse(self._rest)
        elif self._tail is None:
            yield from self._last(self._rest.lstrip(_BETWEEN))
        self._close()
        self.truncated |= not source.complete

    def _grown(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks; where no head or no border comes, ever longer ones, so that joining them stays linear."""
        held: list[bytes] = []
        size = 0
        for block in blocks:
            held.append(block)
            size += len(block)
            if size >= len(self._rest):
                yield b"".join(held)
                held, size = [], 0
        if held:
            yield b"".join(held)

    def _open(self, data: bytes) -> bytes | None:
        """Read the head; the data after the array's bracket, or None while the bracket has not come."""
        if not self._rest:
            data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
            if data and not data.startswith((b"{", b"[")):
                self._refuse(data)  # now: what is no JSON may be endless
        if data.startswith(b"["):
            self.bare_array = self._opened = True
            return data[1:]
        for match in _EVENTS_KEY.finditer(data) if data.startswith(b"{") else ():
            if data[match.end() : match.end() + 1] != b"[":
                continue
            try:
                head = read_object((data[: match.end()] + b"[]}").decode("utf-8", "replace"), 0)[0]
            except UnreadableError:
                continue
            self.metadata |= head
            self._opened = True
            return data[match.end() + 1 :]
        self._rest = data
        return None

    def _between(self, parts: Sequence[bytes | memoryview]) -> Iterator[list[Event]]:
        """The events of adjoining parts of the file that begin and end at a border."""
        try:
            events = self._decode.events(b"".join((b"[", *parts, b"]")))
        except STRICT_FAILURES:
            yield from self._damaged(b"".join(parts))
            if self._tail is not None:
                self._tail.append(self._rest.decode("utf-8", "replace"))
        else:
            yield self._count(events)

    def _damaged(self, piece: bytes) -> Iterator[list[Event]]:
        """Narrow the damage down to small parts, then salvage those."""
        start = 0
        carried = b""
        while start < len(piece):
            border = _BORDER.search(piece, start + _SMALL)
            end = border.start() + 1 if border else len(piece)
            part = carried + piece[start:end] if carried else piece[start:end].lstrip(_BETWEEN)
            carried = b""
            start = end
            try:
                yield self._count(self._decode.events(b"".join((b"[", part, b"]"))))
            except STRICT_FAILURES:
                found = salvage(part.decode("utf-8", "surrogateescape"), final=False)
                yield self._take(found)
                if self._tail is not None:
                    self._tail.append(piece[start:].decode("utf-8", "replace"))
                    return
                if found.rest:
                    carried = found.rest.encode("utf-8", "surrogateescape")
        if carried:
            self._rest = carried + self._rest

    def _last(self, data: bytes) -> Iterator[list[Event]]:
        """The last events with the tail of the file."""
        try:
            document = self._decode.document(b"".join((_OPEN, data, b"}" if self.bare_array else b"")))
        except STRICT_FAILURES:
            found = salvage(data.decode("utf-8", "surrogateescape"), final=True)
            yield self._take(found)
            self.truncated |= bool(found.rest) or (self._tail is None and not self.bare_array)
        else:
            self._describe(document)
            yield self._count(document.traceEvents)

    def _take(self, found: Salvage) -> list[Event]:
        self.lost += found.lost
        self.repaired += found.repaired
        self._seen += found.lost
        if found.tail is not None:
            self._tail = [found.tail]
        return self._count(found.events)

    def _count(self, events: list[Event]) -> list[Event]:
        self._seen += len(events)
        if not self._phases:
            self._phases = sum(event.ph is not None for event in events)
        return events

    def _describe(self, document: Document) -> None:
        found = {"deviceProperties": document.deviceProperties, "distributedInfo": document.distributedInfo}
        self.metadata |= {key: read_object(raw.decode(), 0)[0] for key, value in found.items() if (raw := bytes(value))}

    def _close(self) -> None:
        """Read the tail, if the strict decoder has not, and judge whether this was a trace."""
        tail = "".join(self._tail or ()).strip()
        if self._tail is not None and not self.bare_array:
            try:
                value, end, tail, _ = read_object('{"":0' + tail, 0)
            except UnreadableError:
                self.truncated = True
                tail = ""
            else:
                self.metadata |= value
                tail = tail[end:].strip()
        if tail[:1] in ("{", "["):
            raise TraceError(f"{self.path}: not a torch trace: two JSON documents in one file; split it")
        if not self._phases and (self._seen or (self.bare_array and not self.truncated)):
            what = "the array" if self.bare_array else "traceEvents"
            raise TraceError(f"{self.path}: not a torch trace: {what} holds no trace event")
        self.lost += bool(tail)

    def _refuse(self, data: bytes) -> None:
        """The file ended before an array of events began: a cut head is an empty reading, anything else an error."""
        text = data.decode("utf-8", "replace").strip()
        if not text:
            raise TraceError(f"{self.path}: not a torch trace: the file holds only blanks")
        try:
            value, end, text, _ = read_object(text, 0)
        except UnreadableError as error:
            if error.unfinished and text.startswith("{") and _HEAD_KEYS.search(data):
                self.truncated = self._opened = True
                return
            raise TraceError(f"{self.path}: not a torch trace: not JSON, begins with {text[:20]!r}") from error
        more = ", and more after it" if text[end:].strip() else ""
        raise TraceError(f"{self.path}: not a torch trace: found {_kind(value)}{more}")


def _last_border(data: bytes) -> re.Match[bytes] | None:
    """The last border between two events in `data`, looked for near its end first."""
    for start in (max(0, len(data) - _SMALL), 0):
        last = None
        for last in _BORDER.finditer(data, start):  # noqa: B007 (the last one is meant)
            pass
        if last is not None:
            return last
    return None


def _kind(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a JSON {type(value).__name__}" if value is not None else "null"
    if "traceEvents" in value:
        return f"traceEvents that is no array but {msgspec.json.encode(value['traceEvents'])[:30].decode()}"
    keys = ", ".join(repr(key[:30]) for key in list(value)[:5])
    return f"a JSON object with the keys {keys}" if keys else "an empty JSON object"
