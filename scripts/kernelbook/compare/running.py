"""A whole comparison: subjects, cases, rounds, verdicts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelbook.compare.cases import Wish, cases_of, read_settings
from kernelbook.compare.measuring import Place, Side, side_of
from kernelbook.compare.result import DEFAULT_CHANGES, Result, results
from kernelbook.compare.session import Report, take_turns
from kernelbook.compare.subjects import check_pair, subject_of
from kernelbook.diffs.model import Diff, diff
from kernelbook.diffs.sides import SideError
from kernelbook.judge.comparisons import Comparison
from kernelbook.judge.paired import Precision
from kernelbook.judge.ratios import ratio_text
from kernelbook.sources.workload_source import Places


@dataclass(frozen=True)
class Request:
    """What is asked for. config: the configuration, None for none. device: None for the configured one."""

    a: str
    b: str
    place: Place
    config: Path | None = None
    wish: Wish = field(default_factory=Wish)
    precision: Precision = field(default_factory=Precision)
    fail_on: tuple[str, ...] = DEFAULT_CHANGES
    budget_s: float = 600.0
    seed: int = 0
    device: str | None = None
    apptainer_args: str = ""
    image_python: str = "python3"


def compare(request: Request, report: Report = lambda line: None) -> Result:
    """Measure and judge. Raises SubjectError, ConfigError, YamlError or ImageError before anything is measured."""
    began, place = time.monotonic(), request.place
    a, b = (subject_of(side, text, place.folder) for side, text in (("A", request.a), ("B", request.b)))
    check_pair(a, b)
    places = Places(place.folder, place.home)
    config, *specs = cases_of(a, b, read_settings(request.config), request.wish, places)
    place = Place(place.folder, place.home, place.output, config.images)
    device = request.device or config.device
    wanted = (
        Side(subject, place, place.folder, spec, device, config.threads, image_python=request.image_python)
        for subject, spec in zip((a, b), specs, strict=True)
    )
    sides = {side.subject.side: side_of(side, request.apptainer_args) for side in wanted}
    turns = take_turns(
        list(specs[0]),
        lambda side, case, number: sides[side].measure(case, number),
        request.precision,
        request.budget_s,
        request.seed,
        report,
    )
    compared = _diff(place)
    return Result(
        a,
        b,
        results(turns, compared.comparisons if compared else (), request.precision),
        compared,
        request.precision,
        request.fail_on,
        time.monotonic() - began,
        request.seed,
    )


def _diff(place: Place) -> Diff | None:
    """The diff of what was measured; None where a side has no measurement at all.

    Without its ratio of forward times, which takes the processes of a side as independent: that of the pairs counts.
    """
    try:
        whole = diff(place.of_side("A"), place.of_side("B"))
    except SideError:
        return None
    return replace(whole, comparisons=tuple(_without_ratio(comparison) for comparison in whole.comparisons))


def _without_ratio(comparison: Comparison) -> Comparison:
    if comparison.ratio is None:
        return comparison
    sentences = tuple(each for each in comparison.sentences if each != ratio_text(comparison.ratio))
    return replace(comparison, ratio=None, sentences=sentences)
