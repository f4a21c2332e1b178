"""What a forward and each of its products must cost: FLOPs and least bytes from shapes, against measured ceilings.

The model is the roofline (Williams, Waterman and Patterson, CACM 52(4), 2009): time is at least FLOPs over the
compute ceiling and bytes over the memory ceiling. Both ceilings are measured in the same run, never taken from a data
sheet: see `ceilings_of`. FLOPs in FLOP, bytes in bytes, times in µs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelbook.case_facts import YARDSTICK, Activity, Call, CaseFacts, label
from kernelbook.clock import bound_of
from kernelbook.trace import TraceError, read_trace

ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}
#: Where the two factors stand among an op's inputs.
FACTORS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2),
           "aten::_addmm_activation": (1, 2)}  # fmt: skip
#: A forward whose floor is at least this share of its device time is bound by what sets the floor.
NEAR_FLOOR = 0.5
#: Libraries that compute the transposed product (column-major), so that the tile's first side lies along n.
COLUMN_MAJOR = {"cuBLAS", "CUTLASS"}


@dataclass(frozen=True)
class Ceilings:
    """What this device can do at most, measured in the run: FLOP/s and bytes/s, None where no case measured it."""

    flops_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class GemmCost:
    """One product of a forward, (batch x) m x k times k x n, with what it achieved.

    ``tiles``: blocks of the output that the kernel's tile makes; ``waves``: those over the multiprocessors.
    """

    position: int
    kernel: str
    label: str
    m: int
    n: int
    k: int
    batch: int
    flops: int
    least_bytes: int | None
    time_us: float
    tflops: float
    intensity: float | None
    share_of_ceiling: float | None
    tile: str | None
    tiles: int | None
    waves: float | None


@dataclass(frozen=True)
class ForwardCost:
    """One forward against its floor.

    ``flops``, and with them ``tflops`` and ``intensity``, are dense: of causal attention they count the masked half,
    which ``least_flops`` leaves out. ``least_bytes``: inputs, weights and output once each. ``share_of_compute``: least
    FLOPs a second over the compute ceiling. ``share_of_memory``: least bytes a second over the memory ceiling, None
    above it, where they came from the L2 cache. ``floor_us``: the larger of least FLOPs over the compute ceiling and
    least bytes over the memory ceiling, the former alone above the memory ceiling. ``bound``: launches; compute or
    memory, where the forward is within twice its floor; neither, where it is farther away (it moves or computes more
    than it must); or unknown.
    """

    flops: int | None
    least_flops: int | None
    least_bytes: int | None
    intensity: float | None
    tflops: float | None
    gb_per_s: float | None
    share_of_compute: float | None
    share_of_memory: float | None
    bound: str
    floor_us: float | None
    times_floor: float | None
    times_floor_wall: float | None


# --- products --------------------------------------------------------------------------------------------------------


def shaped_calls(facts: CaseFacts) -> tuple[Call, ...]:
    """CPU calls with input shapes: of the forward itself, or of the step recorded with shapes beside its trace."""
    if any(call.input_shapes for call in facts.calls):
        return facts.calls
    if not facts.trace_path or not facts.annotation:
        return ()
    return _read_shapes(str(Path(facts.trace_path).with_name("shapes.json.gz")), facts.annotation)


@lru_cache(maxsize=256)
def _read_shapes(path: str, annotation: str) -> tuple[Call, ...]:
    if not Path(path).is_file():
        return ()
    try:
        _, calls = read_trace(path).forwards(annotation)
    except (TraceError, OSError):
        return ()
    names = Call.__dataclass_fields__
    rows = [row for row in calls.to_pylist() if row["index"] == 0]
    return tuple(Call(**{name: row.get(name) for name in names}) for row in rows)


def gemm_costs(facts: CaseFacts, ceilings: Ceilings | None = None) -> list[GemmCost]:
    """The products of the representative forward, each with the kernel that computed it.

    Empty where no shapes were recorded, or where ops and kernels cannot be paired (an op that ran two kernels).
    """
    ops = [call for call in shaped_calls(facts) if call.name in FACTORS and call.input_shapes]
    kernels = [a for a in facts.activities if a.category == "kernel" and a.family == "GEMM" and a.op in FACTORS]
    if [op.name for op in ops] != [kernel.op for kernel in kernels]:
        return []
    sizes = [_sizes(op) for op in ops]
    limit = ceilings.flops_per_s if ceilings else None
    return [_gemm(facts, k, s, limit) for k, s in zip(kernels, sizes, strict=True) if s is not None]


def _sizes(op: Call) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) from an op's input shapes, None where they are not those of a product."""
    shapes = json.loads(op.input_shapes or "[]")
    first, second = FACTORS[op.name]
    if len(shapes) <= second or not shapes[first] or not shapes[second]:
        return None
    a, b = shapes[first], shapes[second]
    if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2]:
        return None
    return (a[0] if len(a) == 3 else 1), a[-2], b[-1], a[-1]


def _gemm(facts: CaseFacts, kernel: Activity, sizes: tuple[int, int, int, int], limit: float | None) -> GemmCost:
    batch, m, n, k = sizes
    flops = 2 * batch * m * n * k
    size = ELEMENT_BYTES.get(facts.dtype or "")
    least = size * batch * (m * k + k * n + m * n) if size else None
    per_s = flops / (kernel.duration_us * 1e-6) if kernel.duration_us else 0.0
    tiles = _tiles(kernel, batch, m, n)
    processors = facts.device_properties.get("numSms")
    return GemmCost(
        position=kernel.position,
        kernel=kernel.name,
        label=label("kernel", kernel.name),
        m=m,
        n=n,
        k=k,
        batch=batch,
        flops=flops,
        least_bytes=least,
        time_us=kernel.duration_us,
        tflops=per_s / 1e12,
        intensity=flops / least if least else None,
        share_of_ceiling=per_s / limit if limit else None,
        tile=kernel.decoded.tile,
        tiles=tiles,
        waves=tiles / processors if tiles and processors else None,
    )


def _tiles(kernel: Activity, batch: int, m: int, n: int) -> int | None:
    sides = [int(side) for side in (kernel.decoded.tile or "").split("x") if side.isdigit()]
    if len(sides) < 2:
        return None
    along_m, along_n = sides[:2] if kernel.decoded.library not in COLUMN_MAJOR else (sides[1], sides[0])
    return batch * math.ceil(m / along_m) * math.ceil(n / along_n)


# --- forwards --------------------------------------------------------------------------------------------------------


def least_bytes(facts: CaseFacts) -> int | None:
    """Bytes that a forward must move: every input and weight read once, the output written once, as measured."""
    if facts.input_bytes is None or facts.output_bytes is None:
        return None
    return facts.input_bytes + facts.output_bytes


def flops_of(facts: CaseFacts) -> int | None:
    """FLOPs of a forward: as measured, else the sum over its products."""
    return facts.flops or sum(gemm.flops for gemm in gemm_costs(facts)) or None


def least_flops(facts: CaseFacts) -> int | None:
    """FLOPs that a forward must compute: all, but of causal attention none of the masked half.

    The workload ``attention`` is causal in every variant: of S keys query i needs the first i, (S + 1) / 2 on average,
    which is the share (S + 1) / (2 S) of the dense FLOPs.
    """
    flops, seq = flops_of(facts), facts.params.get("seq")
    if flops is None or facts.workload != "attention" or not seq:
        return flops
    return flops * (seq + 1) // (2 * seq)


def ceilings_of(cases: Mapping[str, CaseFacts]) -> Ceilings:
    """The ceilings that one run measured, None without its ceiling case.

    Compute: the best rate of the ceiling case and of every product, alone or as its whole forward, that the run
    computed in the same element type; one large product that the device throttles is not its best. Memory: that of the
    ceiling's copy, of whose size no L2 cache holds much.
    """
    good = [facts for facts in cases.values() if facts.status == "ok"]
    matmul = next((f for f in good if f.workload == YARDSTICK and f.variant == "matmul"), None)
    copy = next((f for f in good if f.workload == YARDSTICK and f.variant != "matmul"), None)
    own = _rate(flops_of(matmul), matmul.device_time_us) if matmul else None
    of_copy = _rate(least_bytes(copy), copy.device_time_us) if copy else None
    if matmul is None or own is None:
        return Ceilings(None, of_copy)
    others = (rate for facts in good if facts.dtype == matmul.dtype for rate in _product_rates(facts))
    return Ceilings(max(own, *others), of_copy)


def _product_rates(facts: CaseFacts) -> list[float]:
    """FLOP/s of each product of a forward and of the whole; none where there is no product."""
    gemms = gemm_costs(facts)
    whole = _rate(flops_of(facts), facts.device_time_us) if gemms else None
    return [gemm.tflops * 1e12 for gemm in gemms] + ([whole] if whole else [])


def _rate(amount: int | None, time_us: float | None) -> float | None:
    """Amount a second."""
    return amount / (time_us * 1e-6) if amount and time_us else None


def forward_cost(facts: CaseFacts, ceilings: Ceilings) -> ForwardCost:
    """One forward against the floor that the run's ceilings set."""
    flops, needed, least = flops_of(facts), least_flops(facts), least_bytes(facts)
    per_s, needed_s = _rate(flops, facts.device_time_us), _rate(needed, facts.device_time_us)
    bytes_s = _rate(least, facts.device_time_us)
    cached = bool(bytes_s and ceilings.bytes_per_s and bytes_s > ceilings.bytes_per_s)
    sides = _sides(needed, None if cached else least, ceilings)
    floor = max(sides) or None if sides else None
    return ForwardCost(
        flops=flops,
        least_flops=needed,
        least_bytes=least,
        intensity=flops / least if flops and least else None,
        tflops=per_s / 1e12 if per_s else None,
        gb_per_s=bytes_s / 1e9 if bytes_s else None,
        share_of_compute=needed_s / ceilings.flops_per_s if needed_s and ceilings.flops_per_s else None,
        share_of_memory=bytes_s / ceilings.bytes_per_s if bytes_s and ceilings.bytes_per_s and not cached else None,
        bound=_bound(facts, sides if needed and least and not cached else None),
        floor_us=floor,
        times_floor=facts.device_time_us / floor if floor and facts.device_time_us else None,
        times_floor_wall=facts.forward_time_us / floor if floor and facts.forward_time_us else None,
    )


def _sides(flops: int | None, least: int | None, ceilings: Ceilings) -> tuple[float, float] | None:
    """µs that the compute ceiling and the memory ceiling ask for; None unless both ceilings are known."""
    if (flops is None and least is None) or not (ceilings.flops_per_s and ceilings.bytes_per_s):
        return None
    return 1e6 * (flops or 0) / ceilings.flops_per_s, 1e6 * (least or 0) / ceilings.bytes_per_s


def _bound(facts: CaseFacts, sides: tuple[float, float] | None) -> str:
    if bound_of(facts)[0] == "launches":
        return "launches"
    if sides is None or not facts.device_time_us:
        return "unknown"
    if max(sides) < NEAR_FLOOR * facts.device_time_us:
        return "neither"
    return "compute" if sides[0] >= sides[1] else "memory"
