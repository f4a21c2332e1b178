"""Rates of the links between GPUs, from the vendor's data sheets."""

from __future__ import annotations

#: More GPUs than one host has are joined by a network, whose rate the name of a GPU does not tell.
MOST_OF_ONE_HOST = 8
#: GB/s of NVLink in one direction. Sheets state the sum of both, which is twice that: 1,800 GB/s for a B200.
_GB_PER_S = {
    "NVIDIA B200": 900.0,
    "NVIDIA H200": 450.0,
    "NVIDIA H100 80GB HBM3": 450.0,
    "NVIDIA A100-SXM4-80GB": 300.0,
    "NVIDIA A100-SXM4-40GB": 300.0,
    "Tesla V100-SXM2-16GB": 150.0,
    "Tesla V100-SXM2-32GB": 150.0,
}


def link_rate(device: str | None, ranks: int | None) -> float | None:
    """NVLink's rate (GB/s, one direction) for a group of that many ranks; None where it is not known.

    The bus bandwidth of a collective cannot exceed it, but NVLink SHARP sums in the switch, so that an all-reduce may.
    """
    if not ranks or ranks > MOST_OF_ONE_HOST:
        return None
    return _GB_PER_S.get(device or "")
