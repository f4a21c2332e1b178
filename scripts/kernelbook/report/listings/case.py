"""Tables of one case, and of the cases of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kernelbook.cases import Activity, CaseFacts, Note
from kernelbook.judge.cost_model import ForwardCost, GemmCost, KernelCost
from kernelbook.kernel_names import labels
from kernelbook.report import phrases
from kernelbook.report.case_views import CaseView, CellView, WorkloadView
from kernelbook.report.families import family_of
from kernelbook.report.forward_times import Spread
from kernelbook.report.ranges import KernelLine, RangeLine, WholeFile
from kernelbook.report.table import Cell, Line, Part, Table, TableColumn, cell, figure, share, table, time, words
from kernelbook.text import formatting, units

NOISY = Part(
    "noisy", "flag", "The 95th percentile of its forward times is above 5 times the 5th: their median is not reliable"
)
SAME_WORK = "ranges of one kind ran the same kernels; kind 1 is the most frequent"
INFERRED = Part("inferred", "muted", "launched by another thread while the range was open")


def _counts(row: CaseFacts) -> Cell:
    return cell(phrases.counts(row))


def _forward_time(row: CaseFacts) -> Cell:
    return cell(formatting.duration(row.forward_time_us), NOISY if row.restless else None, value=row.forward_time_us)


def _first_call(row: CaseFacts) -> Cell:
    cache = Part(f"cache {row.inductor_cache}", "muted") if row.inductor_cache else None
    return cell(formatting.duration(row.first_call_us), cache, value=row.first_call_us)


_MEMORY: TableColumn[CaseFacts] = figure("peak memory", lambda row: row.peak_memory_bytes, formatting.size, "bytes")
_ERROR: TableColumn[CaseFacts] = figure("relative error", lambda row: row.relative_error, units.error)
_ON_RUN: tuple[TableColumn[CaseFacts], ...] = (
    words("run", lambda row: row.run),
    TableColumn("one forward", _counts),
    time("device time", lambda row: row.device_time_us),
    time("busy", lambda row: row.device_busy_us, page_only=True),
    time("CPU time", lambda row: row.cpu_time_us),
    TableColumn("forward, median", _forward_time, "µs", "r num"),
    time("5 %", lambda row: row.forward_p05_us),
    time("95 %", lambda row: row.forward_p95_us),
    TableColumn("first call", _first_call, "µs", "r num", page_only=True),
    _MEMORY,
    _ERROR,
)


def on_each_run(case: CaseView, warnings: Callable[[CaseFacts], Iterable[Note]]) -> Table:
    """The figures of a case on each run; a case that is not ok has its reason instead."""

    def line(each: CellView) -> Line:
        row = each.row
        notes = tuple(
            ("warning mild" if note.code == "no_launches" else "warning", formatting.clip(note.message, 300))
            for note in warnings(row)
        )
        if row.status == "ok":
            return Line(tuple(column.cell(row) for column in _ON_RUN), anchor=each.anchor, notes=notes)
        state = Part(row.status, "bad" if row.status == "failed" else "flag")
        reason = cell(state, formatting.clip(row.reason or "no reason given", 400))
        return Line((cell(row.run), reason), anchor=each.anchor, across=True, notes=notes)

    lines = tuple(map(line, case.present))
    return Table(f"runs-{case.spec.case}", "On each run", _ON_RUN, lines)


_SPREAD: tuple[TableColumn[Spread], ...] = (
    words("case", lambda spread: spread.row.case),
    words("run", lambda spread: spread.run.run),
    figure("samples", lambda spread: len(spread.values)),
    time("median", lambda spread: spread.median),
    time("5 %", lambda spread: spread.low),
    time("95 %", lambda spread: spread.high),
    time("least", lambda spread: min(spread.values)),
    time("most", lambda spread: max(spread.values)),
    TableColumn("first", lambda spread: _first_sample(spread), "µs", "r num"),
)


def _first_sample(spread: Spread) -> Cell:
    slow = Part("slow", "flag", "far above the other samples of its process") if spread.slow_first else None
    return cell(formatting.duration(spread.first[0]), slow, value=spread.first[0])


def forward_times(work: WorkloadView) -> Table:
    """The distribution of unprofiled forward times of each case."""
    return table(f"forward-times-{work.name}", "Forward times", _SPREAD, work.spreads)


def cases_of_workload(work: WorkloadView) -> Table:
    """The cases of a workload in short, for report.md."""

    def name(case: CaseView) -> Cell:
        inside = phrases.inside(case.lead.row).strip() if case.lead else ""
        return cell(Part(case.spec.case, "code"), inside or None)

    def of_lead(column: TableColumn[CaseFacts]) -> TableColumn[CaseView]:
        def of_case(case: CaseView) -> Cell:
            return column.cell(case.lead.row) if case.lead else cell(None)

        return TableColumn(column.title, of_case, column.unit, column.css)

    forward: TableColumn[CaseFacts] = TableColumn("forward, unprofiled", _forward_time, "µs", "r num")
    columns = (_ON_RUN[1], _ON_RUN[2], forward, _ERROR, _MEMORY)
    leads = [case for case in work.cases if case.lead]
    return table(f"cases-{work.name}", work.title, (TableColumn("case", name), *map(of_lead, columns)), leads)


_RANGE: tuple[TableColumn[RangeLine], ...] = (
    words("run", lambda line: line.run),
    TableColumn(
        "range",
        lambda line: cell(
            Part(formatting.clip(line.annotation, 80), "code"),
            Part(formatting.clip("; ".join(line.labels), 80), "muted") if line.labels else None,
            Part("the forward", "muted") if line.forward else None,
            Part(f"inside {line.level} of the same name", "muted") if line.level else None,
            Part(f"kind {line.kind + 1} of {line.kinds}", "muted", SAME_WORK) if line.kinds > 1 else None,
            INFERRED if line.inferred else None,
        ),
    ),
    figure("times", lambda line: line.count),
    figure("kernels", lambda line: line.kernels),
    figure("memcpys", lambda line: line.memcpys, page_only=True),
    figure("memsets", lambda line: line.memsets, page_only=True),
    time("device time", lambda line: line.device_time_us),
    time("busy", lambda line: line.device_busy_us),
    time("CPU time", lambda line: line.cpu_time_us),
)


def ranges(case: CaseView) -> Table:
    """The ranges in the traces of a case, by name."""
    return table(f"ranges-{case.spec.case}", "Ranges inside", _RANGE, case.ranges)


_IN_FILE: tuple[TableColumn[KernelLine], ...] = (
    TableColumn("name", lambda line: cell(Part(labels.activity_label(line).short, "code"))),
    words("what it does", lambda line: labels.activity_label(line).what, 80),
    figure("count", lambda line: line.count),
    time("total", lambda line: line.total_us),
    share("share", lambda line: line.share),
    time("median", lambda line: line.median_us),
)


def whole_file(case: CaseView, file: WholeFile) -> Table:
    """The longest activities of a bare trace."""
    counted = (
        *((file.kernels, "kernel", "kernels"), (file.memcpys, "memcpy", "memcpys")),
        *((file.memsets, "memset", "memsets"), (file.launches, "launch", "launches")),
    )
    parts = [formatting.plural(count, one, many) for count, one, many in counted if count is not None]
    parts += [f"{file.unattributed} unattributed"] if file.unattributed else []
    which = f", process {file.process}" if len(case.files) > 1 else ""
    times = f"{formatting.duration(file.device_time_us)}, busy {formatting.duration(file.device_busy_us)}"
    caption = f"The whole file{which}: {', '.join(parts)}; {times}"
    return table(f"file-{case.spec.case}-{file.run}-{file.process}", caption, _IN_FILE, file.longest)


def against_floor(case: CaseView) -> Table:
    """What each run achieved of its ceilings."""
    columns: tuple[TableColumn[ForwardCost], ...] = (
        words("run", lambda cost: cost.run),
        words("limited by", lambda cost: cost.limited_by),
        figure(
            "TFLOP/s" + (", masked half left out" if case.masked else ""), lambda cost: cost.tflops, formatting.number
        ),
        share("of ceiling", lambda cost: cost.share_of_compute),
        figure("compulsory GB/s", lambda cost: cost.compulsory_gb_per_s, formatting.number),
        share("of ceiling", lambda cost: cost.share_of_memory),
        figure("traffic / compulsory", lambda cost: cost.times_compulsory, formatting.ratio),
        time("floor", lambda cost: cost.floor_us),
        figure("times floor", lambda cost: cost.times_floor, formatting.ratio),
        words("beside its fastest peer", lambda cost: cost.trade_off or "", 300),
    )
    return table(f"floor-{case.spec.case}", "Against its floor", columns, case.costs)


_PRODUCT: tuple[TableColumn[GemmCost], ...] = (
    words("run", lambda product: product.run),
    figure("#", lambda product: product.position),
    words("kernel", lambda product: Part(formatting.clip(product.label, 64), "code")),
    words(
        "m × n × k",
        lambda p: f"{p.batch} · {p.m} × {p.n} × {p.k}" if p.batch > 1 else f"{p.m} × {p.n} × {p.k}",
        css="r num",
    ),
    time("time", lambda product: product.time_us),
    figure("TFLOP/s", lambda product: product.tflops, formatting.number),
    share("of roof", lambda product: product.share_of_roof),
    words("roof", lambda product: product.roof),
    words("tile", lambda product: product.tile, css="num"),
    figure("waves", lambda product: product.waves, formatting.number),
    figure("tiles a block", lambda product: product.tiles_per_block, formatting.number),
)


def products(case: CaseView) -> Table:
    """The matrix products of a case."""
    return table(f"products-{case.spec.case}", "Matrix products", _PRODUCT, case.products)


def kernels(
    row: CaseFacts, cost_of: Callable[[Activity], KernelCost | None], built_for: Callable[[Activity], str | None]
) -> Table:
    """The kernels of one forward, for report.md; the page draws them in lanes."""
    total = sum(activity.duration_us for activity in row.activities)

    def meaning(activity: Activity) -> Cell:
        label, built = labels.activity_label(activity), built_for(activity)
        return cell(", ".join(part for part in (label.what, label.precision, built and f"built for {built}") if part))

    def rate(activity: Activity) -> float | None:
        cost = cost_of(activity)
        return cost.gb_per_s if cost else None

    def of_roof(activity: Activity) -> Cell:
        cost = cost_of(activity)
        if cost is None or cost.share_of_roof is None:
            return cell(None)
        return cell(formatting.share(cost.share_of_roof), cost.roof, value=cost.share_of_roof)

    columns: tuple[TableColumn[Activity], ...] = (
        figure("", lambda activity: activity.position),
        words("kernel", lambda activity: Part(labels.activity_label(activity).short, "code")),
        TableColumn("what it does", meaning),
        words("family", lambda activity: family_of(activity.category, activity.family).label),
        time("time", lambda activity: activity.duration_us),
        share("share", lambda activity: activity.duration_us / total if total else None),
        figure("GB/s", rate, formatting.number),
        TableColumn("of roof", of_roof, css="r num"),
        words("launched by", lambda activity: Part(activity.op_path, "code") if activity.op_path else None),
    )
    return table(f"kernels-{row.run}-{row.case}", f"Kernels of one forward on {row.run}", columns, row.activities)
