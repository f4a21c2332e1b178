"""One message about a night to a chat, as JSON that Slack and its like take. It may fail; the night does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelbook.history.night_events import Event, event_of

LINES = 12
LIMIT_S = 20.0  # for all of it: the start of the process, the name's look-up, the connection and the answer
POST = Path(__file__).with_name("post.py")


def message(judged: Mapping[str, Any], title: str, url: str | None) -> str | None:
    """What to say of a night; None where there is nothing to tell. Many cases with one cause are one line."""
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


def _event_lines(events: list[Event]) -> list[str]:
    """A line a change; cases of a run that changed in one night for one cause share it. Failures are told apart."""
    groups: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        if event.kind != "failure":
            alone = event.id if event.case is None else None
            key = (event.run, event.night, event.kind, event.direction, event.causes, alone)
            groups.setdefault(key, []).append(event)
    return [_event_line(group) for group in groups.values()]


def _event_line(group: list[Event]) -> str:
    first = group[0]
    if len(group) > 1:
        what = f"{first.direction}: " if first.direction else ""
        return f"{first.run}: {len(group)} cases since {first.night}, {what}{'; '.join(first.causes[:2])}"
    where = " ".join(part for part in (first.run, first.case) if part)
    return f"{where}: {first.text}" if where else first.text


def _escape(line: str) -> str:
    """Slack's three special characters; kernel names are full of them."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def post(text: str, variable: str) -> str | None:
    """POST the text to the address in the environment variable; returns what went wrong, or None.

    The address is a secret and is in no message. Whatever the server does, this ends within `LIMIT_S`: a process of its
    own does it, which is killed then, and whose errors go nowhere.
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
