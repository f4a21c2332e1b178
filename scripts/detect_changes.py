"""Judge a night against those before it, and record each change, so that it is reported once.

Prints what is new. The exit status is 0 whatever the verdict, unless --exit-status asks for 3 (a change), 4 (a
failure) or 5 (both). --since judges several nights one after the other, each against those before it; the output and
the exit status are those of the last one.

Examples:
  python scripts/detect_changes.py --history history --night 2026-11-29
  python scripts/detect_changes.py --history history --since 2026-11-01
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelbook.command import run
from kernelbook.history.figures import MOST_NIGHTS
from kernelbook.history.night_events import NightVerdict
from kernelbook.history.rules import Rules, rules_of
from kernelbook.history.store import Store, write_json
from kernelbook.history.verdicts import judge_last_night, without_confirmation
from kernelbook.text.formatting import utc_now


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 once the night is judged, or as --exit-status says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, required=True, help="folder of the history")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--night", help="the night to judge (default: the last one)")
    which.add_argument("--since", metavar="NIGHT", help="judge this night and each later one")
    parser.add_argument("--rules", type=json.loads, default={}, help="JSON: keys of `history` in config.yaml")
    parser.add_argument("--output", type=Path, help="JSON file that gets the verdict as well")
    parser.add_argument("--suspects", type=Path, help="only write what is to be measured again tonight: a JSON file")
    parser.add_argument("--exit-status", action="store_true", help="exit with 3, 4 or 5, as a night does")
    args = parser.parse_args(argv)
    store, rules = Store(args.history), rules_of(args.rules)
    nights = nights_to_judge(store, args.night, args.since)
    if args.suspects:
        write_json(args.suspects, to_confirm(next(judge_nights(store, nights[-1:], rules, confirmed=False))))
        return 0
    for verdict in judge_nights(store, nights, rules):
        judged = verdict.as_json(utc_now())
        store.write_events(verdict.edition, judged)
        if args.output:
            write_json(args.output, judged)
        print("\n".join(verdict_lines(verdict)))
        status = verdict.exit_status
    return status if args.exit_status else 0


def nights_to_judge(store: Store, night: str | None, since: str | None) -> Sequence[str]:
    """The given night, the nights since one, or the last one. Raises ValueError if it is not recorded."""
    nights = store.nights()
    night = since or night or (nights[-1] if nights else "")
    if night not in nights:
        raise ValueError(f"{store.folder}: no night {night or 'at all'}: record it first with record_night.py")
    return nights[nights.index(night) :] if since else [night]


READ_NIGHTS = MOST_NIGHTS + 100
"""Nights that are read; older ones do not count."""
MOST_SUSPECTS = 20
"""Cases that are measured again in a night at most, the clearest suspects first."""


def to_confirm(verdict: NightVerdict) -> list[dict[str, Any]]:
    """Run and case of the suspects to measure again before the night ends."""
    suspects = sorted((item for item in verdict.suspects if item.z is not None), key=lambda item: -abs(item.z or 0))
    return [{"run": item.run, "case": item.case} for item in suspects[:MOST_SUSPECTS]]


def judge_nights(
    store: Store, nights: Sequence[str], rules: Rules, *, confirmed: bool = True
) -> Iterator[NightVerdict]:
    """Judge neighbouring nights of the store, oldest first; damaged files are set aside and named in the verdicts.

    confirmed: whether second measurements of these nights are used. The store is read once.
    """
    history = store.read(until=nights[-1], last=READ_NIGHTS + len(nights) - 1)
    judged, damaged_events = store.read_events()
    store.set_aside((*history.damaged, *damaged_events))
    for night in nights:
        present = history.until(night, READ_NIGHTS)
        if not confirmed:
            present = without_confirmation(present, night)
        verdict = judge_last_night(present, night, judged, store.names, rules, damaged_events)
        judged[night] = verdict.as_json(utc_now())
        yield verdict


def verdict_lines(verdict: NightVerdict) -> Iterator[str]:
    """The verdict of a night as lines for the terminal."""
    yield f"{verdict.edition}: {verdict.compared} series compared, {verdict.insufficient} with too little history"
    for event in verdict.events:
        if event.kind == "failure":
            continue  # listed below, with those that failed before too
        where = " ".join(part for part in (event.run, event.case) if part)
        yield f"{'change' if event in verdict.alerts else 'note'}: {event.night} {where}: {event.text}".replace(
            "  ", " "
        )
        yield from (f"    {cause}" for cause in event.reasons)
        if event.members:
            yield f"    cases: {', '.join(sorted({member.case or '' for member in event.members}))}"
    for suspect in verdict.suspects:
        yield f"suspect: {suspect.run} {suspect.case}: {suspect.text}"
    for item in verdict.failed:
        yield f"failed: {item.run} {item.case or '(the whole run)'}: {item.reason}"
    for damaged in verdict.damaged:
        yield f"damaged and set aside: {damaged['file']}: {damaged['reason']}"


if __name__ == "__main__":
    sys.exit(run(main))
