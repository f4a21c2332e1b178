"""Names of collectives: torch's and NCCL's words in one spelling, and the size of element types."""

from __future__ import annotations

import re
from collections.abc import Iterable

OTHER = "communication"
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
ALL_TO_ALL, BROADCAST, REDUCE, BARRIER = "all_to_all", "broadcast", "reduce", "barrier"
GATHER, SCATTER = "gather", "scatter"
SEND, RECV, SEND_RECV = "send", "recv", "send_recv"
#: Operations that no rank can leave before the last one has entered.
JOINT = frozenset({ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER})
#: Operations whose message has the same size on every rank.
ALIKE = frozenset({ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE})
POINT_TO_POINT = frozenset({SEND, RECV, SEND_RECV})

#: The first that matches decides: "reduce_scatter" also contains "scatter".
_WORDS = (
    (re.compile(r"all_?reduce|cross_device_reduce"), ALL_REDUCE),
    (re.compile(r"reduce_?scatter"), REDUCE_SCATTER),
    (re.compile(r"all_?gather"), ALL_GATHER),
    (re.compile(r"all_?to_?all"), ALL_TO_ALL),
    (re.compile(r"broadcast"), BROADCAST),
    (re.compile(r"barrier"), BARRIER),
    (re.compile(r"send_?recv"), SEND_RECV),
    (re.compile(r"^(?:nccl:)?i?send\b"), SEND),
    (re.compile(r"^(?:nccl:)?i?recv"), RECV),
    (re.compile(r"reduce"), REDUCE),
    (re.compile(r"gather"), GATHER),
    (re.compile(r"scatter"), SCATTER),
)
_KERNEL = re.compile(
    r"nccl|rccl|msccl|cross_device_reduce|symm_?mem|multimem|(?:one|two)_shot_all_reduce", re.IGNORECASE
)
_WIDTHS = (
    (re.compile(r"float8|f8|e4m3|e5m2|int8|uint8|byte|char|bool"), 1),
    (re.compile(r"bfloat16|bf16|float16|half|f16|int16|short"), 2),
    (re.compile(r"complexfloat|complex64|float64|double|f64|int64|long|u64|i64"), 8),
    (re.compile(r"complexdouble|complex128"), 16),
    (re.compile(r"float|f32|int|u32|i32"), 4),
)


def is_communication(kernel: str) -> bool:
    """Whether a kernel moves data between GPUs, by its name."""
    return _KERNEL.search(kernel) is not None


def has_other_ranks(world_size: int | None, names: Iterable[str]) -> bool:
    """Whether a trace is of one rank of several: by the size of its job or, if that is unknown, by its kernels.

    names: of its kernels; names of other events may be among them.
    """
    return any(map(is_communication, names)) if world_size is None else world_size > 1


def operation(torch_name: str | None, kernel: str) -> str:
    """The operation: by torch's name of the collective or, if that states none, by the kernel's."""
    for name in (torch_name or "", kernel):
        plain = name.lower()
        word = next((word for pattern, word in _WORDS if pattern.search(plain)), None)
        if word is not None:
            return word
    return OTHER


def element_bytes(dtype: str | None) -> int | None:
    """Size of an element of a type, as torch spells it ("BFloat16", "Float"); None if it is unknown."""
    plain = (dtype or "").lower()
    if plain.startswith("complexdouble"):
        return 16
    return next((width for pattern, width in _WIDTHS if pattern.search(plain)), None)


def bus_factor(operation: str, ranks: int | None) -> float | None:
    """Bus bandwidth over algorithm bandwidth for that many ranks; None if NCCL defines none.

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth". A send or receive counts as sendrecv, factor 1.
    """
    if not ranks or ranks < 2:
        return None
    if operation == ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if operation in (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER):
        return (ranks - 1) / ranks
    if operation in (BROADCAST, REDUCE) or operation in POINT_TO_POINT:
        return 1.0
    return None
