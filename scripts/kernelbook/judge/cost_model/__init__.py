"""The least time of a forward and of each of its kernels, from recorded shapes and the ceilings of the device.

``roof``: the roofline model. ``shapes``: operands, and which op launched which kernel. ``traffic``: bytes and FLOPs of
one op. ``kernel_costs``, ``gemm``, ``forward``: achieved rates of a kernel (also one that Inductor generated), a
product, a forward. ``ceilings``: the best rates of the device.
"""

from __future__ import annotations

from kernelbook.judge.cost_model.ceilings import (
    Ceiling,
    ceilings_of,
    measured_ceilings,
    rates_of,
    run_ceilings,
    used_ceilings,
)
from kernelbook.judge.cost_model.forward import ForwardCost, forward_cost
from kernelbook.judge.cost_model.gemm import GemmCost, compulsory_bytes, dense_flops, gemm_costs, useful_flops
from kernelbook.judge.cost_model.kernel_costs import KernelCost, kernel_costs
from kernelbook.judge.cost_model.roof import Ceilings
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, Launched, launched, shaped_calls

__all__ = [
    "ELEMENT_BYTES",
    "Ceiling",
    "Ceilings",
    "ForwardCost",
    "GemmCost",
    "KernelCost",
    "Launched",
    "ceilings_of",
    "compulsory_bytes",
    "dense_flops",
    "forward_cost",
    "gemm_costs",
    "kernel_costs",
    "launched",
    "measured_ceilings",
    "rates_of",
    "run_ceilings",
    "shaped_calls",
    "used_ceilings",
    "useful_flops",
]
