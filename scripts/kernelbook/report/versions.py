"""A case over versions of torch: its strips above each other, with bands that join their kernels.

A band joins a kernel that stays from edge to edge. If kernels are replaced, fused, split, added or removed, the bands
meet in a point. The steps are those of `judge.alignment`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import HEIGHT, WIDTH, Chart, Key, Panel, Tick, nice_ticks, stretched
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.alignment import Step, align
from kernelbook.report import strips
from kernelbook.report.families import family_of
from kernelbook.text import formatting

STAYS = ("same", "changed")
#: The legend: the class of each kind of band, and its label.
KEYS = (Key("stays", "kernel stays"), Key("replaced", "replaced, fused or split"), Key("gone", "added or removed"))
NOTE = (
    "Device time of one forward on each version of torch, oldest first. A band joins a kernel that stays; where "
    "kernels are replaced, fused or split, the bands meet in a point."
)
Extent = tuple[float, float]  # left and right edge of a segment, µs


@dataclass(frozen=True)
class Lineage:
    """A case on two or more versions of torch, oldest first, on one device under one set of conditions.

    steps: the alignment of each row with the next.
    """

    case: str
    rows: tuple[tuple[CaseFacts, Run, int], ...]
    steps: tuple[tuple[Step, ...], ...]

    @property
    def changed(self) -> bool:
        """Whether any kernel differs between the versions."""
        return any(step.kind not in STAYS for steps in self.steps for step in steps)


def lineages(edition: Edition) -> tuple[Lineage, ...]:
    """One for each case and device with at least two versions of torch, in the edition's order."""
    runs = {run.run: run for run in edition.runs}
    groups: dict[tuple[object, ...], dict[str, tuple[CaseFacts, Run, int]]] = {}
    for number, row in enumerate(edition.case_runs):
        torch, conditions = runs[row.run].torch, row.conditions
        if row.activities and torch:
            key = (row.case, conditions.device, conditions.dtype, conditions.params)
            groups.setdefault(key, {}).setdefault(torch, (row, runs[row.run], number))
    return tuple(_lineage(group) for group in groups.values() if len(group) > 1)


def _lineage(group: Mapping[str, tuple[CaseFacts, Run, int]]) -> Lineage:
    rows = tuple(row for _, row in sorted(group.items(), key=lambda item: _order(item[0])))
    steps = (tuple(align(one.activities, other.activities)) for (one, *_), (other, *_) in pairwise(rows))
    return Lineage(rows[0][0].case, rows, tuple(steps))


def _order(version: str) -> tuple[tuple[int, ...], str]:
    """Sort key: 2.9 before 2.14."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3]), version


def chart(lineage: Lineage, anchors: Mapping[str, str]) -> Chart:
    """The strips of a case on one scale, a panel of bands between each two."""
    drawn = [strips.alone(*row) for row in lineage.rows]
    scale = max(strip.total_us for strip in drawn) or 1.0
    panels = [_panel(drawn[0], scale, anchors)]
    for strip, steps in zip(drawn[1:], lineage.steps, strict=True):
        panels += [_bands(steps, lineage.rows[len(panels) // 2][0], strip.row, scale), _panel(strip, scale, anchors)]
    ticks = tuple(Tick(value / scale, formatting.axis(value, scale)) for value in nice_ticks(0, scale))
    kinds = {_css(step) for steps in lineage.steps for step in steps}
    keys = tuple(key for key in KEYS if key.css in kinds)
    title = formatting.clip(lineage.case, 60)
    return Chart(f"strips-{lineage.case} by torch", "strips versions", title, tuple(panels), ticks, keys, NOTE)


def _panel(strip: strips.Strip, scale: float, anchors: Mapping[str, str]) -> Panel:
    return Panel(
        strip.drawing,
        f"torch {formatting.clip(strip.run.torch or '', 24)}",
        formatting.clip(strip.run.run, 24),
        anchor=anchors.get(strip.row.case, ""),
        part=strip.total_us / scale,
        end=strip.time,
        end_note=formatting.plural(strip.row.kernels or 0, "kernel"),
    )


def _bands(steps: Iterable[Step], above: CaseFacts, below: CaseFacts, scale: float) -> Panel:
    """The bands between two strips, with the number of kernels of each kind of step."""
    steps = tuple(steps)
    tops, bottoms = _extents(above), _extents(below)
    parts = [_band(step, tops, bottoms, scale) for step in steps]
    kinds = Counter(step.kind for step in steps if step.kind not in STAYS)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "the same kernels"
    return Panel(stretched(parts, f"{above.run} to {below.run}: {words}"), height=40, end=words)


def _extents(row: CaseFacts) -> dict[int, Extent]:
    """Position of an activity -> its edges, as the strip draws it."""
    extents, left = {}, 0.0
    for activity in row.activities:
        extents[activity.position] = (left, left + activity.duration_us)
        left += activity.duration_us
    return extents


def _css(step: Step) -> str:
    return "stays" if step.kind in STAYS else "gone" if step.kind in ("added", "removed") else "replaced"


def _band(step: Step, tops: Mapping[int, Extent], bottoms: Mapping[int, Extent], scale: float) -> Markup:
    """One shape: a band for a kernel that stays, else a triangle from each kernel to one point."""
    unit = WIDTH / scale
    above = [[edge * unit for edge in tops[activity.position]] for activity in step.a]
    below = [[edge * unit for edge in bottoms[activity.position]] for activity in step.b]
    if step.kind in STAYS:
        (left, right), (low_left, low_right) = above[0], below[0]
        shape = f"M{left:.4g} 0H{right:.4g}L{low_right:.4g} {HEIGHT:g}H{low_left:.4g}z"
    else:
        edges = [edge for extent in (*above, *below) for edge in extent]
        point = sum(edges) / len(edges)
        ends = [(extent, 0.0) for extent in above] + [(extent, HEIGHT) for extent in below]
        shape = "".join(f"M{left:.4g} {y:g}H{right:.4g}L{point:.4g} {HEIGHT / 2:g}z" for (left, right), y in ends)
    first = (step.a or step.b)[0]
    colour = family_of(first.category, first.family).key
    return Markup(
        '<path class="{}" style="fill:var(--f-{});stroke:var(--f-{})" d="{}"><title>{}</title></path>'
    ).format(_css(step), colour, colour, shape, formatting.visible(_words(step)))


def _words(step: Step) -> str:
    sides = [" + ".join(formatting.clip(activity.label, 40) for activity in side) for side in (step.a, step.b)]
    return f"{step.kind}: {' → '.join(dict.fromkeys(side for side in sides if side))}"
