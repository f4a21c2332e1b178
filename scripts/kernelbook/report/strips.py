"""Kernel strips: one forward a row, each device activity a segment, to scale within a workload.

Each segment is as long as its activity usually takes, the median over all forwards. A row's length is the sum of them;
gaps between them are left to the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition, Run
from kernelbook.report import wording
from kernelbook.report.families import FAMILIES, Family, family_of
from kernelbook.text import formatting

# parts of the figure's scale that one letter of a label needs, on a wide screen and on a phone; a capital needs more
LABEL_FROM = 0.009
LABEL_FROM_PHONE = 0.018
CAPITAL = 1.4


@dataclass(frozen=True)
class Segment:
    """`left` and `width` are parts of the row, 0 to 1; `scale_width` is the part of the whole figure's scale."""

    position: int
    family: Family
    left: float
    width: float
    scale_width: float

    @property
    def thin(self) -> bool:
        """Too thin for a border, which would cover it."""
        return self.scale_width < 0.004

    @property
    def labelled(self) -> str:
        """How wide a screen must be for the label: '' where it never fits."""
        letters = sum(CAPITAL if letter.isupper() else 1 for letter in self.family.label)
        if self.family.hatched or self.scale_width < LABEL_FROM * letters:
            return ""
        return "any" if self.scale_width >= LABEL_FROM_PHONE * letters else "wide"


@dataclass(frozen=True)
class Strip:
    row: CaseFacts
    run: Run
    total_us: float
    part: float
    segments: tuple[Segment, ...]

    @property
    def caption(self) -> str:
        return f"{formatting.duration(self.shown_us)}, {wording.counts(self.row)}"

    @property
    def shown_us(self) -> float:
        """The device time of the case, as everywhere; the segments' sum where the case tells none."""
        return self.total_us if self.row.device_time_us is None else self.row.device_time_us


@dataclass(frozen=True)
class Figure:
    """The strips of one workload on one scale."""

    workload: str
    strips: tuple[Strip, ...]
    scale_us: float
    families: tuple[Family, ...]

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        return tuple(
            (value / self.scale_us, formatting.axis(value, self.scale_us)) for value in nice_ticks(self.scale_us)
        )


def nice_ticks(limit: float, about: int = 5) -> tuple[float, ...]:
    """Round values from 0 to `limit`, about so many."""
    if limit <= 0:
        return (0.0,)
    raw = limit / about
    power = 10.0 ** (len(str(int(raw))) - 1) if raw >= 1 else 10.0 ** -_leading_zeros(raw)
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    return tuple(step * i for i in range(int(limit / step + 1e-9) + 1))


def _leading_zeros(value: float) -> int:
    places = 0
    while value < 1:
        value *= 10
        places += 1
    return places


def figure(edition: Edition, workload: str) -> Figure | None:
    """The workload's strips: cases in config order, runs in edition order. None if nothing ran on a device."""
    rows = edition.by_key()
    pairs = [
        (rows[run.run, spec.case], run)
        for spec in edition.cases
        if spec.workload == workload
        for run in edition.runs
        if (run.run, spec.case) in rows
    ]
    drawn = [(row, run, sum(act.duration_us for act in row.activities)) for row, run in pairs if row.activities]
    if not drawn:
        return None
    scale = max(total for _, _, total in drawn) or 1.0
    strips = tuple(_strip(row, run, total, scale) for row, run, total in drawn)
    return Figure(workload, strips, scale, legend(strips))


def _strip(row: CaseFacts, run: Run, total: float, scale: float) -> Strip:
    left, segments = 0.0, []
    for act in row.activities:
        width = act.duration_us / total if total else 0.0
        family = family_of(act.category, act.family)
        segments.append(Segment(act.position, family, left, width, act.duration_us / scale))
        left += width
    return Strip(row, run, total, total / scale, tuple(segments))


def alone(row: CaseFacts, run: Run) -> Strip:
    """The strip of one row, over the whole width."""
    total = sum(act.duration_us for act in row.activities)
    return _strip(row, run, total, total or 1.0)


def legend(strips: Iterable[Strip]) -> tuple[Family, ...]:
    """The families that occur, in the legend's order."""
    present = {segment.family.key for strip in strips for segment in strip.segments}
    return tuple(family for family in FAMILIES if family.key in present)
