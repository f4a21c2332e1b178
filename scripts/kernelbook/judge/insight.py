"""All conclusions about an edition: judged guesses, findings, comparisons, costs, and the opening sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts
from kernelbook.config.name_checks import compared_cases
from kernelbook.judge.clock import Clock, clock_of
from kernelbook.judge.comparisons import Comparison, compare
from kernelbook.judge.cost_model import (
    Ceiling,
    Ceilings,
    ForwardCost,
    GemmCost,
    KernelCost,
    forward_cost,
    gemm_costs,
    kernel_costs,
    measured_ceilings,
    rates_of,
    run_ceilings,
    used_ceilings,
)
from kernelbook.judge.cost_model.forward import trade_off
from kernelbook.judge.expectations import Judgement, judge_checked, words_for
from kernelbook.judge.findings import Finding, find_in_run
from kernelbook.judge.findings.rules import Scene
from kernelbook.judge.insight_tables import (
    CEILINGS,
    CLOCK,
    COMPARISONS,
    COSTS,
    EXPECTATIONS,
    FINDINGS,
    TIME_SPLIT,
    comparison_rows,
    cost_rows,
    split_rows,
    table,
)
from kernelbook.judge.opening import OpeningMaterial, opening_words
from kernelbook.judge.time_split import TimeSplit, time_split

Key = tuple[str, str]


@dataclass(frozen=True)
class CaseCost:
    """Cost, clock and split of the time of one case; no split if there are no device activities."""

    forward: ForwardCost
    kernels: tuple[KernelCost, ...]
    gemms: tuple[GemmCost, ...]
    clock: Clock
    split: TimeSplit | None


@dataclass(frozen=True)
class Insight:
    """The conclusions, in the order of the cases. ``words``: the first paragraph of the report."""

    expectations: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    costs: Mapping[Key, CaseCost]
    ceilings: tuple[Ceiling, ...]
    words: tuple[str, ...]

    def tables(self) -> dict[str, pa.Table]:
        """Table name -> table, for the tables of an edition that are made from this object."""
        costs = (row for cost in self.costs.values() for row in cost_rows(cost.forward, cost.kernels, cost.gemms))
        splits = (row for cost in self.costs.values() if cost.split for row in split_rows(cost.split))
        compared = (row for comparison in self.comparisons for row in comparison_rows(comparison))
        return {
            "expectations": table(map(asdict, self.expectations), EXPECTATIONS),
            "findings": table(map(asdict, self.findings), FINDINGS),
            "comparisons": table(compared, COMPARISONS),
            "costs": table(costs, COSTS),
            "time_split": table(splits, TIME_SPLIT),
            "ceilings": table(map(asdict, self.ceilings), CEILINGS),
            "clock": table((asdict(cost.clock) for cost in self.costs.values()), CLOCK),
        }


def judge_edition(
    cases: Mapping[Key, CaseFacts],
    expect: Mapping[str, Mapping[str, Any]],
    headline: Sequence[str] = (),
    baseline_run: str = "",
    published: Iterable[str] = (),
) -> Insight:
    """Judge guesses, find problems, compare cases and compute costs over all cases of an edition.

    ``expect``: case -> its guesses. ``headline``: two cases; the opening sentences compare the first with the second.
    ``baseline_run``: the run that other runs are compared with, case by case; by default the first. ``published``: runs
    with figures from elsewhere, which are not judged. Raises ValueError for an unknown word in a guess.
    """
    skipped = set(published)
    measured = {key: facts for key, facts in cases.items() if facts.run not in skipped}
    runs = _by_run(measured)
    measured_by_run = {run: measured_ceilings(of_run) for run, of_run in runs.items()}
    used = {run: run_ceilings(of_run, _elsewhere(run, runs, measured_by_run)) for run, of_run in runs.items()}
    ceilings = {run: rates_of(of_run) for run, of_run in used.items()}
    judged = tuple(
        judgement
        for facts in measured.values()
        for judgement in judge_checked(
            facts.case, expect.get(facts.case, {}), facts, runs[facts.run], ceilings[facts.run]
        )
    )
    findings = tuple(finding for run, of_run in runs.items() for finding in find_in_run(of_run, ceilings[run]))
    costs = {key: _cost(f, runs[f.run], ceilings[f.run]) for key, f in measured.items() if f.status == "ok"}
    comparisons = tuple(
        compare(a, b, costs[a.key].split, costs[b.key].split) for a, b in pairs(runs, expect, headline, baseline_run)
    )
    words = opening_words(OpeningMaterial(runs, judged, findings, comparisons, tuple(headline)))
    listed = tuple(ceiling for run, of_run in runs.items() for ceiling in used_ceilings(of_run, used[run]))
    return Insight(judged, findings, comparisons, costs, listed, tuple(words))


def _elsewhere(
    run: str, runs: Mapping[str, Mapping[str, CaseFacts]], measured: Mapping[str, Sequence[Ceiling]]
) -> list[Ceiling]:
    """Ceilings that other runs measured on devices of the same name."""
    devices = {facts.device for facts in runs[run].values() if facts.on_device}
    return [
        ceiling
        for other, ceilings in measured.items()
        for ceiling in ceilings
        if other != run and ceiling.case and runs[other][ceiling.case].device in devices
    ]


def _by_run(cases: Mapping[Key, CaseFacts]) -> dict[str, dict[str, CaseFacts]]:
    runs: dict[str, dict[str, CaseFacts]] = {}
    for (run, case), facts in cases.items():
        runs.setdefault(run, {})[case] = facts
    return runs


def _cost(facts: CaseFacts, of_run: Mapping[str, CaseFacts], ceilings: Ceilings) -> CaseCost:
    buys = trade_off(facts, Scene(facts, of_run).peers()) if facts.on_device else None
    kernels = tuple(kernel_costs(facts, ceilings))
    return CaseCost(
        forward=replace(forward_cost(facts, ceilings), trade_off=buys),
        kernels=kernels,
        gemms=tuple(gemm_costs(facts, ceilings)),
        clock=clock_of(facts),
        split=time_split(facts, kernels),
    )


# --- pairs of cases --------------------------------------------------------------------------------------------------


def pairs(
    runs: Mapping[str, Mapping[str, CaseFacts]],
    expect: Mapping[str, Mapping[str, Any]],
    headline: Sequence[str],
    baseline_run: str,
) -> list[tuple[CaseFacts, CaseFacts]]:
    """The pairs (a, b) of cases for which b is compared with a.

    They are the headline, each compiled case with its eager twin, each case with the cases that its guesses name, and
    each case with the same case of the baseline run. Failed cases are left out.
    """
    selected: dict[tuple[Key, Key], tuple[CaseFacts, CaseFacts]] = {}

    def add(a: CaseFacts | None, b: CaseFacts | None) -> None:
        if a and b and a.key != b.key and a.status == b.status == "ok":
            selected.setdefault((a.key, b.key), (a, b))

    for of_run in runs.values():
        if len(headline) == 2:
            add(of_run.get(headline[1]), of_run.get(headline[0]))
        for case, facts in of_run.items():
            add(Scene(facts, of_run).eager_twin(), facts)
            for other in compared_cases(words_for(expect.get(case, {}), facts)):
                add(of_run.get(other), facts)
    baseline = baseline_run if baseline_run in runs else next(iter(runs), "")
    for run, of_run in runs.items():
        for case, facts in of_run.items():
            if run != baseline:
                add(runs[baseline].get(case), facts)
    return list(selected.values())
