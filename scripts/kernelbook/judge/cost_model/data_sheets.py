"""What makers state of their devices: to judge the measured ceilings by, never in their stead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSheet:
    """Dense FLOP/s in bf16 and fp16 on tensor cores, bytes/s of the memory, and where that is stated.

    Figures that a sheet gives with sparsity are halved here.
    """

    flops_per_s: float
    bytes_per_s: float
    source: str


_H100 = "NVIDIA H100 Tensor Core GPU data sheet"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet"
_A100 = "NVIDIA A100 Tensor Core GPU data sheet"
#: By the name that the driver gives the device.
DATA_SHEETS = {
    "NVIDIA H200": DataSheet(989e12, 4.8e12, _H200),
    "NVIDIA H100 80GB HBM3": DataSheet(989e12, 3.35e12, _H100),
    "NVIDIA A100-SXM4-80GB": DataSheet(312e12, 2.039e12, _A100),
    "NVIDIA A100-SXM4-40GB": DataSheet(312e12, 1.555e12, _A100),
    "NVIDIA A100 80GB PCIe": DataSheet(312e12, 1.935e12, _A100),
    "NVIDIA A100-PCIE-40GB": DataSheet(312e12, 1.555e12, _A100),
}
