"""What leads a report that guesses do not lead: of a folder of traces, or of a run on the CPU alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernelbook.cases import CaseFacts, Process
from kernelbook.cases.comparability import refusal
from kernelbook.cases.top_kernels import TopRow, top_kernels
from kernelbook.edition.model import Edition
from kernelbook.judge.votes import ABOUT_EQUAL, FASTER, PROCESSES_DIFFER, SLOWER, by_process, vote
from kernelbook.text.formatting import duration, plural, share

NAMED_FAMILIES = 3
UNNAMED = ("other", "unknown")  # families that tell nothing in a headline
TOP = 20
MOST_FILES = 200


@dataclass(frozen=True)
class TraceRow:
    """One trace of a folder. longest: name of the activity with the longest total in it."""

    run: str
    process: Process
    kernels: int | None
    device_time_us: float | None
    longest: str | None


@dataclass(frozen=True)
class Folder:
    """A report of nothing but traces. kernels and families: over all traces; total_us: their device time."""

    traces: tuple[TraceRow, ...]
    kernels: tuple[TopRow, ...]
    families: tuple[TopRow, ...]

    @property
    def total_us(self) -> float:
        return sum(row.total_us for row in self.families)

    @property
    def sentence(self) -> str:
        """`22 traces: 1.80 s of device time (43 % other, 15 % elementwise, 13 % GEMM)`."""
        silent = sum(row.kernels is None for row in self.traces)
        parts = [plural(len(self.traces), "trace")]
        if self.total_us:
            kinds = [row for row in self.families if row.name not in UNNAMED][:NAMED_FAMILIES]
            kinds_text = [f"{share(row.total_us / self.total_us)} {row.name}" for row in kinds]
            parts[0] += f": {duration(self.total_us)} of device time ({', '.join(kinds_text)})"
        parts += [f"{silent} without device activities"] if silent else []
        return "; ".join(parts)


def folder_of(edition: Edition) -> Folder | None:
    """The edition as a folder of traces; None if it has anything else, such as measurements or guesses."""
    rows = [row for row in edition.case_runs if row.status == "ok"]
    if not rows or edition.judged or not all(row.bare for row in rows):
        return None
    kernels = edition.tables["kernels"].to_pylist()
    pairs = [((row["run"], row["case"], row["process"], row.get("rank")), row) for row in kernels]
    by_name, by_family = top_kernels(pairs)
    longest: dict[tuple[str, str, int, int | None], tuple[float, str]] = {}
    for key, row in pairs:
        longest[key] = max(longest.get(key, (0.0, "")), (row["total_us"], row["name"]))
    traces = [
        TraceRow(
            row.run,
            process,
            process.totals.kernels,
            process.totals.device_time_us,
            longest.get((row.run, row.case, process.process, process.rank), (0.0, None))[1],
        )
        for row in rows
        for process in row.ranks or row.processes
        if process.totals is not None
    ]
    return Folder(tuple(traces), tuple(by_name), tuple(by_family))


def opening(edition: Edition) -> str:
    """What leads the report before its guesses, without a full stop; empty for other reports."""
    folder = folder_of(edition)
    return folder.sentence if folder else cpu_sentence(edition)


def cpu_sentence(edition: Edition) -> str:
    """Whether compiled forwards are faster than eager ones, where everything ran on the CPU; else empty.

    By unprofiled forward times: every pair of processes must agree.
    """
    rows = [row for row in edition.case_runs if row.status == "ok" and not _is_published(edition, row)]
    if not rows or any(row.device_type != "cpu" for row in rows):
        return ""
    verdicts = Counter(_verdicts(rows))
    if not verdicts:
        return f"on the CPU: forward times of {plural(len(rows), 'case')}; kernels and device times need a GPU"
    words = {FASTER: "faster", SLOWER: "slower", ABOUT_EQUAL: "about as fast", PROCESSES_DIFFER: "undecided"}
    parts = [f"{words[verdict]} in {verdicts[verdict]}" for verdict in words if verdicts[verdict]]
    return f"on the CPU compiled forwards, against eager, are {', '.join(parts)} of {plural(verdicts.total(), 'case')}"


def _is_published(edition: Edition, row: CaseFacts) -> bool:
    return any(run.run == row.run and run.kind == "published" for run in edition.runs)


def _verdicts(rows: list[CaseFacts]) -> Iterator[str]:
    """For each compiled case with an eager twin in its run: how its forward time compares."""
    for row in rows:
        twins = [
            other
            for other in rows
            if (other.run, other.workload, other.variant, other.mode) == (row.run, row.workload, row.variant, "eager")
            and refusal(row.setting, other.setting) is None
        ]
        if row.mode != "compile" or not twins:
            continue
        voted = vote(by_process(row, "forward_time_us"), by_process(twins[0], "forward_time_us"))
        if voted is not None:
            yield voted.verdict
