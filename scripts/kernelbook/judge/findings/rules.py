"""Rules and findings. A new rule is a function with ``@rule(...)`` and a test on a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar

from kernelbook.cases import Activity, Call, CaseFacts
from kernelbook.cases.comparability import refusal
from kernelbook.judge.cost_model import Ceilings, ceilings_of, kernel_costs
from kernelbook.judge.fusions import source_ops
from kernelbook.judge.time_split import TimeSplit, time_split
from kernelbook.kernel_names.model import UNKNOWN, element
from kernelbook.text.formatting import duration, ends, percent
from kernelbook.text.meaning import doc

SEVERITIES = ("high", "medium", "low", "info")
#: The time that a finding is a part of: device time, CPU time (under the profiler), unprofiled forward.
DEVICE, CPU, FORWARD = "device", "CPU, profiled", "forward"
#: Kind of a finding: time that the remedy could save, time that was spent, or no time.
RECOVERABLE, SPENT, NOTE = "recoverable", "spent", "note"


FindingKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class Finding:
    """A problem or fact found by a rule in one case, or in several cases of one run.

    ``of``: None without ``time_us``. ``positions``: the device activities of the representative forward concerned.
    ``theme``: findings of one rule and theme are merged by `together`; None for a finding that is never merged.
    ``subject``: short text used when findings are merged. ``run`` and ``case`` are set by `find`.
    """

    INTERNAL: ClassVar = ("positions", "theme", "subject")

    run: str = field(default="", kw_only=True)
    case: str = field(default="", kw_only=True)
    rule: Annotated[str, doc("Which rule found it.")]
    severity: Annotated[str, doc("high, medium, low or info.")]
    time_us: Annotated[float | None, doc("Its cost for one forward; empty if it is not known.")]
    share: Annotated[float | None, doc("Share of the forward's whole time of that kind.")]
    evidence: Annotated[str, doc("The figures that it is based on.")]
    remedy: Annotated[str, doc("What to do about it.")]
    text: Annotated[str, doc("The finding in a sentence.")]
    positions: tuple[int, ...] = ()
    of: Annotated[
        str | None,
        doc(
            "Which time that is; the profiler lengthens CPU times, and forward times are unprofiled.",
            *("device", "CPU, profiled", "forward", None),
        ),
    ] = None
    kind: Annotated[
        str,
        doc(
            "recoverable (the remedy could save that time), spent (time went there) or note (no claim about time).",
            *("recoverable", "spent", "note", ""),
        ),
    ] = NOTE
    time_low_us: Annotated[
        float | None, doc("The shortest time of the case's processes; empty if it is not known for each.")
    ] = None
    time_high_us: Annotated[float | None, doc("The longest time of the case's processes.")] = None
    cases: Annotated[
        tuple[str, ...],
        doc(
            "All cases that it was found in, if there are several; `case` is the one with the highest cost. Else empty."
        ),
    ] = ()
    theme: str | None = None
    subject: str = ""

    @property
    def key(self) -> FindingKey:
        return self.run, self.case, self.rule, self.text

    @property
    def rank(self) -> tuple[int, bool, float, str]:
        """Sort key: severity, CPU time under the profiler last, longest time first, name of the rule.

        If the time differs between processes, the shortest counts. A finding of high severity without a time concerns
        the whole forward, and comes first.
        """
        sure = self.time_us if self.time_low_us is None else self.time_low_us
        whole = float("inf") if self.severity == "high" else 0.0
        return SEVERITIES.index(self.severity), self.of == CPU, -(whole if sure is None else sure), self.rule


@dataclass(frozen=True)
class Scene:
    """Input of a rule: a case, and the other cases of the same run by name."""

    facts: CaseFacts
    others: Mapping[str, CaseFacts]
    run_ceilings: Ceilings | None = None

    @property
    def activities(self) -> tuple[Activity, ...]:
        """Device activities of the representative forward, in order of start, with durations of all forwards.

        A duration is the median over all forwards, so `start_us` plus `duration_us` is no end: whether activities
        overlap is decided by `facts.representative.activities`.
        """
        return self.facts.activities

    @property
    def kernels(self) -> tuple[Activity, ...]:
        return self.facts.kernels_of()

    @property
    def device_time_us(self) -> float | None:
        """Summed device time of the representative forward."""
        return sum(a.duration_us for a in self.activities) or None

    @cached_property
    def ceilings(self) -> Ceilings:
        return self.run_ceilings or ceilings_of(self.others)

    @cached_property
    def split(self) -> TimeSplit | None:
        return time_split(self.facts, kernel_costs(self.facts, self.ceilings))

    def computed_ops(self, activity: Activity) -> str:
        """The ops that a kernel of torch.compile computes by its output code, in brackets: `` (gelu, mul)``."""
        ops = self._source_ops.get(activity.position, ())
        names = dict.fromkeys(op.removeprefix("aten::").strip("_") for op in ops)
        return f" ({', '.join(names)})" if names else ""

    @cached_property
    def _source_ops(self) -> Mapping[int, tuple[str, ...]]:
        return source_ops(self.facts)

    @cached_property
    def compiled_regions(self) -> list[Call]:
        return [call for call in self.facts.calls if call.name.startswith("Torch-Compiled Region")]

    def eager_twin(self) -> CaseFacts | None:
        """The eager case with the same workload, variant and parameters, if this case has another mode."""
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
        """All good cases of the same workload that are comparable with this one, and this one."""
        own = self.facts
        same_workload = [o for o in self.others.values() if o.workload == own.workload and self.comparable(o)]
        return [o for o in same_workload if o.status == "ok" and o.on_device and o.case != own.case] + [own]

    def comparable(self, other: CaseFacts) -> bool:
        """Whether times of the other case can be compared with those of this case."""
        return refusal(self.facts.conditions, other.conditions) is None


Look = Callable[[Scene], Iterable[Finding]]
#: The text of merged findings: with {cases}, {times}, {shares}, {subjects} and {parts}, or a function of the findings.
Summary = str | Callable[[Sequence[Finding]], str]


@dataclass(frozen=True)
class Rule:
    """A rule: name, condition in words, and function.

    ``summary``: the text of merged findings; None for a rule whose findings are not merged. ``yields``: a rule with a
    higher number gives way to rules with lower ones. Its finding is left out if they already report the activities of
    the finding with a cost, as a rule of a cause does for a rule of its symptom.
    """

    name: str
    condition: str
    look: Look = field(repr=False)
    summary: Summary | None = field(default=None, repr=False)
    yields: int = 0


_RULES: dict[str, Rule] = {}


def rule(name: str, condition: str, summary: Summary | None = None, yields: int = 0) -> Callable[[Look], Look]:
    """Register the decorated function as the rule ``name``, and set that name in its findings."""

    def register(look: Look) -> Look:
        def of_this_rule(scene: Scene) -> Iterable[Finding]:
            return [replace(finding, rule=name) for finding in look(scene)]

        _RULES[name] = Rule(name, condition, of_this_rule, summary, yields)
        return of_this_rule

    return register


def rules() -> Mapping[str, Rule]:
    """All rules by name, in order of definition."""
    return dict(_RULES)


def together(findings: Sequence[Finding], ceilings: Iterable[str] = ()) -> list[Finding]:
    """Merge the findings of one run that have the same rule and theme, in order of the first of each.

    A merged finding belongs to the case with the highest cost, or the first; a ceiling only if there is no other. It
    has the time of that case, without a range over its processes.
    """
    groups: dict[tuple[str, str | int], list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault((finding.rule, number if finding.theme is None else finding.theme), []).append(finding)
    return [one for group in groups.values() for one in _merge(group, set(ceilings))]


def _merge(group: Sequence[Finding], ceilings: set[str]) -> list[Finding]:
    summary = rules()[group[0].rule].summary
    cases = list(dict.fromkeys(finding.case for finding in group))
    if len(cases) == 1 or summary is None:
        return list(group)
    head = min(group, key=lambda finding: (finding.case in ceilings, -(finding.time_us or 0.0)))
    evidence = "; ".join(
        f"{f.case}: {f.evidence}" if f.time_us is None else f"{f.case} {duration(f.time_us)}" for f in group
    )
    merged = replace(head, text=_text(summary, group), evidence=evidence, cases=tuple(cases))
    return [replace(merged, positions=(), time_low_us=None, time_high_us=None)]


def _text(summary: Summary, group: Sequence[Finding]) -> str:
    if callable(summary):
        return summary(group)
    parts = dict.fromkeys(part for finding in group for part in finding.subject.split(", "))
    return summary.format(
        cases=in_cases(group),
        times=times(group),
        shares=shares(group),
        subjects=subjects(group),
        parts=", ".join(parts),
    )


# --- words for the texts ---------------------------------------------------------------------------------------------


def in_cases(group: Sequence[Finding]) -> str:
    """``12 cases``"""
    return f"{len({finding.case for finding in group})} cases"


def times(group: Sequence[Finding]) -> str:
    """Range of the times: ``0.74 µs to 2.34 µs``."""
    return ends([duration(time) for time in sorted(f.time_us for f in group if f.time_us is not None)])


def shares(group: Sequence[Finding]) -> str:
    """Range of the shares: ``5 % to 13 %``."""
    return ends([percent(share) for share in sorted(f.share for f in group if f.share is not None)])


def subjects(group: Iterable[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.subject for finding in group if finding.subject))


def type_name(kind: str) -> str:
    """An element type as kernel names spell it (bf16); other types are returned unchanged."""
    name = element(kind)
    return kind if name == UNKNOWN else name
