"""Reading what strict JSON refuses: event by event, losing at most the event that is damaged.

Only a piece of a file that the strict decoder has refused comes here, so a sound file pays nothing for it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from kernelbook.trace.events import Event, event_from_object

# Possessive quantifiers (*+) keep the time linear in long runs of blanks.
EVENT_START = r"\{\s*+\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*+:"
_MISSING = re.compile(r"[+-]?(?:nan(?:\([^)\s]*\))?|inf(?:inity)?|n/?a)(?![\w/])", re.IGNORECASE)
_NEXT_EVENT = re.compile(EVENT_START)
_END = re.compile(r"\](?=\s*+(?:[}\[{\"]|,\s*+\"))")
_END_OF_FILE = re.compile(r"[\]}]\s*+\Z")
_KEY = r"\s*+,\s*+\"(?:traceName|displayTimeUnit|baseTimeNanoseconds|traceEvents|distributedInfo)\"\s*+:"
_TAIL_KEY = re.compile(_KEY)  # one that torch writes behind the array
# Brackets that can end the array, looked for behind damage: before such a key; in the last piece behind an event, too;
# and at the end of the file, unless that may be inside an event.
_CLOSING = re.compile(rf"\](?={_KEY})")
_CLOSING_OF_CUT = re.compile(r"\}[\s,]*+\](?=\s*+,\s*+\"[^\"\\]*+\"\s*+:|\s*+\}?\s*+\Z)")
_CLOSING_OF_FILE = re.compile(r"\](?=\s*+\}?\s*+\Z)")
_SURE_START = re.compile(r"\{\s*+\"ph\"\s*+:")
_BLANK = re.compile(r"[\s,]*+")
_MAX_REPAIRS = 1000
_NESTED = 100_000  # letters that can be read in the time of a read that meets too deeply nested values
EACH_WASTED = 1000  # letters that can be read in the time of a read that fails at once
_LINES = 100  # letters in which line breaks can be counted in the time of reading one, as Python does for each error
MOST_WASTED = 10**8  # letters: more of them in one piece, and the rest of it is not read
_MAX_REREAD = 1 << 24  # letters: each repair reads the event again from its start
_LONGEST_START = 64  # letters of an event by which its start is known
_MAX_UNFINISHED = 1 << 20  # an "event" longer than this is damage that swallows its neighbours


def _int_or_text(digits: str) -> int | str:
    """Python refuses to convert thousands of digits."""
    return int(digits) if len(digits) < 20 else digits


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


_HOOKS = {"parse_constant": lambda _: None, "parse_int": _int_or_text, "parse_float": _finite}
_strict = json.JSONDecoder(**_HOOKS)
_lax = json.JSONDecoder(**_HOOKS, strict=False)


class UnreadableError(ValueError):
    """No JSON value at that place.

    unfinished: the text ended before anything was wrong with it; in_string: inside a string. read: letters that were
    read in vain.
    """

    def __init__(self, read: int, unfinished: bool = False, in_string: bool = False) -> None:
        super().__init__("unreadable")
        self.read = read
        self.unfinished = unfinished
        self.in_string = in_string


@dataclass
class Salvage:
    """What a damaged piece gave.

    lost: damaged events that were skipped; repaired: those that were read all the same. wasted: letters that were
    read without getting an event, a measure of time. sound: whether an event is sure to start where the piece ends.
    rest: text at the end of the piece that the next piece may complete. tail: the text after the end of the array.
    """

    events: list[Event] = field(default_factory=list)
    lost: int = 0
    repaired: int = 0
    wasted: int = 0
    sound: bool = True
    rest: str = ""
    tail: str | None = None


def read_object(text: str, position: int) -> tuple[Any, int, str, bool]:
    """One JSON value at `position`: (value, end, text, repaired).

    NaN, Infinity, inf, N/A and their like become null, raw control characters are kept. The text comes back because
    such words are replaced in it. Integers of more than 64 bits may be text. Raises UnreadableError.
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
    """Whether the decoder met the end of the text outside a string, rather than something wrong in it."""
    if error.msg.startswith("Invalid \\"):
        return error.msg.startswith("Invalid \\u") and error.pos + len("\\uXXXX") >= len(text)
    left = text[error.pos : error.pos + 16].strip()
    at_end = error.pos + 16 >= len(text)
    # A word or a number cut short: `tru`, `-`, `Na`.
    return at_end and (not left or re.fullmatch(r"[-+\w/.]{1,9}", left) is not None)


def salvage(text: str, final: bool, sound: bool = True) -> Salvage:
    """Read the events of `text`, a piece of the array.

    final: no more text follows; an event that does not end is then left in `rest` for the caller to call the file
    truncated. sound: an event is sure to start here, which is not so after a loss.
    """
    return _Piece(text, final, sound).read()


class _Piece:
    """The text of a piece, how far it was read, and what it gave so far."""

    def __init__(self, text: str, final: bool, sound: bool) -> None:
        self.text = text
        self.position = 0
        self.final = final
        self.found = Salvage(sound=sound)

    def read(self) -> Salvage:
        while self._more() and self.found.wasted < MOST_WASTED:
            if self.text[self.position] in "]}":
                self._skip_bracket()
                continue
            try:
                value, self.position, self.text, repaired = read_object(self.text, self.position)
            except UnreadableError as error:
                self.found.wasted += EACH_WASTED + error.read
                self._skip_damage(error.unfinished)
            else:
                self._take(value, repaired)
        return self.found

    def _more(self) -> bool:
        """Go to the next letter of use; False at the end of the array or of the text."""
        self.position = _BLANK.match(self.text, self.position).end()
        if self._at_end():
            self._end(self.position + (self.text[self.position] == "]"))
        return self.position < len(self.text)

    def _at_end(self) -> bool:
        """Whether the array ends here; behind damage, a bracket may be that of another array."""
        if self.final and _END_OF_FILE.match(self.text, self.position):
            return True
        if not self.text.startswith("]", self.position):
            return False
        if _TAIL_KEY.match(self.text, self.position + 1) or (self.found.sound and _END.match(self.text, self.position)):
            return True
        return self.final and self._next_event(verify=True) is None

    def _end(self, tail: int) -> None:
        self.found.tail = self.text[tail:]
        self.position = len(self.text)

    def _leave(self, rest: int) -> None:
        self.found.rest = self.text[rest:]
        self.position = len(self.text)

    def _skip_bracket(self) -> None:
        """A bracket too many; but at the end of a piece the next one tells whether the array ends here."""
        if not self.final and _BLANK.match(self.text, self.position + 1).end() == len(self.text):
            self._leave(self.position)
        else:
            self.found.repaired += self.found.sound
            self.found.wasted += EACH_WASTED
            self.position += 1

    def _take(self, value: Any, repaired: bool) -> None:
        if isinstance(value, dict) and (self.found.sound or _is_event(value)):
            self.found.events.append(event_from_object(value))
            self.found.repaired += repaired
            self.found.sound = True
        else:
            self.found.lost += self.found.sound
            self.found.sound = False
            self.found.wasted += EACH_WASTED

    def _skip_damage(self, unfinished: bool) -> None:
        """Go on behind an event that cannot be read. unfinished: it does not end here, and may swallow others."""
        if unfinished and not self.final and len(self.text) - self.position < _MAX_UNFINISHED:
            self._leave(self.position)
            return
        # What reads as a part of the event that was lost before it is no second loss.
        lost = self.found.sound or _SURE_START.match(self.text, self.position) is not None
        following = self._next_event(verify=unfinished)
        closing = self._closing(unfinished) if following is None else None
        if following is not None:
            self.position = following
        elif closing is not None:
            self._end(closing)
        elif self.final:  # the file was cut here, which is no damage
            lost = False
            self._leave(self.position)
        else:  # the damage goes on, and at the end of the piece an event may be about to start
            self._leave(max(len(self.text) - _LONGEST_START, self.position + 1))
        self.found.lost += lost
        self.found.sound = False

    def _next_event(self, verify: bool) -> int | None:
        """Where the next event starts. verify: only what reads as an event is taken for one."""
        for match in _NEXT_EVENT.finditer(self.text, self.position + 1):
            if not verify:
                return match.start()
            try:
                value = read_object(self.text, match.start())[0]
            except UnreadableError as error:
                self.found.wasted += EACH_WASTED + error.read
                continue
            if isinstance(value, dict) and _is_event(value):
                return match.start()
        return None

    def _closing(self, unfinished: bool) -> int | None:
        """Where the tail of the file starts: behind the last bracket that can end the array."""
        if self.text.find("]", self.position) < 0:
            return None
        patterns = [_CLOSING]
        if self.final:
            patterns += [_CLOSING_OF_CUT] if unfinished else [_CLOSING_OF_CUT, _CLOSING_OF_FILE]
        found = (match.end() for pattern in patterns for match in pattern.finditer(self.text, self.position))
        return max(found, default=None)


def _is_event(value: dict[str, Any]) -> bool:
    return isinstance(value.get("ph"), str) and ("ts" in value or value["ph"] == "M")
