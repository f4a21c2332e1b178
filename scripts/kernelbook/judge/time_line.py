"""The time line of a forward: device work, and what the CPU does while the device is idle. All in µs.

The time of the representative forward is cut wherever an event starts or ends. While one of its activities runs, the
time belongs to that activity. While the device is idle, the time belongs to the cause that delays the next activity:

- if its launch has returned: the device that starts it (`launch latency`);
- if its launch has not returned: the innermost CPU event on the launching thread, or Python if no event is open;
- if the CPU waited for the device earlier in the forward: that `synchronization`. Without the wait the CPU would be
  ahead by as long as it was blocked, so idle time after it belongs to it until that lead is used up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward

#: What aten::item and its like call to read a value.
READS_A_VALUE = "aten::_local_scalar_dense"
#: Category of CUPTI's overhead.
OVERHEAD = "overhead"
#: Kinds of device work. `compute` and `memory`: the ceiling that bounds the kernel. `device work`: the ceiling is
#: unknown.
COMPUTE, MEMORY, WORK, COPY, COLLECTIVE = "compute", "memory", "device work", "copy", "collective"
#: Kinds of idle time.
SYNCHRONIZATION, ALLOCATION, BLOCKING_COPY, LOADING = "synchronization", "allocation", "blocking copy", "kernel loading"
COMPILE, DATA, OPTIMIZER, LAUNCH, API = "torch.compile", "data loading", "optimizer", "launch", "CUDA API"
FULL_QUEUE, PROFILER = "full launch queue", "profiler"
OP, PYTHON, LATENCY, EARLIER = "op on the CPU", "Python", "launch latency", "earlier forwards"
UNEXPLAINED = "unexplained"
DEVICE_KINDS = (COMPUTE, MEMORY, WORK, COPY, COLLECTIVE)
IDLE_KINDS = (
    SYNCHRONIZATION, ALLOCATION, BLOCKING_COPY, LOADING, COMPILE, DATA, OPTIMIZER, LAUNCH, FULL_QUEUE, API, OP, PYTHON,
    LATENCY, PROFILER, EARLIER, UNEXPLAINED,
)  # fmt: skip
#: Kinds of calls that block the CPU.
WAITING = (SYNCHRONIZATION, ALLOCATION, BLOCKING_COPY, LOADING, FULL_QUEUE)

#: A launch waits for room in the launch queue, which holds about a thousand, if it takes LONG_LAUNCH times as long as
#: the shortest of its name while QUEUE_LENGTH launched activities of the forward have not begun on the device.
LONG_LAUNCH, QUEUE_LENGTH = 10.0, 500

#: Names of runtime and driver calls, and of CUPTI's overhead (Kineto's names); the first match counts. HIP's names
#: differ only in the prefix.
CALL_KINDS = (
    (re.compile(r"^Command Buffer Full$"), FULL_QUEUE),
    (re.compile(r"^(Activity Buffer Request|Buffer Flush|Instrumentation|Resource|UVM Activity Init)$"), PROFILER),
    (re.compile(r"(Stream|Device|Event|Ctx)Synchronize"), SYNCHRONIZATION),
    (re.compile(r"(Malloc|Free|MemCreate|MemMap|MemUnmap|MemRelease|MemAddress|MemSetAccess)"), ALLOCATION),
    (re.compile(r"Memcpy|Memset"), BLOCKING_COPY),
    (re.compile(r"Module|Library|GetProcAddress|FuncGetAttributes|FuncSetAttribute|Loading|Driver Compiler"), LOADING),
    (re.compile(r"Launch"), LAUNCH),
)
#: Ranges and ops of frameworks, first match wins.
RANGE_KINDS = (
    (re.compile(r"DataLoader"), DATA),
    (re.compile(r"^Optimizer\."), OPTIMIZER),
    (
        re.compile(
            r"TorchDynamo|Torch-Compiled Region|AOTDispatcher|CompiledFunction|CompiledFxGraph|Inductor|_compile\b"
            r"|Pregraph bytecode|compile_fx|dynamo"
        ),
        COMPILE,
    ),
)


@dataclass(frozen=True)
class Wait:
    """Calls of one name that block the CPU, from one op: their total time and their number in a forward."""

    name: str
    kind: str
    op: str | None
    time_us: float
    count: int


@dataclass(frozen=True)
class Stretch:
    """A stretch of time with one cause."""

    kind: str
    name: str
    op: str | None
    time_us: float
    activity: Activity | None = None


@dataclass(frozen=True)
class _Placed:
    """A device activity of the forward, in µs from the start of its range."""

    start: float
    end: float
    activity: Activity


class TimeLine:
    """The representative forward in µs from the start of its range."""

    @classmethod
    def of(cls, facts: CaseFacts) -> TimeLine | None:
        """The time line of a case; None without device activities, or if the start of its forward is unknown."""
        forward = facts.representative
        return cls(facts, forward) if forward and forward.start_us is not None and facts.on_device else None

    def __init__(self, facts: CaseFacts, forward: ProfiledForward) -> None:
        origin = forward.start_us or 0.0
        self.calls = facts.calls
        self.placed = sorted(_placed(forward, origin), key=lambda p: (p.start, p.end))
        others = (f for f in facts.forwards if f.process == forward.process and f.index != forward.index)
        self.busy_elsewhere = _union((p.start, p.end) for other in others for p in _placed(other, origin))
        self.end = max([forward.cpu_time_us, *(p.end for p in self.placed)])
        self.origin = origin
        launches = (p.activity.launch_start_us for p in self.placed)
        self.launch_starts = sorted(start - origin for start in launches if start is not None)
        self.threads = {thread: _segments(calls) for thread, calls in _by_thread(facts.calls).items()}
        self.done = {p.activity.correlation: p.end for p in self.placed if p.activity.correlation is not None}
        self.launch_threads = {c.correlation: c.thread or 0 for c in facts.calls if c.correlation is not None}

    def parts(self) -> Iterator[Stretch]:
        lead = _Lead(call for call in self.calls if call_kind(call) == SYNCHRONIZATION)
        cursor = 0.0
        for placed in self.placed:
            if placed.start > cursor:
                yield from self._idle(cursor, placed.start, placed.activity, lead)
            if placed.end > (start := max(cursor, placed.start)):
                yield _device_part(placed.activity, placed.end - start)
            cursor = max(cursor, placed.end)
        if self.end > cursor:
            yield from self._idle(cursor, self.end, None, lead)

    def waits(self) -> tuple[Wait, ...]:
        """Calls that block the CPU: synchronizations, allocations, copies, kernel loading, launches into a full queue.

        Their times exclude the overhead inside them, which counts under its own name.
        """
        own = [call.duration_us for call in self.calls]
        for call in self.calls:
            if call.category == OVERHEAD and call.parent is not None:
                own[call.parent] -= call.duration_us
        usual: dict[str, float] = {}
        for call, time_us in zip(self.calls, own, strict=True):
            usual[call.name] = min(time_us, usual.get(call.name, time_us))
        sums: dict[tuple[str, str, str | None], list[float]] = {}
        for call, time_us in zip(self.calls, own, strict=True):
            kind = self._call_kind(call)
            if kind == LAUNCH and time_us > LONG_LAUNCH * usual[call.name]:
                kind = FULL_QUEUE if self.queued(call.start_us) >= QUEUE_LENGTH else LAUNCH
            if kind in WAITING:
                sums.setdefault((call.name, kind, self._op_of(call)), []).append(time_us)
        waits = (Wait(name, kind, op, sum(times), len(times)) for (name, kind, op), times in sums.items())
        return tuple(sorted(waits, key=lambda wait: -wait.time_us))

    def gaps(self) -> list[tuple[float, float]]:
        """(start, end) of the stretches before the last activity in which the device is idle."""
        busy = _union((placed.start, placed.end) for placed in self.placed)
        starts = [0.0, *(end for _, end in busy[:-1])]
        return [(left, right) for left, (right, _) in zip(starts, busy, strict=False) if right > left]

    def ends_of_waits(self, op: str | None) -> list[float]:
        """When the synchronizations from this op return."""
        waits = (call for call in self.calls if call_kind(call) == SYNCHRONIZATION and self._op_of(call) == op)
        return [call.start_us + call.duration_us for call in waits]

    def queued(self, at_us: float) -> int:
        """Number of activities of the forward that were launched by this time and have not begun."""
        return bisect_right(self.launch_starts, at_us) - bisect_right(self.placed, at_us, key=lambda p: p.start)

    def _idle(self, start: float, end: float, following: Activity | None, lead: _Lead) -> Iterator[Stretch]:
        """Idle time before an activity, None at the end of the forward."""
        launched = end
        if following is not None and following.launch_start_us is not None:
            launched = following.launch_start_us - self.origin + (following.launch_duration_us or 0.0)
        for left, right, elsewhere in _cut(start, end, self.busy_elsewhere):
            if elsewhere:
                yield Stretch(EARLIER, "kernels of other forwards", None, right - left)
                continue
            middle = min(max(launched, left), right)
            if middle > left:
                yield from self._cpu(left, middle, following, lead)
            if right > middle and following is not None:
                yield Stretch(LATENCY, following.label, following.op, right - middle, None)

    def _cpu(self, start: float, end: float, following: Activity | None, lead: _Lead) -> Iterator[Stretch]:
        """Idle time before the next launch returns: the part that earlier waits explain, then CPU events."""
        for call, time_us in lead.explain(start, end):
            yield Stretch(SYNCHRONIZATION, call.name, self._op_of(call), time_us)
            start += time_us
        launch = following.correlation if following else None
        thread = 0 if launch is None else self.launch_threads.get(launch, 0)
        for left, right, event in _between(self.threads.get(thread, []), start, end):
            yield self._cpu_part(event, right - left)

    def _cpu_part(self, call: Call | None, time_us: float) -> Stretch:
        if call is None:
            kind = UNEXPLAINED if not self.calls else PYTHON
            return Stretch(kind, "Python between ops" if self.calls else "no CPU events were recorded", None, time_us)
        return Stretch(self._kind_of(call), call.name, self._op_of(call), time_us)

    def _call_kind(self, call: Call) -> str | None:
        """As `call_kind`; a copy or memset that returns before the device has done it is a launch."""
        kind = call_kind(call)
        done = self.done.get(call.correlation) if call.correlation is not None else None
        asynchronous = done is not None and call.start_us + call.duration_us < done
        return LAUNCH if kind == BLOCKING_COPY and asynchronous else kind

    def _kind_of(self, call: Call) -> str:
        own = self._call_kind(call)
        if own is not None:
            return own
        for around in self._with_ancestors(call):
            kind = range_kind(around.name) if around.category not in ("runtime", OVERHEAD) else None
            if kind:
                return kind if around is call or kind != COMPILE else OP
        return OP

    def _with_ancestors(self, call: Call) -> Iterator[Call]:
        at: Call | None = call
        while at is not None:
            yield at
            at = self.calls[at.parent] if at.parent is not None and at.parent < len(self.calls) else None

    def _op_of(self, call: Call) -> str | None:
        """The innermost op around a runtime call; the outermost one would hide which op waits.

        aten::_local_scalar_dense counts as the op that calls it: aten::item, aten::is_nonzero.
        """
        ops = [around.name for around in self._with_ancestors(call) if around.category == "op"][:2]
        return ops[-1] if ops[:1] == [READS_A_VALUE] else next(iter(ops), None)


class _Lead:
    """The time by which the CPU would be ahead if it had not waited, by wait."""

    def __init__(self, waits: Iterable[Call]) -> None:
        self._waits = sorted(waits, key=lambda wait: wait.start_us, reverse=True)
        self._left = {wait.position: wait.duration_us for wait in self._waits}

    def explain(self, start: float, end: float) -> Iterator[tuple[Call, float]]:
        """(wait, µs) for the waits begun by `start` that explain idle time in `start` to `end`, the last first."""
        need = end - start
        for wait in self._waits:
            taken = min(self._left[wait.position], need)
            if wait.start_us <= start and taken > 0:
                self._left[wait.position] -= taken
                need -= taken
                yield wait, taken


def call_kind(call: Call) -> str | None:
    """The kind of idle time that a runtime or driver call or overhead causes; None for ops and ranges."""
    return kind_of_name(call.name) if call.category in ("runtime", OVERHEAD) else None


@lru_cache(maxsize=1 << 12)
def kind_of_name(name: str) -> str:
    """The kind of idle time that a call or overhead of this name causes."""
    return next((kind for pattern, kind in CALL_KINDS if pattern.search(name)), API)


@lru_cache(maxsize=1 << 12)
def range_kind(name: str) -> str | None:
    """The kind of idle time that a range or op of a framework causes; None for others."""
    return next((kind for pattern, kind in RANGE_KINDS if pattern.search(name)), None)


def _device_part(activity: Activity, time_us: float) -> Stretch:
    kind = WORK
    if activity.category == "memcpy":
        kind = COPY
    elif activity.family == "communication":
        kind = COLLECTIVE
    return Stretch(kind, activity.label, activity.op, time_us, activity)


def _placed(forward: ProfiledForward, origin: float) -> Iterator[_Placed]:
    for activity in forward.activities:
        if activity.start_us is not None:
            start = activity.start_us - origin
            yield _Placed(start, start + activity.duration_us, activity)


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Overlapping spans joined, in order."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _cut(start: float, end: float, spans: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, bool]]:
    """(start, end, inside a span?) of the pieces into which the spans cut the time from `start` to `end`."""
    at = start
    for left, right in spans[max(bisect_right(spans, (start, start)) - 1, 0) :]:
        if left >= end:
            break
        if right <= at:
            continue
        if left > at:
            yield at, left, False
            at = left
        yield at, min(right, end), True
        at = min(right, end)
    if at < end:
        yield at, end, False


def _by_thread(calls: Iterable[Call]) -> dict[int, list[Call]]:
    threads: dict[int, list[Call]] = {}
    for call in calls:
        threads.setdefault(call.thread or 0, []).append(call)
    return threads


def _segments(calls: Sequence[Call]) -> list[tuple[float, float, Call]]:
    """(start, end, innermost event) of one thread, in order; time that no event covers is left out."""
    segments: list[tuple[float, float, Call]] = []
    open_calls: list[Call] = []
    cursor = 0.0

    def advance(to: float) -> None:
        nonlocal cursor
        if open_calls and to > cursor:
            segments.append((cursor, to, open_calls[-1]))
        cursor = max(cursor, to)

    def close(until: float) -> None:
        while open_calls and (end := open_calls[-1].start_us + open_calls[-1].duration_us) <= until:
            advance(end)
            open_calls.pop()

    for call in sorted(calls, key=lambda c: (c.start_us, -c.duration_us, c.position)):
        close(call.start_us)
        advance(call.start_us)
        cursor = max(cursor, call.start_us)
        open_calls.append(call)
    close(float("inf"))
    return segments


def _between(
    segments: Sequence[tuple[float, float, Call]], start: float, end: float
) -> Iterator[tuple[float, float, Call | None]]:
    """The segments from `start` to `end`, and the time between them with None."""
    at = start
    for left, right, call in segments[bisect_right(segments, start, key=lambda s: s[1]) :]:
        if left >= end:
            break
        if left > at:
            yield at, left, None
        yield max(left, at), min(right, end), call
        at = min(right, end)
    if at < end:
        yield at, end, None
