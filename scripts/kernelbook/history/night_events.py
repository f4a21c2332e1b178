"""Results of judging a night: events (reported once), suspects (never an alert), failures, exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kernelbook.history.schema import short_id

SCHEMA = 1
KINDS = (
    "time", "shared", "drift", "kernels", "launches", "ops", "memory", "graph_breaks", "recompiles", "relative_error",
    "first_call", "occupancy", "warnings", "series", "failure", "gap",
)  # fmt: skip
"""Most important first; the kind of a group is the first among its members' kinds."""
ALERTS = ("time", "shared", "drift", "kernels", "launches", "ops", "memory", "graph_breaks", "recompiles")
"""Kinds that set the exit status to 3 by default."""


@dataclass(frozen=True)
class NightEvent:
    """One change. `night`: the first edition with the change; times in µs; `change`: relative (0.05: 5 % more time).

    `also`: other kinds of change in the same event. `members`: the changes of single cases, if one cause changed
    several.
    """

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
    also: tuple[str, ...] = ()
    members: tuple[NightEvent, ...] = ()

    @property
    def id(self) -> str:
        """Equal for the same change, in whichever night it is found."""
        what = [member.id for member in self.members] or (self.causes if self.kind == "series" else ())
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
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {"causes": list(self.causes), "also": list(self.also)}
        members = [member.as_json() for member in self.members]
        return {"id": self.id, "direction": self.direction, **fields, **lists, "members": members}

    @property
    def each(self) -> tuple[NightEvent, ...]:
        """The changes of single cases: the members of a group, or the event itself."""
        return tuple(replace(member, found=self.found) for member in self.members) or (self,)


def event_of(record: Mapping[str, Any]) -> NightEvent:
    """An event from its JSON; unknown keys (of later versions) are ignored, missing ones are None."""
    fields: dict[str, Any] = dict.fromkeys(("kind", "night", "run", "case", "series", "text"))
    fields |= {name: value for name, value in record.items() if name in NightEvent.__dataclass_fields__}
    lists = {name: tuple(fields.get(name) or ()) for name in ("causes", "also")}
    members = tuple(event_of(member) for member in fields.get("members") or ())
    return NightEvent(**fields | lists | {"members": members})


@dataclass(frozen=True)
class Suspect:
    """A value of a night that stands out. `z`: standard errors; None if the suspect is not a single value.

    `night`: for a time that goes back and forth, the first night of its present level.
    """

    run: str | None
    case: str | None
    series: str | None
    text: str
    change: float | None = None
    z: float | None = None
    night: str | None = None


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
    alert_kinds: frozenset[str] = field(default=frozenset(ALERTS))

    @property
    def alerts(self) -> tuple[NightEvent, ...]:
        """Events that set the exit status to changed."""
        return tuple(event for event in self.events if not self.alert_kinds.isdisjoint({event.kind, *event.also}))

    @property
    def exit_status(self) -> int:
        """See the function `exit_status`."""
        return exit_status(changed=bool(self.alerts), failed=bool(self.failed))

    def as_json(self, judged_utc: str) -> dict[str, Any]:
        """The events file of the night; strict JSON, see `docs/reference/nights.md`."""
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
    """The changes of single cases that the nights `before` reported, and new levels that were suspects."""
    nights = [judged[night] for night in before if night in judged]
    events = (event_of(item) for night in nights for item in night["events"])
    suspects = (item for night in nights for item in night.get("suspects", ()) if item.get("night"))
    levels = (event_of({**item, "kind": "time"}) for item in suspects)
    return (*(each for event in events for each in event.each), *levels)
