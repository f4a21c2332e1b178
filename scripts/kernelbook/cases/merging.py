"""The processes of one case taken together: which are merged, what the others are told as, and the figures of all.

This is the only place that decides over processes; whatever shows a case of a run reads it from here.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelbook.cases.comparability import Setting, setting_of
from kernelbook.cases.facts import Note, Process
from kernelbook.cases.medians import median
from kernelbook.text.units import duration, plural, quantile

Row = Mapping[str, Any]
TIMES = ("cpu_time_us", "device_time_us", "device_busy_us", "forward_time_us", "first_call_us")
#: The code of the note that names the processes that failed.
FAILED_PROCESSES = "failed_processes"
#: Medians of processes that lie farther apart than this, as a share of the smallest, are warned of.
APART_FROM = 0.1


@dataclass(frozen=True)
class MergedCase:
    """One case of one run over its processes.

    ``row``: the columns of the first good process (of the first one where none is good), with status, reason and
    times (µs) those of all: medians over the merged processes, ``forward_p05_us`` and ``forward_p95_us`` quantiles of
    all their forwards. ``notes``: the warnings of all processes.
    """

    row: Row
    setting: Setting
    processes: tuple[Process, ...]
    notes: tuple[Note, ...]

    @property
    def merged(self) -> frozenset[int]:
        """The numbers of the processes whose figures are those of the case."""
        return frozenset(process.process for process in self.processes if process.merged)


def merge_processes(rows: Sequence[Row]) -> MergedCase:
    """The rows of the table ``cases`` for one (run, case), merged.

    Good processes are merged where they ran on a machine like that of the first good one (device and driver, for a CPU
    the number of threads), on several GPUs of one kind too: a series is of a kind. A process that failed or ran
    elsewhere is named by a note.
    """
    rows = sorted(({name: _known(value) for name, value in row.items()} for row in rows), key=_number)
    good = [row for row in rows if row["status"] == "ok"]
    first = (good or rows)[0]
    setting = setting_of(first)
    alike = [row for row in good if setting_of(row).machine == setting.machine]
    processes = tuple(_process(row, any(row is one for one in alike)) for row in rows)
    bad = [process for process in processes if process.status != "ok"]
    notes = [*_failed(bad, len(rows), bool(good)), *_elsewhere(good, alike, setting), *_apart(alike), *_merged(rows)]
    status, reason = ("ok", first.get("reason")) if good else _outcome(bad)
    return MergedCase(
        row={**first, "status": status, "reason": reason, **_times(alike)},
        setting=setting,
        processes=processes,
        notes=tuple(notes),
    )


def _number(row: Row) -> int:
    return row.get("process") or 0


def _known(value: Any) -> Any:
    """A NaN that a table carries is missing."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _process(row: Row, merged: bool) -> Process:
    return Process(
        process=_number(row),
        status=row["status"],
        reason=row.get("reason"),
        forward_times_us=tuple(row.get("forward_times_us") or ()),
        device_time_us=row.get("device_time_us"),
        device_busy_us=row.get("device_busy_us"),
        cpu_time_us=row.get("cpu_time_us"),
        merged=merged,
        gpu_id=row.get("gpu_id"),
        log_tail=tuple(row.get("log_tail") or ()) if row["status"] == "failed" else (),
    )


def _times(rows: Sequence[Row]) -> dict[str, Any]:
    """Medians over processes, and quantiles of all forwards; a lone row without forwards keeps its own quantiles.

    A first call that had to compile is never put with one that found the compile cache filled.
    """
    found: dict[str, Any] = {name: median(row.get(name) for row in rows) for name in TIMES}
    cache = rows[0].get("inductor_cache") if rows else None
    found["first_call_us"] = median(row.get("first_call_us") for row in rows if row.get("inductor_cache") == cache)
    pooled = [time for row in rows for time in row.get("forward_times_us") or ()]
    for name, share in (("forward_p05_us", 0.05), ("forward_p95_us", 0.95)):
        found[name] = quantile(pooled, share) if pooled or len(rows) != 1 else rows[0].get(name)
    return found


# --- what is told ----------------------------------------------------------------------------------------------------


def _outcome(bad: Sequence[Process]) -> tuple[str, str | None]:
    """Status and reason of a case of which no process is good."""
    failed = [process for process in bad if process.status == "failed"] or list(bad)
    return failed[0].status, _reasons(failed)


def _reasons(processes: Sequence[Process]) -> str | None:
    """The reason that all share; else each with the processes that give it."""
    by_reason: dict[str | None, list[int]] = {}
    for process in processes:
        by_reason.setdefault(process.reason, []).append(process.process)
    if len(by_reason) == 1:
        return next(iter(by_reason))
    return "; ".join(f"{_numbered(who)}: {why or 'no reason given'}" for why, who in by_reason.items())


def _numbered(numbers: Sequence[int]) -> str:
    return f"process {numbers[0]}" if len(numbers) == 1 else f"processes {', '.join(map(str, numbers))}"


def _failed(bad: Sequence[Process], number: int, some_good: bool) -> list[Note]:
    """What is said where only some of the processes failed."""
    if not bad or not some_good:
        return []
    told = _reasons(bad) or "no reason given"
    if len({process.reason for process in bad}) == 1:
        told = f"{_numbered([process.process for process in bad])}: {told}"
    text = f"{len(bad)} of {plural(number, 'process', 'processes')} failed: {told}"
    return [Note(FAILED_PROCESSES, len(bad), text)]


def _elsewhere(good: Sequence[Row], alike: Sequence[Row], setting: Setting) -> list[Note]:
    """What is said of good processes that ran on another machine than the first."""
    notes = []
    for row in good:
        if not any(row is other for other in alike):
            there, here = (" with ".join(part or "unknown" for part in s.machine) for s in (setting_of(row), setting))
            text = f"process {_number(row)} ran on {there}, the first on {here}: it is in no figure of the case"
            notes.append(Note("other_machine", 1, text))
    return notes


def _apart(alike: Sequence[Row]) -> list[Note]:
    """What is said of processes whose forwards differ, and of how far the GPUs that they ran on do."""
    medians = [statistics.median(row["forward_times_us"]) for row in alike if row.get("forward_times_us")]
    if len(medians) < 2 or not min(medians) or max(medians) / min(medians) <= 1 + APART_FROM:
        return []
    text = (
        f"the medians of {len(medians)} processes lie {max(medians) / min(medians) - 1:.0%} apart, "
        f"{duration(min(medians))} to {duration(max(medians))}: the 5 to 95 % interval spans them all"
    )
    return [Note("processes_apart", len(medians), text.replace("%", " %", 1) + _by_gpu(alike))]


def _by_gpu(alike: Sequence[Row]) -> str:
    """Which processes ran on which GPU, where the GPUs lie farther apart than the processes of one of them.

    Else how far one GPU alone spans; nothing where all ran on one, or where it is unknown.
    """
    by_gpu: dict[str, dict[int, float]] = {}
    for row in alike:
        if row.get("gpu_id") and row.get("forward_times_us"):
            by_gpu.setdefault(row["gpu_id"], {})[_number(row)] = statistics.median(row["forward_times_us"])
    if len(by_gpu) < 2:
        return ""
    within = {gpu: max(of_one.values()) / min(of_one.values()) for gpu, of_one in by_gpu.items()}
    middles = [statistics.median(of_one.values()) for of_one in by_gpu.values()]
    widest = max(within, key=lambda gpu: within[gpu])
    if within[widest] < max(middles) / min(middles):
        return "; " + ", ".join(f"{_numbered([*of_one])} ran on GPU {gpu}" for gpu, of_one in by_gpu.items())
    times = by_gpu[widest].values()
    return f"; GPU {widest} alone spans {duration(min(times))} to {duration(max(times))}"


def _merged(rows: Sequence[Row]) -> list[Note]:
    """The warnings of all processes: what several of them say becomes one, and says of how many."""
    found: dict[tuple[str, str], list[int]] = {}
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        for note in json.loads(row.get("warnings") or "[]"):
            key = str(note.get("code", "")), str(note.get("message", ""))
            found.setdefault(key, []).append(_number(row))
            counts.setdefault(key, note.get("count") or 1)
    return [
        Note(code, counts[code, text], text if len(who) == len(rows) else f"{text} ({_numbered(who)} of {len(rows)})")
        for (code, text), who in found.items()
    ]
