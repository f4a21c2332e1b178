"""An event of a trace, with types as strict as real files allow, and the decoders that produce it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, NamedTuple

import msgspec

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments in use; the decoder skips all others.

    The fields are in the order in which torch writes them, because the decoder looks for the next one first.
    """

    external_id: Number = msgspec.field(default=None, name="External id")
    device: Number = None
    stream: Number = None
    correlation: Number = None
    registers: Number = msgspec.field(default=None, name="registers per thread")
    shared_memory: Number = msgspec.field(default=None, name="shared memory")
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    occupancy: Number = msgspec.field(default=None, name="est. achieved occupancy %")
    bytes: Number = None
    collective: Any = msgspec.field(default=None, name="Collective name")


class CollectiveArgs(Args, gc=False):
    """Also what torch records about a collective besides its name."""

    in_elements: Any = msgspec.field(default=None, name="In msg nelems")
    out_elements: Any = msgspec.field(default=None, name="Out msg nelems")
    dtype: Any = None
    group_size: Any = msgspec.field(default=None, name="Group size")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    source_rank: Any = msgspec.field(default=None, name="Src Rank")
    destination_rank: Any = msgspec.field(default=None, name="Dst Rank")


class Event(msgspec.Struct, gc=False):
    """An event as in the file: `ts` and `dur` in µs, ids as numbers or strings."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: Args | None = None


_EMPTY = msgspec.Raw(b"")


class Message(NamedTuple):
    """What torch records about a collective, on its kernel and on its op `record_param_comms`.

    collective: torch's name for it. in_elements, out_elements: elements that go in and come out on this rank.
    group, group_ranks: name of the process group, and its ranks as text; torch cuts the list of a large group.
    source_rank, destination_rank: of a send or receive.
    """

    collective: str
    in_elements: int | None
    out_elements: int | None
    dtype: str | None
    group_size: int | None
    group: str | None
    group_ranks: str | None
    source_rank: int | None
    destination_rank: int | None


class NotDecodedError(Exception):
    """The arguments of a collective were decoded with `PLAIN`, which skips most of them."""


def message_of(args: Args) -> Message | None:
    """What the arguments state about a collective; None if they are those of another event. Raises NotDecodedError."""
    if not isinstance(args.collective, str):
        return None
    if not isinstance(args, CollectiveArgs):
        raise NotDecodedError
    return Message(
        _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", args.collective),
        _count(args.in_elements),
        _count(args.out_elements),
        _text(args.dtype),
        _count(args.group_size),
        _text(args.group),
        _text(args.group_ranks),
        _count(args.source_rank),
        _count(args.destination_rank),
    )


def _count(value: Any) -> int | None:
    count = None if isinstance(value, bool) else integer(value)
    return None if count is None or count < 0 else count


class InputArgs(CollectiveArgs, gc=False):
    """Also the inputs that `record_shapes` adds, as JSON text; empty if there are none."""

    input_dims: msgspec.Raw = msgspec.field(default=_EMPTY, name="Input Dims")
    old_input_dims: msgspec.Raw = msgspec.field(default=_EMPTY, name="Input dims")
    input_strides: msgspec.Raw = msgspec.field(default=_EMPTY, name="Input Strides")
    input_type: msgspec.Raw = msgspec.field(default=_EMPTY, name="Input type")
    concrete_inputs: msgspec.Raw = msgspec.field(default=_EMPTY, name="Concrete Inputs")


class Document(msgspec.Struct, gc=False):
    """A piece of a trace file: some events, and any metadata read with them."""

    traceEvents: Sequence[Event] = []  # noqa: N815 (the key in the file; msgspec copies an empty list)
    deviceProperties: msgspec.Raw = _EMPTY  # noqa: N815
    distributedInfo: msgspec.Raw = _EMPTY  # noqa: N815


_ARGUMENTS = {field.name: field.encode_name for field in msgspec.structs.fields(CollectiveArgs)}
_INPUTS = {field.name: field.encode_name for field in msgspec.structs.fields(InputArgs) if field.name not in _ARGUMENTS}
_DIGITS = re.compile(r"-?[0-9]+")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Decoder(NamedTuple):
    """Decoders of strict JSON with the usual types. Both raise one of `STRICT_FAILURES` for anything else.

    events: an array of events. document: an object that holds the last events and the end of the file.
    """

    events: Callable[[bytes | bytearray], Sequence[Event]]
    document: Callable[[bytes], Document]


def _decoder(args: type[Args]) -> Decoder:
    """The decoders of events with these arguments."""
    event = msgspec.defstruct("Event", [("args", args | None, None)], bases=(Event,), gc=False)
    events = GenericAlias(list, event)
    document: Any = msgspec.defstruct("Document", [("traceEvents", events, [])], bases=(Document,), gc=False)
    return Decoder(msgspec.json.Decoder(events).decode, msgspec.json.Decoder(document).decode)


PLAIN, WITH_COLLECTIVES, WITH_INPUTS = map(_decoder, (Args, CollectiveArgs, InputArgs))
STRICT_FAILURES = (ValueError, RecursionError)  # UnicodeDecodeError and msgspec's errors are ValueErrors


def event_from_object(value: dict[str, Any]) -> Event:
    """An event from JSON of unusual form or types. Values that cannot be used are None."""
    raw = value.get("args")
    args = None
    if isinstance(raw, dict):
        values: dict[str, Any] = {field: _scalar(raw.get(key)) for field, key in _ARGUMENTS.items()}
        values |= {field: _sizes(raw.get(field)) for field in ("grid", "block")}
        values |= {field: msgspec.Raw(_strict_json(raw[key])) for field, key in _INPUTS.items() if key in raw}
        args = InputArgs(**values)
    return Event(
        ph=_text(value.get("ph")),
        cat=_text(value.get("cat")),
        name=_text(value.get("name")),
        pid=_id(value.get("pid")),
        tid=_id(value.get("tid")),
        ts=_scalar(value.get("ts")),
        dur=_scalar(value.get("dur")),
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


def _sizes(value: Any) -> tuple[int, ...] | None:
    sizes = [integer(size) for size in value] if isinstance(value, list) else [None]
    whole = tuple(size for size in sizes if size is not None)
    return whole if len(whole) == len(sizes) else None


def identity(value: Number) -> int | str:
    """An id as a number, even where the file has text; as text if it is not a number of 64 bits."""
    is_number = isinstance(value, int) or (isinstance(value, str) and _DIGITS.fullmatch(value))
    number = integer(value) if is_number else None
    if number is not None:
        return number
    return "" if value is None else str(value)


def integer(value: Any) -> int | None:
    """`value` as an integer, or None if it is not a number of at most 64 bits."""
    if not isinstance(value, int):
        try:
            value = int(value) if isinstance(value, str) else number(value)
        except ValueError:
            value = number(value)
    return int(value) if -(2**63) <= value < 2**63 else None  # NaN compares as false


def number(value: Any) -> float:
    """`value` as a finite float, or NaN if it is neither a number nor the text of one."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return result if math.isfinite(result) else math.nan
