"""Peak rates from vendors' data sheets, and the best rates that the project measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: GPUs of one host at most. Those of several hosts are joined by a network, whose rate the GPU's name does not give.
MOST_OF_ONE_HOST = 8


@dataclass(frozen=True)
class DataSheet:
    """Peak rates of a device and their source.

    ``flops_per_s``: compute type (see `roof.COMPUTE_TYPES`) -> dense FLOP/s with fp32 accumulation; fp32 is the rate of
    the CUDA cores. Figures that a sheet gives with sparsity are halved. ``bytes_per_s``: rate of the memory.
    ``l2_bytes_per_s``, ``l2_bytes``: rate and size of the L2 cache, which data sheets do not state.
    ``nvlink_gb_per_s``: GB/s of NVLink in one direction; sheets state the sum of both, 1,800 GB/s for a B200.
    """

    flops_per_s: Mapping[str, float]
    bytes_per_s: float
    source: str
    nvlink_gb_per_s: float | None = None
    l2_bytes_per_s: float | None = None
    l2_bytes: int | None = None


def _sheet(
    source: str, tb_per_s: float, fp32: float, tf32: float | None, bits16: float, fp64: float | None = None,
    fp8: float | None = None, nvlink: float | None = None,
) -> DataSheet:  # fmt: skip
    """Rates in TFLOP/s, TB/s and GB/s (NVLink); None if the device lacks the unit or its sheet the figure."""
    rates = {"fp64": fp64, "fp32": fp32, "tf32": tf32, "16-bit": bits16, "fp8": fp8}
    flops = {kind: rate * 1e12 for kind, rate in rates.items() if rate is not None}
    return DataSheet(flops, tb_per_s * 1e12, source, nvlink)


_A100 = "NVIDIA A100 Tensor Core GPU data sheet"
_H100 = "NVIDIA H100 Tensor Core GPU data sheet"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet"
_BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture white paper"
_ADA = "NVIDIA Ada GPU Architecture white paper"
#: By the device name that the driver reports.
DATA_SHEETS = {
    "NVIDIA B200": _sheet(_BLACKWELL, 8.0, 80, 1100, 2250, fp64=40, fp8=4500, nvlink=900),
    "NVIDIA H200": _sheet(_H200, 4.8, 67, 494.5, 989, fp64=67, fp8=1979, nvlink=450),
    "NVIDIA H200 NVL": _sheet(_H200, 4.8, 60, 417.5, 835.5, fp64=60, fp8=1670.5),
    "NVIDIA H100 80GB HBM3": _sheet(_H100, 3.35, 67, 494.5, 989, fp64=67, fp8=1979, nvlink=450),
    "NVIDIA H100 NVL": _sheet(_H100, 3.9, 60, 417.5, 835.5, fp64=60, fp8=1670.5),
    "NVIDIA H100 PCIe": _sheet(_H100, 2.0, 51, 378, 756.5, fp64=51, fp8=1513),
    "NVIDIA A100-SXM4-80GB": _sheet(_A100, 2.039, 19.5, 156, 312, fp64=19.5, nvlink=300),
    "NVIDIA A100-SXM4-40GB": _sheet(_A100, 1.555, 19.5, 156, 312, fp64=19.5, nvlink=300),
    "NVIDIA A100 80GB PCIe": _sheet(_A100, 1.935, 19.5, 156, 312, fp64=19.5),
    "NVIDIA A100-PCIE-40GB": _sheet(_A100, 1.555, 19.5, 156, 312, fp64=19.5),
    "NVIDIA L40S": _sheet("NVIDIA L40S data sheet", 0.864, 91.6, 183, 362.05, fp8=733),
    "NVIDIA L4": _sheet("NVIDIA L4 data sheet", 0.3, 30.3, 60, 121, fp8=242.5),
    "NVIDIA A10": _sheet("NVIDIA A10 data sheet", 0.6, 31.2, 62.5, 125),
    "NVIDIA A40": _sheet("NVIDIA A40 data sheet", 0.696, 37.4, 74.8, 149.7),
    "Tesla V100-SXM2-16GB": _sheet("NVIDIA V100 data sheet", 0.9, 15.7, None, 125, fp64=7.8, nvlink=150),
    "Tesla V100-SXM2-32GB": _sheet("NVIDIA V100 data sheet", 0.9, 15.7, None, 125, fp64=7.8, nvlink=150),
    "Tesla T4": _sheet("NVIDIA T4 data sheet", 0.32, 8.1, None, 65),
    "NVIDIA RTX A6000": _sheet(_GA102, 0.768, 38.7, 77.4, 154.8),
    "NVIDIA GeForce RTX 3090": _sheet(_GA102, 0.936, 35.6, 35.6, 71),
    "NVIDIA GeForce RTX 4090": _sheet(_ADA, 1.008, 82.6, 82.6, 165.2, fp8=330.3),
    "NVIDIA RTX 6000 Ada Generation": _sheet(_ADA, 0.96, 91.1, 182.1, 364.2, fp8=728.5),
}
#: Best rates measured, as `ceilings.measured_ceilings` describes, in `resources/recorded/h200-torch2.11`.
RECORDED = {
    "NVIDIA H200": DataSheet(
        {"fp64": 60.1e12, "fp32": 51.3e12, "tf32": 409.9e12, "16-bit": 803.2e12, "fp8": 1448.0e12},
        4258.2e9,
        "the project's own measurement, torch 2.11",
        l2_bytes_per_s=6166.2e9,
        l2_bytes=60 * 2**20,
    ),
}


def link_rate(device: str | None, ranks: int | None) -> float | None:
    """NVLink's rate (GB/s, one direction) for a group of `ranks` ranks; None if unknown.

    It bounds the bus bandwidth of a collective, except for an all-reduce with NVLink SHARP, which sums in the switch.
    """
    sheet = DATA_SHEETS.get(device or "")
    return sheet.nvlink_gb_per_s if sheet and ranks and ranks <= MOST_OF_ONE_HOST else None
