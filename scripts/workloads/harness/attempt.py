"""One try to measure a case: a child process, its log, what it wrote down, and why it failed."""

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workloads.harness import failures, gpu, guard
from workloads.harness.child_environment import child_environment
from workloads.harness.notebook import PROGRESS

LOG_LINES = 40
LINE_BYTES = 500
ANSWER_S = 5.0  # seconds that a hung child is given to print its stack
STACK_ENDS = "_run_module_as_main"  # the outermost frame of what `python -m` started, last in faulthandler's list


@dataclass(frozen=True)
class Setting:
    """Where and how a case is measured.

    device: auto | cuda | cpu. output: folder of measurement.json and the traces. cache: folder of torch.compile's and
    Triton's caches. image: file name of the container image that this has to run in; anywhere else the measurement is
    refused. locks: folder of the locks on GPUs, one for the whole machine. one_gpu: measure on whichever of the visible
    GPUs of the first one's model is free, and let the case see that one alone; else on the first, and it sees all.
    """

    device: str
    output: Path
    cache: Path | None = None
    image: str | None = None
    locks: Path = gpu.LOCKS
    one_gpu: bool = False


class Attempt(NamedTuple):
    """What the child wrote down, why it failed (None: it did not), the last lines of its log, its seconds by phase."""

    record: dict[str, Any]
    failure: failures.Failure | None
    log: list[str]
    seconds: dict[str, float]


def attempt(case: dict[str, Any], setting: Setting, card: str | None, look: Callable[[], None]) -> Attempt:
    """Run one child process to its end.

    card: the GPU that it is to use, None for a CPU. look: looks at the GPU while the child imports torch; the child
    does not touch the GPU before that is done.
    """
    output = setting.output
    notebook = output / ".child.json"
    notebook.unlink(missing_ok=True)
    folder, before, began = os.stat(output), guard.descendants(), time.monotonic()
    child = _start(case, setting, card)
    lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
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
        _ask_where(child, lines)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        guard.end_descendants(but=before)
    reader.join(5)
    record, log = _read_notebook(notebook), list(lines)
    if expired:
        failure = failures.from_time_limit(case["timeout_s"], record.get("stage"))
    elif not record and not _is_still(output, folder):
        failure = failures.from_removed(["the whole folder"])
    else:
        failure = _failure(child.returncode, record, log)
    return Attempt(record, failure, log, _phases(record, began, time.monotonic()))


def _start(case: dict[str, Any], setting: Setting, card: str | None) -> subprocess.Popen[bytes]:
    watched = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())]
    places = [setting.device, str(setting.output), str(setting.cache or ""), card or ""]
    only_gpu = card if setting.one_gpu and gpu.is_uuid(card) else None
    return subprocess.Popen(
        [*watched, sys.executable, "-m", "workloads.harness.child", *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(setting.cache, case["mode"] == "compile", only_gpu),
        start_new_session=True,  # a group of its own, compile workers included, that can be ended as one
    )


def _phases(record: dict[str, Any], began: float, ended: float) -> dict[str, float]:
    """Seconds of the child's phases with its start and its end; of the whole where it left none (a crash at once)."""
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


def _ask_where(child: subprocess.Popen[bytes], lines: collections.deque[str]) -> None:
    """Have the child print its stack (faulthandler); one that is too stuck to answer is not waited for long."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline and not any(STACK_ENDS in line for line in list(lines)):
            if child.poll() is not None:
                return
            time.sleep(0.05)


def _read_log(pipe: Any, lines: collections.deque[str]) -> None:
    """Keep the last lines, of each its beginning: what a line holds beyond that is read and dropped."""
    begins = True
    while raw := pipe.readline(LINE_BYTES):
        line = raw.decode("utf-8", "replace").rstrip()
        if begins and line.startswith(PROGRESS):
            print(line, file=sys.stderr, flush=True)
        elif begins and line:
            lines.append(line)
        begins = raw.endswith(b"\n")


def _read_notebook(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    error = found.get("error", {}) if isinstance(found, dict) else None
    return found if isinstance(error, dict) else {}


def _failure(code: int, record: dict[str, Any], log: list[str]) -> failures.Failure | None:
    stage = record.get("stage")
    if "error" in record:
        return failures.from_exception(str(record["error"].get("kind")), str(record["error"].get("message")), stage)
    if code < 0:
        return failures.from_signal(-code, stage, log)
    if code != 0 or stage is not None or not record:
        return failures.from_exit(code, stage, log)
    return None
