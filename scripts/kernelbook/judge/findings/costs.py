"""Costs of findings: device time of activities, CPU time of calls, and ranges over the processes of a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelbook.cases import Activity, Call, CallTotal, CaseFacts, median, medians_by_process
from kernelbook.judge.clock import bound_of
from kernelbook.judge.findings.rules import CPU, DEVICE, FORWARD, RECOVERABLE, SPENT, Finding, Scene
from kernelbook.judge.time_line import (
    ALLOCATION,
    API,
    BLOCKING_COPY,
    COMPILE,
    LATENCY,
    LAUNCH,
    OP,
    PYTHON,
    SYNCHRONIZATION,
)
from kernelbook.kernel_names import UNKNOWN
from kernelbook.text.formatting import duration, ends

#: Work below this share of the device time is not reported.
LEAST_WORK = 0.05
#: Kinds of idle time in which the CPU prepares the next launch.
LAUNCHING = (LAUNCH, API, OP, PYTHON, LATENCY, COMPILE)
#: Kinds of waits after which the CPU cannot be ahead of the device.
BLOCKING = (SYNCHRONIZATION, ALLOCATION, BLOCKING_COPY)
#: Processes that differ by more than this share of the least time are reported as a range.
APART_FROM = 0.2


def severity(share: float | None) -> str:
    """high for at least a fifth of the time, medium for a twentieth, low for less; info without a share."""
    if share is None:
        return "info"
    return "high" if share >= 0.2 else "medium" if share >= 0.05 else "low"


def part(time_us: float | None, whole_us: float | None) -> float | None:
    """The share; None if either time is missing."""
    return time_us / whole_us if time_us is not None and whole_us else None


# --- over processes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeRange:
    """A time over the processes of a case, in µs: the median of their times, the least and the largest."""

    time_us: float
    low_us: float
    high_us: float
    processes: int

    @property
    def apart(self) -> bool:
        """Whether the processes differ too much for a single figure."""
        return self.high_us > (1 + APART_FROM) * self.low_us

    def __str__(self) -> str:
        """``35.0 µs``, or the range if the processes differ: ``78.9 µs to 150 µs``."""
        return f"{duration(self.low_us)} to {duration(self.high_us)}" if self.apart else duration(self.time_us)

    @property
    def ends(self) -> str:
        """The least and the largest time: ``64.1 µs to 68.9 µs``; a single figure if they are equal."""
        return ends((duration(self.low_us), duration(self.high_us)))

    @property
    def over(self) -> str:
        """`` (over 3 processes)`` to follow a range; empty for a single figure."""
        return f" (over {self.processes} processes)" if self.apart else ""


def span_of(times_us: Iterable[float | None]) -> TimeRange | None:
    """The range of the times that are not None; None without any."""
    times = [time for time in times_us if time is not None]
    return TimeRange(median(times) or 0.0, min(times), max(times), len(times)) if times else None


def forward_span(facts: CaseFacts) -> TimeRange | None:
    """Unprofiled forward time over the merged processes."""
    return span_of(process.forward_time_us for process in facts.processes if process.merged)


def cpu_span(facts: CaseFacts) -> TimeRange | None:
    """CPU time of a forward under the profiler, over the merged processes."""
    return span_of(medians_by_process((f.process, f.cpu_time_us) for f in facts.usual_forwards).values())


def device_span(facts: CaseFacts) -> TimeRange | None:
    """Device time of a forward over the merged processes; that of the case if theirs is unknown."""
    of_processes = [process.device_time_us for process in facts.processes if process.merged]
    return span_of(of_processes) or span_of([facts.device_time_us])


def idle_span(facts: CaseFacts) -> TimeRange | None:
    """Unprofiled forward time minus device busy time, over the merged processes."""
    times = ((process.forward_time_us, process.device_busy_us) for process in facts.processes if process.merged)
    return span_of(max(whole - busy, 0.0) for whole, busy in times if whole is not None and busy is not None)


def process_medians(figures: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Process -> median over its forwards; ``figures``: by (process, index)."""
    usual = medians_by_process((process, figure) for (process, _), figure in figures.items())
    return {process: time or 0.0 for process, time in usual.items()}


def began_inside(start_us: float, ranges: Iterable[Call]) -> bool:
    """Whether a time of the forward is inside one of these calls."""
    return any(each.start_us <= start_us < each.start_us + each.duration_us for each in ranges)


# --- device time -----------------------------------------------------------------------------------------------------


def total(activities: Iterable[Activity]) -> float:
    return sum(a.duration_us for a in activities)


def positions(activities: Iterable[Activity]) -> tuple[int, ...]:
    return tuple(a.position for a in activities)


def described(activities: Sequence[Activity], limit: int = 8) -> str:
    """Each with its time and op: ``Memcpy DtoD 128 µs (aten::masked_fill)``."""
    parts = [
        f"{a.label} {duration(a.duration_us)}" + (f" ({a.op_path[0]})" if a.op_path else "") for a in activities[:limit]
    ]
    return "; ".join(parts) + (f"; and {len(activities) - limit} more" if len(activities) > limit else "")


def maker(kernel: Activity) -> str:
    """Library and family: ``cuDNN attention``; the label if the name does not state the library."""
    library, family = kernel.decoded.library, kernel.family
    if library == UNKNOWN:
        return kernel.label
    return library if family in library else f"{library} {family}"


def timed(
    scene: Scene,
    of: str,
    time_us: float | None,
    text: str,
    remedy: str,
    evidence: str,
    kind: str = SPENT,
    where: tuple[int, ...] = (),
    *,
    whole_us: float | None = None,
    level: str | None = None,
    span: tuple[float, float] | None = None,
    theme: str | None = None,
    subject: str = "",
) -> Finding:
    """A finding about a time.

    of: the time of the forward that it is a part of (DEVICE, CPU or FORWARD); whole_us replaces it. level: severity, by
    default that of the share. span: the least and the largest time of the processes.
    """
    if whole_us is None:
        forward_us = scene.split.time_us if scene.split else None
        whole_us = {DEVICE: scene.device_time_us, CPU: scene.facts.cpu_time_us, FORWARD: forward_us}[of]
    share = part(time_us, whole_us)
    low_us, high_us = span or (None, None)
    return Finding(
        "", level or severity(share), time_us, share, evidence, remedy, text, where, of, kind, low_us, high_us,
        theme=theme, subject=subject,
    )  # fmt: skip


def device_finding(
    scene: Scene,
    work: Sequence[Activity],
    text: str,
    remedy: str,
    saved_us: float | None = None,
    kind: str = RECOVERABLE,
    least: float = 0.0,
) -> Iterator[Finding]:
    """A finding about device work, with the time that the remedy saves, by default all of it.

    There is none without work, or if the work is below `least` of the device time. The severity is that of the share of
    the forward, since device time costs little while the device waits for the CPU.
    """
    whole_us = total(work)
    if not work or (part(whole_us, scene.device_time_us) or 0.0) < least:
        return
    time_us = whole_us if saved_us is None else saved_us
    level = severity(part(time_us, scene.split.time_us)) if scene.split else None
    yield timed(scene, DEVICE, time_us, text, remedy, described(work), kind, positions(work), level=level)


def slow_finding(
    scene: Scene,
    work: Sequence[Activity],
    saved_us: float | None,
    text: str,
    remedy: str,
    spared: int = 0,
) -> Iterator[Finding]:
    """A finding about work of at least `LEAST_WORK` of the device time.

    saved_us: time that the remedy saves at the ceilings; None if that is unknown. spared: launches that the remedy also
    saves; if the device waits for the CPU, its idle time for them is part of the finding's time.
    """
    kind = SPENT if saved_us is None else RECOVERABLE
    idle = idle_of_launches(scene, spared)
    for finding in device_finding(scene, work, text, remedy, saved_us, kind, LEAST_WORK):
        if not idle or scene.split is None or finding.time_us is None:
            yield finding
            continue
        time_us = finding.time_us + idle
        share = part(time_us, scene.split.time_us)
        waits = (
            f" The device also waits for {'its launch' if spared == 1 else f'their {spared} launches'}, "
            f"{duration(idle)} of the forward."
        )
        yield replace(
            finding, severity=severity(share), time_us=time_us, share=share, text=f"{text}{waits}", of=FORWARD
        )


def idle_of_launches(scene: Scene, count: int) -> float:
    """Idle time (µs) of launching `count` activities, by their share of all launches.

    Launching includes ops, Python and launches, without waits. 0 unless the device waits for the CPU, and 0 in a
    forward that waits for the device, since the CPU could be ahead without those waits.
    """
    launches = scene.facts.launches or 0
    if not launches or scene.split is None or not cpu_paced(scene.facts):
        return 0.0
    if any(wait.kind in BLOCKING for wait in scene.split.waits):
        return 0.0
    return scene.split.of_kind(*LAUNCHING) * min(count / launches, 1.0)


# --- CPU time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CpuCost:
    """CPU time of some calls in a forward: the median sum over all forwards.

    ``span``: over the processes. ``by_process``: for each process. ``count``: usual number of calls in a forward.
    ``parts``: name -> its own median sum, largest first.
    """

    span: TimeRange
    by_process: Mapping[int, float]
    count: int
    parts: Mapping[str, float]

    @property
    def time_us(self) -> float:
        return self.span.time_us

    @property
    def evidence(self) -> str:
        """Each name with its time."""
        return "; ".join(f"{short(name)} {duration(time)}" for name, time in list(self.parts.items())[:8])


def cpu_cost(facts: CaseFacts, totals: Sequence[CallTotal], self_time: bool = True) -> CpuCost | None:
    """CPU time of these calls, over all forwards; None if most forwards have none.

    ``self_time``: without calls inside them.
    """
    count = facts.cpu_cost(totals, lambda total: total.count)
    if not count:
        return None

    def time_of(total: CallTotal) -> float:
        return total.self_us if self_time else total.cpu_time_us

    by_name: dict[str, list[CallTotal]] = {}
    for total in totals:
        by_name.setdefault(total.name, []).append(total)
    parts = {name: facts.cpu_cost(of_name, time_of) for name, of_name in by_name.items()}
    ordered = dict(sorted(parts.items(), key=lambda item: -item[1]))
    sums = {(forward.process, forward.index): 0.0 for forward in facts.usual_forwards}
    for total in totals:
        if (total.process, total.index) in sums:
            sums[total.process, total.index] += time_of(total)
    by_process = process_medians(sums)
    span = span_of(by_process.values())
    return CpuCost(span, by_process, round(count), ordered) if span else None


def cpu_paced(facts: CaseFacts) -> bool:
    """Whether CPU time is forward time: without a device, or if the forward is launch-bound."""
    return not facts.on_device or bound_of(facts)[0] == "launches"


def cpu_note(
    scene: Scene,
    spent: CpuCost,
    text: str,
    remedy: str,
    theme: str | None = None,
    subject: str = "",
    level: str = "info",
) -> Finding:
    span = spent.span.low_us, spent.span.high_us
    return timed(
        scene, CPU, spent.time_us, text, remedy, spent.evidence, level=level, span=span, theme=theme, subject=subject
    )


def note(
    evidence: str,
    remedy: str,
    text: str,
    where: tuple[int, ...] = (),
    theme: str | None = None,
    subject: str = "",
) -> Finding:
    return Finding("", "info", None, None, evidence, remedy, text, where, theme=theme, subject=subject)


def short(name: str) -> str:
    return name if len(name) <= 48 else name[:45] + "..."
