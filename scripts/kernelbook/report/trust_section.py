"""How far to trust the figures: the rows of the table ``trust`` for reading, and the rows that need a word, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernelbook.cases import RESTLESS_FROM
from kernelbook.judge.clock import DISAGREE_FROM
from kernelbook.judge.trust import CPU_WITHIN, NONE, WITHIN, Trust
from kernelbook.text import formatting

TIMERS = {"cuda_events": "CUDA events", "wall": "wall clock"}


@dataclass(frozen=True)
class Named:
    """A sentence that ends in the rows it is about: (case, its runs in brackets or nothing)."""

    lead: str
    rows: tuple[tuple[str, str], ...] = ()

    @property
    def sentence(self) -> str:
        """The whole of it as plain text."""
        return self.lead + (": " + ", ".join(case + runs for case, runs in self.rows) if self.rows else "") + "."


def said(rows: Sequence[Trust]) -> tuple[Named, ...]:
    """What is to be known before the figures are believed; every row outside the 2 % is named."""
    if not rows:
        return ()
    return (*_gpus(rows), *_agreement(rows), *_spreads(rows), *_circumstances(rows))


def _gpus(rows: Sequence[Trust]) -> Iterable[Named]:
    """On how many GPUs of one kind the figures rest, where that is more than one or not known."""
    by_run: dict[str, set[str]] = {}
    for row in rows:
        by_run.setdefault(row.run, set()).update(_listed(row.gpus))
    most = max(map(len, by_run.values()))
    pooled = [row for row in rows if len(_listed(row.gpus)) > 1]
    if pooled:
        lead = f"Pooled over {most} GPUs of one kind ({len(pooled)} of {formatting.plural(len(rows), 'row')})"
        yield Named(lead, _named(pooled, rows))
    elif most > 1:
        yield Named(f"Measured on {most} GPUs of one kind: each row on one of them, not all rows on the same")
    untold = [row for row in rows if row.gpus is None and row.device_busy_us and row.processes > 1]
    if untold:
        share = f"{len(untold)} of {formatting.plural(len(rows), 'row')}"
        lead = f"Whether all processes ran on one GPU is not known ({share})"
        yield Named(lead, _named(untold, rows))


def _listed(names: str | None) -> list[str]:
    return names.split(", ") if names else []


def _agreement(rows: Sequence[Trust]) -> Iterable[Named]:
    """The unprofiled forward against the time in which the device is busy in it, and what bounds the rows apart."""
    judged = [row for row in rows if row.busy_ratio]
    if not judged:
        yield Named("No row has both a device busy time and an unprofiled forward to compare")
        return
    near = sum(abs(_ratio(row) - 1) <= WITHIN for row in judged)
    yield Named(
        f"In {near} of {formatting.plural(len(judged), 'row')} the unprofiled forward takes as long as the device is "
        "busy in the profile, within 2 %"
    )
    tenth = f"{DISAGREE_FROM * 100:.0f} %"
    for lead, of_lead in (
        (f"It takes longer by 2 to {tenth}", lambda row: row.bound == "gpu" and _ratio(row) > 1 + WITHIN),
        (f"It takes longer by more than {tenth}, bound by launches", lambda row: row.bound == "launches"),
        (f"It takes longer by more than {tenth}, and it is unclear why", lambda row: row.bound == "unclear"),
        ("It takes less by more than 2 %", lambda row: _ratio(row) < 1 - WITHIN),
    ):
        found = [row for row in judged if of_lead(row)]
        if found:
            yield Named(f"{lead} ({len(found)})", _named(found, rows))
    divided = [row for row in judged if row.bound_processes is not None and row.bound_processes < row.processes]
    if divided:
        yield Named(f"Processes of one row are not bound by the same ({len(divided)})", _named(divided, rows, bound_by))


def _ratio(row: Trust) -> float:
    return row.busy_ratio or 1.0


def _spreads(rows: Sequence[Trust]) -> Iterable[Named]:
    two = "it takes two processes with that time"
    for lead, column, within in (
        ("Device time", "device_spread", WITHIN),
        ("Unprofiled forward time", "forward_spread", WITHIN),
        ("CPU time under the profiler", "cpu_spread", CPU_WITHIN),
    ):
        lead = f"{lead} differs by more than {within * 100:.0f} % between processes"
        yield _those(lead, rows, _wide(column, within), two)


def _wide(column: str, within: float) -> Callable[[Trust], bool | None]:
    return lambda row: None if getattr(row, column) is None else getattr(row, column) > within


def _circumstances(rows: Sequence[Trust]) -> Iterable[Named]:
    yield _those(
        "The GPU was throttled, or far below its highest clock", rows, lambda row: _some(row.throttled_processes)
    )
    yield _those("Forward times were still falling after the warm-up", rows, lambda row: _some(row.falling_processes))
    yield _those("Forward times rose from the first to the last", rows, lambda row: _some(row.rising_processes))
    restless = f"Forward times are restless, their 95th percentile above {RESTLESS_FROM:.0f} times their 5th"
    yield _those(restless, rows, lambda row: row.restless)
    yield _those("Others used the GPU", rows, lambda row: row.other_gpu_processes and row.other_gpu_processes != NONE)
    yield _those("Some process took more than one attempt", rows, lambda row: _some(row.retried_processes))
    failed = [row for row in rows if row.failed_processes]
    elsewhere = [row for row in rows if row.elsewhere_processes]
    if failed:
        yield Named(f"Some process failed and is not in the figures ({len(failed)})", _named(failed, rows))
    if elsewhere:
        lead = f"Some process ran on another machine and is not in the figures ({len(elsewhere)})"
        yield Named(lead, _named(elsewhere, rows))


def _some(count: int | None) -> bool | None:
    return None if count is None else count > 0


def _those(
    lead: str, rows: Sequence[Trust], is_one: Callable[[Trust], object], why: str = "it could not be read"
) -> Named:
    """The rows of which it is true; in how many it is not known, since an unread figure clears nobody."""
    answers = [(row, is_one(row)) for row in rows]
    found = [row for row, answer in answers if answer]
    unknown = sum(answer is None for _, answer in answers)
    if unknown == len(rows):
        return Named(f"{lead}: n/a, {why}")
    beside = f", n/a in {unknown}" if unknown else ""
    if not found:
        return Named(f"{lead}: in none of {formatting.plural(len(rows) - unknown, 'row')}{beside}")
    return Named(
        f"{lead} ({len(found)} of {formatting.plural(len(rows) - unknown, 'row')}{beside})", _named(found, rows)
    )


def _named(
    found: Sequence[Trust], rows: Sequence[Trust], what: Callable[[Trust], str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Each case once, with its runs where there is more than one run, and what is so of the row where that is told."""
    one_run = len({row.run for row in rows}) == 1
    told: dict[str, list[str]] = {}
    for row in found:
        words = [] if one_run else [row.run]
        told.setdefault(row.case, []).append(": ".join(words + ([what(row)] if what else [])))
    return tuple((case, f" ({', '.join(names)})" if any(names) else "") for case, names in told.items())


# --- cells ------------------------------------------------------------------------------------------------------------


def processes(row: Trust) -> str:
    """`3`, `2, 1 failed`, `3, 1 retried`, `3, 2 GPUs`."""
    gpus = len(_listed(row.gpus))
    more = (
        (gpus if gpus > 1 else 0, "GPUs"),
        (row.failed_processes, "failed"),
        (row.elsewhere_processes, "elsewhere"),
        (row.retried_processes, "retried"),
    )
    return ", ".join([str(row.processes), *(f"{count} {word}" for count, word in more if count)])


def forward_spread(row: Trust) -> str:
    """`0.2 %`, `41 %, restless`."""
    return formatting.share(row.forward_spread) + (", restless" if row.restless else "")


def signed(value: float | None) -> str:
    """A share with its sign: `+1.6 %`, `+77 %`."""
    if value is None:
        return formatting.NOT_AVAILABLE
    return f"{value * 100:+.{1 if abs(value) < 0.1 else 0}f} %"


def bound_by(row: Trust) -> str:
    """What bounds a forward, in the word of the clock: `gpu`, `launches in 2 of 3` where processes differ."""
    if row.bound_processes is None or row.bound_processes == row.processes:
        return row.bound
    return f"{row.bound} in {row.bound_processes} of {row.processes}"


def warm_up(row: Trust) -> str:
    """Whether forward times had a trend: `settled`, `3 of 3 fell`, `2 of 3 rose`."""
    if row.falling_processes is None:
        return formatting.NOT_AVAILABLE
    of_all = f"of {row.checked_processes}"
    fell = f"{row.falling_processes} {of_all} fell" + (", no warm-up" if row.warmup == 0 else "")
    told = ((row.falling_processes, fell), (row.rising_processes, f"{row.rising_processes} {of_all} rose"))
    return ", ".join(words for count, words in told if count) or "settled"


def sm_clock(row: Trust) -> str:
    """`1,980 → 1,515`, MHz before and after, the lowest of all processes; `1,980` where it stayed."""
    if row.sm_before_mhz is None and row.sm_after_mhz is None:
        return formatting.NOT_AVAILABLE
    both = (row.sm_before_mhz, row.sm_after_mhz)
    shown = (formatting.NOT_AVAILABLE if value is None else f"{value:,.0f}" for value in both)
    return " → ".join(dict.fromkeys(shown))


def first_call(row: Trust) -> str:
    """First calls by what they found in the compile cache: `104 ms`, `12.3 s cold, 1.20 s shared`."""
    found = (
        (row.first_call_us, ""),
        (row.first_call_cold_us, " cold"),
        (row.first_call_shared_us, " shared"),
        (row.first_call_unknown_us, " cache state unknown"),
    )
    return (
        ", ".join(formatting.duration(value) + word for value, word in found if value is not None)
        or formatting.NOT_AVAILABLE
    )


def timed_by(row: Trust) -> str:
    """`CUDA events`, with what was done to the L2 cache where it is known to have been emptied."""
    if row.forward_timer is None:
        return formatting.NOT_AVAILABLE
    return TIMERS.get(row.forward_timer, row.forward_timer) + (", L2 flushed" if row.flush_l2 else "")
