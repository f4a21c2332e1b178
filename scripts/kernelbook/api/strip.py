"""The kernel strip of one forward as text: a line for each activity, with a bar to scale."""

from __future__ import annotations

from kernelbook.cases import CaseFacts
from kernelbook.text.formatting import clip, duration, plural, visible

WIDTH = 24
MOST = 60
NAME = 60
_PARTS = " ▏▎▍▌▋▊▉█"  # eighths of a cell


def strip_text(facts: CaseFacts) -> str:
    """The first `MOST` device activities of a case's forward with their median durations, and the number of others."""
    activities = facts.activities
    if not facts.on_device:
        return "no device activity in the trace"
    total = sum(activity.duration_us for activity in activities)
    what = f"{plural(facts.kernels or 0, 'kernel')}, {plural(facts.memcpys or 0, 'memcpy')}, "
    lines = [f"{what}{plural(facts.memsets or 0, 'memset')}; {duration(total)} of device time"]
    longest = max((activity.duration_us for activity in activities), default=0.0)
    for activity in activities[:MOST]:
        family = activity.family if activity.category == "kernel" else activity.category
        bar = _bar(activity.duration_us / longest if longest else 0.0)
        op = f"  {visible(activity.op)}" if activity.op else ""
        name = clip(activity.label, NAME)
        lines.append(
            f"{activity.position + 1:>4}  {family:<13}  {bar:<{WIDTH}}  {duration(activity.duration_us):>8}  {name}{op}"
        )
    if len(activities) > MOST:
        lines.append(f"      and {len(activities) - MOST} more")
    return "\n".join(lines)


def _bar(share: float) -> str:
    eighths = max(round(share * WIDTH * 8), 1)
    return "█" * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
