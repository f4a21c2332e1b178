"""The chart of one forward of a job: all ranks on one time axis, with lines that join each collective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import HEIGHT, WIDTH, Chart, Key, Panel, Tick, box, dots, nice_ticks, path, stretched
from kernelbook.collectives.likeness import ALONE, fold
from kernelbook.edition.model import Edition, Run
from kernelbook.kernel_names import decode_activity
from kernelbook.report.families import BY_KEY, FAMILIES, family_of
from kernelbook.text.arrow_values import rows_where
from kernelbook.text.formatting import axis, clip, duration, number_ranges, plural

COMMUNICATION, COPIES = BY_KEY["communication"], BY_KEY["memset"]
ROW_PX = 64
#: Positions in the row of a rank, as parts of its height: the name, the lane of its own work, that of communication.
TITLE, WORK, TRANSFER = 0.17, (0.34, 0.62), (0.66, 0.94)
#: Boxes with a gap below this part of the axis are drawn as one, since it cannot be seen.
UNSEEN = 0.0004
MOST_JOINED = 200
TIMES = ("span_us", "compute_us", "communication_us", "exposed_us", "waiting_us", "idle_us")
NOTE = (
    "Forward {} of every rank on one clock. Upper lane: the rank's own work. Lower lane: communication, pale while it "
    "waits for the last rank. A line joins one collective on all ranks, and a dot marks who came last{}."
)

Rows = Sequence[Mapping[str, Any]]
Span = tuple[float, float]


@dataclass(frozen=True)
class _Row:
    """A row of the chart: a rank, or several similar ones. Times in µs on the clock of the job."""

    ranks: tuple[int, ...]
    work: Mapping[str, Sequence[Span]]
    collectives: Rows

    @property
    def title(self) -> str:
        return f"{'rank' if len(self.ranks) == 1 else 'ranks'} {number_ranges(self.ranks)}"


def charts(edition: Edition, workload: str) -> tuple[Chart, ...]:
    """A chart for each case and run of a workload whose ranks were compared; members of a sweep have none."""
    swept = {case.case for case in edition.cases if case.sweep}
    drawn = [(row, run) for row, run, _ in edition.rows_of(workload) if row.case not in swept]
    return tuple(each for row, run in drawn if (each := chart(edition.tables, row, run)))


def chart(tables: Mapping[str, pa.Table], case: CaseFacts, run: Run) -> Chart | None:
    """The representative forward of all ranks; None if there is one rank, or no collective that ranks share."""
    if case.chosen is None or len({each.rank for each in case.ranks}) < 2:
        return None
    index = case.chosen[1]
    collectives = [row for row in _rows(tables, "collectives", case) if row["sequence"] is not None]
    forwards = _rows(tables, "ranks", case)
    if not collectives or not forwards or any(row["clock_us"] is None for row in forwards):
        return None
    rows = _chart_rows(forwards, _rows(tables, "activities", case), collectives)
    spans = [span for row in rows for own in row.work.values() for span in own]
    spans += [_span(each) for row in rows for each in row.collectives]
    if not spans:
        return None
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    scale = (last - first) or 1.0
    joined = _joined(rows)
    hidden = len(joined) - MOST_JOINED
    alike = "; ranks that are alike share a row" if any(len(row.ranks) > 1 for row in rows) else ""
    more = f"{alike}; the {MOST_JOINED} longest waits of {len(joined)} are joined" if hidden > 0 else alike
    words = _straggler(collectives)
    title = f"Ranks of {clip(case.case, 60)} on {clip(run.run, 40)}"
    drawing = stretched(_drawing(rows, joined, first, scale), f"{title}: {plural(len(forwards), 'rank')}{words}")
    ticks = tuple(Tick((number + TITLE) / len(rows), row.title) for number, row in enumerate(rows))
    panel = Panel(drawing, height=ROW_PX * len(rows), y_ticks=ticks)
    return Chart(
        f"ranks-{case.case}-{run.run}",
        "ranks",
        title,
        (panel,),
        tuple(Tick(value / scale, axis(value, scale)) for value in nice_ticks(0, scale)),
        _keys(rows),
        NOTE.format(index, more + words),
    )


def _rows(tables: Mapping[str, pa.Table], name: str, case: CaseFacts) -> list[dict[str, Any]]:
    """The rows of a table that belong to the chosen forward, of every rank of its job."""
    if case.chosen is None or "rank" not in tables[name].column_names:
        return []
    process, index = case.chosen
    numbers = {each.process for each in case.ranks if each.bare or each.process == process}
    chosen = {(case.run, case.case, number, index) for number in numbers}
    table = tables[name]
    places = zip(*(table[key].to_pylist() for key in ("run", "case", "process", "index")), strict=True)
    rows: list[dict[str, Any]] = rows_where(table, (place in chosen for place in places)).to_pylist()
    return [row for row in rows if row["rank"] is not None]


def _straggler(collectives: Rows) -> str:
    """The rank that came last most often, and the number of collectives, in a sentence; empty if there is none."""
    last = {_key(row): row["last_rank"] for row in collectives}
    often = Counter(rank for rank in last.values() if rank is not None).most_common(1)
    return f". Rank {often[0][0]} came last to {often[0][1]} of {len(last)}" if often else ""


def _chart_rows(forwards: Rows, activities: Rows, collectives: Rows) -> list[_Row]:
    """At most `ALONE` rows, in order of rank; similar ranks share one. The straggler and the largest rows are kept."""
    clock = {row["rank"]: row["clock_us"] for row in forwards}
    alike = ((row["rank"], row["communication_kernels"], row["span_us"], _times(row)) for row in forwards)
    groups = sorted(fold(alike), key=lambda ranks: -len(ranks))
    last = Counter(row["rank"] for row in collectives if row["last_rank"] == row["rank"])
    groups.sort(key=lambda ranks: -max(last[rank] for rank in ranks))
    chosen = sorted([groups[0], *sorted(groups[1:], key=lambda ranks: -len(ranks))[: ALONE - 1]])
    work: dict[int, dict[str, list[Span]]] = {ranks[0]: {} for ranks in chosen}
    for row in activities:
        family = family_of(row["category"], decode_activity(row["category"], row["name"]).family)
        if row["rank"] in work and row["start_us"] is not None and family is not COMMUNICATION:
            start = row["start_us"] + clock[row["rank"]]
            key = COPIES.key if family.hatched else family.key
            work[row["rank"]].setdefault(key, []).append((start, start + row["duration_us"]))
    return [
        _Row(tuple(ranks), work[ranks[0]], [row for row in collectives if row["rank"] == ranks[0]]) for ranks in chosen
    ]


def _times(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(row[name] or 0.0 for name in TIMES)


def _span(row: Mapping[str, Any]) -> Span:
    return row["start_us"], row["start_us"] + row["duration_us"]


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["group"], row["sequence"]


def _joined(rows: Sequence[_Row]) -> list[list[tuple[int, Mapping[str, Any]]]]:
    """The kernels of each collective as (number of the row, kernel), the collective with the longest wait first."""
    members: dict[tuple[str, int], list[tuple[int, Mapping[str, Any]]]] = {}
    for number, row in enumerate(rows):
        for each in row.collectives:
            members.setdefault(_key(each), []).append((number, each))
    return sorted(members.values(), key=lambda own: -_longest_wait(own))


def _longest_wait(members: Iterable[tuple[int, Mapping[str, Any]]]) -> float:
    return max(row["wait_us"] or 0.0 for _, row in members)


def _drawing(
    rows: Sequence[_Row], joined: Sequence[list[tuple[int, Mapping[str, Any]]]], first: float, scale: float
) -> list[str]:
    height = HEIGHT / len(rows)

    def x(time: float) -> float:
        return (time - first) / scale * WIDTH

    def boxes(spans: Iterable[Span], number: int, lane: Span) -> str:
        top, bottom = ((number + part) * height for part in lane)
        return "".join(
            box(x(start), x(end), round(top, 2), round(bottom, 2)) for start, end in _merged(spans, UNSEEN * scale)
        )

    parts = [path("grid", "".join(f"M0 {number * height:.2f}H1000" for number in range(1, len(rows))))]
    for number, row in enumerate(rows):
        for key, spans in row.work.items():
            parts.append(_filled(key, boxes(spans, number, WORK)))
        waits = [(each["start_us"], each["start_us"] + (each["wait_us"] or 0.0)) for each in row.collectives]
        moves = [(wait, end) for (_, wait), (_, end) in zip(waits, map(_span, row.collectives), strict=True)]
        parts.append(_filled(COMMUNICATION.key, boxes([span for span in waits if span[1] > span[0]], number, TRANSFER),
                             "waits"))  # fmt: skip
        parts.append(_filled(COMMUNICATION.key, boxes(moves, number, TRANSFER)))
    middle = (TRANSFER[0] + TRANSFER[1]) / 2
    late: list[tuple[float, float]] = []
    for members in joined[:MOST_JOINED]:
        points = [(x(row["start_us"]), (number + middle) * height) for number, row in members]
        if len(points) > 1:
            parts.append(path("join", "M" + "L".join(f"{left:.1f} {down:.2f}" for left, down in points),
                              _words(members)))  # fmt: skip
        late += [
            (x(row["start_us"] + (row["wait_us"] or 0.0)), (number + middle) * height)
            for number, row in members
            if row["last_rank"] in rows[number].ranks
        ]
    return [*parts, path("dots last", dots(late))]


def _filled(family: str, shape: str, css: str = "") -> str:
    """Boxes in the colour of a family."""
    return f'<g class="f-{family}">{path(f"boxes {css}".strip(), shape)}</g>' if shape else ""


def _merged(spans: Iterable[Span], gap: float) -> list[Span]:
    """The spans in order, with those that overlap or lie closer than `gap` joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _words(members: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    row = members[0][1]
    what = f"{row['operation']} {row['sequence'] + 1} of group {clip(row['group'], 60)}"
    if row["last_rank"] is None:
        return f"{what}: all ranks entered together"
    return f"{what}: rank {row['last_rank']} came last, others waited up to {duration(_longest_wait(members))}"


def _keys(rows: Sequence[_Row]) -> tuple[Key, ...]:
    present = {key for row in rows for key in row.work}
    keys = [
        Key(f"f-{family.key}", "memcpy, memset" if family is COPIES else family.label)
        for family in FAMILIES
        if family.key in present
    ]
    communication = Key(f"f-{COMMUNICATION.key}", COMMUNICATION.label)
    return (*keys, communication, Key(f"f-{COMMUNICATION.key} waits", "waiting for another rank"))
