"""How far to trust the figures: the rows of the table ``trust`` for reading, and the rows that need a word, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernelbook.report import text
from kernelbook.trust import NONE, WITHIN, Trust

#: Verdicts of `kernelbook.trust.agreement` but the first, and what is said of the rows that bear them.
EXPLAINED = {
    "borderline": "Within 2 % in the median of the processes, not in every one",
    "launch-bound": "Launch-bound, the device waits for the CPU",
    "idle gaps": "Idle gaps between activities, or a short wait for the CPU",
    "L2 flushed": "L2 emptied before each timed forward, not in the profile",
    "shorter": "Shorter unprofiled than its activities are in the profile",
    "unexplained": "Longer than the device is busy, and neither launches nor gaps say why",
}
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
    return (*_agreement(rows), *_spreads(rows), *_circumstances(rows))


def _agreement(rows: Sequence[Trust]) -> Iterable[Named]:
    judged = [row for row in rows if row.agreement]
    if not judged:
        yield Named("No row has both a device busy time and an unprofiled forward to compare")
        return
    bound = sum(row.agreement == "GPU-bound" for row in judged)
    yield Named(
        f"In {bound} of {text.plural(len(judged), 'row')} the unprofiled forward and the device’s busy time agree "
        "within 2 %: GPU-bound"
    )
    for word, lead in EXPLAINED.items():
        found = [row for row in judged if row.agreement == word]
        if found:
            yield Named(f"{lead} ({len(found)})", _named(found, rows))


def _spreads(rows: Sequence[Trust]) -> Iterable[Named]:
    two = "it takes two processes with that time"
    yield _those(
        "Device time differs by more than 2 % between processes", rows, lambda row: _wide(row.device_spread), two
    )
    lead = "Unprofiled forward time differs by more than 2 % between processes"
    yield _those(lead, rows, lambda row: _wide(row.forward_spread), two)


def _wide(spread: float | None) -> bool | None:
    return None if spread is None else spread > WITHIN


def _circumstances(rows: Sequence[Trust]) -> Iterable[Named]:
    yield _those("The GPU was throttled", rows, lambda row: _some(row.throttled_processes))
    yield _those("Forward times were still falling after the warm-up", rows, lambda row: _some(row.falling_processes))
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
        return Named(f"{lead}: in none of {text.plural(len(rows) - unknown, 'row')}{beside}")
    return Named(f"{lead} ({len(found)} of {text.plural(len(rows) - unknown, 'row')}{beside})", _named(found, rows))


def _named(found: Sequence[Trust], rows: Sequence[Trust]) -> tuple[tuple[str, str], ...]:
    """Each case once, with its runs where there is more than one run."""
    if len({row.run for row in rows}) == 1:
        return tuple((row.case, "") for row in found)
    runs: dict[str, list[str]] = {}
    for row in found:
        runs.setdefault(row.case, []).append(row.run)
    return tuple((case, f" ({', '.join(names)})") for case, names in runs.items())


# --- cells ------------------------------------------------------------------------------------------------------------


def processes(row: Trust) -> str:
    """`3`, `2, 1 failed`, `3, 1 retried`."""
    more = (
        (row.failed_processes, "failed"),
        (row.elsewhere_processes, "elsewhere"),
        (row.retried_processes, "retried"),
    )
    return ", ".join([str(row.processes), *(f"{count} {word}" for count, word in more if count)])


def signed(value: float | None) -> str:
    """A share with its sign: `+1.6 %`, `+77 %`."""
    if value is None:
        return text.NOT_AVAILABLE
    return f"{value * 100:+.{1 if abs(value) < 0.1 else 0}f} %"


def warm_up(row: Trust) -> str:
    """Whether first forwards were still slower: `settled`, `3 of 3 fell`."""
    if row.falling_processes is None:
        return text.NOT_AVAILABLE
    if not row.falling_processes:
        return "settled"
    return f"{row.falling_processes} of {row.checked_processes} fell" + (", no warm-up" if row.warmup == 0 else "")


def sm_clock(row: Trust) -> str:
    """`1,980 → 1,515`, MHz before and after, the lowest of all processes; `1,980` where it stayed."""
    if row.sm_before_mhz is None and row.sm_after_mhz is None:
        return text.NOT_AVAILABLE
    both = (row.sm_before_mhz, row.sm_after_mhz)
    shown = (text.NOT_AVAILABLE if value is None else f"{value:,.0f}" for value in both)
    return " → ".join(dict.fromkeys(shown))


def first_call(row: Trust) -> str:
    """First calls by what they found in the compile cache: `104 ms`, `12.3 s cold, 1.20 s shared`."""
    found = ((row.first_call_us, ""), (row.first_call_cold_us, " cold"), (row.first_call_shared_us, " shared"))
    return ", ".join(text.duration(value) + word for value, word in found if value is not None) or text.NOT_AVAILABLE


def timed_by(row: Trust) -> str:
    """`CUDA events`, with what was done to the L2 cache where it is known to have been emptied."""
    if row.forward_timer is None:
        return text.NOT_AVAILABLE
    return TIMERS.get(row.forward_timer, row.forward_timer) + (", L2 flushed" if row.flush_l2 else "")


CELLS = {
    "trust_processes": processes,
    "signed": signed,
    "warm_up": warm_up,
    "sm_clock": sm_clock,
    "first_call": first_call,
    "timed_by": timed_by,
}
