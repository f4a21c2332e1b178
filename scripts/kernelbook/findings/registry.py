"""Rules and what they find. A new rule is one small function with ``@rule(...)`` and a test on a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelbook.case_facts import Activity, Call, CaseFacts

SEVERITIES = ("high", "medium", "low", "info")


@dataclass(frozen=True)
class Finding:
    """One thing a rule found in one case.

    ``time_us``: what it costs per forward, on the device or the CPU, None where that cannot be said. ``share``: of the
    forward's device time, or of its CPU time where the cost lies there. ``text`` says the fact, ``remedy`` what to do.
    ``positions``: the device activities of the representative forward that it is about.
    """

    rule: str
    severity: str
    time_us: float | None
    share: float | None
    evidence: str
    remedy: str
    text: str
    positions: tuple[int, ...] = ()


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

    @property
    def cpu_time_us(self) -> float | None:
        """CPU time of that forward, as profiled."""
        return self.facts.representative.cpu_time_us if self.facts.representative else None

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
        """All good cases of the same workload, parameters and element type, this one among them."""
        same = ("workload", "params", "dtype", "device")
        own = self.facts
        found = [o for o in self.others.values() if all(getattr(own, n) == getattr(o, n) for n in same)]
        return [o for o in found if o.status == "ok" and o.on_device and o.case != own.case] + [own]


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
    """Each with its time and op: ``Memcpy DtoD 127.6 µs (aten::masked_fill)``."""
    parts = [f"{a.label} {a.duration_us:.1f} µs" + (f" ({a.ops[0]})" if a.ops else "") for a in activities[:limit]]
    return "; ".join(parts) + (f"; and {len(activities) - limit} more" if len(activities) > limit else "")


def micro(time_us: float) -> str:
    """A time for a sentence: 2.72 µs, 127.6 µs, 2.64 ms."""
    if time_us >= 1000:
        return f"{time_us / 1000:.2f} ms"
    return f"{time_us:.1f} µs" if time_us >= 10 else f"{time_us:.2f} µs"


def plural(number: int, one: str, many: str = "") -> str:
    """1 launch, 2 launches."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def device_finding(
    scene: Scene, name: str, activities: Sequence[Activity], text: str, remedy: str, info: bool = False
) -> Iterator[Finding]:
    """A finding that costs the device time of these activities; none for none."""
    if activities:
        time_us = total(activities)
        share = part(time_us, scene.device_time_us)
        level = "info" if info else severity(share)
        yield Finding(name, level, time_us, share, described(activities), remedy, text, positions(activities))


def cpu_finding(
    scene: Scene, name: str, calls: Sequence[Call], text: str, remedy: str, info: bool = False, self_time: bool = True
) -> Iterator[Finding]:
    """A finding that costs the CPU time of these calls; none for none."""
    if calls:
        time_us = sum(call.self_us if self_time else call.duration_us for call in calls)
        share = part(time_us, scene.cpu_time_us)
        names: dict[str, float] = {}
        for call in calls:
            names[call.name] = names.get(call.name, 0.0) + (call.self_us if self_time else call.duration_us)
        evidence = "; ".join(f"{short(n)} {micro(t)}" for n, t in sorted(names.items(), key=lambda kv: -kv[1])[:8])
        level = "info" if info else severity(share)
        yield Finding(name, level, time_us, share, evidence, remedy, text)


def short(name: str) -> str:
    """A call's name, cut where a hash makes it long."""
    return name if len(name) <= 48 else name[:45] + "..."
