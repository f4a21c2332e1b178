"""The supervisor: starts the torch work in a child process and always leaves measurement.json."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from workloads.harness import counters, failures, gpu, guard, ranks
from workloads.harness.attempt import Setting, attempt
from workloads.harness.files import MachineScrubber, write_json
from workloads.harness.notebook import PROGRESS, Stopwatch, summary
from workloads.harness.rank import folder_of

RESERVE_BYTES = 256 * 1024
# Every key of measurement.json in order, with its value if nothing is known.
BLANK: dict[str, Any] = {
    "device": None,
    "params_used": None,
    "environment": {},
    "first_call_us": None,
    "inductor_cache": None,
    "forward_times_us": [],
    "forward_timer": None,
    "warmup_check": None,
    "peak_memory_bytes": None,
    "flops": None,
    "useful_flops": None,
    "flops_source": None,
    "input_bytes": None,
    "output_bytes": None,
    "relative_error": None,
    "error_bound": None,
    "key_averages": [],
    "profiled_forwards": None,
    "trace": None,
    "shapes_trace": None,
    "output_code": None,
    "counters": None,
    "counter_pass": None,
    "clocks": {"before": None, "after": None},
    "dynamo": None,
    "sdpa_backends": None,
    "warnings": [],
    "notes": [],
}


#: Key of measurement.json -> the file beside it that it names.
FILES = {
    "trace": "trace.json.gz",
    "shapes_trace": "shapes.json.gz",
    "output_code": "output_code.py.gz",
    "counters": counters.FILE,
}


OF_JOB = ("device", "params_used", "environment")  # what a job's measurement takes from its first rank
TEXTS = ("dynamo", "warnings", "notes", "counter_pass")  # texts, from which names of this machine are removed


class Interrupted(Exception):  # noqa: N818
    """The supervisor itself got SIGTERM or SIGINT."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def say(message: str) -> None:
    """One line for people, on stderr."""
    print(f"{PROGRESS}{message}", file=sys.stderr, flush=True)


@dataclass
class Outcome:
    """How the case went: records of the last children, why it failed (None: it did not), last lines of the log.

    records: one for each rank; one for a case without ranks.
    """

    records: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    failure: failures.Failure | None = None
    log: list[str] = field(default_factory=list)
    attempts: int = 0
    other_gpu_processes: list[dict[str, Any]] | None = None
    exit_status: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def supervise(written: dict[str, Any], case: dict[str, Any], setting: Setting) -> int:
    """Measure a case and write measurement.json into the setting's output folder.

    For a case with ranks the folder of each rank has another one, with its traces; that of the job has what holds for
    all ranks, and device and environment of the first rank.

    written, case: the case as it was written, and with its defaults.

    Returns 0 once measurement.json is written, 128 + n if signal n stopped the supervisor (it is written then too).
    Raises OSError if the folder cannot be written at all.
    """
    output = setting.output
    guard.adopt_orphans()
    output.mkdir(parents=True, exist_ok=True)
    # Made now, since a workload may remove the working folder.
    scrub = MachineScrubber(output=output, cache=setting.cache)
    for name in ("measurement.json", *FILES.values(), ".child.json"):
        (output / name).unlink(missing_ok=True)
    ranks.prepare(output, case["ranks"] or 0)
    reserve = output / ".reserve"
    reserve.write_bytes(os.urandom(RESERVE_BYTES))  # room for measurement.json on a disk that fills up meanwhile
    started, clock = datetime.now(timezone.utc), time.monotonic()  # noqa: UP017 - Python 3.9
    result = Outcome(failure=failures.outside_container(setting.image, gpu.container()) if setting.image else None)
    if result.failure is None:
        _measure(case, setting, result)
    _restore_folder(output)
    reserve.unlink(missing_ok=True)
    ranks.clean(output)
    _fail_without_files(output, case["ranks"], result)
    measurement = {
        "schema": 1,
        "case": written,
        **_outcome(result, scrub),
        "started_utc": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_s": round(time.monotonic() - clock, 3),
        "seconds": result.seconds,
    }
    if case["ranks"] is None:
        measurement |= _figures(result.records[0], scrub) | {"other_gpu_processes": result.other_gpu_processes}
        _write(output, measurement)
    else:
        measurement |= {"other_gpu_processes": result.other_gpu_processes, "ranks": case["ranks"]}
        for number, (folder, record) in enumerate(_by_rank(output, case["ranks"], result)):
            place = {"rank": number, "world_size": case["ranks"], "local_rank": number}
            _write(folder, measurement | place | _figures(record, scrub))
        first = {key: value for key, value in result.records[0].items() if key in OF_JOB}
        _write(output, measurement | _figures(first, scrub))
    _tell_end(case["case"], measurement)
    say(f"{case['case']}: {summary(result.seconds, measurement['duration_s'])}")
    return result.exit_status


def _figures(record: dict[str, Any], scrub: MachineScrubber) -> dict[str, Any]:
    """Every key that a child measures, from its record or `BLANK`."""
    figures = {key: record.get(key, blank) for key, blank in BLANK.items()}
    return figures | {key: scrub.within(figures[key]) for key in TEXTS}


def _by_rank(output: Path, count: int, result: Outcome) -> list[tuple[Path, dict[str, Any]]]:
    """Folder and record of each rank; empty records if no rank was started."""
    records = result.records if len(result.records) == count else [{}] * count
    return [(folder_of(output, number), record) for number, record in enumerate(records)]


def _write(folder: Path, measurement: dict[str, Any]) -> None:
    """Write measurement.json, and remove the files beside it that it does not name."""
    for key, name in FILES.items():
        if measurement[key] is None:
            (folder / name).unlink(missing_ok=True)
    write_json(folder / "measurement.json", measurement)


def _restore_folder(output: Path) -> None:
    """Make the folder again if the workload has removed or replaced it."""
    if output.is_symlink() or not output.is_dir():
        output.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)


def _fail_without_files(output: Path, count: int | None, result: Outcome) -> None:
    """Fail a case whose record names a file that is no longer there."""
    places = [(output, result.records[0])] if count is None else _by_rank(output, count, result)
    missing = [name for folder, record in places for key, name in FILES.items()
               if record.get(key) is not None and not (folder / name).is_file()]  # fmt: skip
    if missing and result.failure is None:
        result.failure = failures.from_removed(missing)


def _tell_end(case: str, measurement: dict[str, Any]) -> None:
    """Log how the case ended, after a failure with the last lines of the child."""
    reason = f": {measurement['reason']}" if measurement["reason"] else ""
    if measurement["status"] == "failed" and measurement["log_tail"]:
        say(f"{case}: the last lines of its process:")
        for line in measurement["log_tail"]:
            print(f"  {line}", file=sys.stderr)
    say(f"{case}: {measurement['status']}{reason}")


def _outcome(result: Outcome, scrub: MachineScrubber) -> dict[str, Any]:
    failure = result.failure
    return {
        "status": failure.status if failure else "ok",
        "reason": scrub(failure.reason) if failure else None,
        "log_tail": [scrub(line) for line in result.log] if failure else [],
        "attempts": result.attempts,
    }


def _measure(case: dict[str, Any], setting: Setting, result: Outcome) -> None:
    """Attempt the case, alone on its GPUs, again after a failure that may be temporary; fills `result`."""
    count = case["ranks"] or 1
    watch = Stopwatch()
    result.seconds = watch.seconds
    watch.phase("lock of the GPU")
    candidates = _candidates(setting, count)
    looks: list[list[dict[str, Any]] | None] = []
    try:
        with _stoppable(), gpu.lock(candidates, say, setting.locks, count) as locked:
            cards = tuple(dict.fromkeys((*locked, *candidates)))[:count]

            def look() -> None:
                looks.extend(gpu.other_processes(card) for card in cards)

            if len(candidates) > len(cards):
                ids = ", ".join(str(gpu.gpu_id(card)) for card in cards)
                say(f"{case['case']}: on GPU {ids}, {'one' if count == 1 else count} of {len(candidates)}")
            while True:
                result.attempts += 1
                watch.phase(None)
                result.records, result.failure, result.log, seconds = attempt(case, setting, cards, look)
                watch.add(seconds)
                if not (result.failure and result.failure.retry and result.attempts <= case["retries"]):
                    break
                say(f"{case['case']}: {result.failure.fact}; trying once more")
            watch.phase("other processes on the GPU")
            look()
            result.other_gpu_processes = gpu.seen_together(looks)
            if len(locked) < len(cards):
                text = "the GPU could not be locked: another measurement may have run on it"
                for record in result.records:
                    record.setdefault("warnings", []).append({"code": "unlocked_gpu", "count": 1, "message": text})
            if case["counters"] and result.failure is None:
                watch.phase("counters")
                first = result.records[0]
                first.update(counters.measure(case, setting, next(iter(cards), None), first))
                _say_counters(case["case"], first["counter_pass"])
    except Interrupted as stop:
        result.failure = failures.Failure("failed", f"stopped from outside by {stop}", "run it again")
        result.exit_status = 128 + stop.number
    watch.phase(None)


def _say_counters(case: str, facts: dict[str, Any]) -> None:
    what = facts["reason"] or f"{facts['kernels']} kernels"
    say(f"{case}: counters {facts['status']} ({facts['seconds']:.1f} s): {what}")


def _candidates(setting: Setting, count: int) -> list[str]:
    """The GPUs to measure on, any `count` of them; none for a CPU."""
    if setting.device == "cpu":
        return []
    if setting.one_gpu or count > 1:
        return gpu.gpus_of_one_model()
    first = gpu.visible_gpu()
    return [first] if first else []


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into Interrupted, so that the child's group is ended and measurement.json is written."""

    def stop(number: int, _frame: Any) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
