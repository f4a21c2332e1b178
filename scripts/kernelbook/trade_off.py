"""Accuracy and memory beside speed, so that "slower" can be seen to buy something."""

from __future__ import annotations

from collections.abc import Iterable

from kernelbook.case_facts import CaseFacts

#: Ratios closer to one than this are not told.
TOLD_FROM = 1.1


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
    slower = facts.forward_time_us / (fastest.forward_time_us or 1.0)
    parts = [f"{slower:.2f} x the forward time of {fastest.case}"]
    parts += _error(facts, fastest)
    parts += _memory(facts, fastest)
    return "; ".join(parts) + "."


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
    return [f"{word} against float64 ({mine:.2g} against {theirs:.2g})"]


def _memory(facts: CaseFacts, other: CaseFacts) -> list[str]:
    mine, theirs = facts.peak_memory_bytes, other.peak_memory_bytes
    if not mine or not theirs or 1 / TOLD_FROM < mine / theirs < TOLD_FROM:
        return []
    return [f"{mine / theirs:.1f} x the peak memory ({mine / 2**20:.0f} MiB against {theirs / 2**20:.0f})"]
