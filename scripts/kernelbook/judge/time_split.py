"""Splits the time of a forward by cause. All times in µs.

The causes are those of the time line of the representative forward (`time_line`). If forwards were also measured
without the profiler, the idle parts of the trace are scaled to their idle time, since the profiler lengthens the work
of the CPU, not that of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import KernelCost
from kernelbook.judge.cost_model.roof import L2, MEMORY
from kernelbook.judge.time_line import EARLIER, IDLE_KINDS, PROFILER, UNEXPLAINED, WORK, Stretch, TimeLine, Wait
from kernelbook.text.meaning import doc

UNPROFILED, TRACE = "unprofiled forward", "trace"


@dataclass(frozen=True)
class Cause:
    """One part of a forward's time. ``positions``: the device activities."""

    kind: Annotated[
        str,
        doc(
            "Device busy: compute or memory (the ceiling that bounds the kernel), device work (neither is known),"
            " copy, collective. Device idle: synchronization, allocation, blocking copy, kernel loading, "
            "torch.compile, data loading, optimizer, launch, CUDA API, op on the CPU, Python, launch latency (the"
            " launch has returned, the device starts it), earlier forwards, unexplained."
        ),
    ]
    name: Annotated[str, doc("The kernel, or what the CPU does meanwhile.")]
    op: Annotated[str | None, doc("The innermost op around it.")]
    time_us: Annotated[float, doc("Its time in one forward.")]
    count: Annotated[int, doc("Activities, or stretches of idle time.")]
    least_us: Annotated[
        float | None, doc("Least time that the ceilings allow for this work; empty if its traffic is unknown.")
    ] = None
    positions: tuple[int, ...] = ()

    @property
    def idle(self) -> bool:
        return self.kind in IDLE_KINDS


@dataclass(frozen=True)
class TimeSplit:
    """The time of one forward and its causes, longest first, which add up to it.

    source: `unprofiled forward`, or `trace` if none was measured: then the time from the start of the forward's
    range to the end of its range and its device work. waits: calls of the trace that block the CPU, longest first.
    """

    run: str
    case: str
    source: str
    time_us: float
    causes: tuple[Cause, ...]
    waits: tuple[Wait, ...]

    @property
    def idle_us(self) -> float:
        return sum(cause.time_us for cause in self.causes if cause.idle)

    def of_kind(self, *kinds: str) -> float:
        return sum(cause.time_us for cause in self.causes if cause.kind in kinds)


def time_split(facts: CaseFacts, costs: Iterable[KernelCost] = ()) -> TimeSplit | None:
    """The split of a case's representative forward; None without device activities that have times.

    costs: of its kernels with known traffic, for the kind of their causes and their least times.
    """
    line = TimeLine.of(facts)
    if line is None or not line.placed:
        return None
    parts = list(line.parts())
    time_us, source = line.end, TRACE
    if facts.forward_time_us is not None:
        time_us, source = facts.forward_time_us, UNPROFILED
        parts = _scaled(parts, facts, time_us)
    causes = _grouped(parts, {cost.position: cost for cost in costs})
    return TimeSplit(facts.run, facts.case, source, time_us, causes, line.waits())


def _scaled(parts: Sequence[Stretch], facts: CaseFacts, time_us: float) -> list[Stretch]:
    """The parts, with device work and idle time scaled to an unprofiled forward; the remainder is unexplained."""
    work = [part for part in parts if part.activity is not None]
    idle = [part for part in parts if part.activity is None and part.kind not in (EARLIER, PROFILER)]
    in_trace, idle_in_trace = sum(part.time_us for part in work), sum(part.time_us for part in idle)
    busy = min(facts.device_busy_us or in_trace, time_us)
    left = time_us - busy
    scaled = [_resized(part, busy / in_trace) for part in work] if in_trace else []
    if idle_in_trace:
        scaled += [_resized(part, left / idle_in_trace) for part in idle if left]
    elif left:
        scaled.append(Stretch(UNEXPLAINED, "idle in unprofiled forwards, not in the trace", None, left))
    return scaled


def _resized(part: Stretch, factor: float) -> Stretch:
    return Stretch(part.kind, part.name, part.op, part.time_us * factor, part.activity)


def _grouped(parts: Iterable[Stretch], costs: Mapping[int, KernelCost]) -> tuple[Cause, ...]:
    """The causes: parts of the same kind, name and op merged, longest first."""
    groups: dict[tuple[str, str, str | None], list[Stretch]] = {}
    for part in parts:
        cost = costs.get(part.activity.position) if part.activity and part.kind == WORK else None
        kind = (cost and cost.roof) or part.kind
        kind = MEMORY if kind == L2 else kind
        groups.setdefault((kind, part.name, part.op), []).append(part)
    causes = []
    for (kind, name, op), group in groups.items():
        positions = tuple(dict.fromkeys(part.activity.position for part in group if part.activity))
        least = [costs[position].least_us if position in costs else None for position in positions]
        causes.append(
            Cause(
                kind=kind,
                name=name,
                op=op,
                time_us=sum(part.time_us for part in group),
                count=len(positions) or len(group),
                least_us=sum(value for value in least if value) if least and None not in least else None,
                positions=positions,
            )
        )
    return tuple(sorted(causes, key=lambda cause: -cause.time_us))
