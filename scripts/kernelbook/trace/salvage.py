"""Reads pieces of a file that are not valid JSON event by event, and loses at most the damaged events.

Only pieces that the strict decoder rejects are read here, so a valid file pays nothing for it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

from kernelbook.trace.events import Event, event_from_object

# Possessive quantifiers (*+) keep the time linear in long runs of blanks.
EVENT_START = r"\{\s*+\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*+:"
_MISSING = re.compile(r"[+-]?(?:nan(?:\([^)\s]*\))?|inf(?:inity)?|n/?a)(?![\w/])", re.IGNORECASE)
_NEXT_EVENT = re.compile(EVENT_START)
_END = re.compile(r"\](?=\s*+(?:[}\[{\"]|,\s*+\"))")
_END_OF_FILE = re.compile(r"[\]}]\s*+\Z")
_KEY = r"\s*+,\s*+\"(?:traceName|displayTimeUnit|baseTimeNanoseconds|traceEvents|distributedInfo)\"\s*+:"
_TAIL_KEY = re.compile(_KEY)  # torch writes these after the array
# Brackets after damage that can end the array: before such a key; in the last piece, also after an event; at the end of
# the file, unless that may be inside an event.
_CLOSING = re.compile(rf"\](?={_KEY})")
_CLOSING_OF_CUT = re.compile(r"\}[\s,]*+\](?=\s*+,\s*+\"[^\"\\]*+\"\s*+:|\s*+\}?\s*+\Z)")
_CLOSING_OF_FILE = re.compile(r"\](?=\s*+\}?\s*+\Z)")
_SURE_START = re.compile(r"\{\s*+\"ph\"\s*+:")
_BLANK = re.compile(r"[\s,]*+")
_MAX_REPAIRS = 1000
# Time is measured in characters read without result.
_NESTED = 100_000  # cost of a read that fails because values are nested too deeply
EACH_WASTED = 1000  # cost of a read that fails at once
_LINES = 100  # Python counts line breaks for each error: characters counted in the time of reading one
MOST_WASTED = 10**8  # beyond it, the rest of a piece is not read
_MAX_REREAD = 1 << 24  # each repair reads the event again from its start
_LONGEST_START = 64  # characters that identify the start of an event
_MAX_UNFINISHED = 1 << 20  # a longer "event" is damage that has swallowed its neighbours


def _int_or_text(digits: str) -> int | str:
    """Long numbers stay text: Python refuses to convert thousands of digits."""
    return int(digits) if len(digits) < 20 else digits


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _decoder(strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=lambda _: None, parse_int=_int_or_text, parse_float=_finite, strict=strict)


_strict = _decoder(strict=True)
_lax = _decoder(strict=False)


class UnreadableError(ValueError):
    """There is no JSON value at this position.

    read: number of characters read without result. unfinished: the text ended before anything was wrong.
    in_string: it ended inside a string.
    """

    def __init__(self, read: int, unfinished: bool = False, in_string: bool = False) -> None:
        super().__init__("unreadable")
        self.read = read
        self.unfinished = unfinished
        self.in_string = in_string


class Salvage(msgspec.Struct):
    """The result of reading a damaged piece.

    lost: number of damaged events that were skipped. repaired: number of damaged events that were read.
    wasted: characters read without getting an event, a measure of time.
    sound: whether an event certainly starts at the end of the piece.
    rest: text at the end of the piece that the next piece may complete. tail: text after the end of the array.
    """

    events: list[Event] = []
    lost: int = 0
    repaired: int = 0
    wasted: int = 0
    sound: bool = True
    rest: str = ""
    tail: str | None = None


def read_object(text: str, position: int) -> tuple[Any, int, str, bool]:
    """One JSON value at `position`: (value, end, text, repaired).

    NaN, Infinity, inf, N/A and the like become null; raw control characters are kept. The returned text has such words
    replaced. Integers of more than 64 bits may be text. Raises UnreadableError.
    """
    decoder = _strict
    reread = 0
    for _ in range(_MAX_REPAIRS):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            reread += error.pos - position + error.pos // _LINES
            if error.msg.startswith("Invalid control character") and decoder is _strict:
                decoder = _lax
                continue
            word = _MISSING.match(text, error.pos) if error.msg.startswith("Expecting value") else None
            if word is None or reread > _MAX_REREAD:
                in_string = error.msg.startswith("Unterminated string")
                raise UnreadableError(reread, in_string or _ran_out(text, error), in_string) from error
            text = text[: word.start()] + "null" + text[word.end() :]
        except (RecursionError, ValueError) as error:
            raise UnreadableError(reread + _NESTED) from error
        else:
            return value, end, text, decoder is _lax
    raise UnreadableError(reread)


def _ran_out(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the decoder reached the end of the text outside a string before anything was wrong."""
    if error.msg.startswith("Invalid \\"):
        return error.msg.startswith("Invalid \\u") and error.pos + len("\\uXXXX") >= len(text)
    left = text[error.pos : error.pos + 16].strip()
    at_end = error.pos + 16 >= len(text)
    # An incomplete word or number: `tru`, `-`, `Na`.
    return at_end and (not left or re.fullmatch(r"[-+\w/.]{1,9}", left) is not None)


def salvage(text: str, final: bool, sound: bool = True) -> Salvage:
    """Read the events of `text`, a piece of the array.

    final: no more text follows. An event that does not end is then left in `rest`, which means a truncated file.
    sound: an event certainly starts here, which is not so after a loss.
    """
    return _Piece(text, final, sound).read()


class _Piece:
    """The text of a piece, the position in it, and the result so far."""

    def __init__(self, text: str, final: bool, sound: bool) -> None:
        self.text = text
        self.position = 0
        self.final = final
        self.result = Salvage(sound=sound)

    def read(self) -> Salvage:
        while self._more() and self.result.wasted < MOST_WASTED:
            if self.text[self.position] in "]}":
                self._skip_bracket()
                continue
            try:
                value, self.position, self.text, repaired = read_object(self.text, self.position)
            except UnreadableError as error:
                self.result.wasted += EACH_WASTED + error.read
                self._skip_damage(error.unfinished)
            else:
                self._take(value, repaired)
        return self.result

    def _more(self) -> bool:
        """Skip blanks and commas; False at the end of the array or of the text."""
        self.position = _after_blanks(self.text, self.position)
        if self._at_end():
            self._end(self.position + (self.text[self.position] == "]"))
        return self.position < len(self.text)

    def _at_end(self) -> bool:
        """Whether the array ends here; after damage, a bracket may belong to another array."""
        if self.final and _END_OF_FILE.match(self.text, self.position):
            return True
        if not self.text.startswith("]", self.position):
            return False
        if _TAIL_KEY.match(self.text, self.position + 1) or (
            self.result.sound and _END.match(self.text, self.position)
        ):
            return True
        return self.final and self._next_event(verify=True) is None

    def _end(self, tail: int) -> None:
        self.result.tail = self.text[tail:]
        self.position = len(self.text)

    def _leave(self, rest: int) -> None:
        self.result.rest = self.text[rest:]
        self.position = len(self.text)

    def _skip_bracket(self) -> None:
        """Skip a surplus bracket; at the end of a piece, only the next one shows whether the array ends here."""
        if not self.final and _after_blanks(self.text, self.position + 1) == len(self.text):
            self._leave(self.position)
        else:
            self.result.repaired += self.result.sound
            self.result.wasted += EACH_WASTED
            self.position += 1

    def _take(self, value: Any, repaired: bool) -> None:
        if isinstance(value, dict) and (self.result.sound or _is_event(value)):
            self.result.events.append(event_from_object(value))
            self.result.repaired += repaired
            self.result.sound = True
        else:
            self.result.lost += self.result.sound
            self.result.sound = False
            self.result.wasted += EACH_WASTED

    def _skip_damage(self, unfinished: bool) -> None:
        """Continue after an unreadable event. unfinished: it has no end, and may contain others."""
        if unfinished and not self.final and len(self.text) - self.position < _MAX_UNFINISHED:
            self._leave(self.position)
            return
        # A part of an event that is already counted as lost is no second loss.
        lost = self.result.sound or _SURE_START.match(self.text, self.position) is not None
        following = self._next_event(verify=unfinished)
        closing = self._closing(unfinished) if following is None else None
        if following is not None:
            self.position = following
        elif closing is not None:
            self._end(closing)
        elif self.final:  # the file ends here, which is not damage
            lost = False
            self._leave(self.position)
        else:  # the damage continues, and an event may start at the end of the piece
            self._leave(max(len(self.text) - _LONGEST_START, self.position + 1))
        self.result.lost += lost
        self.result.sound = False

    def _next_event(self, verify: bool) -> int | None:
        """Start of the next event. verify: only if it can be read as one."""
        if self.text.find("{", self.position + 1) < 0:
            return None
        for match in _NEXT_EVENT.finditer(self.text, self.position + 1):
            if not verify:
                return match.start()
            try:
                value = read_object(self.text, match.start())[0]
            except UnreadableError as error:
                self.result.wasted += EACH_WASTED + error.read
                continue
            if isinstance(value, dict) and _is_event(value):
                return match.start()
        return None

    def _closing(self, unfinished: bool) -> int | None:
        """Start of the text after the last bracket that can end the array."""
        if self.text.find("]", self.position) < 0:
            return None
        patterns = [_CLOSING]
        if self.final:
            patterns += [_CLOSING_OF_CUT] if unfinished else [_CLOSING_OF_CUT, _CLOSING_OF_FILE]
        ends = (match.end() for pattern in patterns for match in pattern.finditer(self.text, self.position))
        return max(ends, default=None)


def _after_blanks(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _is_event(value: dict[str, Any]) -> bool:
    return isinstance(value.get("ph"), str) and ("ts" in value or value["ph"] == "M")
