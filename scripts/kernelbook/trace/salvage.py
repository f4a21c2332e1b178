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

_MISSING = re.compile(r"[+-]?(?:nan(?:\([^)\s]*\))?|inf(?:inity)?|n/?a)(?![\w/])", re.IGNORECASE)
_NEXT_EVENT = re.compile(r"\}\s*,?\s*(?=\{\s*\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*:)")
_CLOSING = re.compile(r"\}\s*,?\s*(?=\](?:\s*,\s*\"[^\"\\]*\"\s*:|\s*\}?\s*\Z))")
_END = re.compile(r"\](?=\s*(?:\Z|[}\[{]|,\s*\"))|\}(?=\s*\Z)")
_EVENT_START = re.compile(r"\{\s*\"ph\"\s*:")
_BLANK = re.compile(r"[\s,]*")
_MAX_REPAIRS = 1000
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
    """No JSON object at that place. `unfinished`: the text ended before anything was wrong with it."""

    def __init__(self, unfinished: bool) -> None:
        super().__init__("unreadable")
        self.unfinished = unfinished


@dataclass
class Salvage:
    """What a damaged piece gave. `rest` is an event that does not end in the piece, `tail` what follows the array."""

    events: list[Event] = field(default_factory=list)
    lost: int = 0
    repaired: int = 0
    rest: str = ""
    tail: str | None = None


def read_object(text: str, position: int) -> tuple[Any, int, str, bool]:
    """One JSON value at `position`: (value, end, text, repaired).

    NaN, Infinity, inf, N/A and their like become null, raw control characters are kept. The text comes back because
    such words are replaced in it. Raises UnreadableError.
    """
    decoder = _strict
    for _ in range(_MAX_REPAIRS):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Invalid control character") and decoder is _strict:
                decoder = _lax
                continue
            word = _MISSING.match(text, error.pos) if error.msg.startswith("Expecting value") else None
            if word is None:
                raise UnreadableError(_ran_out(text, error)) from error
            text = text[: word.start()] + "null" + text[word.end() :]
        except (RecursionError, ValueError) as error:
            raise UnreadableError(False) from error
        else:
            return value, end, text, decoder is _lax
    raise UnreadableError(False)


def _ran_out(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the decoder met the end of the text, rather than something wrong in it."""
    if error.msg.startswith("Unterminated string"):
        return True
    left = text[error.pos : error.pos + 16].strip()
    at_end = error.pos + 16 >= len(text)
    if error.msg.startswith("Invalid \\"):
        return at_end
    # A word or a number cut short: `tru`, `-`, `Na`.
    return at_end and (not left or re.fullmatch(r"[-+\w/.]{1,9}", left) is not None)


def salvage(text: str, final: bool) -> Salvage:
    """Read the events of `text`, a piece of the array that starts between two events.

    `final` says that no more text follows: an event that does not end is then left in `rest` for the caller to call
    the file truncated.
    """
    found = Salvage()
    position = 0
    sound = True  # whether an event is sure to start here: not so after a loss
    while (position := _BLANK.match(text, position).end()) < len(text):
        if _END.match(text, position):
            found.tail = text[position + 1 :] if text[position] == "]" else text[position:]
            return found
        if text[position] in "]}":
            found.repaired += 1
            position += 1
            continue
        try:
            value, position, text, repaired = read_object(text, position)
        except UnreadableError as error:
            if error.unfinished and not final and len(text) - position < _MAX_UNFINISHED:
                found.rest = text[position:]
                return found
            # What reads as a part of the event that was lost before it is no second loss.
            lost = sound or _EVENT_START.match(text, position) is not None
            following = _following(text, position, error.unfinished)
            if following is None:
                return _ending(found, text, position, lost)
            found.lost += lost
            sound = False
            position = following
        else:
            usable = isinstance(value, dict) and (sound or _is_event(value))
            if usable:
                found.events.append(event_from_object(value))
                found.repaired += repaired
            else:
                found.lost += sound
            sound = sound or usable
    return found


def _is_event(value: dict[str, Any]) -> bool:
    return isinstance(value.get("ph"), str) and ("ts" in value or value["ph"] == "M")


def _following(text: str, position: int, unfinished: bool) -> int | None:
    """Where the next event starts. Inside an unfinished one only something that reads as an event is taken for it."""
    for match in _NEXT_EVENT.finditer(text, position + 1):
        if not unfinished:
            return match.end()
        try:
            value = read_object(text, match.end())[0]
        except UnreadableError:
            continue
        if isinstance(value, dict) and _is_event(value):
            return match.end()
    return None


def _ending(found: Salvage, text: str, position: int, lost: bool) -> Salvage:
    """No event follows: either the array ends behind the damage, or this is where the text was cut."""
    closings = list(_CLOSING.finditer(text, position))
    if closings:
        found.lost += lost
        found.tail = text[closings[-1].end() + 1 :]
    else:
        found.rest = text[position:]
    return found
