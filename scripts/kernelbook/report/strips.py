"""Kernel strips: a row for each forward, a segment for each device activity, to scale within a workload.

A segment is as long as the median of its activity over all forwards; gaps between activities are only in the lanes. A
row is as long as the device time of the case. Medians need not add up to it: if the segments are shorter, the rest of
the row is dashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import Chart, Key, Panel, Tick, nice_ticks
from kernelbook.edition.model import Edition, Run
from kernelbook.report.families import FAMILIES, Family, family_of
from kernelbook.report.phrases import counts
from kernelbook.text import formatting
from kernelbook.text.formatting import exact

#: Least part of the row that a letter of a label needs on a wide screen; a capital needs CAPITAL times as much.
LETTER, CAPITAL = 0.009, 1.4
#: Segments below this part of the chart's scale have no border, which would cover them.
THIN = 0.004
#: Idle time above this part of an unprofiled forward is stated beside its strip, which has no gaps.
MOSTLY = 0.5
#: Least difference between the segments and the device time, as a part of it, that is drawn or stated.
REST = 0.01
#: Failed cases that are named below the chart.
NAMED = 3
NOTE = (
    "Device time of one forward. Each segment is one kernel in order of start, as long as its median over all forwards,"
    " without the gaps between them."
)
REST_NOTE = " Dashed: the rest of the forward's median device time; medians of single kernels do not add up to it."


@dataclass(frozen=True)
class Segment:
    """`left` and `width`: parts of the row, 0 to 1; `scale_width`: the part of the chart's scale."""

    position: int
    family: Family
    left: float
    width: float
    scale_width: float

    @cached_property
    def svg(self) -> Markup:
        """Its rectangle, with a label that the style sheet shows if there is room for it."""
        place = Markup('x="{}" width="{}" height="100%"').format(percent(self.left), percent(self.width))
        thin = " thin" if self.scale_width < THIN else ""
        key, label = self.family.key, self.family.label
        drawn = Markup('<rect class="f-{}{}" {} data-i="{}"/>').format(key, thin, place, self.position)
        if self.family.hatched:
            return drawn + Markup('<rect class="hatch" {}/>').format(place)
        letters = sum(CAPITAL if letter.isupper() else 1 for letter in label)
        if self.width < LETTER * letters:
            return drawn
        text = Markup('<text class="t-{}" style="--w:{:.3f};--letters:{:.1f}" x="{}" y="50%">{}</text>')
        return drawn + text.format(key, self.width, letters, percent(self.left + self.width / 2), label)


@dataclass(frozen=True)
class Strip:
    """One row. `cell`: the number of its case and run in the edition; `part`: its part of the chart's scale.

    total_us: the longer of its device time and the sum of its segments. rest_us: total_us minus that sum.
    """

    row: CaseFacts
    run: Run
    cell: int
    total_us: float
    part: float
    segments: tuple[Segment, ...]
    rest_us: float = 0.0

    @property
    def time(self) -> str:
        """The device time of the case, as in the tables; the sum of the segments if the case has none."""
        return formatting.duration(self.total_us if self.row.device_time_us is None else self.row.device_time_us)

    @property
    def surplus(self) -> str:
        """`kernels add up to 6.20 ms` if that exceeds the device time; else empty."""
        whole = self.row.device_time_us
        longer = whole is not None and self.total_us > (1 + REST) * whole
        return f"kernels add up to {formatting.duration(self.total_us)}" if longer else ""

    @property
    def caption(self) -> str:
        """`192 µs, 2 kernels + 1 memset`."""
        return f"{self.time}, {counts(self.row)}"

    @property
    def drawing(self) -> Markup:
        """The segments as an `<svg>` that stretches."""
        label = formatting.visible(f"{self.row.case} on {self.run.run}: {self.caption}")
        head = Markup(
            '<svg class="strip-bar" tabindex="0" role="group" aria-label="{}. Arrow keys walk through the kernels." '
            'data-cell="{}" data-case="{}">'
        ).format(label, self.cell, formatting.visible(self.row.case))
        return head + Markup("").join(segment.svg for segment in self.segments) + self._rest + Markup("</svg>")

    @property
    def _rest(self) -> Markup:
        if not self.rest_us:
            return Markup("")
        part = self.rest_us / self.total_us
        return Markup('<rect class="rest" x="{}" width="{}" height="100%"><title>{}</title></rect>').format(
            percent(1 - part), percent(part), f"{formatting.duration(self.rest_us)}:{REST_NOTE.partition(':')[2]}"
        )


def percent(part: float) -> str:
    """A part as a CSS percentage: `12.5%`."""
    return f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%"


def strips(edition: Edition, workload: str) -> tuple[Strip, ...]:
    """The strips of a workload: cases in config order, runs in edition order; those without activities have none."""
    drawn = [(row, run, cell) for row, run, cell in edition.rows_of(workload) if row.activities]
    scale = max((sum(_lengths(row)) for row, *_ in drawn), default=0.0) or 1.0
    return tuple(_strip(row, run, cell, scale) for row, run, cell in drawn)


def alone(row: CaseFacts, run: Run, cell: int) -> Strip:
    """The strip of one row, over the whole width."""
    return _strip(row, run, cell, sum(_lengths(row)) or 1.0)


def _lengths(row: CaseFacts) -> tuple[float, float]:
    """(sum of the segments, device time minus that sum), in µs; a difference below `REST` of the sum counts as 0."""
    total = sum(activity.duration_us for activity in row.activities)
    rest = (row.device_time_us or 0.0) - total
    return total, rest if rest > REST * total else 0.0


def _strip(row: CaseFacts, run: Run, cell: int, scale: float) -> Strip:
    left, segments, rest = 0.0, [], _lengths(row)[1]
    total = sum(_lengths(row))
    for activity in row.activities:
        width = activity.duration_us / total if total else 0.0
        family = family_of(activity.category, activity.family)
        segments.append(Segment(activity.position, family, left, width, activity.duration_us / scale))
        left += width
    return Strip(row, run, cell, total, total / scale, tuple(segments), rest)


def chart(
    rows: tuple[Strip, ...], title: str, anchors: Mapping[str, str], notes: Mapping[str, str] | None = None
) -> Chart | None:
    """The strips of the workload `title` on one scale; None if nothing ran on a device.

    notes: case -> text after the counts of its strip.
    """
    if not rows:
        return None
    several = len({strip.run.run for strip in rows}) > 1
    scale = max(strip.total_us for strip in rows) or 1.0
    panels, before = [], ""
    for strip in rows:
        case = strip.row.case
        panels.append(
            Panel(
                strip.drawing,
                formatting.clip(case, 48),
                formatting.clip(strip.run.run, 24) if several else "",
                repeats=case == before,
                anchor=anchors.get(case, ""),
                part=strip.total_us / scale,
                end=strip.time,
                end_note=" · ".join(
                    part for part in (counts(strip.row), strip.surplus, (notes or {}).get(case)) if part
                ),
            )
        )
        before = case
    ticks = tuple(Tick(value / scale, formatting.axis(value, scale)) for value in nice_ticks(0, scale))
    keys = tuple(Key(f"f-{family.key}", family.label, family.hatched) for family in legend(rows))
    note = NOTE + (REST_NOTE if any(strip.rest_us for strip in rows) else "")
    return Chart(f"strips-{title}", "strips", f"Kernel strips of {title}", tuple(panels), ticks, keys, note)


def of_run(edition: Edition, run: str, workload: str) -> tuple[Strip, ...]:
    """The strips of one workload on one run, the shortest first."""
    return tuple(sorted((s for s in strips(edition, workload) if s.run.run == run), key=lambda strip: strip.total_us))


def headline_chart(edition: Edition, drawn: tuple[Strip, ...], title: str, anchors: Mapping[str, str]) -> Chart | None:
    """The strips `drawn`, of one workload and run: with rank, long idle time and published time beside them."""
    published = {each.run for each in edition.runs if each.kind == "published"}
    times = {
        row.case: f"published {exact(row.device_time_us)}".replace(" ", "\u00a0")
        for row in edition.case_runs
        if row.run in published and row.device_time_us is not None
    }
    notes = {}
    for row in (strip.row for strip in drawn):
        rank = row.rank_of(row.chosen[0]) if row.chosen else None
        parts = ("" if rank is None else f"rank\u00a0{rank}", _idle(row), times.get(row.case, ""))
        notes[row.case] = " · ".join(part for part in parts if part)
    made = chart(drawn, title, anchors, notes)
    if made is not None:
        made = replace(made, note=made.note + _missing(edition, drawn[0]))
    runs = {row.run for row in edition.case_runs if row.activities}
    if made is None or len(runs) < 2:
        return made
    run = drawn[0].run
    device = f" ({run.device})" if run.device and run.device != run.run else ""
    return replace(made, note=f"On {formatting.clip(run.run, 40)}{formatting.clip(device, 60)}. {made.note}")


def _missing(edition: Edition, drawn: Strip) -> str:
    """`` Without sdpa-cudnn-eager, sdpa-flash-eager, which failed.``: failed cases of the same workload and run."""
    run, workload = drawn.run.run, drawn.row.workload
    rows = edition.case_runs
    failed = [row.case for row in rows if (row.run, row.workload, row.status) == (run, workload, "failed")]
    names = formatting.tally((formatting.clip(case, 48) for case in failed), NAMED, "more case")
    return f" Without {names}, which failed." if failed else ""


def _idle(row: CaseFacts) -> str:
    """`idle for 16.3 ms of 23.2 ms unprofiled` if that is most of an unprofiled forward; else empty."""
    whole, busy = row.forward_time_us, row.device_busy_us
    idle = 0.0 if whole is None or busy is None else whole - busy
    times = (formatting.duration(time).replace(" ", "\u00a0") for time in (idle, whole))
    return f"idle for {' of '.join(times)} unprofiled" if whole and idle > MOSTLY * whole else ""


def legend(rows: Iterable[Strip]) -> tuple[Family, ...]:
    """The families that occur, in the legend's order."""
    present = {segment.family.key for strip in rows for segment in strip.segments}
    return tuple(family for family in FAMILIES if family.key in present)
