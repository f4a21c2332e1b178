"""What a finding costs: device time of activities, CPU time of calls, and how far the processes of a case agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelbook.cases import Activity, CallTotal, CaseFacts, median, medians_by_process
from kernelbook.judge.clock import bound_of
from kernelbook.judge.findings.rules import CPU, DEVICE, RECOVERABLE, SPENT, Finding, Scene
from kernelbook.kernel_names import UNKNOWN
from kernelbook.text.units import duration

#: Figures of processes that lie farther apart than this, as a share of the least, are told as a range.
APART_FROM = 0.2


def severity(share: float | None) -> str:
    """high from a fifth of the time, medium from a twentieth, low below; info where no cost can be said."""
    if share is None:
        return "info"
    return "high" if share >= 0.2 else "medium" if share >= 0.05 else "low"


def part(time_us: float | None, whole_us: float | None) -> float | None:
    """The share, None where either is missing."""
    return time_us / whole_us if time_us is not None and whole_us else None


def percent(share: float) -> str:
    """``12 %``"""
    return f"{share:.0%}".replace("%", " %")


# --- over processes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeRange:
    """A time over the processes of a case, in µs: the median of theirs, the least and the most."""

    time_us: float
    low_us: float
    high_us: float
    processes: int

    @property
    def apart(self) -> bool:
        """Whether the processes differ so much that no single figure stands for them."""
        return self.high_us > (1 + APART_FROM) * self.low_us

    def __str__(self) -> str:
        """``35.0 µs``, or the range where the processes differ: ``78.9 µs to 150 µs``."""
        return f"{duration(self.low_us)} to {duration(self.high_us)}" if self.apart else duration(self.time_us)

    @property
    def ends(self) -> str:
        """The least and the most, however near they lie: ``64.1 µs to 68.9 µs``; of equal ones one."""
        return " to ".join(dict.fromkeys((duration(self.low_us), duration(self.high_us))))

    @property
    def over(self) -> str:
        """What a sentence says once behind the first range of it: `` (over 3 processes)``; empty for a single time."""
        return f" (over {self.processes} processes)" if self.apart else ""


def span_of(times_us: Iterable[float | None]) -> TimeRange | None:
    """The span of those that are there; None of none."""
    known = [time for time in times_us if time is not None]
    return TimeRange(median(known) or 0.0, min(known), max(known), len(known)) if known else None


def forward_span(facts: CaseFacts) -> TimeRange | None:
    """Unprofiled forward time over the merged processes."""
    return span_of(process.forward_time_us for process in facts.processes if process.merged)


def cpu_span(facts: CaseFacts) -> TimeRange | None:
    """CPU time of a forward under the profiler, over the merged processes."""
    return span_of(medians_by_process((f.process, f.cpu_time_us) for f in facts.usual_forwards).values())


def device_span(facts: CaseFacts) -> TimeRange | None:
    """Device time of a forward over the merged processes; the case's own where theirs are not known."""
    of_processes = [process.device_time_us for process in facts.processes if process.merged]
    return span_of(of_processes) or span_of([facts.device_time_us])


def idle_span(facts: CaseFacts) -> TimeRange | None:
    """How much longer an unprofiled forward takes than the device is busy in it, over the merged processes."""
    return span_of(idle_by_process(facts).values())


def idle_by_process(facts: CaseFacts) -> dict[int, float]:
    """Process -> that idle time, of the merged ones that have both figures."""
    idle = {}
    for process in facts.processes:
        whole, busy = process.forward_time_us, process.device_busy_us
        if process.merged and whole is not None and busy is not None:
            idle[process.process] = max(whole - busy, 0.0)
    return idle


def process_medians(figures: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Process -> the median of its forwards; ``figures`` has those by (process, index)."""
    usual = medians_by_process((process, figure) for (process, _), figure in figures.items())
    return {process: time or 0.0 for process, time in usual.items()}


# --- device time -----------------------------------------------------------------------------------------------------


def total(activities: Iterable[Activity]) -> float:
    """Summed duration."""
    return sum(a.duration_us for a in activities)


def positions(activities: Iterable[Activity]) -> tuple[int, ...]:
    """Where they are in the forward."""
    return tuple(a.position for a in activities)


def described(activities: Sequence[Activity], limit: int = 8) -> str:
    """Each with its time and op: ``Memcpy DtoD 128 µs (aten::masked_fill)``."""
    parts = [f"{a.label} {duration(a.duration_us)}" + (f" ({a.ops[0]})" if a.ops else "") for a in activities[:limit]]
    return "; ".join(parts) + (f"; and {len(activities) - limit} more" if len(activities) > limit else "")


def maker(kernel: Activity) -> str:
    """Library and family, by the name: ``cuDNN attention``; the label where the name tells no library."""
    library, family = kernel.decoded.library, kernel.family
    if library == UNKNOWN:
        return kernel.label
    return library if family in library else f"{library} {family}"


def device_finding(
    scene: Scene, name: str, activities: Sequence[Activity], text: str, remedy: str, kind: str = RECOVERABLE
) -> Iterator[Finding]:
    """A finding that costs the device time of these activities; none for none."""
    if activities:
        time_us = total(activities)
        share = part(time_us, scene.device_time_us)
        evidence, where = described(activities), positions(activities)
        yield Finding(name, severity(share), time_us, share, evidence, remedy, text, where, DEVICE, kind)


# --- CPU time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CpuCost:
    """What some calls cost of a forward's CPU time: the usual sum over all forwards, as ``cpu_time_us`` is counted.

    ``span``: over the processes. ``by_process``: the same of each. ``count``: how many there usually are in a forward.
    ``parts``: name -> its own usual sum, the dearest first.
    """

    span: TimeRange
    by_process: Mapping[int, float]
    count: int
    parts: Mapping[str, float]

    @property
    def time_us(self) -> float:
        """The median of the processes."""
        return self.span.time_us

    @property
    def evidence(self) -> str:
        """Each name with its time."""
        return "; ".join(f"{short(name)} {duration(time)}" for name, time in list(self.parts.items())[:8])


def cpu_cost(facts: CaseFacts, match: Callable[[CallTotal], bool], self_time: bool = True) -> CpuCost | None:
    """What the calls that match cost, over all forwards; None where there are none in most forwards.

    ``self_time``: without the calls inside them, which then are none of the cost.
    """
    count = facts.cpu_cost(match, lambda total: total.count)
    if not count:
        return None

    def time_of(total: CallTotal) -> float:
        return total.self_us if self_time else total.cpu_time_us

    names = dict.fromkeys(total.name for total in facts.call_totals if match(total))
    parts = {name: facts.cpu_cost(_named(name, match), time_of) for name in names}
    ordered = dict(sorted(parts.items(), key=lambda item: -item[1]))
    sums = {(forward.process, forward.index): 0.0 for forward in facts.usual_forwards}
    for total in facts.call_totals:
        if match(total) and (total.process, total.index) in sums:
            sums[total.process, total.index] += time_of(total)
    by_process = process_medians(sums)
    span = span_of(by_process.values())
    return CpuCost(span, by_process, round(count), ordered) if span else None


def _named(name: str, match: Callable[[CallTotal], bool]) -> Callable[[CallTotal], bool]:
    return lambda total: total.name == name and match(total)


def cpu_paced(facts: CaseFacts) -> bool:
    """Whether the CPU sets the pace, so that its time is the forward's: without a device, or launch-bound."""
    return not facts.on_device or bound_of(facts)[0] == "launches"


def cpu_severity(facts: CaseFacts, share: float | None) -> str:
    """That of the share where the CPU sets the pace. Else it costs nothing: info."""
    return severity(share) if cpu_paced(facts) else "info"


def cpu_note(
    scene: Scene, name: str, cost: CpuCost | None, text: str, remedy: str, theme: str | None = None, subject: str = ""
) -> list[Finding]:
    """An `info` finding with a CPU time; empty without a cost."""
    if cost is None:
        return []
    share = part(cost.time_us, scene.facts.cpu_time_us)
    return [
        Finding(
            name, "info", cost.time_us, share, cost.evidence, remedy, text, of=CPU, kind=SPENT,
            time_low_us=cost.span.low_us, time_high_us=cost.span.high_us, theme=theme, subject=subject,
        )
    ]  # fmt: skip


def note(
    name: str,
    evidence: str,
    remedy: str,
    text: str,
    where: tuple[int, ...] = (),
    theme: str | None = None,
    subject: str = "",
) -> Finding:
    """A finding without a time."""
    return Finding(name, "info", None, None, evidence, remedy, text, where, theme=theme, subject=subject)


def short(name: str) -> str:
    """A call's name, cut where a hash makes it long."""
    return name if len(name) <= 48 else name[:45] + "..."
