"""Limits of the reliability of figures: effects of the profiler window, uneven kernels, a wrong result."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelbook.cases import Activity, CaseFacts, ProfiledForward
from kernelbook.judge.findings.costs import note
from kernelbook.judge.findings.rules import Finding, Scene, rule
from kernelbook.judge.findings.waits import loading_by_forward
from kernelbook.text.formatting import duration, ends, percent, plural

#: Ratio of device times, first forward to the others, above which the device was slow too.
SLOW_DEVICE = 1.1
#: A kernel is uneven if its times differ by this share of their median, by this time in µs, and by this share of the
#: forward's device time.
UNEVEN_SHARE, UNEVEN_US, UNEVEN_FORWARD = 0.15, 2.0, 0.01
FIRST = "The first forward inside the profiler window"
COUNTED = "torch's key_averages() counts them, and so does dividing all kernels by the number of forwards."
#: Most uneven kernels, or slow calls, in a text.
MOST_UNEVEN = 3


@rule(
    "before-window",
    "device activities in the trace that were launched before the profiler window",
    f"In {{cases}} the trace has device activities that were launched before the profiler window. {COUNTED}",
)
def before_window(scene: Scene) -> Iterator[Finding]:
    """Not part of any figure per forward; torch's totals count them."""
    warning = scene.facts.note("before_window")
    if not warning:
        return
    activities = plural(warning.count, "device activity", "device activities")
    were = "was" if warning.count == 1 else "were"
    text = f"The trace has {activities} that {were} launched before the profiler window. {COUNTED}"
    remedy = "Use the figures of this report, which count by launch, or synchronize before the profiler's active steps."
    yield note(warning.message, remedy, text, theme="")


@rule(
    "slow-first",
    "the first forward of the profiler window takes much longer than the others",
    "In {cases} the first forward inside the profiler window takes longer on the CPU; its device time is within "
    f"{percent(SLOW_DEVICE - 1)} of that of the others.",
)
def slow_first(scene: Scene) -> Iterator[Finding]:
    """Reports the calls that take longer, and whether the device was slow too. Figures are medians and not affected.

    Skipped if the forward is slow because kernels were loaded, which `kernel-loading` reports.
    """
    warning = scene.facts.note("slow_first")
    if not warning or any(index == 0 for _, index in loading_by_forward(scene.facts)):
        return
    ratios = _device_ratios(scene.facts)
    remedy = "Read medians, not means; leave the first step out of sums."
    longer = _longer_calls(scene.facts)
    because = f" Calls that take longer in it: {longer}." if longer else ""
    if ratios and max(ratios) > SLOW_DEVICE:
        text = f"{FIRST} is slow on the device too: up to {max(ratios):.2f}× the others."
        yield note(warning.message, remedy, text + because)
        return
    text = f"{FIRST} takes longer on the CPU"
    text += (
        f"; its device time is {ends([f'{each:.2f}' for each in sorted(ratios)])}× that of the others."
        if ratios
        else "."
    )
    yield note(warning.message, remedy, text + because, theme="")


def _longer_calls(facts: CaseFacts) -> str:
    """The calls whose self time in the first forward exceeds that in the others most, each with the excess.

    They are those of the process with the largest excess, each with at least a tenth of it.
    """
    extra: dict[int, dict[str, float]] = {}
    others: dict[tuple[int, str], list[float]] = {}
    for total in facts.call_totals:
        if total.index == 0:
            times = extra.setdefault(total.process, {})
            times[total.name] = times.get(total.name, 0.0) + total.self_us
        else:
            others.setdefault((total.process, total.name), []).append(total.self_us)
    for process, times in extra.items():
        for name in times:
            times[name] = max(times[name] - (statistics.median(others.get((process, name), [0.0]))), 0.0)
    worst: dict[str, float] = max(extra.values(), key=lambda times: sum(times.values()), default={})
    ordered = sorted(worst.items(), key=lambda item: -item[1])[:MOST_UNEVEN]
    return ", ".join(f"{name} by {duration(time)}" for name, time in ordered if time >= 0.1 * sum(worst.values()) > 0)


def _device_ratios(facts: CaseFacts) -> list[float]:
    """For each process: device time of its first forward over the median of the others."""
    by_process: dict[int, list[float]] = {}
    for forward in facts.usual_forwards:
        if forward.device_time_us:
            by_process.setdefault(forward.process, []).append(forward.device_time_us)
    return [times[0] / statistics.median(times[1:]) for times in by_process.values() if len(times) > 1]


@rule("launches-without-kernels", "launches in the trace without any device activity")
def launches_without_kernels(scene: Scene) -> Iterator[Finding]:
    warning = scene.facts.note("launches_without_activities")
    if warning:
        text = "Kernels were launched, but the trace has no device activity: the profiler could not collect it."
        remedy = "Check that CUPTI may profile this device, and that no other profiler uses it."
        yield note(warning.message, remedy, text)


@rule(
    "uneven-kernel",
    "times of a kernel vary between forwards by 15 %, by 2 µs and by 1 % of the device time",
)
def uneven_kernel(scene: Scene) -> Iterator[Finding]:
    """Compares the same position in the forwards of each process, and reports the worst position of each kernel."""
    least = UNEVEN_FORWARD * (scene.device_time_us or 0.0)
    processes: dict[int, list[ProfiledForward]] = {}
    for forward in scene.facts.usual_forwards:
        processes.setdefault(forward.process, []).append(forward)
    worst: dict[str, Uneven] = {}
    for position, kernel in enumerate(scene.activities):
        if kernel.category != "kernel" or kernel.family == "communication":  # which waits for other ranks
            continue
        times = {process: _times(of_it, position, kernel) for process, of_it in processes.items()}
        uneven = Uneven(kernel, {process: of_it for process, of_it in times.items() if _is_uneven(of_it, least)})
        if uneven.spread > (worst[kernel.name].spread if kernel.name in worst else 0.0):
            worst[kernel.name] = uneven
    if worst:
        yield _uneven(sorted(worst.values(), key=lambda uneven: -uneven.spread), len(processes))


@dataclass(frozen=True)
class Uneven:
    """A kernel of the forward, and its times in µs in each process in which they vary."""

    kernel: Activity
    times: Mapping[int, Sequence[float]]

    @property
    def widest(self) -> Sequence[float]:
        """Times of the process with the largest variation."""
        return max(self.times.values(), key=lambda times: max(times) - min(times), default=())

    @property
    def spread(self) -> float:
        """Largest minus least of these; 0 if no process varies."""
        return max(self.widest) - min(self.widest) if self.widest else 0.0


def _times(forwards: Sequence[ProfiledForward], position: int, kernel: Activity) -> list[float]:
    """Durations at that position in each forward, if it is the same kernel."""
    rows = (forward.activities[position] for forward in forwards if position < len(forward.activities))
    return [row.duration_us for row in rows if row.name == kernel.name]


def _is_uneven(times: Sequence[float], least: float) -> bool:
    if len(times) < 3:
        return False
    return max(times) - min(times) >= max(UNEVEN_SHARE * statistics.median(times), UNEVEN_US, least)


def _uneven(uneven: Sequence[Uneven], processes: int) -> Finding:
    texts = "; ".join(_variation_text(each, processes) for each in uneven[:MOST_UNEVEN])
    more = f"; and {len(uneven) - MOST_UNEVEN} more" if len(uneven) > MOST_UNEVEN else ""
    kernels = "One kernel varies" if len(uneven) == 1 else f"{len(uneven)} kernels vary"
    text = f"{kernels} between forwards: {texts}{more}."
    remedy = "Compare medians and lock the clocks; data, clocks, the L2 cache and a first step can all change the time."
    evidence = "; ".join(
        f"{each.kernel.label}, process {process}: {_listed(times)} µs"
        for each in uneven[:MOST_UNEVEN]
        for process, times in each.times.items()
    )
    return note(evidence, remedy, text, tuple(sorted(each.kernel.position for each in uneven)))


def _variation_text(each: Uneven, processes: int) -> str:
    where = f" in {len(each.times)} of {processes} processes" if processes > 1 else ""
    span = f"{duration(min(each.widest))} to {duration(max(each.widest))}"
    return f"{each.kernel.label}{where} {span} in {plural(len(each.widest), 'forward')}"


def _listed(times: Sequence[float], limit: int = 20) -> str:
    return ", ".join(f"{time:.1f}" for time in times[:limit]) + (" ..." if len(times) > limit else "")


#: Bounds of the relative error for measurements that do not state their own; float32 may have used TF32.
BOUNDS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 5e-3, "float64": 1e-10}


@rule("wrong-result", "relative error of the result against float64 above the bound of the case or its dtype")
def wrong_result(scene: Scene) -> Iterator[Finding]:
    """The bound is `max_relative_error`, or one for the dtype: about five times the spacing of its numbers near 1."""
    facts = scene.facts
    bound = BOUNDS.get(facts.dtype or "") if facts.error_bound is None else facts.error_bound
    if facts.relative_error is None or bound is None or facts.relative_error <= bound:
        return
    text = (
        f"The result differs from its float64 reference by a relative error of {facts.relative_error:.2g}; rounding in "
        f"{facts.dtype} explains up to {bound:.2g}. The times may be those of a wrong computation."
    )
    remedy = (
        "Compare the forward with its reference on small inputs; if such an error is expected, set max_relative_error."
    )
    evidence = f"relative error {facts.relative_error:.3g} against a float64 reference, bound {bound:.3g}"
    yield Finding("", "high", None, None, evidence, remedy, text)
