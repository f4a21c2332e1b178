"""The tables of a diff, which are rendered for the terminal, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Iterator

from kernelbook.cases import Activity, CaseFacts
from kernelbook.diffs.model import Diff
from kernelbook.judge.alignment import OpStep, Step
from kernelbook.judge.comparisons import CauseChange, Comparison, FigureChange, brief
from kernelbook.report.table import Part, Table, TableColumn, figure, share, table, time, words
from kernelbook.text.formatting import clip, duration, ratio

#: Largest number of ops or activities of one difference that are named; the others are counted.
MOST_NAMES = 4
NAME_WIDTH = 48
#: Longest name of a case in a heading; JSON and tables have the whole name.
TITLE_WIDTH = 200


def title(comparison: Comparison) -> str:
    """The compared cases: the name of both, or two names."""
    a, b = name(comparison.a), name(comparison.b)
    return clip(a, TITLE_WIDTH) if a == b else f"{clip(b, TITLE_WIDTH)} against {clip(a, TITLE_WIDTH)}"


def name(case: CaseFacts) -> str:
    """`run/case`; the range alone for a single trace."""
    return f"{case.run}/{case.case}" if case.run else case.case


def verdict(comparison: Comparison) -> str:
    """`5 the same, 0 more, 0 less, 1 other`: counts of device activities, or why they cannot be compared."""
    if comparison.same_work is None:
        return "no device activities on at least one side"
    counts = comparison.counts
    order = "; the same activities in one order" if comparison.same_work else ""
    return f"{counts.same} the same, {counts.more} more, {counts.less} less, {counts.other} other{order}"


def overview(diff: Diff) -> Table:
    """A row for each comparison."""

    def times(column: str, which: int) -> TableColumn[Comparison]:
        return time(f"{column} {'AB'[which]}", lambda c: getattr((c.a, c.b)[which], f"{column.replace(' ', '_')}_us"))

    def counted(kind: str) -> TableColumn[Comparison]:
        return figure(kind, lambda c: None if c.same_work is None else getattr(c.counts, kind))

    columns = [
        words("range or case", title, NAME_WIDTH),
        figure("kernels A", lambda c: c.a.kernels),
        figure("kernels B", lambda c: c.b.kernels),
        *map(counted, ("same", "more", "less", "other")),
        times("device time", 0),
        times("device time", 1),
        figure("B to A", _device_ratio, ratio),
    ]
    return table("overview", "Ranges and cases of both sides", columns, diff.comparisons)


def _device_ratio(comparison: Comparison) -> float | None:
    a, b = comparison.a.device_time_us, comparison.b.device_time_us
    return None if comparison.refused or not a or b is None else b / a


def tables(comparison: Comparison) -> Iterator[Table]:
    """The tables of one comparison, without empty ones."""
    parts = (_figures(comparison), _activities(comparison), _ops(comparison), _causes(comparison))
    return (part for part in parts if part.lines)


def _figures(comparison: Comparison) -> Table:
    def ratio_of(change: FigureChange) -> float | None:
        return None if change.unit == "µs" and comparison.refused else change.ratio

    columns: list[TableColumn[FigureChange]] = [
        words("figure", lambda change: change.title),
        figure("A", lambda change: change.texts()[0]),
        figure("B", lambda change: change.texts()[1]),
        figure("B to A", ratio_of, ratio),
    ]
    return table("figures", "Figures of one forward", columns, comparison.figures)


def _activities(comparison: Comparison) -> Table:
    columns: list[TableColumn[Step]] = [
        words("", lambda step: step.kind),
        words("A", lambda step: _labels(step.a, step.words_a)),
        time("time A", lambda step: step.time_a_us if step.a else None),
        words("B", lambda step: _labels(step.b, step.words_b)),
        time("time B", lambda step: step.time_b_us if step.b else None),
        figure("B less A", lambda step: step.delta_us, _signed, "µs"),
    ]
    different = [step for step in comparison.steps if step.kind != "same"]
    return table("activities", "Device activities that differ, in the order of the forward", columns, different)


def _labels(activities: tuple[Activity, ...], labels: tuple[str, ...]) -> Part | None:
    if not activities:
        return None
    texts = labels or tuple(brief(activity) for activity in activities)
    more = f" and {len(texts) - MOST_NAMES} more" if len(texts) > MOST_NAMES else ""
    titles = ", ".join(activity.name for activity in activities[:MOST_NAMES])
    return Part(", ".join(clip(text, NAME_WIDTH) for text in texts[:MOST_NAMES]) + more, "code", titles)


def _ops(comparison: Comparison) -> Table:
    columns: list[TableColumn[OpStep]] = [
        words("", lambda step: step.kind),
        words("ops", _op_names),
        figure("count", lambda step: len(step.names)),
        time("self CPU time", lambda step: step.self_us),
    ]
    return table("ops", "CPU ops that only one side calls", columns, comparison.op_steps)


def _op_names(step: OpStep) -> Part:
    names = list(dict.fromkeys(step.names))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return Part(", ".join(clip(op, NAME_WIDTH) for op in names[:MOST_NAMES]) + more, "code")


def _causes(comparison: Comparison) -> Table:
    whole = sum(change.time_a_us for change in comparison.causes)
    columns: list[TableColumn[CauseChange]] = [
        words("cause", lambda change: change.kind),
        words("device", lambda change: "idle" if change.idle else "busy"),
        time("time A", lambda change: change.time_a_us),
        time("time B", lambda change: change.time_b_us),
        figure("B less A", lambda change: change.delta_us, _signed, "µs"),
        share("of A", lambda change: abs(change.delta_us) / whole if whole else None),
    ]
    return table("causes", "Time of one forward by cause", columns, comparison.causes)


def _signed(us: float) -> str:
    return f"{'-' if us < 0 else '+'}{duration(abs(us))}" if us else "0"
