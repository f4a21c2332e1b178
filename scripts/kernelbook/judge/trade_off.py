"""Accuracy, memory and precision beside speed, so that "slower" can be seen to buy something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernelbook.cases import Activity, CaseFacts
from kernelbook.kernel_names import UNKNOWN, same_type
from kernelbook.text.units import duration, error

#: Ratios closer to one than this are not told.
TOLD_FROM = 1.1
#: Element types of inputs as torch spells them, and as the names of kernels do.
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
#: Families whose kernels multiply matrices, and so set what the accuracy and most of the time come from.
MULTIPLIES = ("GEMM", "attention")


def computed_in(dtype: str | None, activities: Iterable[Activity]) -> str | None:
    """The element type in which most of the time of matrix products goes, where it is not that of the inputs.

    None where it is the same, or where no name tells it; `16-bit`, which a name may leave at that, is any of 16 bits.
    """
    spent: Counter[str] = Counter()
    for activity in activities:
        if activity.family in MULTIPLIES:
            spent[activity.decoded.element_type] += activity.duration_us
    most = max(spent, key=lambda kind: spent[kind], default=UNKNOWN)
    given = DTYPES.get(dtype or "", UNKNOWN)
    return None if same_type(most, given) or UNKNOWN in (most, given) else most


def trade_off(facts: CaseFacts, peers: Iterable[CaseFacts]) -> str | None:
    """What a case buys, or pays, against the fastest of its peers (same workload, parameters and element type).

    None where there is no faster peer, or no forward time.
    """
    timed = [p for p in peers if p.forward_time_us]
    if not facts.forward_time_us or not timed:
        return None
    fastest = min(timed, key=lambda p: p.forward_time_us or 0.0)
    if fastest.case == facts.case:
        return None
    parts = [_slower(facts, fastest)]
    parts += _error(facts, fastest)
    parts += _memory(facts, fastest)
    return "; ".join(parts) + "."


def _slower(facts: CaseFacts, fastest: CaseFacts) -> str:
    """How many times as long, unless the medians of the processes overlap: then which case is faster is not known."""
    mine, theirs = _range(facts), _range(fastest)
    if mine and theirs and mine[0] <= theirs[1]:
        said = (f"{duration(low)} to {duration(high)}" for low, high in (mine, theirs))
        return f"forward times of the processes overlap with those of {fastest.case} ({' and '.join(said)})"
    slower = (facts.forward_time_us or 0.0) / (fastest.forward_time_us or 1.0)
    return f"{slower:.2f} x the forward time of {fastest.case}"


def _range(facts: CaseFacts) -> tuple[float, float] | None:
    """The least and the largest median of its processes; None of fewer than two."""
    merged = [process for process in facts.processes if process.merged and process.forward_times_us]
    medians = [process.forward_time_us or 0.0 for process in merged]
    return (min(medians), max(medians)) if len(medians) > 1 else None


def _error(facts: CaseFacts, other: CaseFacts) -> list[str]:
    mine, theirs = facts.relative_error, other.relative_error
    if not mine or not theirs:
        return []
    word = (
        "a smaller error"
        if mine * TOLD_FROM < theirs
        else "a larger error"
        if mine > TOLD_FROM * theirs
        else "equal error"
    )
    return [f"{word} against float64 ({error(mine)} against {error(theirs)})"]


def _memory(facts: CaseFacts, other: CaseFacts) -> list[str]:
    mine, theirs = facts.peak_memory_bytes, other.peak_memory_bytes
    if not mine or not theirs or 1 / TOLD_FROM < mine / theirs < TOLD_FROM:
        return []
    return [f"{mine / theirs:.1f} x the peak memory ({mine / 2**20:.0f} MiB against {theirs / 2**20:.0f})"]
