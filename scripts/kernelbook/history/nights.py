"""Names of nights: an edition named by its UTC date, with a suffix when a date has several."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_NIGHT = re.compile(r"^(\d{4}-\d{2}-\d{2})(?:[.-]([a-z0-9][a-z0-9.-]*))?$")


def is_night(edition: str) -> bool:
    """Whether the edition is named like a night: `2026-11-29`, or `2026-11-29-b` for one more on the same date."""
    match = _NIGHT.match(edition)
    if not match:
        return False
    try:
        datetime.strptime(match[1], "%Y-%m-%d")
    except ValueError:
        return False
    return True


def night_date(edition: str) -> str:
    """The date part of a night's name; raises ValueError for an edition that is no night."""
    if not is_night(edition):
        raise ValueError(
            f"edition {edition!r} is not a night: name it by its UTC date, such as 2026-11-29 or 2026-11-29-b"
        )
    return edition[:10]


def night_order(edition: str) -> tuple:
    """Sort key of a night: by date, the one without a suffix first, `-2` before `-10`."""
    parts = re.split(r"(\d+)", edition[10:])
    return edition[:10], [(int(part), "") if part.isdigit() else (-1, part) for part in parts if part]


def tonight(suffix: str | None = None, now: datetime | None = None) -> str:
    """The name of the night that starts now (UTC), with the suffix if one is given."""
    date = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
    return f"{date}-{suffix}" if suffix else date
