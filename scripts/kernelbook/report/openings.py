"""The opening of a report of a folder of traces, or of runs on the CPU, in place of or before its guesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernelbook.cases import CaseFacts, Process
from kernelbook.cases.comparability import refusal
from kernelbook.collectives.likeness import fold
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.ratios import ABOUT_EQUAL, FASTER, PROCESSES_DIFFER, SLOWER, by_process, vote
from kernelbook.kernel_names.top_kernels import TopRow, top_kernels
from kernelbook.text.formatting import duration, number_ranges, plural, share

NAMED_FAMILIES = 3
UNNAMED = ("other", "unknown")  # families without information for a headline
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
class TraceRows:
    """Traces that share a row: one, or those of similar ranks of one job (`likeness.fold`)."""

    traces: tuple[TraceRow, ...]

    @property
    def first(self) -> TraceRow:
        return self.traces[0]

    @property
    def ranks(self) -> str | None:
        """Their ranks, such as `0, 2 to 63`; None for traces without ranks."""
        ranks = [row.process.rank for row in self.traces if row.process.rank is not None]
        return number_ranges(ranks) if ranks else None

    @property
    def times_us(self) -> list[float]:
        """The known device times."""
        return [row.device_time_us for row in self.traces if row.device_time_us is not None]


@dataclass(frozen=True)
class Folder:
    """A report of bare traces. kernels and families: over all traces. total_us: their device time."""

    traces: tuple[TraceRow, ...]
    kernels: tuple[TopRow, ...]
    families: tuple[TopRow, ...]

    @property
    def rows(self) -> list[TraceRows]:
        """The rows of the traces; ranks with the same kernels and device times within 5 % share a row."""

        def alike(row: TraceRow) -> tuple[TraceRow, object, float, tuple[float, ...]]:
            time = row.device_time_us or 0.0
            own = row.process
            fact = row.run, own.case, own.device, row.kernels, row.longest, own.process if own.rank is None else None
            return row, fact, time, (time,)

        return [TraceRows(tuple(rows)) for rows in fold(map(alike, self.traces))]

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
            unnamed = [row for row in self.families if row.name in UNNAMED and row.total_us > self.total_us / 2]
            waits = {"communication": "communication and waiting for ranks"} if self._has_ranks else {}
            kinds_text = [
                f"{share(row.total_us / self.total_us)} {waits.get(row.name, row.name)}" for row in (*unnamed, *kinds)
            ]
            parts[0] += f": {duration(self.total_us)} of device time ({', '.join(kinds_text)})"
        parts += [f"{duration(self.implausible_us)} of it is impossible"] if self.implausible_us else []
        parts += [f"{silent} without device activities"] if silent else []
        return "; ".join(parts)

    @property
    def implausible_us(self) -> float:
        """The implausible part of `total_us` (see the warning `implausible`)."""
        totals = (row.process.totals for row in self.traces)
        return sum(each.implausible_us or 0.0 for each in totals if each is not None)

    @property
    def _has_ranks(self) -> bool:
        return any(row.process.rank is not None for row in self.traces)


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
    """The opening of the report before its guesses, without a full stop; empty for other reports.

    For a folder with jobs, the lead sentence about the ranks of the first job comes first.
    """
    folder = folder_of(edition)
    if folder is None:
        return job_lead(edition) or _capital(cpu_sentence(edition))
    first = job_lead(edition)
    if first is None:
        return folder.sentence
    only = edition.case_runs[0].case if len(edition.case_runs) == 1 else None
    return f"{_capital(first.removeprefix(f'{only}: ')) if only else first} {folder.sentence}"


def job_lead(edition: Edition) -> str | None:
    """The lead sentence about ranks, if the report is of a folder with a job or if all cases have ranks on GPUs.

    None for other reports. Without a full stop if guesses may follow.
    """
    with_ranks = [len(row.ranks) > 1 for row in edition.case_runs]
    if not edition.words or not any(with_ranks):
        return None
    if folder_of(edition) is None:
        on_cpu = any(row.device_type == "cpu" for row in edition.case_runs)
        return edition.words[0].rstrip(".") if all(with_ranks) and not on_cpu else None
    return edition.words[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def cpu_sentence(edition: Edition) -> str:
    """Whether compiled forwards are faster than eager ones, if everything ran on the CPU; else empty."""
    rows = _measured(edition)
    if not rows or any(row.device_type != "cpu" for row in rows):
        return ""
    compared = _compiled(rows)
    if not compared:
        return f"on the CPU: forward times of {plural(len(rows), 'case')}; kernels and device times need a GPU"
    return f"on the CPU {compared}"


@dataclass(frozen=True)
class CpuRun:
    """The result of a run on a CPU, beside runs on GPUs.

    pair: forward times of the headline's slower and faster case, µs; None if one of them has none.
    """

    run: Run
    text: str
    pair: tuple[float, float] | None


def cpu_runs(edition: Edition) -> tuple[CpuRun, ...]:
    """One for each run whose cases all ran on a CPU; empty if no other run has device activities."""
    rows = _measured(edition)
    made = []
    for run in edition.runs if any(row.on_device for row in rows) else ():
        own = [row for row in rows if row.run == run.run]
        if own and all(row.device_type == "cpu" for row in own):
            times = {row.case: row.forward_time_us for row in own}
            slow, fast = (times.get(case) for case in edition.headline or ("", ""))
            others = {row.case: row.params for row in rows if row.on_device}
            sizes = sum(row.case in others and others[row.case] != row.params for row in own)
            parts = [_compiled(own), f"{plural(sizes, 'case')} with other sizes than on the GPU" if sizes else ""]
            made.append(CpuRun(run, "; ".join(filter(None, parts)), (slow, fast) if slow and fast else None))
    return tuple(made)


def _compiled(rows: list[CaseFacts]) -> str:
    """Compiled forwards against eager ones, by unprofiled forward times; empty if there is no such pair of cases.

    All pairs of processes must agree.
    """
    verdicts = Counter(_verdicts(rows))
    words = {FASTER: "faster", SLOWER: "slower", ABOUT_EQUAL: "about as fast", PROCESSES_DIFFER: "undecided"}
    parts = [f"{words[verdict]} in {verdicts[verdict]}" for verdict in words if verdicts[verdict]]
    cases = plural(verdicts.total(), "case")
    return f"compiled forwards, against eager, are {', '.join(parts)} of {cases}" if parts else ""


def _measured(edition: Edition) -> list[CaseFacts]:
    published = {run.run for run in edition.runs if run.kind == "published"}
    return [row for row in edition.case_runs if row.status == "ok" and row.run not in published]


def _verdicts(rows: list[CaseFacts]) -> Iterator[str]:
    """The verdict on the forward time of each compiled case against its eager twin in the same run."""
    for row in rows:
        twins = [
            other
            for other in rows
            if (other.run, other.workload, other.variant, other.mode) == (row.run, row.workload, row.variant, "eager")
            and refusal(row.conditions, other.conditions) is None
        ]
        if row.mode != "compile" or not twins:
            continue
        voted = vote(by_process(row, "forward_time_us"), by_process(twins[0], "forward_time_us"))
        if voted is not None:
            yield voted.verdict
