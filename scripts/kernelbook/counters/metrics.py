"""Names of Nsight Compute's metrics, and the figure that each is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernelbook.counters.kernel import Stall

PEAK, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
#: Figure -> metrics that give it, the first that a report has.
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
#: The tensor pipe has a counter for each kind of instruction; the busiest is the pipe's share. Instructions are counted
#: where cycles are not: on Hopper, whose instructions are long, that says little.
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
#: Unit of a column -> what its values are multiplied with, to µs or bytes.
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
    """Factor to µs or bytes; 1 of other metrics; None of times and sizes in an unknown unit."""
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
    """The largest reasons, as shares of all time between instructions; of one family of metrics."""
    families: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        if (match := STALL.fullmatch(name)) and not match[2].endswith("_not_issued"):
            families.setdefault(match[1], {})[match[2]] = value
    reasons = next(iter(sorted(families.items())), ("", {}))[1]
    total = sum(reasons.values())
    waited = sorted((item for item in reasons.items() if item[0] != SELECTED), key=lambda item: -item[1])
    return tuple(Stall(reason, 100 * value / total) for reason, value in waited[:MOST_STALLS] if value > 0)
