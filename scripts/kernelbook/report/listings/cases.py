"""The table of cases: one row for each case on each measured run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Run
from kernelbook.judge.cost_model import ForwardCost
from kernelbook.report import phrases
from kernelbook.report.case_views import CaseView, CellView, WorkloadView
from kernelbook.report.ranges import WholeFile
from kernelbook.report.strips import Strip
from kernelbook.report.table import Cell, Line, Part, Table, TableColumn, cell, figure, time, words
from kernelbook.text import formatting

NOISY = Part(
    "noisy", "flag", "The 95th percentile of its forward times is above 5 times the 5th: their median is not reliable"
)
MEASURED = ("forward", "error", "peak memory", "guesses")
DRAWING = Markup('<div class="drawing" style="--part:{:.5f}">{}</div>')


@dataclass(frozen=True)
class CaseRow:
    """A case on a run. ``each``: None if no run has the case. ``last``: whether it is the last row of its case."""

    work: WorkloadView
    case: CaseView
    each: CellView | None
    last: bool

    @property
    def row(self) -> CaseFacts | None:
        """The measured figures; None if there are none."""
        return self.each.row if self.each and self.each.row.status == "ok" else None

    @property
    def bad(self) -> bool:
        """Whether it failed, or a guess about it broke on this run."""
        run = self.each.run.run if self.each else None
        broke = any(line.verdict == "broken" and run in line.runs for line in self.case.judged)
        return broke or bool(self.each and self.each.row.status == "failed")

    @property
    def file(self) -> WholeFile | None:
        """The whole trace, if no range of it is a forward."""
        return self.case.whole(self.each) if self.each and self.row else None

    @property
    def strip(self) -> Strip | None:
        """Its kernels, on the scale of the workload."""
        return next((s for s in self.work.strips if self.each and s.cell == self.each.number), None)

    @property
    def cost(self) -> ForwardCost | None:
        """Its cost against the ceilings."""
        return next((cost for cost in self.case.costs if self.each and cost.run == self.each.run.run), None)

    @property
    def other_size(self) -> str:
        """The sizes that differ from the first row of the case: `size 256`; if several do, all: `1 × 2 × 128 × 64`."""
        lead = self.case.lead
        if self.row is None or lead is None or self.row.params == lead.row.params:
            return ""
        sizes = phrases.sizes_of(self.row, lead.row.params)
        differ = [(name, value) for name, value in self.row.params.items() if lead.row.params.get(name) != value]
        if len(differ) > 1 and sizes != phrases.sizes_of(lead.row):
            return sizes
        return ", ".join(f"{name} {phrases.parameter(name, value)}" for name, value in differ)


def case_rows(workloads: Iterable[WorkloadView]) -> tuple[CaseRow, ...]:
    """The rows in config order; within a case, runs with device activities come first."""
    rows: list[CaseRow] = []
    for work in workloads:
        for case in work.cases:
            cells: Sequence[CellView | None] = case.measured or case.present or (None,)
            cells = sorted(cells, key=lambda each: not (each and each.row.on_device))
            rows += [CaseRow(work, case, each, each is cells[-1]) for each in cells]
    return tuple(rows)


def table(rows: Sequence[CaseRow], runs: Iterable[Run], panels: Mapping[str, Markup] | None = None) -> Table:
    """The table of these rows. ``panels``: anchor of a case -> HTML that the page shows below its rows."""
    published = [run.run for run in runs if run.kind == "published"]
    several = len({row.each.run.run for row in rows if row.each}) > 1
    columns = _columns(published, several)
    if _only_traces(rows):
        limited = any(row.cost and row.cost.limiter != "unknown" for row in rows)
        columns = tuple(_without_measurement(column, several, limited) for column in columns)
    lines = tuple(_line(row, columns, (panels or {}).get(row.case.anchor, Markup(""))) for row in rows)
    return Table("cases", "Cases", columns, lines, "cases", titled=False, box="cases-box")


def _only_traces(rows: Sequence[CaseRow]) -> bool:
    return all(row.row is None or row.row.bare for row in rows)


def _without_measurement(column: TableColumn[CaseRow], several: bool, limited: bool) -> TableColumn[CaseRow]:
    """The column for a table of bare traces: hidden if only a measurement could fill it.

    A ratio to a baseline needs cases of the same name on several runs, since other traces may do different work.
    limited: whether the limiter of any trace is known, which needs recorded shapes.
    """
    empty = {"to baseline": not several, "limited by": not limited}
    hidden = column.title in MEASURED or empty.get(column.title, False)
    return replace(column, optional=True, page_only=True) if hidden else column


def short(rows: Sequence[CaseRow]) -> Table:
    """The few columns of these rows that fit a comment."""
    kept = {"case", "run", "kernels", "device", "forward", "guesses"} - ({*MEASURED} if _only_traces(rows) else set())
    several = len({row.each.run.run for row in rows if row.each}) > 1
    columns = tuple(column for column in _columns((), several) if column.title in kept)
    return Table("short", "Cases", columns, tuple(_line(row, columns, Markup("")) for row in rows))


def _line(row: CaseRow, columns: Sequence[TableColumn[CaseRow]], panel: Markup) -> Line:
    panel = panel if row.last else Markup("")
    data: dict[str, object] = {"workload": formatting.visible(row.work.title), "case": row.case.anchor}
    if row.each is None:
        return Line((_name(row), cell(Part("no run has this case", "muted"))), data=data, across=True, panel=panel)
    data["cell"] = row.each.number
    if row.each.same_as is not None:
        data["same"] = row.each.same_as
    if row.row:
        return Line(tuple(column.cell(row) for column in columns), "", row.each.anchor, data=data, panel=panel)
    status, reason = row.each.row.status, row.each.row.reason or "no reason given"
    state = Part(status, "bad" if status == "failed" else "flag")
    front = [column.cell(row) for column in columns[:2] if column.title in ("case", "run")]
    why: str | Part = formatting.clip(reason, 400)
    if row.each.run.took(row.each.row):
        state, why = Part("lost", "bad"), Part("with its run", "", "", "runs")
    cells = (*front, cell(state, why))
    return Line(cells, "state", row.each.anchor, across=True, data=data, panel=panel)


def _of(title: str, get: Callable[[CaseRow], Cell], unit: str | None = None, css: str = "") -> TableColumn[CaseRow]:
    return TableColumn(title, get, unit, css)


def _columns(published: Sequence[str], several: bool) -> tuple[TableColumn[CaseRow], ...]:
    run: TableColumn[CaseRow] = words("run", lambda row: row.each and row.each.run.run, css="c-run")
    more: tuple[TableColumn[CaseRow], ...] = (
        time("busy", lambda row: row.row.device_busy_us if row.row else None),
        time("CPU time", lambda row: row.row.cpu_time_us if row.row else None),
        _of("first call", _first_call, "µs", "r num"),
        figure("launches", lambda row: row.row and row.row.launches),
        figure("processes", lambda row: row.row and len(row.row.processes)),
    )
    return (
        _of("case", _name, css="c-case"),
        *((run,) if several else ()),
        TableColumn("one forward", _strip, css="c-strip", page_only=True),
        _of("kernels", _kernels, "", "r num c-kernels"),
        _of("device", _device, "µs", "r num c-device"),
        _of("forward", _forward, "µs", "r num c-forward"),
        TableColumn("to baseline", lambda row: cell(""), "", "r num c-ratio", page_only=True),
        figure("error", lambda row: row.row and row.row.relative_error, formatting.error),
        figure("peak memory", lambda row: row.row and row.row.peak_memory_bytes, formatting.size, "bytes"),
        _of("limited by", _limiter, css="c-limiter"),
        _of("guesses", _guesses, css="c-guesses"),
        *((_of("published", lambda row: _published(row, published), "µs", "r num c-published"),) if published else ()),
        *(TableColumn(each.title, each.cell, each.unit, each.css, True, True) for each in more),
    )


def _name(row: CaseRow) -> Cell:
    parts = [Part(row.case.spec.case, href=row.each.anchor if row.each else row.case.anchor)]
    facts = row.each.row if row.each else None
    if facts:
        order = row.case.lead.row.params if row.case.lead else ()
        full = ", ".join(part for part in (facts.dtype, *(f"{k} {v}" for k, v in facts.params.items())) if part)
        parts += [Part(size, "size", full)] if (size := phrases.size_of(facts, order)) else []
        parts += [Part(inside.strip(), "size")] if (inside := phrases.inside(facts)) else []
    return cell(*parts)


def _strip(row: CaseRow) -> Cell:
    return Cell((), drawing=DRAWING.format(row.strip.part, row.strip.drawing)) if row.strip else Cell(())


def _kernels(row: CaseRow) -> Cell:
    facts = row.file or row.row
    if facts is None or facts.kernels is None:
        return cell(None)
    others = ((facts.memcpys, "memcpy"), (facts.memsets, "memset"))
    more = " ".join(f"+ {formatting.plural(count, word)}" for count, word in others if count)
    return cell(f"{facts.kernels:,}", Part(f"({more})", "size") if more else None, value=facts.kernels)


def _device(row: CaseRow) -> Cell:
    if row.file:
        mark = Part("whole file", "size", "No range of the trace is a forward: the figures are of the whole trace")
        return cell(formatting.duration(row.file.device_time_us), mark, value=row.file.device_time_us)
    return _time(row, row.row.device_time_us if row.row else None)


def _forward(row: CaseRow) -> Cell:
    if row.row is None or row.row.forward_time_us is None:
        return cell(None)
    times = (time for time in (row.row.forward_p05_us, row.row.forward_p95_us) if time is not None)
    ends = [formatting.unbroken(formatting.duration(time)) for time in times]
    spread = (
        Part(f"({' – '.join(dict.fromkeys(ends))})", "size", "5th to 95th percentile of all samples") if ends else None
    )
    return _time(row, row.row.forward_time_us, NOISY if row.row.restless else None, spread)


def _time(row: CaseRow, us: float | None, *more: Part | None) -> Cell:
    other = Part(formatting.clip(row.other_size, 40), "flag", "Not the size of the first row of this case")
    return cell(formatting.duration(us), *more, other if row.other_size and us is not None else None, value=us)


def _first_call(row: CaseRow) -> Cell:
    if row.row is None:
        return cell(None)
    cache = Part(f"cache {row.row.inductor_cache}", "muted") if row.row.inductor_cache else None
    return cell(formatting.duration(row.row.first_call_us), cache, value=row.row.first_call_us)


def _limiter(row: CaseRow) -> Cell:
    cost = row.cost
    if cost is None or cost.limiter == "unknown":
        return cell(None)
    shares = {"compute": cost.share_of_compute, "memory": cost.share_of_memory}
    part = formatting.share(shares[cost.limiter]) if shares.get(cost.limiter) else ""
    if cost.limiter.startswith("excess traffic") and cost.times_compulsory:
        part = formatting.ratio(cost.times_compulsory)
    return cell(cost.limited_by, formatting.unbroken(part) or None)


def _guesses(row: CaseRow) -> Cell:
    lines = [line for line in row.case.judged if row.each and row.each.run.run in line.runs]
    held = sum(line.verdict == "confirmed" for line in lines)
    if not lines:
        return cell(Part("", ""))
    mark = Part(f"{held} of {len(lines)}", "ok" if held == len(lines) else "no")
    return cell(mark, value=held - len(lines))


def _published(row: CaseRow, runs: Sequence[str]) -> Cell:
    parts: list[Part] = []
    times: list[float | None] = []
    for each in row.case.present:
        if each.run.run in runs and each is not row.each:
            text = "" if each.row.kernels is None else f"{each.row.kernels:,}"
            differ = row.row and row.row.kernels is not None and each.row.kernels not in (None, row.row.kernels)
            timed = each.row.device_time_us is not None
            text += "\u00a0≠" if differ else ""
            text += "\u00a0·" if text and timed else ""
            parts += [Part(text, title=each.run.device or "")] if text else []
            parts += [Part(formatting.unbroken(formatting.exact(each.row.device_time_us)))] if timed else []
            parts += [Part(each.run.run, "muted")] if len(runs) > 1 else []
            times.append(each.row.device_time_us)
    return cell(*parts, value=next((each for each in times if each is not None), None)) if parts else Cell(())
