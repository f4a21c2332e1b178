"""The counter pass: after a measurement, one more forward in another process, under Nsight Compute.

It never fails the measurement. If it fails, `counter_pass` in measurement.json has the reason and the remedy.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workloads.harness import gpu, guard, ncu
from workloads.harness.attempt import Setting
from workloads.harness.failures import Failure
from workloads.harness.files import MachineScrubber, write_gzip
from workloads.harness.startup import child_environment

FILE = "counters.csv.gz"
MOST_KERNELS = 100  # in a forward; each is replayed some ten times
#: Columns that identify the process and the machine.
DROPPED = ("Process ID", "Process Name", "Host Name", "thread Domain", "Id:Domain")


def measure(case: dict[str, Any], setting: Setting, card: str | None, record: dict[str, Any]) -> dict[str, Any]:
    """Count what one forward does on the GPU; writes `FILE` into the output folder.

    record: that of the measurement. Returns the keys `counters` (name of the file, or None) and `counter_pass`: status
    (ok or refused), reason, seconds, names of the profiled functions (empty: all), number of kernels.
    """
    began = time.monotonic()
    facts: dict[str, Any] = {"status": "ok", "reason": None, "seconds": None, "functions": [], "kernels": None}
    try:
        text, functions = _profile(case, setting, card, record)
        facts["functions"] = list(functions)
        facts["kernels"] = max(len(text.splitlines()) - 2, 0)
        write_gzip(setting.output / FILE, MachineScrubber(output=setting.output, cache=setting.cache).trace(text))
    except _Refused as refused:
        facts.update(status="refused", reason=refused.failure.reason)
    except OSError as error:
        facts.update(status="refused", reason=f"the counter pass could not be made ({error}): free some disk space")
    facts["seconds"] = round(time.monotonic() - began, 3)
    return {"counters": FILE if facts["status"] == "ok" else None, "counter_pass": facts}


class _Refused(Exception):  # noqa: N818
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def _profile(
    case: dict[str, Any], setting: Setting, card: str | None, record: dict[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """(the CSV, names of the functions that were profiled, () for all). Raises _Refused."""
    if (record.get("device") or {}).get("type") != "cuda" or not (record.get("environment") or {}).get("cuda"):
        raise _Refused(Failure("refused", "the case did not run on an NVIDIA GPU", "measure it on one"))
    if case["ranks"] is not None:
        fact = "a case with ranks has none, since ncu runs each kernel several times, and a collective cannot be"
        raise _Refused(Failure("refused", fact, "count a case that runs the same work on one GPU"))
    program = ncu.find_ncu(case.get("ncu"))
    if program is None:
        raise _Refused(ncu.missing(case.get("ncu")))
    averages = record["key_averages"]
    if ncu.runs_no_kernel(averages):
        fact = "ncu counts kernels, and this forward runs none: it only copies or fills memory"
        raise _Refused(Failure("refused", fact, "count a case that runs kernels"))
    functions = ncu.longest_functions(averages, record.get("profiled_forwards") or 1, MOST_KERNELS)
    if functions is None:
        fact = f"each function has more than {MOST_KERNELS} kernels in a forward"
        raise _Refused(Failure("refused", fact, "count a smaller part of the forward"))
    only_gpu = card if setting.one_gpu and gpu.is_uuid(card) else None
    with tempfile.TemporaryDirectory(prefix="kernelbook-ncu-") as folder:
        environment = child_environment(setting.cache, case["mode"] == "compile", only_gpu)
        # ncu's lock file is in TMPDIR, where another user's would stop it; the GPU is already locked
        environment.update(TMPDIR=folder, LC_ALL="C", LANG="C")
        return _run(case, program, Path(folder), environment, functions), functions


def _run(
    case: dict[str, Any], program: str, folder: Path, environment: dict[str, str], functions: tuple[str, ...]
) -> str:
    log, spec = folder / "ncu.log", folder / "case.json"
    spec.write_text(json.dumps(case), encoding="utf-8")
    words = ncu.command(program, log, ncu.metrics_of(program, environment), functions)
    watched = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())]
    before, ended = guard.descendants(), False
    with open(folder / "output", "w+b") as output:
        child = subprocess.Popen(
            [*watched, *words, sys.executable, "-m", "workloads.harness.counter_child", str(spec)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(case["timeout_s"])
                ended = True
        finally:
            _end(child, before)
        output.seek(0)
        last = output.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if not ended:
        fact = f"the counter pass was stopped at the case's time limit of {case['timeout_s']:g} s"
        raise _Refused(Failure("refused", fact, "raise timeout_s, or count a smaller forward"))
    table = kept_columns(text)
    if table is None:
        raise _Refused(ncu.refusal(text, child.returncode, "".join(last)))
    return table


def _end(child: subprocess.Popen[bytes], before: set[int]) -> None:
    """End ncu, the profiled process and their descendants."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    guard.end_descendants(but=before)


def kept_columns(text: str) -> str | None:
    """The CSV that ncu printed, with only the columns of `ncu.METRICS` and those that describe the kernel.

    ncu adds attributes of the GPU, and minima and maxima over its parts. None if there are no kernels.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return None
    csv.field_size_limit(len(text))  # the name of a kernel may be longer than csv's own limit of 131,072
    rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    kept = [n for n, name in enumerate(rows[0]) if name in ncu.METRICS or ("__" not in name and not _is_dropped(name))]
    rows = [[row[number] for number in kept] for row in rows if len(row) == len(rows[0])]
    if len(rows) < 3:  # names and units alone
        return None
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return written.getvalue()


def _is_dropped(column: str) -> bool:
    return not column or column.startswith(DROPPED)
