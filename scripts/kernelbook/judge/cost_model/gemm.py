"""Matrix products of a forward: sizes from recorded shapes, achieved rates, and how the grid fits the device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from kernelbook.cases import Activity, CaseFacts, label
from kernelbook.judge.cost_model.roof import COMPUTE_TYPES, Ceilings, compute_type, per_second, roof_of
from kernelbook.judge.cost_model.shapes import Launched, launched
from kernelbook.judge.cost_model.traffic import FACTORS, sizes, traffic_of
from kernelbook.judge.occupancy import waves_of
from kernelbook.kernel_names.model import MULTIPLY
from kernelbook.text.meaning import doc

#: Tensor cores need rows of a multiple of 16 bytes (NVIDIA, Matrix Multiplication Background User's Guide).
ALIGNED_BYTES = 16
#: Libraries that compute the transposed product (column-major): the first side of their tiles is along n.
COLUMN_MAJOR = {"cuBLAS", "CUTLASS"}


@dataclass(frozen=True)
class GemmCost:
    """One product of a forward, (batch x) m x k times k x n, and its achieved rates. Other fields: as in KernelCost."""

    run: str
    case: str
    position: int
    kernel: Annotated[str, doc("For a product: the kernel's whole name.")]
    label: str
    m: Annotated[int, doc("Rows of the product.")]
    n: Annotated[int, doc("Columns of the product.")]
    k: Annotated[int, doc("Length of the sums.")]
    batch: Annotated[int, doc("Products of this size.")]
    flops: int
    bytes: int
    time_us: float
    tflops: float | None
    intensity: float
    compute_type: str | None
    share_of_roof: float | None
    roof: str | None
    tile: Annotated[str | None, doc("Tile of the kernel, from its name.")]
    tiles: Annotated[int | None, doc("Number of tiles that make up the output.")]
    blocks: Annotated[int | None, doc("Thread blocks of the grid.")]
    waves: Annotated[
        float | None, doc("Those over what the device holds at once by registers, shared memory and block size.")
    ]
    tiles_per_block: Annotated[
        float | None, doc("Above 1 if the kernel is persistent: each block computes several tiles.")
    ]

    def unaligned(self, sides: str, elements: int) -> dict[str, int]:
        """Side -> size, for those of the sides (``mnk``) that are not a multiple of `elements`."""
        return {side: size for side in sides if (size := getattr(self, side)) % elements}


def gemm_costs(facts: CaseFacts, ceilings: Ceilings | None = None) -> list[GemmCost]:
    """The products of the representative forward, each with its kernel.

    Empty if no shapes were recorded, or if ops and kernels cannot be paired. Products that took several kernels are
    left out.
    """
    pairs = [
        each
        for each in launched(facts)
        if each.op.name in FACTORS and each.alone and each.activity.category == "kernel"
    ]
    gemms = [_gemm(facts, each, ceilings or Ceilings()) for each in pairs if each.activity.family == "GEMM"]
    return [gemm for gemm in gemms if gemm is not None]


def _gemm(facts: CaseFacts, pair: Launched, ceilings: Ceilings) -> GemmCost | None:
    size, traffic, kernel = sizes(pair.op), traffic_of(pair.op, pair.seeded), pair.activity
    if size is None or traffic is None or traffic.flops is None:
        return None
    batch, m, n, k = size
    per_s = per_second(traffic.flops, kernel.duration_us)
    kind = compute_type(traffic.kind, kernel.decoded)
    roof = roof_of(traffic.flops, traffic.bytes, kernel.duration_us, ceilings, kind)
    tiles = _tiles(kernel, batch, m, n)
    blocks = math.prod(kernel.grid) if kernel.grid else None
    return GemmCost(
        run=facts.run,
        case=facts.case,
        position=kernel.position,
        kernel=kernel.name,
        label=label("kernel", kernel.name),
        m=m,
        n=n,
        k=k,
        batch=batch,
        flops=traffic.flops,
        bytes=traffic.bytes,
        time_us=kernel.duration_us,
        tflops=per_s / 1e12 if per_s else None,
        intensity=traffic.flops / traffic.bytes,
        compute_type=kind,
        share_of_roof=roof.share(kernel.duration_us) if roof else None,
        roof=roof.side if roof else None,
        tile=kernel.decoded.tile,
        tiles=tiles,
        blocks=blocks,
        waves=waves_of(kernel, facts.device_properties),
        tiles_per_block=tiles / blocks if tiles and blocks else None,
    )


def _tiles(kernel: Activity, batch: int, m: int, n: int) -> int | None:
    sides = [int(side) for side in (kernel.decoded.tile or "").split("x") if side.isdigit()]
    if len(sides) < 2:
        return None
    along_m, along_n = sides[:2] if kernel.decoded.library not in COLUMN_MAJOR else (sides[1], sides[0])
    return batch * math.ceil(m / along_m) * math.ceil(n / along_n)


def compulsory_bytes(facts: CaseFacts) -> int | None:
    """Bytes that a forward must move: each input and weight read once, the output written once, as measured."""
    if facts.input_bytes is None or facts.output_bytes is None:
        return None
    return facts.input_bytes + facts.output_bytes


def dense_flops(facts: CaseFacts) -> int | None:
    """FLOPs of a forward, with the masked half of causal attention: as measured, otherwise the sum of its products."""
    return facts.flops or sum(gemm.flops for gemm in gemm_costs(facts)) or None


def useful_flops(facts: CaseFacts) -> int | None:
    """FLOPs that the result needs: as stated by the workload, otherwise those of all its products.

    For causal attention workloads state them without the masked half, as FlashAttention's benchmarks do.
    """
    return facts.useful_flops or dense_flops(facts)


def product_types(facts: CaseFacts) -> dict[str, float]:
    """Compute type -> device time of the products and attention kernels of the representative forward, in µs."""
    spent: dict[str, float] = {}
    for activity in facts.activities:
        kind = compute_type(facts.dtype, activity.decoded) if activity.family in MULTIPLY else None
        if kind:
            spent[kind] = spent.get(kind, 0.0) + activity.duration_us
    return spent


def forward_type(facts: CaseFacts) -> str | None:
    """The compute type whose ceiling limits a forward.

    The faster one of the type of its inputs and the type in which its products spend most of their time: products of
    16-bit inputs could run in 16 bits even if they do not, and an autocast forward of fp32 inputs does.
    """
    spent = product_types(facts)
    kinds = {compute_type(facts.dtype), max(spent, key=lambda kind: spent[kind], default=None)}
    return max((kind for kind in kinds if kind), key=COMPUTE_TYPES.index, default=None)
