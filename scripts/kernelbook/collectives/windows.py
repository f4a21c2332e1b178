"""The traces of several windows of one process as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelbook.collectives.model import RankForward, RankTrace, Work
from kernelbook.collectives.rank import summed


def joined(windows: Sequence[RankTrace], rank: int) -> RankTrace:
    """The windows of one process, in order of time, as the trace of this rank. Forwards are numbered on."""
    first = windows[0]
    events, before = [], 0
    forwards: list[RankForward] = []
    whole: list[RankForward] = []
    for number, window in enumerate(windows):
        later = ((window.origin or 0) - (first.origin or 0)) / 1000
        for event in window.events:
            index = None if event.index is None else event.index + before
            events.append(replace(event, window=number, index=index))
        for row in window.forwards:
            start = None if row.start_us is None else row.start_us + later
            index = None if row.index is None else row.index + before
            (whole if index is None else forwards).append(replace(row, rank=rank, start_us=start, index=index))
        before += sum(row.index is not None for row in window.forwards)
    rows = [summed(whole)] if whole else []
    return replace(
        first,
        rank=rank,
        truncated=any(window.truncated for window in windows),
        forwards=(*rows, *forwards),
        events=tuple(events),
        kernels=_together([window.kernels for window in windows]),
        longest={
            name: max(window.longest.get(name, 0.0) for window in windows)
            for name in dict.fromkeys(name for window in windows for name in window.longest)
        },
        cpu=_together([window.cpu for window in windows]),
        shared_stream=any(window.shared_stream for window in windows),
    )


def _together(parts: Sequence[Mapping[str, Work]]) -> Mapping[str, Work]:
    if len(parts) == 1:
        return parts[0]
    count: Counter[str] = Counter()
    time: dict[str, float] = {}
    for part in parts:
        for name, (number, length) in part.items():
            count[name] += number
            time[name] = time.get(name, 0.0) + length
    return {name: (count[name], time[name]) for name in time}
