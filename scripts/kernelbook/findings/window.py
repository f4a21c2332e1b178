"""What the profiler's window does to figures: work from before it, a slow first step, launches without kernels."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from kernelbook.case_facts import Activity
from kernelbook.findings.registry import DEVICE, Finding, Scene, part, rule
from kernelbook.units import duration, plural


def _noted(scene: Scene, code: str, name: str, text: str, remedy: str) -> Iterator[Finding]:
    note = scene.facts.note(code)
    if note:
        yield Finding(name, "info", None, None, note.message, remedy, text.format(count=note.count))


@rule("before-window", "device activities in the file that were launched before the window opened")
def before_window(scene: Scene) -> Iterator[Finding]:
    """In no per-forward figure here; torch's own totals count them."""
    text = (
        "Device activities in the file that were launched before the window opened and finished inside it: {count}; "
        "dividing all kernels by the number of forwards counts them too, and so does torch's table."
    )
    remedy = "Count by launch, as here; or synchronize before the profiler's active steps."
    yield from _noted(scene, "before_window", "before-window", text, remedy)


@rule("slow-first", "the first forward of the window takes far longer than the others")
def slow_first(scene: Scene) -> Iterator[Finding]:
    """Medians are shown, so it moves no figure."""
    text = "The first forward inside the window is an outlier: the profiler starts, caches are cold."
    remedy = "Read medians, not means; leave the first step out of sums."
    yield from _noted(scene, "slow_first", "slow-first", text, remedy)


@rule("launches-without-kernels", "launches in the file, and no device activity")
def launches_without_kernels(scene: Scene) -> Iterator[Finding]:
    """The collection of activities failed."""
    text = "Kernels were launched, but the trace holds none: their collection failed."
    remedy = "Check the permission for GPU counters, another profiler on the device, or CUPTI's range mode."
    yield from _noted(scene, "launches_without_activities", "launches-without-kernels", text, remedy)


@rule("uneven-kernel", "one kernel of the forward varies by 15 % and 2 µs or more from step to step")
def uneven_kernel(scene: Scene) -> Iterator[Finding]:
    """Compared at the same position of the forwards of one process."""
    groups: dict[int, list[Activity]] = {}
    chosen = scene.facts.chosen[0] if scene.facts.chosen else None
    for forward in scene.facts.forwards:
        if forward.process == chosen:
            for activity in forward.kernels:
                groups.setdefault(activity.position, []).append(activity)
    for position, rows in groups.items():
        times = [row.duration_us for row in rows if row.name == rows[0].name]
        if len(times) < 3 or rows[0].family == "communication":  # which waits for other ranks
            continue
        middle, spread = statistics.median(times), max(times) - min(times)
        if spread < max(0.15 * middle, 2.0):
            continue
        span = f"{duration(min(times))} to {duration(max(times))} in {plural(len(times), 'forward')}"
        text = f"{rows[0].label} takes {span}, though it does the same work in each."
        remedy = "Clocks, the L2 cache and the first step move it: compare medians, lock the clocks."
        evidence = ", ".join(f"{t:.1f}" for t in times) + " µs"
        share = part(spread, scene.device_time_us)
        yield Finding("uneven-kernel", "info", spread, share, evidence, remedy, text, (position,), DEVICE)
