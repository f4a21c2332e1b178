"""The tables of the report: the columns of each, for the page and for report.md alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernelbook import units
from kernelbook.case_facts import Activity, CaseFacts, Note
from kernelbook.cost_model import ForwardCost, GemmCost, KernelCost
from kernelbook.edition.model import Edition, Run
from kernelbook.findings import Finding
from kernelbook.report import names, story, text, trust
from kernelbook.report.families import family_of
from kernelbook.report.ranges import KernelLine, RangeLine, WholeFile
from kernelbook.report.table import Cell, Column, Line, Part, Table, cell, figure, share, table, time, words
from kernelbook.report.views import CaseView, CellView, GuessLine, WorkloadView
from kernelbook.sdpa_backends import Answer
from kernelbook.trust import Trust

RESTLESS = Part(
    "restless", "flag", "The 95th percentile of its forward times is above 5 times the 5th: their median says little"
)
SAME_WORK = "ranges of one kind ran the same kernels; the commonest kind is the first"
INFERRED = Part("inferred", "muted", "launched by another thread while the range was open")
Anchors = Mapping[str, str]


def _case(case: str, anchors: Anchors) -> Part:
    """The name of a case, as a link to it on the page."""
    return Part(case, href=anchors.get(case, "matrix"))


def _yes(value: bool) -> Part:
    return Part("yes", "ok") if value else Part("no", "no")


# --- guesses and findings ---------------------------------------------------------------------------------------------

_GUESS: tuple[Column[GuessLine], ...] = (
    words("guess", lambda line: line.title),
    words("guessed", lambda line: line.expected, 120),
    words("seen", lambda line: line.observed, 120),
    words("verdict", lambda line: Part("held", "ok") if line.verdict == "confirmed" else Part("broke", "no")),
    words("runs", lambda line: ", ".join(line.runs)),
    Column("evidence", lambda line: cell(text.listed(line.evidence)), css="wide muted"),
)


def guesses(case: CaseView) -> Table:
    """The guesses of a case that could be judged."""
    lines = (
        Line(tuple(column.cell(line) for column in _GUESS), css=line.verdict.replace(" ", "-")) for line in case.judged
    )
    return Table(f"guesses-{case.spec.case}", "Guessed and seen", _GUESS, tuple(lines), "guesses stacked")


def broken(lines: Sequence[GuessLine], anchors: Anchors) -> Table:
    """Broken guesses of all cases."""
    named: Column[GuessLine] = words("case", lambda line: _case(line.case, anchors))
    return table("broken-guesses", "Broken guesses", (named, *(c for c in _GUESS if c.title != "verdict")), lines)


def _finding_columns(anchors: Anchors | None) -> tuple[Column[Finding], ...]:
    """Columns of findings; with their cases where there are anchors to link to, with their weight where not."""

    def case(found: Finding) -> Cell:
        more = len(found.cases.split(", ")) - 1 if found.cases else 0
        return cell(_case(found.case, anchors or {}), Part(f"and {more} more", "muted", found.cases) if more else None)

    def says(found: Finding) -> Cell:
        beside = (
            Part(text.listed(found.evidence), "muted", page_only=True) if found.evidence and anchors is None else None
        )
        return cell(text.clip(found.text or found.rule, 600), beside)

    cost: Column[Finding] = Column(
        "time",
        lambda found: cell(text.cost(found), Part(found.of, "muted") if found.of else None, value=found.time_us),
        "µs",
        "r num",
    )
    run: Column[Finding] = words("run", lambda found: found.run)
    return (
        *((cost,) if anchors is not None else (run, words("weight", lambda found: found.severity))),
        *((share("share", lambda found: found.share),) if anchors is not None else ()),
        words("kind", lambda found: found.kind),
        *((Column("case", case), run) if anchors is not None else (cost, share("share", lambda found: found.share))),
        Column("finding", says, css="wide"),
        words("remedy", lambda found: found.remedy, 600, "wide"),
    )


def findings_of_case(case: CaseView) -> Table:
    """What was found in a case."""
    return table(f"findings-{case.spec.case}", "Found in it", _finding_columns(None), case.findings, "stacked")


def findings_of_weight(weighed: story.Weighed, anchors: Anchors) -> Table:
    """The findings of one weight over all cases."""
    columns = _finding_columns(anchors)
    return table(
        f"findings-{weighed.weight or 'unknown'}", weighed.title, columns, weighed.findings, "stacked findings-table"
    )


# --- one case ---------------------------------------------------------------------------------------------------------


def _counts(row: CaseFacts) -> Cell:
    return cell(text.counts(row))


def _forward_time(row: CaseFacts) -> Cell:
    return cell(text.duration(row.forward_time_us), RESTLESS if row.restless else None, value=row.forward_time_us)


def _interval(row: CaseFacts) -> Cell:
    known = row.forward_p05_us is not None
    return cell(f"{text.duration(row.forward_p05_us)} – {text.duration(row.forward_p95_us)}" if known else None)


def _first_call(row: CaseFacts) -> Cell:
    cache = Part(f"cache {row.inductor_cache}", "muted") if row.inductor_cache else None
    return cell(text.duration(row.first_call_us), cache, value=row.first_call_us)


_MEMORY: Column[CaseFacts] = figure("peak memory", lambda row: row.peak_memory_bytes, text.size, "bytes")
_ERROR: Column[CaseFacts] = figure("relative error", lambda row: row.relative_error, units.error)
_ON_RUN: tuple[Column[CaseFacts], ...] = (
    words("run", lambda row: row.run),
    Column("one forward", _counts),
    time("device time", lambda row: row.device_time_us),
    time("busy", lambda row: row.device_busy_us, page_only=True),
    time("CPU time", lambda row: row.cpu_time_us),
    Column("forward, median", _forward_time, "µs", "r num"),
    Column("5–95 %", _interval, css="r num"),
    Column("first call", _first_call, "µs", "r num", page_only=True),
    _MEMORY,
    _ERROR,
)


def on_each_run(case: CaseView, warnings: Callable[[CaseFacts], Iterable[Note]]) -> Table:
    """The figures of a case on each run; a case that is not ok has its reason instead."""

    def line(each: CellView) -> Line:
        row = each.row
        notes = tuple(
            ("warning mild" if note.code == "no_launches" else "warning", text.clip(note.message, 300))
            for note in warnings(row)
        )
        if row.status == "ok":
            return Line(tuple(column.cell(row) for column in _ON_RUN), anchor=each.anchor, notes=notes)
        state = Part(row.status, "bad" if row.status == "failed" else "flag")
        reason = cell(state, text.clip(row.reason or "no reason given", 400))
        return Line((cell(row.run), reason), anchor=each.anchor, across=True, notes=notes)

    lines = tuple(map(line, case.present))
    return Table(f"runs-{case.spec.case}", "On each run", _ON_RUN, lines)


def cases_of_workload(work: WorkloadView) -> Table:
    """The cases of a workload in short, for report.md."""

    def named(case: CaseView) -> Cell:
        inside = story.inside(case.lead.row).strip() if case.lead else ""
        return cell(Part(case.spec.case, "code"), inside or None)

    def of_lead(column: Column[CaseFacts]) -> Column[CaseView]:
        def shown(case: CaseView) -> Cell:
            return column.cell(case.lead.row) if case.lead else cell(None)

        return Column(column.title, shown, column.unit, column.css)

    forward: Column[CaseFacts] = Column("forward, unprofiled", _forward_time, "µs", "r num")
    columns = (_ON_RUN[1], _ON_RUN[2], forward, _ERROR, _MEMORY)
    leads = [case for case in work.cases if case.lead]
    return table(f"cases-{work.name}", work.title, (Column("case", named), *map(of_lead, columns)), leads)


_RANGE: tuple[Column[RangeLine], ...] = (
    words("run", lambda line: line.run),
    Column(
        "range",
        lambda line: cell(
            Part(text.clip(line.annotation, 80), "code"),
            Part(text.clip("; ".join(line.labels), 80), "muted") if line.labels else None,
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


_IN_FILE: tuple[Column[KernelLine], ...] = (
    Column("name", lambda line: cell(Part(names.of_activity(line).short, "code"))),
    words("what it does", lambda line: names.of_activity(line).what, 80),
    figure("count", lambda line: line.count),
    time("total", lambda line: line.total_us),
    share("share", lambda line: line.share),
    time("median", lambda line: line.median_us),
)


def whole_file(case: CaseView, file: WholeFile) -> Table:
    """The longest activities of a bare trace."""
    counted = ((file.kernels, "kernel", "kernels"), (file.memcpys, "memcpy", "memcpys"))
    counted += ((file.memsets, "memset", "memsets"), (file.launches, "launch", "launches"))
    parts = [text.plural(count, one, many) for count, one, many in counted if count is not None]
    parts += [f"{file.unattributed} unattributed"] if file.unattributed else []
    which = f", process {file.process}" if len(case.files) > 1 else ""
    times = f"{text.duration(file.device_time_us)}, busy {text.duration(file.device_busy_us)}"
    caption = f"The whole file{which}: {', '.join(parts)}; {times}"
    return table(f"file-{case.spec.case}-{file.run}-{file.process}", caption, _IN_FILE, file.longest)


def against_floor(case: CaseView) -> Table:
    """What each run achieved of its ceilings."""
    columns: tuple[Column[ForwardCost], ...] = (
        words("run", lambda cost: cost.run),
        words("limited by", lambda cost: cost.limited_by),
        figure("TFLOP/s" + (", masked half left out" if case.masked else ""), lambda cost: cost.tflops, text.number),
        share("of ceiling", lambda cost: cost.share_of_compute),
        figure("compulsory GB/s", lambda cost: cost.compulsory_gb_per_s, text.number),
        share("of ceiling", lambda cost: cost.share_of_memory),
        figure("traffic / compulsory", lambda cost: cost.times_compulsory, text.ratio),
        time("floor", lambda cost: cost.floor_us),
        figure("times floor", lambda cost: cost.times_floor, text.ratio),
        words("beside its fastest peer", lambda cost: cost.trade_off or "", 300),
    )
    return table(f"floor-{case.spec.case}", "Against its floor", columns, case.costs)


_PRODUCT: tuple[Column[GemmCost], ...] = (
    words("run", lambda product: product.run),
    figure("#", lambda product: product.position),
    words("kernel", lambda product: Part(text.clip(product.label, 64), "code")),
    words(
        "m × n × k",
        lambda p: f"{p.batch} · {p.m} × {p.n} × {p.k}" if p.batch > 1 else f"{p.m} × {p.n} × {p.k}",
        css="r num",
    ),
    time("time", lambda product: product.time_us),
    figure("TFLOP/s", lambda product: product.tflops, text.number),
    share("of roof", lambda product: product.share_of_roof),
    words("roof", lambda product: product.roof),
    words("tile", lambda product: product.tile, css="num"),
    figure("waves", lambda product: product.waves, text.number),
    figure("tiles a block", lambda product: product.tiles_per_block, text.number),
)


def products(case: CaseView) -> Table:
    """The matrix products of a case."""
    return table(f"products-{case.spec.case}", "Matrix products", _PRODUCT, case.products)


def kernels(
    row: CaseFacts, cost_of: Callable[[Activity], KernelCost | None], built_for: Callable[[Activity], str | None]
) -> Table:
    """The kernels of one forward, for report.md; the page draws them in lanes."""
    total = sum(activity.duration_us for activity in row.activities)

    def says(activity: Activity) -> Cell:
        shown, built = names.of_activity(activity), built_for(activity)
        return cell(", ".join(part for part in (shown.what, shown.precision, built and f"built for {built}") if part))

    def rate(activity: Activity) -> float | None:
        cost = cost_of(activity)
        return cost.gb_per_s if cost else None

    def of_roof(activity: Activity) -> Cell:
        cost = cost_of(activity)
        known = cost if cost and cost.share_of_roof is not None else None
        return cell(text.share(known and known.share_of_roof), known.roof if known else None)

    columns: tuple[Column[Activity], ...] = (
        figure("", lambda activity: activity.position),
        words("kernel", lambda activity: Part(names.of_activity(activity).short, "code")),
        Column("what it does", says),
        words("family", lambda activity: family_of(activity.category, activity.family).label),
        time("time", lambda activity: activity.duration_us),
        share("share", lambda activity: activity.duration_us / total if total else None),
        figure("GB/s", rate, text.number),
        Column("of roof", of_roof, css="r num"),
        words("launched by", lambda activity: Part(activity.op_path, "code") if activity.op_path else None),
    )
    return table(f"kernels-{row.run}-{row.case}", f"Kernels of one forward on {row.run}", columns, row.activities)


# --- workloads and runs -----------------------------------------------------------------------------------------------


_Pair = tuple[CaseView, CellView, CaseFacts]


def published(work: WorkloadView) -> Table:
    """Measured counts and times beside the published ones."""
    rows: list[_Pair] = [
        (case, measured, published[0].row)
        for case, cells, published in work.published
        for measured in cells
        if measured.row.status == "ok"
    ]

    def same(pair: _Pair) -> Part | None:
        ours, theirs = pair[1].row.kernels, pair[2].kernels
        return None if ours is None or theirs is None else _yes(ours == theirs)

    columns: tuple[Column[_Pair], ...] = (
        words("case", lambda pair: Part(pair[0].spec.case, href=pair[0].anchor)),
        words("run", lambda pair: pair[1].run.run),
        figure("kernels", lambda pair: pair[1].row.kernels),
        figure("memcpys", lambda pair: pair[1].row.memcpys),
        time("device time", lambda pair: pair[1].row.device_time_us),
        figure("published kernels", lambda pair: pair[2].kernels),
        figure("published memcpys", lambda pair: pair[2].memcpys),
        time("published device time", lambda pair: pair[2].device_time_us),
        words("same count", same),
    )
    return table(f"published-{work.title}", "Beside what was published", columns, rows)


def _asked_in(row: Answer) -> Part:
    cases = row.cases.split(", ")
    return Part(row.cases if len(cases) < 3 else text.plural(len(cases), "case"), title=row.cases)


_BACKEND: tuple[Column[Answer], ...] = (
    words("run", lambda row: row.run),
    words("backend", lambda row: row.backend),
    words("usable", lambda row: _yes(row.usable)),
    words("torch’s reason against it", lambda row: row.reason or "", 600, "wide"),
    words("for", lambda row: row.inputs, 200, "wide"),
    words("asked in", _asked_in),
)


def backends(work: WorkloadView) -> Table:
    """Which SDPA backends the devices take."""
    return table(f"backends-{work.name}", "Which SDPA backends this device takes", _BACKEND, work.backends)


def trusted(rows: Sequence[Trust], anchors: Anchors) -> Table:
    """How far each case can be trusted."""

    def listed(row: Trust, name: str) -> str | None:
        value = getattr(row, name)
        return text.clip(value, 80) if value else None

    columns: tuple[Column[Trust], ...] = (
        words("case", lambda row: _case(row.case, anchors)),
        words("run", lambda row: row.run),
        Column("processes", lambda row: cell(trust.processes(row), value=row.processes), css="r num"),
        share("device spread", lambda row: row.device_spread),
        Column("forward spread", lambda row: cell(trust.forward_spread(row), value=row.forward_spread), css="r num"),
        share("CPU spread", lambda row: row.cpu_spread),
        figure("forward / busy", lambda row: row.busy_ratio, lambda value: text.ratio(value, 3)),
        words("bound by", trust.bound_by),
        figure("profiler overhead", lambda row: row.overhead_share, trust.signed),
        words("warm-up", trust.warm_up),
        words("SM clock, MHz", trust.sm_clock),
        words("held down by", lambda row: listed(row, "clock_reasons")),
        words("others on GPU", lambda row: listed(row, "other_gpu_processes")),
        words("first call", trust.first_call, css="r"),
        words("timed by", trust.timed_by),
    )
    return table("trust", "One row a case and run", columns, rows, "trust")


def not_measured(edition: Edition, anchors: Anchors) -> Table:
    """Runs and cases that did not run, with the reason of each."""
    everything, no_reason = Part("all", "muted"), "no reason given"
    rows: list[tuple[str, Part, Part, str]] = []
    rows += [(run, everything, Part("left out", "flag"), reason) for run, reason in edition.left_out]
    rows += [(run.run, everything, Part("lost", "bad"), run.reason or no_reason) for run in story.lost(edition)]
    for row in story.troubles(edition):
        state = Part(row.status, "bad" if row.bad else "flag")
        rows.append((row.run, _case(row.case, anchors), state, row.reason or no_reason))
    columns: tuple[Column[tuple[str, Part, Part, str]], ...] = (
        words("run", lambda row: row[0]),
        words("case", lambda row: row[1]),
        words("state", lambda row: row[2]),
        words("reason", lambda row: row[3], 600),
    )
    return table("not-measured", "What did not run", columns, rows)


def environment(runs: Sequence[Run], rows: Iterable[tuple[str, tuple[str, ...], bool]]) -> Table:
    """What each run ran on and with, a column a run."""
    limits: dict[str, Callable[[str], str]] = {"description": str, "device": lambda value: text.listed(value, 200)}

    def line(label: str, values: tuple[str, ...], differ: bool) -> Line:
        show = limits.get(label, lambda value: text.clip(value, 200))
        mark = Part("≠", "muted", "differs between runs") if differ else None
        return Line((cell(label, mark), *(cell(show(v) if v else None) for v in values)), "differ" if differ else "")

    heads: list[Column[Any]] = [Column("", cell), *(Column(run.run, cell) for run in runs)]
    return Table("environment", "Environment", tuple(heads), tuple(line(*row) for row in rows), "environment", True)
