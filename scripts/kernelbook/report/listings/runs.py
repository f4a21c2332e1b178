"""Tables over runs: SDPA backends, trust, runs and cases that did not run, environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernelbook.edition.model import Edition, Run
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import Trust
from kernelbook.report import first_screen, trust_section
from kernelbook.report.case_views import WorkloadView
from kernelbook.report.table import (
    Anchors,
    Cell,
    Line,
    Part,
    Table,
    TableColumn,
    case_link,
    cell,
    figure,
    share,
    table,
    words,
    yes_no,
)
from kernelbook.text import formatting


def _cases(row: Answer) -> Part:
    names = ", ".join(row.cases)
    return Part(names if len(row.cases) < 3 else formatting.plural(len(row.cases), "case"), title=names)


_BACKEND: tuple[TableColumn[Answer], ...] = (
    words("run", lambda row: row.run),
    words("backend", lambda row: row.backend),
    words("usable", lambda row: yes_no(row.usable)),
    words("torch’s reason against it", lambda row: row.reason or "", 600, "wide"),
    words("for", lambda row: row.inputs, 200, "wide"),
    words("cases", _cases),
)


def backends(work: WorkloadView) -> Table:
    """The SDPA backends that the devices support."""
    return table(f"backends-{work.name}", "SDPA backends of this device", _BACKEND, work.backends)


def trusted(rows: Sequence[Trust], anchors: Anchors) -> Table:
    """Spreads, bounds and circumstances of each case on each run."""

    def listed(row: Trust, name: str) -> str | None:
        names: tuple[str, ...] | None = getattr(row, name)
        return None if names is None else formatting.clip(", ".join(names) or "none", 80)

    several_gpus = any(len(gpus) > 1 for gpus in trust_section.gpus_of_runs(rows).values())
    columns: tuple[TableColumn[Trust], ...] = (
        words("case", lambda row: case_link(row.case, anchors)),
        words("run", lambda row: row.run),
        TableColumn("processes", lambda row: cell(trust_section.processes(row), value=row.processes), css="r num"),
        *([words("GPU", lambda row: ", ".join(row.gpus or ()))] if several_gpus else []),
        share("device spread", lambda row: row.device_spread),
        TableColumn(
            "forward spread", lambda row: cell(trust_section.forward_spread(row), value=row.forward_spread), css="r num"
        ),
        share("CPU spread", lambda row: row.cpu_spread),
        figure("forward / busy", lambda row: row.busy_ratio, lambda value: formatting.ratio(value, 3)),
        words("bound by", trust_section.bound_by),
        figure("profiler overhead", lambda row: row.overhead_share, trust_section.signed),
        words("warm-up", trust_section.warm_up),
        TableColumn("SM clock, MHz", lambda row: cell(trust_section.sm_clock(row), value=row.sm_before_mhz)),
        words("throttled by", lambda row: listed(row, "clock_reasons")),
        words("others on GPU", lambda row: listed(row, "other_gpu_processes")),
        TableColumn(
            "first call",
            lambda row: cell(trust_section.first_call(row), value=trust_section.first_call_us(row)),
            "µs",
            "r num",
        ),
        words("timed by", trust_section.timed_by),
    )
    return table("trust", "One row a case and run", columns, rows, "trust")


def not_measured(edition: Edition, anchors: Anchors) -> Table:
    """Runs and cases that did not run; cases of a run that share a state and a reason share a row."""
    everything, no_reason = cell(Part("all", "muted")), "no reason given"
    rows: list[tuple[str, Cell, Part, str]] = []
    rows += [(run, everything, Part("left out", "flag"), reason) for run, reason in edition.left_out]
    rows += [(run.run, everything, Part("lost", "bad"), run.reason or no_reason) for run in first_screen.lost(edition)]
    alike: dict[tuple[str, str, str], list[first_screen.Trouble]] = {}
    for row in first_screen.troubles(edition):
        alike.setdefault((row.run, row.status, row.reason or no_reason), []).append(row)
    for (run, status, reason), each in alike.items():
        state = Part(status, "bad" if each[0].bad else "flag")
        rows.append((run, cell(*(case_link(row.case, anchors) for row in each)), state, reason))
    columns: tuple[TableColumn[tuple[str, Cell, Part, str]], ...] = (
        words("run", lambda row: row[0]),
        TableColumn("cases", lambda row: row[1], css="wide"),
        words("state", lambda row: row[2]),
        words("reason", lambda row: row[3], 600),
    )
    return table("not-measured", "What did not run", columns, rows)


def environment(runs: Sequence[Run], rows: Iterable[tuple[str, tuple[str, ...], bool]]) -> Table:
    """Hardware and software of each run, a column for each."""
    limits: dict[str, Callable[[str], str]] = {
        "description": str,
        "device": lambda value: formatting.listed(value, 200),
    }

    def short(value: str) -> str:
        return formatting.clip(value, 200)

    def line(label: str, values: tuple[str, ...], differ: bool) -> Line:
        show = limits.get(label, short)
        mark = Part("≠", "muted", "differs between runs") if differ else None
        return Line((cell(label, mark), *(cell(show(v) if v else None) for v in values)), "differ" if differ else "")

    heads: list[TableColumn[Any]] = [TableColumn("fact", cell), *(TableColumn(run.run, cell) for run in runs)]
    return Table("environment", "Environment", tuple(heads), tuple(line(*row) for row in rows), "environment", True)
