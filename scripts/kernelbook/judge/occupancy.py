"""Occupancy: how many blocks of a kernel a multiprocessor can hold, and the waves that its grid makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernelbook.cases import Activity

WARP = 32
#: Most blocks that one multiprocessor holds at once, by capability (CUDA C++ Programming Guide, table of technical
#: specifications); from 8.0 on the system reserves 1 KiB of shared memory for each block.
MAX_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24}
USUAL_MAX_BLOCKS = 32
RESERVED_SHARED = 1024


def resident_blocks(activity: Activity, device: Mapping[str, Any]) -> int | None:
    """Blocks of a kernel that one multiprocessor can hold at once, limited by registers, shared memory and block size.

    Registers are allocated to warps in units of 256, over four partitions of the multiprocessor (CUDA occupancy
    calculator). None if the trace lacks a value that is needed.
    """
    needed = ("maxThreadsPerMultiprocessor", "regsPerMultiprocessor", "sharedMemPerMultiprocessor")
    if not activity.block or any(not device.get(name) for name in needed):
        return None
    warps = -(-math.prod(activity.block) // WARP)
    capability = (int(device.get("computeMajor") or 0), int(device.get("computeMinor") or 0))
    limits: list[int] = [
        device["maxThreadsPerMultiprocessor"] // WARP // warps,
        MAX_BLOCKS.get(capability, USUAL_MAX_BLOCKS),
    ]
    if activity.registers_per_thread:
        per_warp = -(-activity.registers_per_thread * WARP // 256) * 256
        limits.append(device["regsPerMultiprocessor"] // per_warp // 4 * 4 // warps)
    if activity.shared_memory_bytes:
        reserved = RESERVED_SHARED if capability[0] >= 8 else 0
        limits.append(device["sharedMemPerMultiprocessor"] // (activity.shared_memory_bytes + reserved))
    return min(limits)


def waves_of(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """Blocks of the grid over the blocks that the whole device can hold at once, as in Nsight Compute."""
    resident, processors = resident_blocks(activity, device), device.get("numSms")
    if not activity.grid or not resident or not processors:
        return None
    return math.prod(activity.grid) / (int(processors) * resident)


def theoretical_occupancy(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """Occupancy in percent that registers, shared memory and block size allow; None if a value is missing."""
    blocks = resident_blocks(activity, device)
    return None if blocks is None else _percent(activity, blocks, device)


def achievable_occupancy(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """As `theoretical_occupancy`, but lower if the grid has too few blocks; an average over the multiprocessors."""
    theory, processors = theoretical_occupancy(activity, device), device.get("numSms")
    if theory is None or not activity.grid or not processors:
        return theory
    return min(theory, _percent(activity, math.prod(activity.grid) / processors, device))


def _percent(activity: Activity, blocks: float, device: Mapping[str, Any]) -> float:
    warps = -(-math.prod(activity.block or (0,)) // WARP)
    return 100.0 * blocks * warps / (int(device["maxThreadsPerMultiprocessor"]) // WARP)
