"""One event of a trace, as typed as the common file allows, and the decoders that make it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments that are read; every other one is skipped by the decoder."""

    correlation: Number = None
    device: Number = None
    stream: Number = None
    bytes: Number = None
    grid: list[int] | None = None
    block: list[int] | None = None
    registers: Number = msgspec.field(default=None, name="registers per thread")
    shared_memory: Number = msgspec.field(default=None, name="shared memory")
    occupancy: Number = msgspec.field(default=None, name="est. achieved occupancy %")


class Event(msgspec.Struct, gc=False):
    """An event as the file has it: `ts` and `dur` in µs, ids as numbers or strings."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: Args | None = None


_NOTHING = msgspec.Raw(b"")


class InputArgs(Args, gc=False):
    """The arguments with the inputs that `record_shapes` adds, as JSON text; empty where there is none."""

    input_dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    old_input_dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input dims")
    input_strides: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Strides")
    input_type: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    concrete_inputs: msgspec.Raw = msgspec.field(default=_NOTHING, name="Concrete Inputs")


class InputEvent(Event, gc=False):
    args: InputArgs | None = None


class Document(msgspec.Struct, gc=False):
    """A piece of a trace file: some events, and whatever of the head and the tail came with them."""

    traceEvents: list[Event] = []  # noqa: N815 (the file's own key; msgspec copies an empty list)
    deviceProperties: msgspec.Raw = _NOTHING  # noqa: N815
    distributedInfo: msgspec.Raw = _NOTHING  # noqa: N815


class InputDocument(Document, gc=False):
    traceEvents: list[InputEvent] = []  # noqa: N815


_ARGUMENTS = {field.name: field.encode_name for field in msgspec.structs.fields(Args)}
_INPUTS = {field.name: field.encode_name for field in msgspec.structs.fields(InputArgs) if field.name not in _ARGUMENTS}
_DIGITS = re.compile(r"-?[0-9]+")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Decoder(NamedTuple):
    """Decoders of strict JSON with the usual types; both raise what `STRICT_FAILURES` lists for anything else.

    events: an array of events. document: an object that holds the last of them, and the tail of the file.
    """

    events: Callable[[bytes], list[Event]]
    document: Callable[[bytes], Document]


PLAIN = Decoder(msgspec.json.Decoder(list[Event]).decode, msgspec.json.Decoder(Document).decode)
WITH_INPUTS = Decoder(msgspec.json.Decoder(list[InputEvent]).decode, msgspec.json.Decoder(InputDocument).decode)
# A UnicodeDecodeError is a ValueError, and so are msgspec's errors.
STRICT_FAILURES = (ValueError, RecursionError)


def event_from_object(found: dict[str, Any]) -> Event:
    """An event whose JSON or whose types are unusual; what cannot be used is missing, never an error."""
    raw = found.get("args")
    args = None
    if isinstance(raw, dict):
        values = {field: raw.get(key) for field, key in _ARGUMENTS.items()}
        values = {field: _sizes(v) if field in ("grid", "block") else _scalar(v) for field, v in values.items()}
        values |= {field: msgspec.Raw(_strict_json(raw[key])) for field, key in _INPUTS.items() if key in raw}
        args = InputArgs(**values)
    return InputEvent(
        ph=_text(found.get("ph")),
        cat=_text(found.get("cat")),
        name=_text(found.get("name")),
        pid=_id(found.get("pid")),
        tid=_id(found.get("tid")),
        ts=_scalar(found.get("ts")),
        dur=_scalar(found.get("dur")),
        args=args,
    )


def _strict_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value if isinstance(value, str) else str(value))


def _id(value: Any) -> int | str | None:
    return value if isinstance(value, int) else _text(value)


def _scalar(value: Any) -> Number:
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else None


def _sizes(value: Any) -> list[int] | None:
    sizes = [integer(v) for v in value] if isinstance(value, list) else [None]
    return None if None in sizes else sizes


def identity(value: Number) -> int | str:
    """An id as a number, also where the file has it as text; as text where it has more than 64 bits or is no number."""
    number = integer(value) if isinstance(value, int) or (isinstance(value, str) and _DIGITS.fullmatch(value)) else None
    if number is not None:
        return number
    return "" if value is None else str(value)


def integer(value: Any) -> int | None:
    """`value` as an integer of 64 bits; None for anything that is no number, or a larger one."""
    if not isinstance(value, int):
        try:
            value = int(value) if isinstance(value, str) else number(value)
        except ValueError:
            value = number(value)
    return int(value) if -(2**63) <= value < 2**63 else None  # NaN compares as false


def number(value: Any) -> float:
    """`value` as a finite float; NaN for anything that is not a number or a numeric string."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return result if math.isfinite(result) else math.nan
