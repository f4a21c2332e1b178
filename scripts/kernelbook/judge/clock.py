"""Where the time of a forward goes: CPU, launch delay, device busy and idle; profiled against unprofiled. All in µs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kernelbook.cases import CaseFacts, Forward, median_of_processes
from kernelbook.text.units import duration

#: Times that differ by more than this share are explained: busy against unprofiled, profiled against unprofiled.
DISAGREE_FROM = 0.1


@dataclass(frozen=True)
class Clock:
    """The clock of a case: medians over the forwards of a process, and of these over processes.

    ``launch_delay_us``: from the start of a launch to the start of what it launched. ``device_gaps_us``: idle time
    between the first and last activity of a forward. ``device_idle_us``: unprofiled forward time less busy time.
    ``profiled_forward_us``: under the profiler, see the function of that name. ``overhead_share``: how much longer than
    unprofiled. ``text`` reconciles the two.
    """

    run: str
    case: str
    cpu_time_us: float | None
    launch_delay_us: float | None
    device_busy_us: float | None
    device_gaps_us: float | None
    device_idle_us: float | None
    forward_time_us: float | None
    profiled_forward_us: float | None
    overhead_share: float | None
    bound: str
    text: str


def bound_of(facts: CaseFacts) -> tuple[str, str]:
    """(launches | gpu | unclear | unknown, why), from an unprofiled forward against the device's busy time in it.

    gpu: the two agree. launches: the forward takes longer by more than a tenth, and the CPU is busy longer than the
    device (as profiled), so that the device waits for it, be it for launches or for what comes before them
    (overhead-bound). unclear: the forward takes longer, and the CPU is not why.
    """
    busy, whole = facts.device_busy_us, facts.forward_time_us
    if not busy or not whole:
        return "unknown", "the device's busy time or the unprofiled forward time is missing"
    why = f"the device is busy for {duration(busy)} of the {duration(whole)} that an unprofiled forward takes"
    return _bound(whole, busy, facts.cpu_time_us), why


def bounds_by_process(facts: CaseFacts) -> dict[int, str]:
    """Process -> launches | gpu | unclear | unknown: the rule of `bound_of` on the medians of each merged process.

    The processes of a case may disagree, above all where they ran on GPUs with unlike CPUs beside them.
    """
    return {
        process.process: _bound(process.forward_time_us, process.device_busy_us, process.cpu_time_us)
        for process in facts.processes
        if process.merged
    }


def _bound(whole: float | None, busy: float | None, cpu: float | None) -> str:
    if not busy or not whole:
        return "unknown"
    if whole <= (1 + DISAGREE_FROM) * busy:
        return "gpu"
    return "launches" if (cpu or 0.0) > busy else "unclear"


def clock_of(facts: CaseFacts) -> Clock:
    """The clock of one case; figures that the trace or the measurement does not have are None."""
    whole, busy = facts.forward_time_us, facts.device_busy_us
    profiled = profiled_forward_us(facts)
    overhead = profiled / whole - 1 if profiled and whole else None
    bound = bound_of(facts)[0]
    return Clock(
        run=facts.run,
        case=facts.case,
        cpu_time_us=facts.cpu_time_us,
        launch_delay_us=median_of_processes(
            (forward.process, a.launch_delay_us) for forward in facts.usual_forwards for a in forward.activities
        ),
        device_busy_us=busy,
        device_gaps_us=median_of_processes((forward.process, _gaps(forward)) for forward in facts.usual_forwards),
        device_idle_us=max(whole - busy, 0.0) if whole and busy is not None else None,
        forward_time_us=whole,
        profiled_forward_us=profiled,
        overhead_share=overhead,
        bound=bound,
        text=_reconciled(facts, profiled, overhead, bound),
    )


def profiled_forward_us(facts: CaseFacts) -> float | None:
    """How long a forward takes under the profiler, the counterpart of an unprofiled one.

    On a device the distance between the ends of the last activities of successive forwards of one process: forwards
    are queued without waiting, so this is the cadence that the events of unprofiled ones time, whether the device or
    the launches set it. On a CPU the length of the forward's own range: what the profiler does between two forwards is
    none of them. The median of each process, and of these over processes, as for an unprofiled forward.
    """
    if not facts.on_device:
        return median_of_processes((forward.process, forward.cpu_time_us) for forward in facts.usual_forwards)
    distances = []
    for before, after in pairwise(facts.usual_forwards):
        follows = before.process == after.process and after.index == before.index + 1
        start, end = _end(before), _end(after)
        if follows and start is not None and end is not None:
            distances.append((after.process, end - start))
    return median_of_processes(distances)


def _placed(forward: Forward) -> list[tuple[float, float]]:
    """Start and end of its activities, without those whose time in the trace is impossible."""
    starts = ((a.start_us, a.duration_us) for a in forward.activities)
    return [(start, start + length) for start, length in starts if start is not None]


def _end(forward: Forward) -> float | None:
    return max((end for _, end in _placed(forward)), default=None)


def _gaps(forward: Forward) -> float | None:
    placed = _placed(forward)
    if not placed or forward.device_busy_us is None:
        return None
    window = max(end for _, end in placed) - min(start for start, _ in placed)
    return max(window - forward.device_busy_us, 0.0)


def _reconciled(facts: CaseFacts, profiled: float | None, overhead: float | None, bound: str) -> str:
    if profiled is None or overhead is None or facts.forward_time_us is None:
        return "Profiled and unprofiled time cannot be compared: one of them is missing."
    said = f"A forward takes {duration(facts.forward_time_us)} unprofiled and {duration(profiled)} under the profiler"
    if abs(overhead) <= DISAGREE_FROM:
        return f"{said} ({overhead:+.0%}): the two agree."
    if bound == "launches":
        why = "overhead-bound: the device waits for the CPU, where the profiler lengthens every op and launch"
    elif not facts.on_device:
        why = "all work is on the CPU, where the profiler records each op"
    elif overhead < 0:
        why = "the forwards overlap under the profiler, while each unprofiled one is waited for"
    else:
        why = "the profiler slows the launches until the device waits for them, which without it keeps busy"
    return f"{said} ({overhead:+.0%}): {why}."
