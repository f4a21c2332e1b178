"""Occupancy: the share of a multiprocessor's warps that a kernel can keep there at once. In percent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernelbook.cases import Activity
from kernelbook.judge.cost_model import resident_blocks

WARP = 32


def theoretical_occupancy(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """What registers, shared memory and block size allow; None where the trace does not say enough."""
    blocks = resident_blocks(activity, device)
    return None if blocks is None else _percent(activity, blocks, device)


def achievable_occupancy(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """The same, or less where the grid has too few blocks to fill all multiprocessors; an average over these."""
    theory, processors = theoretical_occupancy(activity, device), device.get("numSms")
    if theory is None or not activity.grid or not processors:
        return theory
    return min(theory, _percent(activity, math.prod(activity.grid) / processors, device))


def _percent(activity: Activity, blocks: float, device: Mapping[str, Any]) -> float:
    warps = -(-math.prod(activity.block or (0,)) // WARP)
    return 100.0 * blocks * warps / (device["maxThreadsPerMultiprocessor"] // WARP)
