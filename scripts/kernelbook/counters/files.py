"""Where the counters of a trace lie, and reading them: CSV, packed CSV, or a report that ncu converts."""

from __future__ import annotations

import codecs
import gzip
import os
import shutil
import subprocess
import zlib
from pathlib import Path

from kernelbook.counters.kernel import Profiled
from kernelbook.counters.report_csv import CountersError, parse

__all__ = ["CountersError", "counters_beside", "read_counters"]

#: Endings in the order in which they are looked for, after the trace's own name or `ncu`.
ENDINGS = (".ncu.csv", ".ncu.csv.gz", ".ncu-rep")
PLAIN = ("ncu.csv", "ncu.csv.gz")
TRACE_ENDINGS = (".json.gz", ".json")
MAX_BYTES = 256 << 20
CONVERT_LIMIT_S = 300


def counters_beside(trace: Path) -> Path | None:
    """The counters that lie beside a trace: `NAME.ncu.csv` of the same name, or `ncu.csv` if the trace is alone there.

    Both may be packed (.gz), or a report: `NAME.ncu-rep`, or the only one there. None where there are none.
    """
    stem = next((trace.name.removesuffix(ending) for ending in TRACE_ENDINGS if trace.name.endswith(ending)), None)
    own = [trace.with_name(stem + ending) for ending in ENDINGS] if stem else []
    report = next((file for file in own if file.is_file()), None)
    if report is None and _is_alone(trace):
        reports = sorted(trace.parent.glob("*.ncu-rep"))
        candidates = [*(trace.with_name(name) for name in PLAIN), *(reports if len(reports) == 1 else [])]
        report = next((file for file in candidates if file.is_file()), None)
    return report


def _is_alone(trace: Path) -> bool:
    try:
        names = os.listdir(trace.parent)
    except OSError:  # a folder that cannot be read has nothing to offer
        return False
    others = [name for name in names if name.endswith(TRACE_ENDINGS) and name != trace.name]
    return not [name for name in others if name not in ("measurement.json", "shapes.json.gz", "case.json")]


def read_counters(file: Path) -> list[Profiled]:
    """The kernels in the file, in order. Raises CountersError that states the fact and the remedy."""
    try:
        if os.path.getsize(file) > MAX_BYTES:
            raise CountersError(f"{file.name} is larger than {MAX_BYTES >> 20} MiB: profile fewer kernels")
        text = _converted(file) if file.suffix == ".ncu-rep" else _text(file)
        return parse(text)
    except (OSError, EOFError, zlib.error) as error:
        raise CountersError(f"{file.name} cannot be read ({error}): make it again") from error
    except CountersError as error:
        raise CountersError(f"{file.name}: {error}") from error


def _text(file: Path) -> str:
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CountersError(f"holds more than {MAX_BYTES >> 20} MiB: profile fewer kernels")
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # what `>` of PowerShell writes
    return data.decode("utf-16" if utf16 else "utf-8-sig", "replace")


def _converted(report: Path) -> str:
    """The raw page of a report, by the ncu of this machine."""
    program = shutil.which("ncu")
    if program is None:
        remedy = f"convert it where there is one: ncu --import {report.name} --csv --page raw > ncu.csv"
        raise CountersError(f"there is no ncu here to read a report: {remedy}")
    asked = [program, "--import", os.fspath(report), "--csv", "--page", "raw", "--print-units", "base"]
    try:
        done = subprocess.run(asked, capture_output=True, timeout=CONVERT_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CountersError(f"ncu did not read it within {CONVERT_LIMIT_S} s: profile fewer kernels") from error
    if done.returncode:
        last = (done.stderr + done.stdout).decode("utf-8", "replace").strip().splitlines()[-1:]
        raise CountersError(f"ncu cannot read it ({''.join(last)[:200]}): use a newer ncu")
    return done.stdout.decode("utf-8", "replace")
