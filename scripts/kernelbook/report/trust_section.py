"""The section on trust: statements about the rows of the table ``trust``, its cells, and the ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernelbook.cases import RESTLESS_FROM
from kernelbook.judge.clock import DISAGREE_FROM
from kernelbook.judge.cost_model import Ceiling
from kernelbook.judge.trust import CPU_WITHIN, WITHIN, Trust
from kernelbook.report.phrases import on_runs
from kernelbook.text import formatting
from kernelbook.text.formatting import significant

TIMERS = {"cuda_events": "CUDA events", "wall": "wall clock"}
#: quantity of a ceiling -> (per second, unit)
CEILING_UNITS = {"compute": (1e12, "TFLOP/s"), "memory": (1e9, "GB/s"), "L2 cache": (1e9, "GB/s")}


@dataclass(frozen=True)
class Statement:
    """A sentence with the rows that it is about. rows: (case, its runs in brackets or nothing).

    has_figures: whether any row has the figures of the sentence.
    """

    lead: str
    rows: tuple[tuple[str, str], ...] = ()
    has_figures: bool = True

    @property
    def sentence(self) -> str:
        """The sentence with its rows as plain text."""
        return self.lead + (": " + ", ".join(case + runs for case, runs in self.rows) if self.rows else "") + "."


NOTHING_KNOWN = Statement(
    "Noise, clocks and other programs on the GPU are not known: a trace states no time without the profiler, and one "
    "process shows no spread. Counts of kernels do not suffer",
    has_figures=False,
)


def statements(rows: Sequence[Trust]) -> tuple[Statement, ...]:
    """Statements on the reliability of the figures; every row outside of 2 % is listed."""
    if not rows:
        return ()
    return (*_gpus(rows), *_agreement(rows), *_spreads(rows), *_circumstances(rows))


def of_traces(rows: Sequence[Trust]) -> tuple[Statement, ...]:
    """As `statements`, for traces without a measurement: one sentence if no row has figures."""
    made = statements(rows)
    return made if any(statement.has_figures for statement in made) else (NOTHING_KNOWN,)


def gpus_of_runs(rows: Iterable[Trust]) -> dict[str, tuple[str, ...]]:
    """Run -> its GPUs, `gpu_id` of each, in the order of its rows; empty where unknown."""
    gpus: dict[str, dict[str, None]] = {}
    for row in rows:
        gpus.setdefault(row.run, {}).update(dict.fromkeys(row.gpus or ()))
    return {run: tuple(ids) for run, ids in gpus.items()}


def _gpus(rows: Sequence[Trust]) -> Iterable[Statement]:
    """The number of GPUs of one model that were used, if that is more than one or unknown."""
    most = max(map(len, gpus_of_runs(rows).values()))
    pooled = [row for row in rows if len(row.gpus or ()) > 1]
    if pooled:
        lead = f"Pooled over {most} GPUs of one kind ({len(pooled)} of {formatting.plural(len(rows), 'row')})"
        yield Statement(lead, _cases(pooled, rows))
    elif most > 1:
        yield Statement(f"Measured on {most} GPUs of one kind: each row on one of them, not all rows on the same")
    unknown = [row for row in rows if row.gpus is None and row.device_busy_us and row.processes > 1]
    if unknown:
        share = f"{len(unknown)} of {formatting.plural(len(rows), 'row')}"
        lead = f"Whether all processes ran on one GPU is unknown ({share})"
        yield Statement(lead, _cases(unknown, rows))


def _agreement(rows: Sequence[Trust]) -> Iterable[Statement]:
    """The unprofiled forward against the device's busy time in it, and the rows in which they differ."""
    judged = [row for row in rows if row.busy_ratio]
    if not judged:
        yield Statement("No row has both a device busy time and an unprofiled forward time", has_figures=False)
        return
    near = sum(abs(_ratio(row) - 1) <= WITHIN for row in judged)
    yield Statement(
        f"In {near} of {formatting.plural(len(judged), 'row')} an unprofiled forward takes as long as the device is "
        "busy under the profiler, within 2 %"
    )
    tenth = f"{DISAGREE_FROM * 100:.0f} %"
    groups: tuple[tuple[str, Callable[[Trust], bool]], ...] = (
        (f"takes 2 to {tenth} longer", lambda row: row.bound == "gpu" and _ratio(row) > 1 + WITHIN),
        (f"takes over {tenth} longer, because the device waits for launches", lambda row: row.bound == "launches"),
        (f"takes over {tenth} longer, and it is unclear why", lambda row: row.bound == "unclear"),
        ("takes over 2 % less", lambda row: _ratio(row) < 1 - WITHIN),
    )
    for lead, belongs in groups:
        matching = [row for row in judged if belongs(row)]
        if matching:
            yield Statement(f"In {formatting.plural(len(matching), 'row')} the forward {lead}", _cases(matching, rows))
    divided = [row for row in judged if row.bound_processes is not None and row.bound_processes < row.processes]
    if divided:
        lead = f"In {formatting.plural(len(divided), 'row')} the processes disagree on what limits the forward"
        yield Statement(lead, _cases(divided, rows, bound_by))


def _ratio(row: Trust) -> float:
    return row.busy_ratio or 1.0


def _spreads(rows: Sequence[Trust]) -> Iterable[Statement]:
    two = "two processes with that time are needed"
    for lead, column, within in (
        ("Device time", "device_spread", WITHIN),
        ("Unprofiled forward time", "forward_spread", WITHIN),
        ("CPU time under the profiler", "cpu_spread", CPU_WITHIN),
    ):
        lead = f"{lead} differs by more than {within * 100:.0f} % between processes"
        yield _matching(lead, rows, _wide(column, within), two)


def _wide(column: str, within: float) -> Callable[[Trust], bool | None]:
    return lambda row: None if getattr(row, column) is None else getattr(row, column) > within


def _circumstances(rows: Sequence[Trust]) -> Iterable[Statement]:
    yield _matching(
        "The GPU was throttled, or far below its highest clock", rows, lambda row: _some(row.throttled_processes)
    )
    yield _matching(
        "Forward times were still falling after the warm-up", rows, lambda row: _some(row.falling_processes)
    )
    yield _matching("Forward times rose from the first to the last", rows, lambda row: _some(row.rising_processes))
    noisy = f"Forward times are noisy, their 95th percentile above {RESTLESS_FROM:.0f} times their 5th"
    yield _matching(noisy, rows, lambda row: row.restless)
    yield _matching("Other programs used the GPU", rows, lambda row: row.other_gpu_processes)
    yield _matching("A process took more than one attempt", rows, lambda row: _some(row.retried_processes))
    failed = [row for row in rows if row.failed_processes]
    elsewhere = [row for row in rows if row.elsewhere_processes]
    if failed:
        lead = f"In {formatting.plural(len(failed), 'row')} a process failed and is excluded from the figures"
        yield Statement(lead, _cases(failed, rows))
    if elsewhere:
        rows_elsewhere = formatting.plural(len(elsewhere), "row")
        lead = f"In {rows_elsewhere} a process ran on another machine and is excluded from the figures"
        yield Statement(lead, _cases(elsewhere, rows))


def _some(count: int | None) -> bool | None:
    return None if count is None else count > 0


def _matching(
    lead: str, rows: Sequence[Trust], test: Callable[[Trust], object], why: str = "it could not be read"
) -> Statement:
    """The rows that pass the test; rows for which it gives None count as n/a, not as passing or failing."""
    answers = [(row, test(row)) for row in rows]
    matching = [row for row, answer in answers if answer]
    unknown = sum(answer is None for _, answer in answers)
    if unknown == len(rows):
        return Statement(f"{lead}: n/a, {why}", has_figures=False)
    beside = f", n/a in {unknown}" if unknown else ""
    if not matching:
        return Statement(f"{lead}: in none of {formatting.plural(len(rows) - unknown, 'row')}{beside}")
    return Statement(
        f"{lead} ({len(matching)} of {formatting.plural(len(rows) - unknown, 'row')}{beside})", _cases(matching, rows)
    )


def _cases(
    matching: Sequence[Trust], rows: Sequence[Trust], detail: Callable[[Trust], str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Each case of the matching rows once, with its runs if `rows` have more than one, and a detail of each row."""
    one_run = len({row.run for row in rows}) == 1
    notes: dict[str, list[str]] = {}
    for row in matching:
        parts = [] if one_run else [row.run]
        notes.setdefault(row.case, []).append(": ".join(parts + ([detail(row)] if detail else [])))
    return tuple((case, f" ({', '.join(parts)})" if any(parts) else "") for case, parts in notes.items())


# --- cells ------------------------------------------------------------------------------------------------------------


def processes(row: Trust) -> str:
    """`3`, `2, 1 failed`, `3, 1 retried`."""
    more = (
        (row.failed_processes, "failed"),
        (row.elsewhere_processes, "elsewhere"),
        (row.retried_processes, "retried"),
    )
    return ", ".join([str(row.processes), *(f"{count} {word}" for count, word in more if count)])


def forward_spread(row: Trust) -> str:
    """`0.2 %`, `41 %, noisy`."""
    return formatting.share(row.forward_spread) + (", noisy" if row.restless else "")


def signed(value: float | None) -> str:
    """A share with its sign: `+1.6 %`, `+77 %`."""
    if value is None:
        return formatting.NOT_AVAILABLE
    return f"{value * 100:+.{1 if abs(value) < 0.1 else 0}f} %"


def bound_by(row: Trust) -> str:
    """The bound of a forward: `gpu`, or `launches in 2 of 3` if processes differ."""
    if row.bound_processes is None or row.bound_processes == row.processes:
        return row.bound
    return f"{row.bound} in {row.bound_processes} of {row.processes}"


def warm_up(row: Trust) -> str:
    """Whether forward times had a trend: `settled`, `still falling in 3 of 3`, `rising in 2 of 3`."""
    if row.falling_processes is None:
        return formatting.NOT_AVAILABLE
    of_all = f"of {row.checked_processes}"
    falling = f"still falling in {row.falling_processes} {of_all}" + (", no warm-up" if row.warmup == 0 else "")
    rising = f"rising in {row.rising_processes} {of_all}"
    trends = ((row.falling_processes, falling), (row.rising_processes, rising))
    return ", ".join(text for count, text in trends if count) or "settled"


def sm_clock(row: Trust) -> str:
    """`1,980 → 1,515`, MHz before and after, the lowest of all processes; `1,980` if it did not change."""
    if row.sm_before_mhz is None and row.sm_after_mhz is None:
        return formatting.NOT_AVAILABLE
    both = (row.sm_before_mhz, row.sm_after_mhz)
    texts = (formatting.NOT_AVAILABLE if value is None else f"{value:,.0f}" for value in both)
    return " → ".join(dict.fromkeys(texts))


def first_call(row: Trust) -> str:
    """First calls by the state of the compile cache: `104 ms`, `12.3 s cold, 1.20 s shared`."""
    calls = (
        (row.first_call_us, ""),
        (row.first_call_cold_us, " cold"),
        (row.first_call_shared_us, " shared"),
        (row.first_call_unknown_us, " cache state unknown"),
    )
    return (
        ", ".join(formatting.duration(value) + state for value, state in calls if value is not None)
        or formatting.NOT_AVAILABLE
    )


def first_call_us(row: Trust) -> float | None:
    """The first of the values in `first_call`, µs."""
    values = (row.first_call_us, row.first_call_cold_us, row.first_call_shared_us, row.first_call_unknown_us)
    return next((value for value in values if value is not None), None)


def timed_by(row: Trust) -> str:
    """`CUDA events`, `CUDA events, L2 flushed`."""
    if row.forward_timer is None:
        return formatting.NOT_AVAILABLE
    return TIMERS.get(row.forward_timer, row.forward_timer) + (", L2 flushed" if row.flush_l2 else "")


# --- ceilings ---------------------------------------------------------------------------------------------------------


def ceiling_lines(ceilings: Iterable[Ceiling], trust: Iterable[Trust], runs: Iterable[str]) -> tuple[str, ...]:
    """The ceilings of these runs, one sentence for runs with the same ceilings; runs without any are skipped."""
    clocks = {(row.run, row.case): row for row in trust}
    by_run: dict[str, list[str]] = {}
    for ceiling in ceilings:
        clock = clocks.get((ceiling.run, ceiling.case)) if ceiling.case else None
        by_run.setdefault(ceiling.run, []).append(_ceiling(ceiling, clock))
    alike: dict[str, list[str]] = {}
    for run in dict.fromkeys(runs):
        if run in by_run:
            alike.setdefault("; ".join(by_run[run]), []).append(run)
    return tuple(f"Ceilings of {on_runs(names)}: {text}." for text, names in alike.items())


def _ceiling(ceiling: Ceiling, clock: Trust | None) -> str:
    """`813.8 TFLOP/s in 16-bit (a product of matmul-add, SM clock after it 1,755 of 1,980 MHz, 82 % of ...)`."""
    size, unit = CEILING_UNITS[ceiling.quantity]
    kind = ceiling.compute_type or ceiling.dtype or ("the L2 cache" if ceiling.quantity == "L2 cache" else None)
    rate = f"{significant(ceiling.per_s / size, 4)} {unit}" + (f" in {kind}" if kind else "")
    if ceiling.case is None:
        return f"{rate} ({'from the ' if ceiling.origin == 'data sheet' else ''}{ceiling.source})"
    details = [f"a product of {ceiling.case}" if ceiling.kernel else ceiling.case]
    if clock and clock.sm_after_mhz and ceiling.quantity == "compute":
        of = f" of {clock.max_sm_mhz:,.0f}" if clock.max_sm_mhz else ""
        details.append(f"SM clock after it {clock.sm_after_mhz:,.0f}{of} MHz")
    if ceiling.data_sheet_per_s and ceiling.share_of_data_sheet:
        stated = f"{significant(ceiling.data_sheet_per_s / size)} {unit}"
        details.append(f"{ceiling.share_of_data_sheet * 100:.0f} % of the data sheet’s {stated}")
    if ceiling.origin == "other run":
        details.append(ceiling.source or ceiling.origin)
    return f"{rate} ({', '.join(details)})"
