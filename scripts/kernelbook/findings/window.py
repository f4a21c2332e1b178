"""What the profiler's window does to figures: work from before it, a slow first step, launches without kernels."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from kernelbook.case_facts import Activity, CaseFacts, Forward
from kernelbook.findings.costs import note, percent
from kernelbook.findings.registry import Finding, Scene, Told, rule
from kernelbook.findings.together import in_cases
from kernelbook.units import duration, plural

#: Device time of a first forward, against the others, from which the device counts as slow too.
SLOW_DEVICE = 1.1
#: A kernel is uneven where its times differ by this share of their median, by these µs, and by this share of the
#: forward's device time: what is below moves no figure.
UNEVEN_SHARE, UNEVEN_US, UNEVEN_FORWARD = 0.15, 2.0, 0.01


def _early(group: Sequence[Told]) -> str:
    return (
        f"In {in_cases(group)} the file holds device activities that were launched before the window opened and "
        "finished inside it: dividing all kernels by the number of forwards counts them too, and so does torch's table."
    )


@rule("before-window", "device activities in the file that were launched before the window opened", _early)
def before_window(scene: Scene) -> Iterator[Finding]:
    """In no per-forward figure here; torch's own totals count them."""
    told = scene.facts.note("before_window")
    if not told:
        return
    activities = plural(told.count, "device activity", "device activities")
    were = "was" if told.count == 1 else "were"
    text = (
        f"The file holds {activities} that {were} launched before the window opened and finished inside it; dividing "
        "all kernels by the number of forwards counts them too, and so does torch's table."
    )
    remedy = "Count by launch, as here; or synchronize before the profiler's active steps."
    yield note("before-window", told.message, remedy, text, theme="")


def _slow(group: Sequence[Told]) -> str:
    return (
        f"In {in_cases(group)} the first forward inside the window is slow, on the CPU side only, where the profiler "
        f"starts: its device time is within {percent(SLOW_DEVICE - 1)} of that of the others."
    )


@rule("slow-first", "the first forward of the window takes far longer than the others", _slow)
def slow_first(scene: Scene) -> Iterator[Finding]:
    """Medians are shown, so it moves no figure. Whether the device was slow as well is looked up."""
    told = scene.facts.note("slow_first")
    if not told:
        return
    ratios = _device_ratios(scene.facts)
    remedy = "Read medians, not means; leave the first step out of sums."
    if ratios and max(ratios) > SLOW_DEVICE:
        text = f"The first forward inside the window is slow on the device too: up to {max(ratios):.2f} x the others."
        yield note("slow-first", told.message, remedy, text)
        return
    text = "The first forward inside the window is slow, on the CPU side only, where the profiler starts"
    text += f"; its device time is {min(ratios):.2f} to {max(ratios):.2f} x that of the others." if ratios else "."
    yield note("slow-first", told.message, remedy, text, theme="")


def _device_ratios(facts: CaseFacts) -> list[float]:
    """Of each process: the device time of its first forward over the median of the others."""
    by_process: dict[int, list[float]] = {}
    for forward in facts.forwards:
        if forward.device_time_us:
            by_process.setdefault(forward.process, []).append(forward.device_time_us)
    return [times[0] / statistics.median(times[1:]) for times in by_process.values() if len(times) > 1]


@rule("launches-without-kernels", "launches in the file, and no device activity")
def launches_without_kernels(scene: Scene) -> Iterator[Finding]:
    """The collection of activities failed."""
    told = scene.facts.note("launches_without_activities")
    if told:
        text = "Kernels were launched, but the trace holds none: their collection failed."
        remedy = "Check the permission for GPU counters, another profiler on the device, or CUPTI's range mode."
        yield note("launches-without-kernels", told.message, remedy, text)


@rule(
    "uneven-kernel",
    "one kernel of the forward varies from step to step by 15 %, by 2 µs and by a hundredth of the device time",
)
def uneven_kernel(scene: Scene) -> Iterator[Finding]:
    """Compared at the same position of the forwards of one process, in every process; of one kernel the worst."""
    least = UNEVEN_FORWARD * (scene.device_time_us or 0.0)
    processes: dict[int, list[Forward]] = {}
    for forward in scene.facts.forwards:
        processes.setdefault(forward.process, []).append(forward)
    worst: dict[str, tuple[float, Activity, dict[int, list[float]]]] = {}
    for position, kernel in enumerate(scene.activities):
        if kernel.category != "kernel" or kernel.family == "communication":  # which waits for other ranks
            continue
        times = {process: _times(of_it, position, kernel) for process, of_it in processes.items()}
        uneven = {process: of_it for process, of_it in times.items() if _is_uneven(of_it, least)}
        spread = max((max(of_it) - min(of_it) for of_it in uneven.values()), default=0.0)
        if spread > worst.get(kernel.name, (0.0,))[0]:
            worst[kernel.name] = spread, kernel, uneven
    for _, kernel, uneven in worst.values():
        yield _uneven(kernel, uneven, len(processes))


def _times(forwards: Sequence[Forward], position: int, kernel: Activity) -> list[float]:
    """Lengths of what is at that position in each forward, where it is the same kernel."""
    rows = (forward.activities[position] for forward in forwards if position < len(forward.activities))
    return [row.duration_us for row in rows if row.name == kernel.name]


def _is_uneven(times: Sequence[float], least: float) -> bool:
    if len(times) < 3:
        return False
    return max(times) - min(times) >= max(UNEVEN_SHARE * statistics.median(times), UNEVEN_US, least)


def _uneven(kernel: Activity, uneven: dict[int, list[float]], processes: int) -> Finding:
    times = max(uneven.values(), key=lambda times: max(times) - min(times))
    where = f" in {len(uneven)} of {processes} processes" if processes > 1 else ""
    span = f"{duration(min(times))} to {duration(max(times))} in {plural(len(times), 'forward')}"
    text = f"{kernel.label} varies{where} though it does the same work in each step: {span}."
    remedy = "Clocks, the L2 cache and the first step move it: compare medians, lock the clocks."
    evidence = "; ".join(f"process {process}: {_listed(of_it)} µs" for process, of_it in uneven.items())
    return note("uneven-kernel", evidence, remedy, text, (kernel.position,))


def _listed(times: Sequence[float], limit: int = 20) -> str:
    return ", ".join(f"{time:.1f}" for time in times[:limit]) + (" ..." if len(times) > limit else "")
