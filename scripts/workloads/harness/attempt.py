"""One attempt to measure a case: a child process, its log, its record, and why it failed."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workloads.harness import failures, gpu, guard, ranks
from workloads.harness.notebook import PROGRESS
from workloads.harness.startup import child_environment

LOG_LINES = 40  # of a child, or of each rank, for at most MOST_LOGS ranks
MOST_LOGS = 4
LINE_BYTES = 500
ANSWER_S = 5.0  # seconds that a hung child is given to print its stack
STACK_ENDS = "_run_module_as_main"  # the outermost frame of what `python -m` started, last in faulthandler's list


@dataclass(frozen=True)
class Setting:
    """Where and how a case is measured.

    device: auto | cuda | cpu. output: folder of measurement.json and the traces. cache: folder of torch.compile's and
    Triton's caches. image: file name of the container image that this has to run in; anywhere else the measurement is
    refused. locks: folder of the locks on GPUs, one for the whole machine. one_gpu: measure on a free one of the
    visible GPUs that have the model of the first, and let the case see only that; else measure on the first, and let
    the case see all. A case with ranks always sees as many GPUs as it has ranks.
    """

    device: str
    output: Path
    cache: Path | None = None
    image: str | None = None
    locks: Path = gpu.LOCKS
    one_gpu: bool = False


class Attempt(NamedTuple):
    """The records, why the attempt failed (None: it did not), the last lines of the log, seconds by phase.

    records: one for each rank, in order; one for a case without ranks.
    """

    records: list[dict[str, Any]]
    failure: failures.Failure | None
    log: list[str]
    seconds: dict[str, float]


def attempt(case: dict[str, Any], setting: Setting, cards: Sequence[str], look: Callable[[], None]) -> Attempt:
    """Run one child process to its end, or one for each rank.

    cards: the GPUs to use, one for each rank; none for a CPU. look: inspects the GPUs while the child imports torch;
    the child touches no GPU before that is done.
    """
    output, count = setting.output, case["ranks"]
    (output / ranks.NOTEBOOK).unlink(missing_ok=True)
    ranks.prepare(output, count or 0)
    folder, before, began = os.stat(output), guard.descendants(), time.monotonic()
    child = _start(case, setting, cards)
    lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES * min(count or 1, MOST_LOGS))
    reader = threading.Thread(target=_read_log, args=(child.stdout, lines), daemon=True)
    reader.start()
    expired, failure = False, None
    try:
        assert child.stdin is not None  # it was started with a pipe
        with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps(case).encode() + b"\n")
            stdin.flush()
            look()
        child.wait(case["timeout_s"])
    except subprocess.TimeoutExpired:
        expired = True
        _ask_where(child, output, count, lines)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        guard.end_descendants(but=before)
    reader.join(5)
    log, made = list(lines), ranks.read(output, count or 0)
    records = [rank.record for rank in made] if made else [ranks.read_notebook(output / ranks.NOTEBOOK)]
    if expired:
        stage = ranks.stages(made) if made else records[0].get("stage")
        failure = failures.from_time_limit(case["timeout_s"], stage)
    elif not any(records) and not _is_still(output, folder):
        failure = failures.from_removed(["the whole folder"])
    elif made:
        failure = ranks.first_failure(made, log)
        if failure is None and child.returncode != 0:  # the launcher itself failed
            failure = failures.of_process(child.returncode, {}, log)
    else:
        failure = failures.of_process(child.returncode, records[0], log)
    return Attempt(records, failure, log, _phases(records[0], began, time.monotonic()))


def _start(case: dict[str, Any], setting: Setting, cards: Sequence[str]) -> subprocess.Popen[bytes]:
    """The guard with the child, or with the launcher of the ranks."""
    watched = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())]
    places = [setting.device, str(setting.output), str(setting.cache or ""), ",".join(cards)]
    count = case["ranks"]
    started = ["workloads.harness.child"] if count is None else ["workloads.harness.launcher", str(count)]
    chosen = (setting.one_gpu or count is not None) and cards and all(map(gpu.is_uuid, cards))
    visible = ",".join(cards) if chosen else None
    return subprocess.Popen(
        [*watched, sys.executable, "-m", *started, *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(setting.cache, case["mode"] == "compile", visible),
        start_new_session=True,  # so that it can be ended as one group, with its compile workers
    )


def _phases(record: dict[str, Any], began: float, ended: float) -> dict[str, float]:
    """Seconds of the child's phases, its start and its end; of the whole process if it recorded none."""
    inside, first = record.get("seconds"), record.get("began")
    if not isinstance(inside, dict) or not isinstance(first, (int, float)):
        return {"process": round(ended - began, 3)}
    if not all(isinstance(number, (int, float)) for number in inside.values()):
        return {"process": round(ended - began, 3)}
    last = first + sum(inside.values())
    return {"start of the process": round(first - began, 3), **inside, "end of the process": round(ended - last, 3)}


def _is_still(folder: Path, before: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(folder), before)
    except OSError:
        return False


def _ask_where(child: subprocess.Popen[bytes], output: Path, count: int | None, lines: collections.deque[str]) -> None:
    """Have the child, or each rank in turn, print its stack (faulthandler); wait `ANSWER_S` in all."""
    asked = {"": child.pid}
    if count is not None:
        below = guard.descendants()
        processes = {f"rank {rank.number}:": rank.record.get("pid") for rank in ranks.read(output, count)}
        asked = {name: process for name, process in processes.items() if process in below}
    deadline = time.monotonic() + ANSWER_S
    for name, process in asked.items():
        lines.extend(filter(None, [name]))
        answered = _stacks(lines)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGUSR1)
        while time.monotonic() < deadline and child.poll() is None and _stacks(lines) == answered:
            time.sleep(0.05)


def _stacks(lines: collections.deque[str]) -> int:
    return sum(STACK_ENDS in line for line in list(lines))


def _read_log(pipe: Any, lines: collections.deque[str]) -> None:
    """Keep the last lines, the first `LINE_BYTES` of each; the rest of a longer line is dropped."""
    begins = True
    while raw := pipe.readline(LINE_BYTES):
        line = raw.decode("utf-8", "replace").rstrip()
        if begins and line.startswith(PROGRESS):
            print(line, file=sys.stderr, flush=True)
        elif begins and line:
            lines.append(line)
        begins = raw.endswith(b"\n")
