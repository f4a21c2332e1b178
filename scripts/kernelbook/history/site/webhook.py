"""One message about a night to a chat, as JSON for Slack and compatible services. A failure does not fail the night."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelbook.history.night_events import NightEvent, event_of

LINES = 12
LIMIT_S = 20.0  # for starting the process, resolving the name, connecting and the answer together
POST = Path(__file__).with_name("post.py")


def message(judged: Mapping[str, Any], title: str, url: str | None) -> str | None:
    """The message about a night; None without news. Cases that changed for the same reason share one line."""
    events = [event_of(item) for item in judged["events"]]
    failed = judged["failed"]
    if not events and not failed:
        return None
    lines = [f"*{title}*: night of {judged['edition']}"]
    lines += _event_lines(events)
    lines += [f"failed: {item['run']} {item['case'] or '(whole run)'}: {item['reason']}" for item in failed]
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"and {len(lines) - LINES} more"]
    if url:
        lines.append(f"{url.rstrip('/')}/nights/{judged['edition']}/index.html")
    return "\n".join(_escape(line) for line in lines)


def _event_lines(events: list[NightEvent]) -> list[str]:
    """One line per change; cases of a run with the same night and cause share it. Failures are listed separately."""
    groups: dict[tuple[Any, ...], list[NightEvent]] = {}
    for event in events:
        if event.kind != "failure":
            alone = event.id if event.case is None else None
            key = (event.run, event.night, event.kind, event.direction, event.causes, alone)
            groups.setdefault(key, []).append(event)
    return [_event_line(group) for group in groups.values()]


def _event_line(group: list[NightEvent]) -> str:
    first = group[0]
    if len(group) > 1:
        what = f"{first.direction}: " if first.direction else ""
        return f"{first.run}: {len(group)} cases since {first.night}, {what}{'; '.join(first.causes[:2])}"
    where = " ".join(part for part in (first.run, first.case) if part)
    return f"{where}: {first.text}" if where else first.text


def _escape(line: str) -> str:
    """Escape Slack's three special characters, which are frequent in kernel names."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def post(text: str, variable: str) -> str | None:
    """POST the text to the address in the environment variable; returns an error message, or None.

    The address is a secret and never part of a message. Ends within `LIMIT_S` because a separate process does it, which
    is killed on timeout and whose stderr is discarded.
    """
    if not os.environ.get(variable, "").strip():
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-I", POST, variable],
            input=json.dumps({"text": text}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the webhook in {variable} did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return f"the webhook in {variable} could not be called ({type(error).__name__})"
    trouble = "could not be called" if done.returncode else done.stdout.decode().strip()
    return f"the webhook in {variable} {trouble}" if trouble else None
