"""Tables of one case."""

from __future__ import annotations

from collections.abc import Callable

from kernelbook.cases import Activity, CaseFacts, label
from kernelbook.counters import KernelCounters, facts_of
from kernelbook.judge.cost_model import ForwardCost, GemmCost, KernelCost
from kernelbook.kernel_names import labels
from kernelbook.report.case_views import CaseView
from kernelbook.report.families import family_of
from kernelbook.report.ranges import KernelLine, RangeLine, WholeFile
from kernelbook.report.table import Cell, Part, Table, TableColumn, cell, figure, share, table, time, words
from kernelbook.text import formatting
from kernelbook.text.formatting import number_ranges

SAME_WORK = "ranges of one kind ran the same kernels; kind 1 is the most frequent"
INFERRED = Part("inferred", "muted", "launched by another thread while the range was open")


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
    if file.ranks:
        which = f", rank {file.ranks[0]}"
        which += f" (alike: {number_ranges(file.ranks[1:])})" if len(file.ranks) > 1 else ""
    times = f"{formatting.duration(file.device_time_us)}, busy {formatting.duration(file.device_busy_us)}"
    caption = f"The whole file{which}: {', '.join(parts)}; {times}"
    return table(f"file-{case.spec.case}-{file.run}-{file.process}", caption, _IN_FILE, file.longest)


def against_floor(case: CaseView) -> Table:
    """The achieved share of the ceilings on each run."""
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
        time("least time", lambda cost: cost.floor_us),
        figure("times the least", lambda cost: cost.times_floor, formatting.ratio),
        words("against its fastest peer", lambda cost: cost.trade_off or "", 300, "wide"),
    )
    return table(f"floor-{case.spec.case}", "Against the least time that the ceilings allow", columns, case.costs)


_PRODUCT: tuple[TableColumn[GemmCost], ...] = (
    words("run", lambda product: product.run),
    figure("#", lambda product: product.position),
    words("kernel", lambda product: Part(formatting.clip(product.label, 64), "code"), css="wide"),
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
    """The kernels of one forward, for report.md; the page draws them as lanes."""
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
        words("launched by", lambda activity: Part(activity.launched_by, "code") if activity.launched_by else None),
    )
    return table(f"kernels-{row.run}-{row.case}", f"Kernels of one forward on {row.run}", columns, row.activities)


# --- counters --------------------------------------------------------------------------------------------------------


def _percent(value: float) -> str:
    return f"{value:.0f} %"


_COLUMNS: tuple[TableColumn[KernelCounters], ...] = (
    figure("", lambda row: row.position),
    words("kernel", lambda row: Part(label("kernel", row.name), "code") if row.name else None),
    time("under ncu", lambda row: row.duration_us),
    figure("DRAM read", lambda row: row.dram_read_bytes, formatting.size, "bytes"),
    figure("written", lambda row: row.dram_write_bytes, formatting.size, "bytes"),
    figure("modelled / DRAM", lambda row: row.bytes_ratio, formatting.ratio),
    figure("SM", lambda row: row.sm_percent, _percent),
    figure("tensor", lambda row: row.tensor_percent, _percent),
    figure("L2", lambda row: row.l2_percent, _percent),
    figure("DRAM", lambda row: row.dram_percent, _percent),
    figure("occupancy", lambda row: row.occupancy_percent, _percent),
    TableColumn("by the counters", lambda row: cell(row.sentence or row.reason, "; ".join(facts_of(row)) or None)),
)


def counters(row: CaseFacts) -> Table:
    """The counters of each kernel of one forward."""
    return table(f"counters-{row.run}-{row.case}", f"Counters of one forward on {row.run}", _COLUMNS, row.counters)
