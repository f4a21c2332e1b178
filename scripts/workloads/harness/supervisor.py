"""The supervisor: starts the torch work in a child process and leaves measurement.json whatever happens."""

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
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from workloads.harness import failures, gpu, guard, spaces
from workloads.harness.files import SCRIPTS, Scrubber, write_json
from workloads.harness.notebook import PROGRESS

LOG_LINES = 40
LINE_BYTES = 500
RESERVE_BYTES = 256 * 1024
ANSWER_S = 5.0  # seconds that a hung child is given to print its stack
STACK_ENDS = "_run_module_as_main"  # the outermost frame of what `python -m` started, last in faulthandler's list
# Every key of measurement.json in order, with what stands for "not known".
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
    "clocks": {"before": None, "after": None},
    "dynamo": None,
    "sdpa_backends": None,
    "warnings": [],
    "notes": [],
}


TRACES = {"trace": "trace.json.gz", "shapes_trace": "shapes.json.gz"}


TEXTS = ("dynamo", "warnings", "notes")  # written for people, hence without the names of this machine


class Interrupted(Exception):  # noqa: N818
    """The supervisor itself was told to stop (SIGTERM, SIGINT)."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def say(message: str) -> None:
    """One line for people, on stderr."""
    print(f"{PROGRESS}{message}", file=sys.stderr, flush=True)


@dataclass
class Result:
    """How it went: what the last child wrote down, why it failed (None: it did not) and the last lines of its log."""

    record: dict[str, Any] = field(default_factory=dict)
    failure: failures.Failure | None = None
    log: list[str] = field(default_factory=list)
    attempts: int = 0
    other_gpu_processes: list[dict[str, Any]] | None = None
    exit_status: int = 0


def supervise(
    given: dict[str, Any],
    case: dict[str, Any],
    device: str,
    output: Path,
    cache: Path | None,
    image: str | None = None,
    locks: Path = gpu.LOCKS,
) -> int:
    """Measure a case and write output/measurement.json.

    given, case: the case as it was written, and with its defaults. device: auto | cuda | cpu. image: file name of the
    container image that this has to run in; anywhere else the measurement is refused. locks: folder of the locks on
    GPUs, one for the whole machine.

    Returns 0 once measurement.json stands, 128 + n if signal n stopped the supervisor (the file stands then too).
    Raises OSError if the folder cannot be written at all.
    """
    guard.adopt_orphans()
    output.mkdir(parents=True, exist_ok=True)
    scrub = Scrubber(output=output, cache=cache)  # now, since a workload may remove the folder that this starts in
    for name in ("measurement.json", "trace.json.gz", "shapes.json.gz", ".child.json"):
        (output / name).unlink(missing_ok=True)
    reserve = output / ".reserve"
    reserve.write_bytes(os.urandom(RESERVE_BYTES))  # room for measurement.json on a disk that fills up meanwhile
    started, clock = datetime.now(timezone.utc), time.monotonic()  # noqa: UP017 - Python 3.9
    result = Result(failure=failures.outside_container(image, gpu.container()) if image else None)
    if result.failure is None:
        _measure(case, device, output, cache, locks, result)
    _restore_folder(output)
    reserve.unlink(missing_ok=True)
    (output / ".child.json").unlink(missing_ok=True)
    _fail_without_traces(output, result)
    measurement = {
        "schema": 1,
        "case": given,
        **_outcome(result, scrub),
        "started_utc": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_s": round(time.monotonic() - clock, 3),
        **{key: result.record.get(key, blank) for key, blank in BLANK.items()},
        **{key: scrub.within(result.record.get(key, BLANK[key])) for key in TEXTS},
        "other_gpu_processes": result.other_gpu_processes,
    }
    for key, name in TRACES.items():
        if measurement[key] is None:
            (output / name).unlink(missing_ok=True)
    write_json(output / "measurement.json", measurement)
    _tell_end(case["case"], measurement)
    return result.exit_status


def _restore_folder(output: Path) -> None:
    """Make the folder again where the workload has removed it, or put something else in its place."""
    if output.is_symlink() or not output.is_dir():
        output.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)


def _fail_without_traces(output: Path, result: Result) -> None:
    """Fail a case whose record names a trace that is no longer there."""
    missing = [name for name in TRACES.values() if name in result.record.values() and not (output / name).is_file()]
    if missing and result.failure is None:
        result.failure = failures.from_removed(missing)


def _tell_end(case: str, measurement: dict[str, Any]) -> None:
    """How it ended, for the log; of a failure the last lines of the child too, as that is where one looks for them."""
    reason = f": {measurement['reason']}" if measurement["reason"] else ""
    if measurement["status"] == "failed" and measurement["log_tail"]:
        say(f"{case}: the last lines of its process:")
        for line in measurement["log_tail"]:
            print(f"  {line}", file=sys.stderr)
    say(f"{case}: {measurement['status']}{reason}")


def _outcome(result: Result, scrub: Scrubber) -> dict[str, Any]:
    failure = result.failure
    return {
        "status": failure.status if failure else "ok",
        "reason": scrub(failure.reason) if failure else None,
        "log_tail": [scrub(line) for line in result.log] if failure else [],
        "attempts": result.attempts,
    }


def _measure(case: dict[str, Any], device: str, output: Path, cache: Path | None, locks: Path, result: Result) -> None:
    """Attempt the case, alone on its GPU, once more after a failure that may not come back; fills `result`."""
    card = gpu.visible_gpu() if device != "cpu" else None
    try:
        with _stoppable(), gpu.lock(card, say, locks) as locked:
            before = gpu.other_processes(card)
            while True:
                result.attempts += 1
                result.record, result.failure, result.log = _attempt(case, device, output, cache)
                if not (result.failure and result.failure.retry and result.attempts <= case["retries"]):
                    break
                say(f"{case['case']}: {result.failure.fact}; trying once more")
            result.other_gpu_processes = gpu.seen_together(before, gpu.other_processes(card))
            if card and not locked:
                text = "the GPU could not be locked: another measurement may have run on it"
                result.record.setdefault("warnings", []).append({"code": "unlocked_gpu", "count": 1, "message": text})
    except Interrupted as stop:
        result.failure = failures.Failure("failed", f"stopped from outside by {stop}", "run it again")
        result.exit_status = 128 + stop.number


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into Interrupted, so that the child's group is ended and a measurement.json is left."""

    def stop(number: int, _frame: Any) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(cache: Path | None, compiled: bool) -> dict[str, str]:
    environment = dict(os.environ)
    paths = [str(SCRIPTS)]
    packages = spaces.packages_of_torch() if compiled else None
    if packages is not None and (linked := spaces.without_spaces(packages)) != packages:
        paths.append(str(linked))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, environment.get("PYTHONPATH")]))
    environment["PYTHONUNBUFFERED"] = "1"
    # A case compiles a kernel or two: a pool of workers costs more than it saves, and sits beside the timing.
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # So does compiling torch's headers ahead, and the result (100 MB) lies outside the cache folder, in TMPDIR.
    environment.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)  # nothing can be made behind a link to nowhere
        folder = spaces.without_spaces(cache.resolve()) if compiled else cache.resolve()
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        environment["TRITON_CACHE_DIR"] = str(folder / "triton")
    return environment


def _attempt(
    case: dict[str, Any], device: str, output: Path, cache: Path | None
) -> tuple[dict[str, Any], failures.Failure | None, list[str]]:
    """One child process: what it wrote down, why it failed (None: it did not), the last lines of its log."""
    notebook = output / ".child.json"
    notebook.unlink(missing_ok=True)
    folder, before = os.stat(output), guard.descendants()
    watched = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())]
    command = [sys.executable, "-m", "workloads.harness.child", device, str(output), str(cache or "")]
    child = subprocess.Popen(
        [*watched, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(cache, case["mode"] == "compile"),
        start_new_session=True,  # a group of its own, compile workers included, that can be ended as one
    )
    lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
    reader = threading.Thread(target=_read_log, args=(child.stdout, lines), daemon=True)
    reader.start()
    expired = False
    try:
        with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps(case).encode())
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
    return record, failure, log


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
