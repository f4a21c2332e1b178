"""What limits trust in the figures: effects of the profiler window, uneven kernels, a wrong result."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelbook.cases import Activity, CaseFacts, Forward
from kernelbook.judge.findings.costs import note, percent
from kernelbook.judge.findings.rules import Finding, Scene, in_cases, rule
from kernelbook.text.units import duration, plural

#: Device time of a first forward, against the others, from which the device counts as slow too.
SLOW_DEVICE = 1.1
#: A kernel is uneven where its times differ by this share of their median, by these µs, and by this share of the
#: forward's device time: what is below moves no figure.
UNEVEN_SHARE, UNEVEN_US, UNEVEN_FORWARD = 0.15, 2.0, 0.01
#: As many uneven kernels are named.
MOST_UNEVEN = 3


def _early(group: Sequence[Finding]) -> str:
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


def _slow(group: Sequence[Finding]) -> str:
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
    ends = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (min(ratios), max(ratios)))) if ratios else ""
    text += f"; its device time is {ends} x that of the others." if ends else "."
    yield note("slow-first", told.message, remedy, text, theme="")


def _device_ratios(facts: CaseFacts) -> list[float]:
    """Of each process: the device time of its first forward over the median of the others."""
    by_process: dict[int, list[float]] = {}
    for forward in facts.usual_forwards:
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
    "a kernel of the forward varies from step to step by 15 %, by 2 µs and by a hundredth of the device time",
)
def uneven_kernel(scene: Scene) -> Iterator[Finding]:
    """Compared at the same position of the forwards of one process, in every process; of one kernel the worst place."""
    least = UNEVEN_FORWARD * (scene.device_time_us or 0.0)
    processes: dict[int, list[Forward]] = {}
    for forward in scene.facts.usual_forwards:
        processes.setdefault(forward.process, []).append(forward)
    worst: dict[str, Uneven] = {}
    for position, kernel in enumerate(scene.activities):
        if kernel.category != "kernel" or kernel.family == "communication":  # which waits for other ranks
            continue
        times = {process: _times(of_it, position, kernel) for process, of_it in processes.items()}
        found = Uneven(kernel, {process: of_it for process, of_it in times.items() if _is_uneven(of_it, least)})
        if found.spread > (worst[kernel.name].spread if kernel.name in worst else 0.0):
            worst[kernel.name] = found
    if worst:
        yield _uneven(sorted(worst.values(), key=lambda found: -found.spread), len(processes))


@dataclass(frozen=True)
class Uneven:
    """A kernel of the forward, and its times in each process where they are uneven, µs."""

    kernel: Activity
    times: Mapping[int, Sequence[float]]

    @property
    def widest(self) -> Sequence[float]:
        """The times of the process in which they differ most."""
        return max(self.times.values(), key=lambda times: max(times) - min(times), default=())

    @property
    def spread(self) -> float:
        """How far these lie apart; 0 where no process is uneven."""
        return max(self.widest) - min(self.widest) if self.widest else 0.0


def _times(forwards: Sequence[Forward], position: int, kernel: Activity) -> list[float]:
    """Lengths of what is at that position in each forward, where it is the same kernel."""
    rows = (forward.activities[position] for forward in forwards if position < len(forward.activities))
    return [row.duration_us for row in rows if row.name == kernel.name]


def _is_uneven(times: Sequence[float], least: float) -> bool:
    if len(times) < 3:
        return False
    return max(times) - min(times) >= max(UNEVEN_SHARE * statistics.median(times), UNEVEN_US, least)


def _uneven(found: Sequence[Uneven], processes: int) -> Finding:
    told = "; ".join(_said(each, processes) for each in found[:MOST_UNEVEN])
    more = f"; and {len(found) - MOST_UNEVEN} more" if len(found) > MOST_UNEVEN else ""
    kernels = "One kernel varies" if len(found) == 1 else f"{len(found)} kernels vary"
    text = f"{kernels} from step to step at the same place of the forward: {told}{more}."
    remedy = "Data, clocks, the L2 cache and the first step can move it: compare medians, lock the clocks."
    evidence = "; ".join(
        f"{each.kernel.label}, process {process}: {_listed(times)} µs"
        for each in found[:MOST_UNEVEN]
        for process, times in each.times.items()
    )
    return note("uneven-kernel", evidence, remedy, text, tuple(sorted(each.kernel.position for each in found)))


def _said(each: Uneven, processes: int) -> str:
    where = f" in {len(each.times)} of {processes} processes" if processes > 1 else ""
    span = f"{duration(min(each.widest))} to {duration(max(each.widest))}"
    return f"{each.kernel.label}{where} {span} in {plural(len(each.widest), 'forward')}"


def _listed(times: Sequence[float], limit: int = 20) -> str:
    return ", ".join(f"{time:.1f}" for time in times[:limit]) + (" ..." if len(times) > limit else "")


#: Bounds of the relative error for measurements that do not state their own; float32 may have used TF32.
BOUNDS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 5e-3, "float64": 1e-10}


@rule("wrong-result", "a result whose relative error against float64 is above the bound of the case or its dtype")
def wrong_result(scene: Scene) -> Iterator[Finding]:
    """The bound is `max_relative_error`, or one for the dtype: about five times the spacing of its numbers near 1."""
    facts = scene.facts
    bound = BOUNDS.get(facts.dtype or "") if facts.error_bound is None else facts.error_bound
    if facts.relative_error is None or bound is None or facts.relative_error <= bound:
        return
    text = (
        f"The result is far from its reference: its relative error is {facts.relative_error:.2g}, and up to "
        f"{bound:.2g} is taken for rounding in {facts.dtype}. The times may be those of a wrong computation."
    )
    remedy = (
        "Compare the forward with its reference on small inputs; where such an error is meant, set max_relative_error."
    )
    evidence = f"relative error {facts.relative_error:.3g} against a float64 reference, bound {bound:.3g}"
    yield Finding("wrong-result", "high", None, None, evidence, remedy, text)
