"""Make a trace of any size from a small one."""

from __future__ import annotations

import re
from pathlib import Path


def repeat(source: Path, path: Path, megabytes: int) -> None:
    """Write `source`'s events again and again, each time later and with new correlation ids, up to a size."""
    text = source.read_text(encoding="utf-8")
    opening = text.index("[", text.index('"traceEvents"')) + 1
    closing = text.rindex("]")
    head, events, tail = text[:opening], text[opening:closing].strip(), text[closing:]
    times = [float(found) for found in re.findall(r'"ts": ([\d.]+)', events)]
    span = max(times) - min(times) + 1e6
    ids = [int(found) for found in re.findall(r'"correlation": (\d+)', events)]
    shift_ids = max(ids, default=0) + 1
    with path.open("w", encoding="utf-8") as stream:
        stream.write(head)
        for turn in range(max(1, -(-megabytes * 10**6 // len(events)))):
            later = re.sub(r'("ts": )([\d.]+)', lambda m, t=turn: f"{m[1]}{float(m[2]) + t * span:.3f}", events)
            later = re.sub(
                r'("correlation": |"id": )(\d+)', lambda m, t=turn: f"{m[1]}{int(m[2]) + t * shift_ids}", later
            )
            stream.write((",\n" if turn else "") + later)
        stream.write(tail)
