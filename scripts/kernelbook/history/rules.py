"""The rules by which changes are recognised: the keys of `history` in config.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelbook.history.night_events import ALERTS


@dataclass(frozen=True)
class Rules:
    """The rules for changes; workflow/schemas/nights.schema.json describes each key."""

    min_nights: int = 12
    alert_window: int = 7
    min_change: float = 0.03
    suspect_change: float = 0.03
    suspect_z: float = 2.5
    suspect_nights: int = 20
    alert_on: tuple[str, ...] = field(default=ALERTS)


def rules_of(config: Mapping[str, Any]) -> Rules:
    """The rules among the keys of a `history` section; other keys are ignored, missing ones have their defaults."""
    values = {key: value for key, value in config.items() if key in Rules.__dataclass_fields__}
    return Rules(**values | {"alert_on": tuple(values.get("alert_on", ALERTS))})
