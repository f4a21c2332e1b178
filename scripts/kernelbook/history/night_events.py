"""Results of judging a night: events (reported once), suspects (never an alert), failures, exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kernelbook.history.schema import short_id

SCHEMA = 1
KINDS = ("time", "kernels", "launches", "ops", "warnings", "series", "failure", "gap")
ALERTS = ("time", "kernels", "launches", "ops")
"""Kinds that set the exit status to 3 by default."""


@dataclass(frozen=True)
class NightEvent:
    """One change. `night`: the first edition with the change; times in µs; `change`: relative (0.05: 5 % more time)."""

    kind: str
    night: str
    run: str | None  # None: the whole night
    case: str | None  # None: the whole run
    series: str | None
    text: str
    causes: tuple[str, ...] = ()
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    change: float | None = None
    found: str = ""  # the night whose judging found it

    @property
    def id(self) -> str:
        """Equal for the same change, whichever night finds it."""
        what = self.causes if self.kind == "series" else ()
        return short_id([self.kind, self.night, self.run, self.case, self.series, *what])

    @property
    def direction(self) -> str | None:
        """slower, faster, or None without a change of time."""
        return None if self.change is None else "slower" if self.change > 0 else "faster"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Causes to show beside the text; the text of a new series already contains them."""
        return () if self.kind == "series" else self.causes

    def as_json(self) -> dict[str, Any]:
        """As stored in the events file and latest.json; strict JSON."""
        return {"id": self.id, "direction": self.direction, **asdict(self), "causes": list(self.causes)}


def event_of(record: Mapping[str, Any]) -> NightEvent:
    """An event from its JSON; unknown keys (of later versions) are ignored, missing ones are None."""
    fields: dict[str, Any] = dict.fromkeys(("kind", "night", "run", "case", "series", "text"))
    fields |= {name: value for name, value in record.items() if name in NightEvent.__dataclass_fields__}
    return NightEvent(**fields | {"causes": tuple(fields.get("causes") or ())})


@dataclass(frozen=True)
class Suspect:
    """A value of a night that stands out. `z`: modified z-score; None if the suspect is not a single value."""

    run: str | None
    case: str | None
    series: str | None
    text: str
    change: float | None = None
    z: float | None = None


@dataclass(frozen=True)
class Failed:
    """A case that failed in `processes` of its processes; with `case` None, a run without a good case."""

    run: str
    case: str | None
    reason: str
    processes: int


@dataclass(frozen=True)
class NightVerdict:
    """The result of judging one night."""

    edition: str
    events: tuple[NightEvent, ...]
    suspects: tuple[Suspect, ...]
    failed: tuple[Failed, ...]
    insufficient: int  # series of this night with too little history to judge time
    compared: int  # series of this night whose time was judged
    damaged: tuple[Mapping[str, str], ...] = ()
    alert_kinds: tuple[str, ...] = field(default=ALERTS)

    @property
    def alerts(self) -> tuple[NightEvent, ...]:
        """Events that set the exit status to changed."""
        return tuple(event for event in self.events if event.kind in self.alert_kinds)

    @property
    def exit_status(self) -> int:
        """As `exit_status` says."""
        return exit_status(changed=bool(self.alerts), failed=bool(self.failed))

    def as_json(self, judged_utc: str) -> dict[str, Any]:
        """What is remembered of the night; strict JSON, see `docs/reference/nights.md`."""
        return {
            "schema": SCHEMA,
            "edition": self.edition,
            "judged_utc": judged_utc,
            "exit_status": self.exit_status,
            "alerts": [event.id for event in self.alerts],
            "events": [event.as_json() for event in self.events],
            "suspects": [asdict(item) for item in self.suspects],
            "failed": [asdict(item) for item in self.failed],
            "series": {"compared": self.compared, "insufficient_history": self.insufficient},
            "damaged": [dict(item) for item in self.damaged],
        }


def exit_status(*, changed: bool, failed: bool) -> int:
    """0 no change, 3 a change, 4 a failure, 5 both."""
    return {(False, False): 0, (True, False): 3, (False, True): 4, (True, True): 5}[changed, failed]


def remembered(judged: Mapping[str, Mapping[str, Any]], before: Sequence[str]) -> tuple[NightEvent, ...]:
    """The events that the nights `before` reported."""
    return tuple(event_of(item) for night in before if night in judged for item in judged[night]["events"])
