"""The times of a forward: CPU, launch delay, device busy and idle; profiled against unprofiled. All in µs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from kernelbook.cases import CaseFacts, ProfiledForward, median_of_processes
from kernelbook.text.formatting import duration
from kernelbook.text.meaning import doc

#: Relative difference above which two times disagree: busy and unprofiled, profiled and unprofiled.
DISAGREE_FROM = 0.1


@dataclass(frozen=True)
class Clock:
    """Times of a case in µs: medians over the forwards of a process, then over processes."""

    run: str
    case: str
    cpu_time_us: Annotated[float | None, doc("Length of the forward's range on the CPU, profiled.")]
    launch_delay_us: Annotated[float | None, doc("From the start of a launch to the start of what it launched.")]
    device_busy_us: Annotated[float | None, doc("Time in which at least one activity ran.")]
    device_gaps_us: Annotated[float | None, doc("Idle time between the first and the last activity of a forward.")]
    device_idle_us: Annotated[float | None, doc("Unprofiled forward time less busy time.")]
    forward_time_us: Annotated[float | None, doc("Unprofiled forward time.")]
    profiled_forward_us: Annotated[
        float | None,
        doc(
            "On a GPU from the end of one forward's activities to the end of the next one's; on a CPU the length "
            "of the range."
        ),
    ]
    overhead_share: Annotated[
        float | None, doc("How much longer a profiled forward is than an unprofiled one, as a share.")
    ]
    bound: Annotated[str, doc("launches, gpu, unclear or unknown.")]
    text: Annotated[str, doc("How the unprofiled and the profiled time agree.")]


def bound_of(facts: CaseFacts) -> tuple[str, str]:
    """(bound, reason), from the time of an unprofiled forward and the busy time of the device in it.

    The bound is gpu if the two agree within a tenth. Otherwise it is launches (overhead-bound) if the profiled CPU is
    busy longer than the device, and unclear if not. It is unknown if a time is missing.
    """
    busy, whole = facts.device_busy_us, facts.forward_time_us
    if not busy or not whole:
        return "unknown", "the device's busy time or the unprofiled forward time is missing"
    why = f"the device is busy for {duration(busy)} of the {duration(whole)} that an unprofiled forward takes"
    return _bound(whole, busy, facts.cpu_time_us), why


def bounds_by_process(facts: CaseFacts) -> dict[int, str]:
    """Process -> bound, from the medians of each merged process.

    Processes of one case may differ, for example on GPUs with different CPUs.
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
    """The clock of one case; a figure without data is None."""
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
    """Time of a forward under the profiler, comparable with the unprofiled time.

    On a device: the distance between the ends of the last activities of successive forwards of one process. Forwards
    are queued without waiting, so this is the interval that the events of unprofiled forwards measure. On a CPU: the
    length of the forward's range, which excludes work of the profiler between forwards. The median over each process,
    then over processes.
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


def _placed(forward: ProfiledForward) -> list[tuple[float, float]]:
    """(start, end) of each activity of the forward, without activities whose time in the trace is implausible."""
    starts = ((a.start_us, a.duration_us) for a in forward.activities)
    return [(start, start + length) for start, length in starts if start is not None]


def _end(forward: ProfiledForward) -> float | None:
    return max((end for _, end in _placed(forward)), default=None)


def _gaps(forward: ProfiledForward) -> float | None:
    placed = _placed(forward)
    if not placed or forward.device_busy_us is None:
        return None
    window = max(end for _, end in placed) - min(start for start, _ in placed)
    return max(window - forward.device_busy_us, 0.0)


def _reconciled(facts: CaseFacts, profiled: float | None, overhead: float | None, bound: str) -> str:
    if profiled is None or overhead is None or facts.forward_time_us is None:
        return "Profiled and unprofiled time cannot be compared: one of them is missing."
    times = f"A forward takes {duration(facts.forward_time_us)} unprofiled and {duration(profiled)} under the profiler"
    if abs(overhead) <= DISAGREE_FROM:
        return f"{times} ({overhead:+.0%}): the two agree."
    if bound == "launches":
        why = "overhead-bound: the device waits for the CPU, and the profiler slows every op and launch"
    elif not facts.on_device:
        why = "all work is on the CPU, and the profiler records each op"
    elif overhead < 0:
        why = "forwards overlap under the profiler, while unprofiled forwards are waited for one by one"
    else:
        why = "the profiler slows the launches so much that the device waits for them; without it the device is busy"
    return f"{times} ({overhead:+.0%}): {why}."
