"""Rules and what they find. A new rule is one small function with ``@rule(...)`` and a test on a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelbook.cases import YARDSTICK, Activity, CaseFacts
from kernelbook.cases.comparability import refusal
from kernelbook.judge.cost_model import Ceilings, ceilings_of
from kernelbook.text.units import duration

SEVERITIES = ("high", "medium", "low", "info")
#: What the time of a finding is a part of: device time, CPU time (known under the profiler alone), unprofiled forward.
DEVICE, CPU, FORWARD = "device", "CPU, profiled", "forward"
#: What the time of a finding is: time that the remedy could save, time that was spent, or no time at all.
RECOVERABLE, SPENT, NOTE = "recoverable", "spent", "note"


@dataclass(frozen=True)
class Finding:
    """One thing a rule found in one case, or in several cases of one run.

    ``time_us``: what it costs per forward, None where that cannot be said. ``of``: which time that is, device, "CPU,
    profiled" or forward, None with ``time_us``. ``share``: of the forward's whole time of that kind. ``text`` says the
    fact, ``remedy`` what to do. ``positions``: the device activities of the representative forward that it is about.
    ``kind``: recoverable (the remedy could save that time), spent (time went there) or note (no claim about time).
    ``time_low_us``, ``time_high_us``: the least and the most of the case's processes, where the time was taken of each.
    ``cases``: all that it was found in, joined by a comma and a space, where they are several.

    ``theme``: findings of one rule and one theme become one in `together`; None for one that always stands alone.
    ``subject``: what it is about, in a few words, for the text of those that become one. ``run`` and ``case`` are
    filled in by `find`; a rule leaves them.
    """

    run: str = field(default="", kw_only=True)
    case: str = field(default="", kw_only=True)
    rule: str
    severity: str
    time_us: float | None
    share: float | None
    evidence: str
    remedy: str
    text: str
    positions: tuple[int, ...] = ()
    of: str | None = None
    kind: str = NOTE
    time_low_us: float | None = None
    time_high_us: float | None = None
    cases: str | None = None
    theme: str | None = None
    subject: str = ""

    @property
    def rank(self) -> tuple[int, bool, float, str]:
        """Sort key: severity, CPU time under the profiler last, the longest time first, then the name of the rule.

        Where a time differs between processes, the shortest counts, since all of them confirm it.
        """
        sure = self.time_us if self.time_low_us is None else self.time_low_us
        return SEVERITIES.index(self.severity), self.of == CPU, -(sure or 0.0), self.rule


@dataclass(frozen=True)
class Scene:
    """What a rule looks at: a case, and the other cases of the same run by name."""

    facts: CaseFacts
    others: Mapping[str, CaseFacts]
    given_ceilings: Ceilings | None = None

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

    @cached_property
    def ceilings(self) -> Ceilings:
        """What the run measured that its device can do."""
        return self.given_ceilings or ceilings_of(self.others)

    def eager_twin(self) -> CaseFacts | None:
        """The eager case of the same workload, variant and parameters, for one of another mode (compile, graph)."""
        own = self.facts
        if own.mode in (None, "eager"):
            return None
        same = ("workload", "variant", "params", "dtype")
        for other in self.others.values():
            warm = other.mode == "eager" and other.status == "ok" and other.warmup != 0
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
Summary = Callable[[Sequence[Finding]], str]


@dataclass(frozen=True)
class Rule:
    """A rule: its name, the condition in words, and the function that looks.

    ``summary``: the text of what was found in several cases of a run alike, from the finding of each.
    ``yields``: whether it is silent about activities that another rule already calls recoverable.
    """

    name: str
    condition: str
    look: Look = field(repr=False)
    summary: Summary | None = field(default=None, repr=False)
    yields: bool = False


_RULES: dict[str, Rule] = {}


def rule(name: str, condition: str, summary: Summary | None = None, yields: bool = False) -> Callable[[Look], Look]:
    """Register the decorated function under ``name``."""

    def register(look: Look) -> Look:
        _RULES[name] = Rule(name, condition, look, summary, yields)
        return look

    return register


def rules() -> Mapping[str, Rule]:
    """All rules by name, in the order of their definition."""
    return dict(_RULES)


def together(told: Sequence[Finding], yardsticks: Iterable[str] = ()) -> list[Finding]:
    """The findings of one run, those of one rule and theme made one, in the order of their first.

    It stands under the case that it costs most, or the first; never under a yardstick where there is another. Its time
    is that case's, without the range over that case's processes, which the times of the other cases need not lie in.
    """
    groups: dict[tuple[str, str | int], list[Finding]] = {}
    for number, finding in enumerate(told):
        groups.setdefault((finding.rule, number if finding.theme is None else finding.theme), []).append(finding)
    return [one for group in groups.values() for one in _told_once(group, set(yardsticks))]


def _told_once(group: Sequence[Finding], yardsticks: set[str]) -> list[Finding]:
    summary = rules()[group[0].rule].summary
    cases = list(dict.fromkeys(finding.case for finding in group))
    if len(cases) == 1 or summary is None:
        return list(group)
    head = min(group, key=lambda finding: (finding.case in yardsticks, -(finding.time_us or 0.0)))
    merged = replace(head, text=summary(group), evidence=_evidence(group), cases=", ".join(cases))
    return [replace(merged, positions=(), time_low_us=None, time_high_us=None)]


def _evidence(group: Sequence[Finding]) -> str:
    return "; ".join(
        f"{f.case}: {f.evidence}" if f.time_us is None else f"{f.case} {duration(f.time_us)}" for f in group
    )


def yardstick_cases(cases: Iterable[CaseFacts]) -> list[str]:
    """Those that measure what the device can do."""
    return [facts.case for facts in cases if facts.workload == YARDSTICK]


# --- words for the texts ---------------------------------------------------------------------------------------------


def in_cases(group: Sequence[Finding]) -> str:
    """``12 cases``"""
    return f"{len({finding.case for finding in group})} cases"


def times(group: Sequence[Finding]) -> str:
    """The times of all, from the least to the most: ``0.74 µs to 2.34 µs``."""
    known = sorted(finding.time_us for finding in group if finding.time_us is not None)
    ends = list(dict.fromkeys(duration(time) for time in known[:1] + known[-1:]))
    return " to ".join(ends)


def shares(group: Sequence[Finding]) -> str:
    """The shares of all, from the least to the most: ``5 % to 13 %``."""
    known = sorted(finding.share for finding in group if finding.share is not None)
    ends = list(dict.fromkeys(f"{share:.0%}".replace("%", " %") for share in known[:1] + known[-1:]))
    return " to ".join(ends)


def subjects(findings: Iterable[Finding]) -> str:
    """What they are about, each once."""
    return ", ".join(dict.fromkeys(finding.subject for finding in findings if finding.subject))
