"""Finds and reads the counters of a trace: CSV, gzipped CSV, or a report that ncu converts."""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelbook.counters.kernel import Profiled, Stall

# --- metrics ---------------------------------------------------------------------------------------------------------


PEAK, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
#: Figure -> its metrics; the first that the report has is used.
SINGLE: Mapping[str, tuple[str, ...]] = {
    "duration_us": ("gpu__time_duration.sum", "gpu__time_duration.avg"),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "sm_percent": ("sm__throughput" + PEAK,),
    "memory_percent": ("gpu__compute_memory_throughput" + PEAK,),
    "dram_percent": ("gpu__dram_throughput" + PEAK, "dram__throughput" + PEAK),
    "l2_percent": ("lts__throughput" + PEAK,),
    "l1_percent": ("l1tex__throughput" + ACTIVE, "l1tex__throughput" + PEAK),
    "fp32_percent": ("sm__pipe_fma_cycles_active" + ACTIVE, "sm__inst_executed_pipe_fma" + ACTIVE),
    "fp64_percent": ("sm__pipe_fp64_cycles_active" + ACTIVE, "sm__inst_executed_pipe_fp64" + ACTIVE),
    "alu_percent": ("sm__pipe_alu_cycles_active" + ACTIVE, "sm__inst_executed_pipe_alu" + ACTIVE),
    "occupancy_percent": ("sm__warps_active" + ACTIVE,),
    "occupancy_bound_percent": ("sm__maximum_warps_per_active_cycle_pct",),
    "waves": ("launch__waves_per_multiprocessor",),
}
#: The tensor pipe has a counter for each kind of instruction; the busiest is the pipe's share. The count of
#: instructions is used if cycles are missing; on Hopper, whose instructions are long, it says little.
TENSOR_CYCLES = re.compile(r"sm__pipe_tensor(_op_\w+)?_cycles_active" + re.escape(ACTIVE))
TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor" + ACTIVE
LOCAL = tuple(f"l1tex__t_bytes_pipe_lsu_mem_local_op_{way}.sum" for way in ("ld", "st"))
LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps",
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_barriers": "barriers",
}
STALL = re.compile(
    r"smsp__(average_warps_issue_stalled|average_warp_latency_issue_stalled|pcsamp_warps_issue_stalled)_(\w+?)"
    r"(_per_issue_active)?(?:\.(?:ratio|pct|sum))?"
)
SELECTED = "selected"  # the warp issued its instruction and did not wait
MOST_STALLS = 3
#: Unit of a column -> factor of its values to µs or bytes.
SCALES = {
    "ns": 1e-3,
    "nsecond": 1e-3,
    "us": 1.0,
    "usecond": 1.0,
    "ms": 1e3,
    "msecond": 1e3,
    "s": 1e6,
    "second": 1e6,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "Tbyte": 1e12,
}
SCALED = re.compile(r"\w*(time_duration|bytes)\w*\.(sum|avg)")


def scale_of(metric: str, unit: str) -> float | None:
    """Factor to µs or bytes; 1 for other metrics; None for times and sizes in an unknown unit."""
    return SCALES.get(unit.strip()) if SCALED.fullmatch(metric) else 1.0


def figures(values: Mapping[str, float]) -> dict[str, Any]:
    """The fields of `Figures` from the metrics of one kernel, scaled to µs and bytes."""
    result: dict[str, Any] = {
        field: next((values[name] for name in names if name in values), None) for field, names in SINGLE.items()
    }
    if result["memory_percent"] is None:  # a report without the summary: the busiest of its parts
        parts = [result[name] for name in ("dram_percent", "l2_percent", "l1_percent") if result[name] is not None]
        result["memory_percent"] = max(parts, default=None)
    registers = values.get("launch__registers_per_thread")
    return result | {
        "tensor_percent": _tensor(values),
        "local_bytes": sum(values[name] for name in LOCAL) if all(name in values for name in LOCAL) else None,
        "registers_per_thread": None if registers is None else int(registers),
        "occupancy_limits": _limits(values),
        "stalls": _stalls(values),
    }


def _tensor(values: Mapping[str, float]) -> float | None:
    cycles = [value for name, value in values.items() if TENSOR_CYCLES.fullmatch(name)]
    return max(cycles, default=values.get(TENSOR_INSTRUCTIONS))


def _limits(values: Mapping[str, float]) -> tuple[str, ...]:
    blocks = {word: values[name] for name, word in LIMITS.items() if name in values}
    return tuple(word for word, value in blocks.items() if value == min(blocks.values()))


def _stalls(values: Mapping[str, float]) -> tuple[Stall, ...]:
    """The largest reasons, in percent of all time between instructions; from one family of metrics."""
    families: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        if (match := STALL.fullmatch(name)) and not match[2].endswith("_not_issued"):
            families.setdefault(match[1], {})[match[2]] = value
    reasons = next(iter(sorted(families.items())), ("", {}))[1]
    total = sum(reasons.values())
    waited = sorted((item for item in reasons.items() if item[0] != SELECTED), key=lambda item: -item[1])
    return tuple(Stall(reason, 100 * value / total) for reason, value in waited[:MOST_STALLS] if value > 0)


# --- the raw page of a report (ncu --csv --page raw): one row per kernel ---------------------------------------------


NEEDED = ("Kernel Name", "Grid Size", "Block Size")
EXPORT = "export it with ncu --import REPORT --csv --page raw"
DETAILS = "Metric Name"  # a column of the details page
LONGEST_FIELD = 1 << 20
#: Signs between groups of digits that no locale uses for decimals.
GROUPING = re.compile(r"(?<=\d)['’\s](?=\d{3})")
NUMBER = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+|-?\d+,\d+|-?\d{1,3}(\.\d{3}){2,}")
TOO_LARGE = 1e18  # bytes, µs, percent or registers


class CountersError(ValueError):
    """A report that cannot be read; the message states the fact and the remedy."""


def parse(text: str) -> list[Profiled]:
    """The kernels in the order of their rows.

    Lines of ncu before the table and of the profiled program between the rows are skipped. Raises CountersError if
    there is no table, if it is of another page or cut, and for numbers with a decimal comma.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(('"ID",', "ID,"))), None)
    if start is None:
        raise CountersError(f"there is no table of kernels in it: {EXPORT}")
    if lines[-1].startswith('"') and lines[-1].count('"') % 2:
        raise CountersError(f"it ends within a row: {EXPORT}")
    csv.field_size_limit(LONGEST_FIELD)
    try:
        rows = list(csv.reader(line for line in lines[start:] if line and not line.startswith("==")))
    except csv.Error as error:
        raise CountersError(f"it is no CSV ({error}): {EXPORT}") from error
    head, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if DETAILS in head or any(name not in head for name in NEEDED):
        raise CountersError(f"it is not the raw page of a report: {EXPORT}")
    places = {name: number for number, name in enumerate(head)}
    units = body[0] if body and not body[0][0].strip() else []
    kernels = body[1 if units else 0 :]
    if not kernels:
        raise CountersError(f"it holds no kernel: {EXPORT}")
    metrics = {name: (place, scale_of(name, units[place] if units else "")) for name, place in places.items()}
    used = {name: (place, scale) for name, (place, scale) in metrics.items() if "__" in name and scale is not None}
    if any(_is_decimal_comma(row[place]) for row in kernels for place, _ in used.values()):
        raise CountersError(f"its numbers have a decimal comma: {EXPORT}, with LC_ALL=C in the environment")
    return [_kernel(number, row, places, used) for number, row in enumerate(kernels)]


def _kernel(
    number: int, row: list[str], places: Mapping[str, int], metrics: Mapping[str, tuple[int, float]]
) -> Profiled:
    values = {}
    for name, (place, scale) in metrics.items():
        value = _number(row[place], scale)
        if value is not None:
            values[name] = value
    name, grid, block = (row[places[column]] for column in NEEDED)
    return Profiled(number=number, name=name, grid=_sizes(grid), block=_sizes(block), **figures(values))


def _number(text: str, scale: float) -> float | None:
    """`1,234.5` times the scale; None for other text, negative and too large numbers."""
    plain = GROUPING.sub("", text.strip())
    if not NUMBER.fullmatch(plain):
        return None
    value = float(f"{float(plain.replace(',', '')) * scale:.12g}")  # 84,832 ns are 84.832 µs
    return value if 0 <= value < TOO_LARGE else None


def _is_decimal_comma(text: str) -> bool:
    plain = GROUPING.sub("", text.strip())
    return DECIMAL_COMMA.fullmatch(plain) is not None and not NUMBER.fullmatch(plain)


def _sizes(text: str) -> tuple[int, ...]:
    """`(384, 1, 1)`."""
    return tuple(int(number) for number in re.findall(r"\d{1,18}", text)[:3])


# --- files -----------------------------------------------------------------------------------------------------------


#: Endings after the trace's own name or `ncu`, in the order of the search.
ENDINGS = (".ncu.csv", ".ncu.csv.gz", ".ncu-rep")
PLAIN = ("ncu.csv", "ncu.csv.gz")
TRACE_ENDINGS = (".json.gz", ".json")
MAX_BYTES = 256 << 20
CONVERT_LIMIT_S = 300


def counters_beside(trace: Path) -> Path | None:
    """The counters beside a trace: `NAME.ncu.csv` of the same name, or `ncu.csv` if the folder has no other trace.

    Both may be gzipped (.gz), or a report: `NAME.ncu-rep`, or the folder's only one. None if there are none.
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
    except OSError:  # the folder cannot be read
        return False
    others = [name for name in names if name.endswith(TRACE_ENDINGS) and name != trace.name]
    return not [name for name in others if name not in ("measurement.json", "shapes.json.gz", "case.json")]


def read_counters(file: Path) -> list[Profiled]:
    """The kernels in the file, in order. Raises CountersError if it cannot be read."""
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
    """The raw page of a report as CSV, made by the ncu of this machine."""
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
