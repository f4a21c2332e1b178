"""Names of nights: an edition named by its UTC date, with a suffix if a date has several."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_NIGHT = re.compile(r"^(\d{4}-\d{2}-\d{2})(?:[.-]([a-z0-9][a-z0-9.-]*))?$")


def is_night(edition: str) -> bool:
    """Whether the edition is named like a night: `2026-11-29`, or `2026-11-29-b` for another one of that date."""
    match = _NIGHT.match(edition)
    if not match:
        return False
    try:
        datetime.strptime(match[1], "%Y-%m-%d")
    except ValueError:
        return False
    return True


def night_date(edition: str) -> str:
    """The date in a night's name. Raises ValueError if the edition is not a night."""
    if not is_night(edition):
        raise ValueError(
            f"edition {edition!r} is not a night: name it by its UTC date, such as 2026-11-29 or 2026-11-29-b"
        )
    return edition[:10]


def night_order(edition: str) -> tuple[str, list[tuple[int, str]]]:
    """Sort key: by date, the night without a suffix first, `-2` before `-10`."""
    parts = re.split(r"(\d+)", edition[10:])
    return edition[:10], [(int(part), "") if part.isdigit() else (-1, part) for part in parts if part]


def tonight(suffix: str | None = None, now: datetime | None = None) -> str:
    """The name of the night that starts now (UTC), with the suffix if one is passed."""
    date = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
    return f"{date}-{suffix}" if suffix else date


NIGHT_VARIABLE = "KERNELBOOK_NIGHT"
"""Environment variable that passes the night of the main process to Snakemake's child processes."""
DEADLINE_VARIABLE = "KERNELBOOK_DEADLINE_HOURS"
"""Environment variable by which nightly.py says that the night's deadline has passed; its value is the deadline."""
REPEATS = 5


def for_target(
    config: Mapping[str, Any], words: Collection[str], environ: MutableMapping[str, str], *, main_process: bool
) -> dict[str, Any]:
    """The configuration, with the night's edition, repeats and counters if the command line requests `nightly`.

    The edition is tonight's unless the configuration has one. `environ` passes it to child processes. Raises ValueError
    for an edition that is not a night.
    """
    if main_process:
        environ.pop(NIGHT_VARIABLE, None)
        if "nightly" in words:
            edition = str(config.get("edition") or tonight())  # YAML has dates of its own
            night_date(edition)
            environ[NIGHT_VARIABLE] = edition
    night = environ.get(NIGHT_VARIABLE)
    if night is None:
        return dict(config)
    value = config.get("schedule")
    schedule = value if isinstance(value, Mapping) else {}
    counted = {"counters": True} if _is_counted(night, schedule.get("counters_every", 0)) else {}
    return {**config, "edition": night, "repeats": schedule.get("repeats", REPEATS), **counted}


def _is_counted(night: str, every: Any) -> bool:
    """Whether counters are taken in this night: every Nth date; 0 takes none."""
    if not isinstance(every, int) or every < 1:  # a value that the schema refuses is reported later
        return False
    return datetime.strptime(night_date(night), "%Y-%m-%d").toordinal() % every == 0


def read_judged(path: Path) -> dict[str, Any]:
    """The events file of a night. Raises OSError or ValueError for one that is missing or damaged."""
    judged = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(judged, dict) or not isinstance(judged.get("events"), list):
        raise ValueError("no list of events in it")
    if not all(isinstance(event, dict) and isinstance(event.get("night"), str) for event in judged["events"]):
        raise ValueError("an event without a night in it")
    return judged


def finished(edition: str, history: Path, receipt: Path) -> bool:
    """Whether a night was recorded, judged and published; also true if its results were deleted since.

    A night whose events file is damaged was not judged.
    """
    try:
        read_judged(history / "events" / f"{edition}.json")
    except (OSError, ValueError):
        return False
    recorded = next((history / "nights" / edition).glob("*.parquet"), None) is not None
    return recorded and (receipt.is_file() or not receipt.parent.parent.exists())
