"""What an earlier execution left of a run or a measurement: whether it has to be repeated, and which it repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Earlier:
    """What an earlier execution left: was it a failure, when, and which failure did it repeat itself."""

    failed_at: str | None
    retry_of: str | None

    def repeat_of(self, again: bool) -> str | None:
        """Which failure the next execution repeats, if any. again: whether failures are to be repeated."""
        return self.failed_at if again and self.failed_at else self.retry_of


@cache
def previous(path: Path, stamp: str) -> Earlier:
    """What the measurement.json or run.json at `path` tells, whose time is under the key `stamp`."""
    earlier = read_object(path)
    failed_at = earlier.get(stamp) if earlier.get("status") in ("failed", "lost") else None
    case = earlier.get("case")
    retry_of = (case if isinstance(case, Mapping) else earlier).get("retry_of")
    return Earlier(failed_at, retry_of)


@cache
def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON object, read once an execution, so that it stays as it was when the DAG was built; empty if unreadable."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, Mapping) else {}
