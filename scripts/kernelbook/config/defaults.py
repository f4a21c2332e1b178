"""How a case is measured by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURE_DEFAULTS: Mapping[str, Any] = {
    "dtype": "bfloat16",
    "warmup": 3,
    "schedule": {"wait": 1, "warmup": 1, "active": 10},
    "samples": 50,
    "timeout_s": 300,
    "seed": 0,
    "retries": 1,
    "flush_l2": False,
}
