"""What a forward must move and compute at the least."""

from __future__ import annotations

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model.gemm import gemm_costs


def compulsory_bytes(facts: CaseFacts) -> int | None:
    """Bytes that a forward must move: every input and weight read once, the output written once, as measured."""
    if facts.input_bytes is None or facts.output_bytes is None:
        return None
    return facts.input_bytes + facts.output_bytes


def dense_flops(facts: CaseFacts) -> int | None:
    """FLOPs of a forward, of causal attention the masked half included: as measured, else the sum of its products."""
    return facts.flops or sum(gemm.flops for gemm in gemm_costs(facts)) or None


def useful_flops(facts: CaseFacts) -> int | None:
    """FLOPs that the result needs: as the workload states them, else those of all its products.

    Causal attention states them without the masked half, as FlashAttention's benchmarks count.
    """
    return facts.useful_flops or dense_flops(facts)
