"""Rules and what they find. A new rule is one small function with ``@rule(...)`` and a test on a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelbook.case_facts import Activity, CallTotal, CaseFacts
from kernelbook.clock import bound_of
from kernelbook.comparability import refusal
from kernelbook.units import duration

SEVERITIES = ("high", "medium", "low", "info")
#: What the time of a finding is a part of: device time, CPU time (known under the profiler alone), unprofiled forward.
DEVICE, CPU, FORWARD = "device", "CPU, profiled", "forward"


@dataclass(frozen=True)
class Finding:
    """One thing a rule found in one case.

    ``time_us``: what it costs per forward, None where that cannot be said. ``of``: which time that is, device, "CPU,
    profiled" or forward, None with ``time_us``. ``share``: of the forward's whole time of that kind. ``text`` says the
    fact, ``remedy`` what to do. ``positions``: the device activities of the representative forward that it is about.
    """

    rule: str
    severity: str
    time_us: float | None
    share: float | None
    evidence: str
    remedy: str
    text: str
    positions: tuple[int, ...] = ()
    of: str | None = None

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Sorts the weightiest first; of one weight, CPU time that the profiler lengthens last; then the dearest."""
        return SEVERITIES.index(self.severity), self.of == CPU, -(self.time_us or 0.0)


@dataclass(frozen=True)
class Scene:
    """What a rule looks at: a case, and the other cases of the same run by name."""

    facts: CaseFacts
    others: Mapping[str, CaseFacts]

    @property
    def activities(self) -> tuple[Activity, ...]:
        """The device activities of the representative forward, in start order."""
        return self.facts.activities

    @property
    def kernels(self) -> tuple[Activity, ...]:
        """Its kernels."""
        return tuple(a for a in self.activities if a.category == "kernel")

    @property
    def device_time_us(self) -> float | None:
        """Summed device time of that forward."""
        return sum(a.duration_us for a in self.activities) or None

    def eager_twin(self) -> CaseFacts | None:
        """The eager case of the same workload, variant and parameters, for one of another mode (compile, graph)."""
        own = self.facts
        if own.mode in (None, "eager"):
            return None
        same = ("workload", "variant", "params", "dtype")
        for other in self.others.values():
            warm = other.mode == "eager" and other.status == "ok" and not other.case.endswith("-cold-eager")
            if warm and all(getattr(own, name) == getattr(other, name) for name in same):
                return other
        return None

    def peers(self) -> list[CaseFacts]:
        """All good cases of the same workload that may be compared with this one, which is among them."""
        own = self.facts
        found = [o for o in self.others.values() if o.workload == own.workload and self.comparable(o)]
        return [o for o in found if o.status == "ok" and o.on_device and o.case != own.case] + [own]

    def comparable(self, other: CaseFacts) -> bool:
        """Whether times of the other case may be set against those of this one."""
        return refusal(self.facts.setting, other.setting) is None


Look = Callable[[Scene], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule: its name, the condition in words, and the function that looks."""

    name: str
    condition: str
    look: Look = field(repr=False)


_RULES: dict[str, Rule] = {}


def rule(name: str, condition: str) -> Callable[[Look], Look]:
    """Register the decorated function under ``name``."""

    def register(look: Look) -> Look:
        _RULES[name] = Rule(name, condition, look)
        return look

    return register


def rules() -> Mapping[str, Rule]:
    """All rules by name, in the order of their definition."""
    return dict(_RULES)


def severity(share: float | None) -> str:
    """high from a fifth of the time, medium from a twentieth, low below; info where no cost can be said."""
    if share is None:
        return "info"
    return "high" if share >= 0.2 else "medium" if share >= 0.05 else "low"


def part(time_us: float | None, whole_us: float | None) -> float | None:
    """The share, None where either is missing."""
    return time_us / whole_us if time_us is not None and whole_us else None


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


def device_finding(
    scene: Scene, name: str, activities: Sequence[Activity], text: str, remedy: str, info: bool = False
) -> Iterator[Finding]:
    """A finding that costs the device time of these activities; none for none."""
    if activities:
        time_us = total(activities)
        share = part(time_us, scene.device_time_us)
        level = "info" if info else severity(share)
        yield Finding(name, level, time_us, share, described(activities), remedy, text, positions(activities), DEVICE)


@dataclass(frozen=True)
class CpuCost:
    """What some calls cost of a forward's CPU time: the usual sum over all forwards, as ``cpu_time_us`` is counted.

    ``count``: how many there usually are in a forward. ``parts``: name -> its own usual sum, the dearest first.
    """

    time_us: float
    count: int
    parts: Mapping[str, float]

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
    parts = {n: facts.cpu_cost(lambda total, n=n: total.name == n and match(total), time_of) for n in names}
    ordered = dict(sorted(parts.items(), key=lambda item: -item[1]))
    return CpuCost(facts.cpu_cost(match, time_of), round(count), ordered)


def cpu_severity(facts: CaseFacts, share: float | None) -> str:
    """That of the share where the CPU sets the pace: without a device, or launch-bound. Else it costs nothing: info."""
    paced = not facts.on_device or bound_of(facts)[0] == "launches"
    return severity(share) if paced else "info"


def cpu_finding(
    scene: Scene, name: str, cost: CpuCost | None, text: str, remedy: str, info: bool = False
) -> list[Finding]:
    """A finding that costs CPU time; none for none."""
    if cost is None:
        return []
    share = part(cost.time_us, scene.facts.cpu_time_us)
    level = "info" if info else cpu_severity(scene.facts, share)
    return [Finding(name, level, cost.time_us, share, cost.evidence, remedy, text, of=CPU)]


def short(name: str) -> str:
    """A call's name, cut where a hash makes it long."""
    return name if len(name) <= 48 else name[:45] + "..."
