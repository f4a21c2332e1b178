"""Nsight Compute as a command: where to find it, which metrics to ask for, and what its refusals mean."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workloads.harness.failures import Failure

QUERY_LIMIT_S = 60
#: Where CUDA's installers put it; the last of the sorted paths is the newest.
PLACES = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
    "/usr/local/NVIDIA-Nsight-Compute*/ncu",
)
PEAK = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"
#: Why a warp that could not issue an instruction waited (Nsight Compute, "Warp Stall Reasons").
STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected"),
    *("short_scoreboard", "sleeping", "tex_throttle", "wait"),
)
#: The metrics to collect; `kernelbook.counters.files` reads these names. Metrics that a GPU lacks are left out.
METRICS = (
    *("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
    *("lts__t_bytes.sum", "lts__t_sector_hit_rate.pct"),
    *(f"sm__throughput{PEAK}", f"gpu__compute_memory_throughput{PEAK}"),
    *(f"gpu__dram_throughput{PEAK}", f"lts__throughput{PEAK}", f"l1tex__throughput{ACTIVE}"),
    *(f"sm__pipe_tensor_cycles_active{ACTIVE}", f"sm__pipe_fma_cycles_active{ACTIVE}"),
    *(f"sm__pipe_fp64_cycles_active{ACTIVE}", f"sm__pipe_alu_cycles_active{ACTIVE}"),
    *(f"sm__warps_active{ACTIVE}", "sm__maximum_warps_per_active_cycle_pct"),
    *("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum"),
    *(f"launch__occupancy_limit_{limit}" for limit in ("blocks", "registers", "shared_mem", "warps", "barriers")),
    *("launch__registers_per_thread", "launch__waves_per_multiprocessor"),
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALLS),
)
ALWAYS = ("launch__", "sm__maximum_warps_per_active_cycle_pct")  # computed by ncu, in no list of the GPU's counters
MEMORY = ("Memcpy", "Memset")  # the names of activities other than kernels begin so
ROOT_ONLY = "NVreg_RestrictProfilingToAdminUsers=0"
#: What ncu prints -> fact, remedy; the first that matches counts.
REFUSALS = (
    (
        r"ERR_NVGPUCTRPERM|not have permission to access",
        "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM)",
        f"load the driver with {ROOT_ONLY}, give the container CAP_SYS_ADMIN, or ask who runs the machine",
    ),
    (
        r"driver resource was unavailable|tool \(like DCGM\)|another (tool|profiler)|already in use",
        "another profiler holds the GPU's counters",
        "stop it for the measurement (for DCGM: dcgmi profile --pause)",
    ),
    (
        r"\bMIG\b|Multi-Instance",
        "ncu cannot read the counters of this MIG instance",
        "measure on a whole GPU, or on an instance that has the counters to itself",
    ),
    (
        r"No kernels were profiled",
        "ncu saw no kernel in the forward",
        "check that the forward runs kernels on the GPU that torch calls cuda:0",
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler|virtual|vGPU|InsufficientPrivileges",
        "this machine gives no access to the GPU's counters",
        "measure on a machine whose GPU is not virtual, with the driver's own libraries",
    ),
    (
        r"UnsupportedGpu|not supported on this device|DeviceNotSupported|driver version|Unsupported driver",
        "this ncu does not know the GPU or its driver",
        "name a newer Nsight Compute in the run's `ncu`",
    ),
    (
        r"[Oo]ut of memory|OutOfMemory|cannot be saved|Failed to (save|allocate)",
        "there is no memory left to save what a kernel overwrites between passes",
        "use smaller params",
    ),
)
WSL = Failure(
    "refused",
    "Windows gives WSL no access to the GPU's counters",
    "allow it in the NVIDIA Control Panel (Developer, Manage GPU Performance Counters)",
)


def find_ncu(asked: str | None) -> str | None:
    """The program `ncu`: in the folder that the run names, on the PATH, or where CUDA's installers put it."""
    if asked:
        beside = Path(asked) / "ncu" if os.path.isdir(asked) else Path(asked)
        return str(beside) if os.access(beside, os.X_OK) and beside.is_file() else None
    on_path = shutil.which("ncu")
    return on_path or next((path for place in PLACES for path in sorted(glob.glob(place), reverse=True)), None)


def missing(asked: str | None) -> Failure:
    """The refusal if there is no ncu."""
    if asked:
        return Failure("refused", f"there is no ncu in {asked}", "correct the run's `ncu`")
    remedy = "use an image that has it, or name the host's folder of Nsight Compute in the run's `ncu`"
    return Failure("refused", "there is no ncu (Nsight Compute)", remedy)


def metrics_of(ncu: str, environment: dict[str, str]) -> tuple[str, ...]:
    """Those of `METRICS` that this GPU has; all of them if ncu does not list its counters."""
    try:
        asked = [ncu, "--query-metrics"]
        done = subprocess.run(
            asked, capture_output=True, text=True, timeout=QUERY_LIMIT_S, env=environment, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return METRICS
    offered = {line.split(None, 1)[0] for line in done.stdout.splitlines() if line.strip()}
    if not {"sm__throughput", "dram__bytes_read"} <= offered:
        return METRICS
    return tuple(name for name in METRICS if name.startswith(ALWAYS) or name.partition(".")[0] in offered)


def command(ncu: str, log: Path, metrics: Iterable[str], functions: Iterable[str]) -> list[str]:
    """The command line up to the profiled program.

    Kernels are counted between cudaProfilerStart and Stop: an NVTX push/pop range would miss those that autograd's own
    threads launch. Clocks stay as they are in the measurement; caches are flushed before each pass (ncu's default).
    functions: names of the functions to profile; all of them if empty.
    """
    only = "|".join(map(re.escape, functions))
    return [
        *(ncu, "--profile-from-start", "off", "--clock-control", "none", "--target-processes", "application-only"),
        *("--csv", "--page", "raw", "--log-file", str(log), "--metrics", ",".join(metrics)),
        *(("--kernel-name", f"regex:^({only})$") if only else ()),
    ]


def refusal(log: str, status: int, last: str) -> Failure:
    """Why ncu gave no counters. log: what it printed; last: the last line of the profiled program."""
    if re.search(REFUSALS[0][0], log) and _in_wsl():
        return WSL
    for pattern, fact, remedy in REFUSALS:
        if re.search(pattern, log):
            return Failure("refused", fact, remedy)
    errors = [line.partition("==ERROR==")[2].strip() for line in log.splitlines() if line.startswith("==ERROR==")]
    words = next(filter(None, [*errors, last]), "no message")[:300]
    return Failure("refused", f"ncu ended with status {status} ({words})", "run the case with ncu by hand")


def _in_wsl() -> bool:
    try:
        return "microsoft" in Path("/proc/version").read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False


def function_name(kernel: str) -> str:
    """The name that ncu filters by: without namespaces, template, return type and arguments."""
    text = kernel.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    depth, kept = 0, []
    for sign in text:
        if sign == "(" and depth == 0:
            break
        depth += (sign == "<") - (sign == ">")
        if depth == 0 and sign != ">":
            kept.append(sign)
    return "".join(kept).split("::")[-1].split(" ")[-1]


def runs_no_kernel(averages: list[dict[str, Any]]) -> bool:
    """Whether the forwards ran memcpys or memsets and nothing else on the GPU. averages: rows of `key_averages`."""
    names = [row["name"] for row in _device_rows(averages)]
    return bool(names) and all(name.startswith(MEMORY) for name in names)


def _device_rows(averages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of what the GPU ran. Ops, runtime calls and ranges have CPU time; a range has a second row without."""
    on_cpu = {row["name"] for row in averages if row.get("cpu_time_us")}
    return (row for row in averages if row.get("self_device_time_us") and row["name"] not in on_cpu)


def longest_functions(averages: list[dict[str, Any]], forwards: int, most: int) -> tuple[str, ...] | None:
    """Functions whose kernels take longest, with at most `most` kernels in a forward together; () if all fit.

    averages: rows of `key_averages` over `forwards` forwards. None if every function has more kernels than `most`.
    """
    counts: dict[str, int] = {}
    times: dict[str, float] = {}
    for row in _device_rows(averages):
        if not row["name"].startswith(MEMORY):
            name = function_name(row["name"])
            counts[name] = counts.get(name, 0) + row["count"]
            times[name] = times.get(name, 0.0) + row["self_device_time_us"]
    left, kept = most * max(forwards, 1), []
    if sum(counts.values()) <= left:
        return ()
    for name in sorted(times, key=lambda name: -times[name]):
        if counts[name] <= left:
            kept.append(name)
            left -= counts[name]
    return tuple(kept) or None
