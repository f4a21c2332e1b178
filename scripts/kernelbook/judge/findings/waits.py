"""Waits: synchronizations, blocking copies, allocations and slow CPU work inside a forward, by the op that causes them.

Times are those of the split of the forward (`time_split`): the idle time of the device because of the wait, and for a
copy also the time of the copy engine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

from kernelbook.cases import Activity, CaseFacts, median
from kernelbook.judge.findings.costs import began_inside, part, positions, severity, timed
from kernelbook.judge.findings.rules import FORWARD, RECOVERABLE, Finding, Scene, rule
from kernelbook.judge.time_line import (
    ALLOCATION,
    BLOCKING_COPY,
    DATA,
    DEVICE_KINDS,
    EARLIER,
    FULL_QUEUE,
    LAUNCH,
    LOADING,
    OP,
    OPTIMIZER,
    OVERHEAD,
    PYTHON,
    SYNCHRONIZATION,
    TimeLine,
    Wait,
    call_kind,
    kind_of_name,
    range_kind,
)
from kernelbook.judge.time_split import Cause, TimeSplit
from kernelbook.text.formatting import duration, percent, plural, significant

#: Causes below this share of the forward are not reported, unless a wait itself is longer.
LEAST_SHARE = 0.05
#: Idle time after waits is stated if it is this many times the time that the waits explain.
MUCH_MORE = 1.5
#: Ops that copy a value to the CPU, and below ops whose output size must be known on the CPU; both wait for the device.
READING_OPS = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}
COPYING_OPS = {"aten::copy_", "aten::_to_copy", "aten::to"}
SIZED_BY_DATA = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive", "aten::index"}
WAIT_REMEDIES = {
    SYNCHRONIZATION: "Remove the synchronization from the forward, or move it after the last step",
    ALLOCATION: (
        "Reuse memory instead of allocating it in the forward: warm up with the largest input, do not call "
        "torch.cuda.empty_cache(), or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    ),
    BLOCKING_COPY: "Copy from pinned memory with non_blocking=True, ahead of the forward that needs the data",
}
PAGEABLE = "Pageable"
#: Share of the forward from which a wait has weight even if the device works meanwhile: it misleads readers of a trace.
MUCH_WAITED = 0.2
#: The device works during a wait if it is idle for less than this share of it.
HIDDEN = 0.1
#: Smaller copies, in bytes, are of single values or short lists.
SMALL_COPY = 4096


@rule("synchronization", "the CPU waits for the device inside the forward, for over 5 % of it")
def synchronization(scene: Scene) -> Iterator[Finding]:
    """One finding for each op that waits.

    The time is how long the device is idle because the CPU fell behind, and while an op that reads a value runs, which
    would not be there without it. The severity is that of all idle time from such a wait to the next device work: a
    wait empties the queue, and the trace does not show how far ahead the CPU would be without it. Ops that read a value
    between compiled regions are left to graph-breaks.
    """
    split = scene.split
    for op, waits in _by_op(split):
        if op in READING_OPS and len(scene.compiled_regions) > 1:
            continue
        idle = _time(split, SYNCHRONIZATION, op)
        if split and op in READING_OPS:
            idle = sum(cause.time_us for cause in split.causes if cause.idle and cause.op == op)
        waited, count = sum(wait.time_us for wait in waits), sum(wait.count for wait in waits)
        if not split or max(waited, idle) < LEAST_SHARE * split.time_us:
            continue
        after = max(_idle_after(scene, split, op), idle)
        origin = f"{op} waits" if op else "The program waits"
        names = ", ".join(dict.fromkeys(wait.name for wait in waits))
        text = (
            f"{origin} for the device {_times(count)} in a forward ({names}): the CPU is blocked for "
            f"{duration(waited)}, and the device is idle for {duration(idle)} because of it."
        )
        if after >= MUCH_MORE * idle:
            text += f" In all it is idle for {duration(after)} from such a wait to its next work."
        hidden = op is not None and idle < HIDDEN * waited
        if hidden:
            text += f" For the rest of the wait it works: that is the time of earlier kernels, not of {op}."
        level = severity(part(after, split.time_us))
        if hidden and waited >= MUCH_WAITED * split.time_us and level == "low":
            level = "medium"
        evidence = f"{names}, {op or 'outside of ops'}"
        yield timed(scene, FORWARD, idle, text, _remedy(scene, waits[0]), evidence, RECOVERABLE, level=level)


def _remedy(scene: Scene, wait: Wait) -> str:
    """As `wait_remedy`; small tensors that are copied to the device need not be made on the CPU."""
    copies = [a for a in scene.activities if a.category == "memcpy" and a.op == wait.op and "HtoD" in a.name]
    if wait.op in COPYING_OPS and copies and all((a.bytes or SMALL_COPY) < SMALL_COPY for a in copies):
        return (
            "Create small tensors on the device (device='cuda'), once and outside the forward, instead of copying them "
            "from the CPU."
        )
    return wait_remedy(wait)


def _idle_after(scene: Scene, split: TimeSplit, op: str | None) -> float:
    """Idle time of the device in which a wait of this op ends, scaled as that of the split."""
    line = TimeLine.of(scene.facts)
    if line is None:
        return 0.0
    gaps = line.gaps()
    ends = sorted(line.ends_of_waits(op))
    after = sum(end - start for start, end in gaps if bisect_right(ends, end) > bisect_left(ends, start))
    idle = sum(end - start for start, end in gaps)
    return after * split.idle_us / idle if idle else 0.0


@rule("pageable-copy", "a copy between pageable host memory and the device takes over 5 % of the forward")
def pageable_copy(scene: Scene) -> Iterator[Finding]:
    """The driver copies pageable memory through a buffer of its own, at a part of the rate, and blocks the CPU."""
    split, copies = scene.split, [a for a in scene.activities if a.category == "memcpy" and PAGEABLE in a.name]
    time_us, moved = sum(a.duration_us for a in copies), sum(a.bytes or 0 for a in copies)
    if not split or not copies or time_us < LEAST_SHARE * split.time_us:
        return
    rate = f" at {significant(moved / time_us / 1e3)} GB/s" if moved else ""
    size = f" of {significant(moved / 2**20)} MiB" if moved else ""
    text = (
        f"{plural(len(copies), 'copy', 'copies')}{size} between pageable host memory and the device "
        f"{'takes' if len(copies) == 1 else 'take'} {duration(time_us)}{rate}, and the CPU is blocked meanwhile."
    )
    remedy = "Put the host tensor in pinned memory (pin_memory=True in the DataLoader) and copy with non_blocking=True."
    names = ", ".join(dict.fromkeys(f"{a.name}, {a.op}" for a in copies))
    yield timed(scene, FORWARD, time_us, text, remedy, names, RECOVERABLE, positions(copies))


@rule("allocation", "memory is allocated or freed by the driver inside the forward, for over 5 % of it")
def allocation(scene: Scene) -> Iterator[Finding]:
    """cudaMalloc and cudaFree; the caching allocator needs them only while it grows, or after it was emptied."""
    split = scene.split
    idle = split.of_kind(ALLOCATION) if split else 0.0
    if not split or idle < LEAST_SHARE * split.time_us:
        return
    calls = [wait for wait in split.waits if wait.kind == ALLOCATION]
    listed = ", ".join(f"{wait.name} {_times(wait.count)} ({duration(wait.time_us)})" for wait in calls)
    text = (
        f"The driver allocates or frees memory inside the forward: {listed}. The device is idle for {duration(idle)}."
    )
    yield timed(scene, FORWARD, idle, text, wait_remedy(calls[0]), listed, RECOVERABLE)


@rule("data-loading", "the device waits for the data loader for over 5 % of the forward, or of the step around it")
def data_loading(scene: Scene) -> Iterator[Finding]:
    split = scene.split
    idle = split.of_kind(DATA) if split else 0.0
    remedy = "Use num_workers, prefetch_factor and pin_memory=True, or do the work of the dataset beforehand."
    if split and idle >= LEAST_SHARE * split.time_us:
        text = f"The device is idle for {duration(idle)} while the DataLoader makes the next batch."
        yield timed(scene, FORWARD, idle, text, remedy, _names(split, DATA))
        return
    yield from _beside_forward(scene, DATA, "The DataLoader", remedy)


@rule(
    "optimizer-on-cpu",
    "the device waits for the CPU work of the optimizer for over 5 % of the forward, or of the step around it",
)
def optimizer_on_cpu(scene: Scene) -> Iterator[Finding]:
    """Python and op overhead inside Optimizer.step, unless it is fused already."""
    split = scene.split
    idle = split.of_kind(OPTIMIZER) if split else 0.0
    remedy = "Use fused=True where the optimizer has it: a few kernels update all parameters; else foreach=True."
    kernels = _optimizer_kernels(scene)
    if any("_fused_" in (kernel.op or "") for kernel in kernels):
        return
    if not split or idle < LEAST_SHARE * split.time_us:
        yield from _beside_forward(scene, OPTIMIZER, "The optimizer's step", remedy)
        return
    text = (
        f"The device is idle for {duration(idle)} while the CPU runs the step of the optimizer, which launches "
        f"{plural(len(kernels), 'kernel')}."
    )
    yield timed(scene, FORWARD, idle, text, remedy, _names(split, OPTIMIZER), RECOVERABLE)


def _optimizer_kernels(scene: Scene) -> list[Activity]:
    """The kernels that were launched inside the step of an optimizer."""
    forward = scene.facts.representative
    origin = forward.start_us if forward else None
    steps = [call for call in scene.facts.calls if range_kind(call.name) == OPTIMIZER]
    if origin is None:
        return []
    launched = ((kernel, kernel.launch_start_us) for kernel in scene.kernels)
    return [kernel for kernel, at in launched if at is not None and began_inside(at - origin, steps)]


def _beside_forward(scene: Scene, kind: str, subject: str, remedy: str) -> Iterator[Finding]:
    """The finding on CPU time of torch's own ranges between the forwards, limited to idle time of the device.

    The device is idle for at most the time from forward to forward minus its busy time, and for at most the length of
    the ranges minus their own device work.
    """
    facts, step_us = scene.facts, scene.facts.step_us
    ranges = [each for each in facts.other_ranges if range_kind(each.name) == kind and each.per_forward >= 0.5]
    if not ranges or not step_us:
        return
    took, worked = (
        sum(times) for times in zip(*((r.cpu_time_us, r.device_busy_us or 0.0) for r in ranges), strict=True)
    )
    busy = (facts.device_busy_us or 0.0) + sum((r.device_busy_us or 0.0) * r.per_forward for r in facts.other_ranges)
    idle = min(took - worked, step_us - busy)
    if idle < LEAST_SHARE * step_us:
        return
    kernels = sum(each.kernels or 0 for each in ranges)
    text = (
        f"{subject} takes {duration(took)} of CPU time between the forwards ({ranges[0].name}), against "
        f"{duration(worked)} of device work in {plural(kernels, 'kernel')}. Of a step of {duration(step_us)} the "
        f"device is busy for {duration(busy)}: it waits for the CPU."
    )
    evidence = "; ".join(f"{each.name}: CPU {duration(each.cpu_time_us)}" for each in ranges)
    yield timed(scene, FORWARD, idle, text, remedy, evidence, whole_us=step_us)


@rule("cpu-op", "ops on the CPU keep the device idle for over 20 % of the forward and over 200 µs each")
def cpu_op(scene: Scene) -> Iterator[Finding]:
    """Ops that launch nothing: most often those of tensors on the CPU."""
    split = scene.split
    ops = dict.fromkeys(cause.op for cause in split.causes if cause.kind == OP and cause.op) if split else ()
    calls = Counter(call.name for call in scene.facts.calls)
    launching = {call.name for call in scene.facts.calls if call.kernels}
    each = {op: _time(split, OP, op) for op in ops if op not in launching}
    long = {op: time for op, time in each.items() if time / max(calls[op], 1) > 200}
    time_us = sum(long.values())
    if split and time_us >= 0.2 * split.time_us:
        run = "runs" if len(long) == 1 else "run"
        text = f"{' and '.join(long)} {run} on the CPU for {duration(time_us)} while the device is idle."
        remedy = "Compute it on the device: move the tensor there once, or keep it there."
        evidence = "; ".join(f"{op} {duration(time)}" for op, time in long.items())
        yield timed(scene, FORWARD, time_us, text, remedy, evidence, RECOVERABLE)


@rule("python-time", "the device waits for Python between ops for over 20 % of the forward")
def python_time(scene: Scene) -> Iterator[Finding]:
    """Python code outside of ops and CUDA calls; reported only if it is long compared with the launches."""
    split = scene.split
    idle = split.of_kind(PYTHON) if split else 0.0
    launches = max(scene.facts.launches or 1, 1)
    if split and idle >= 0.2 * split.time_us and idle / launches > 100:
        text = f"The device is idle for {duration(idle)} while Python runs between the ops."
        remedy = "Move the work out of the forward; profile with with_stack=True or py-spy to see which code it is."
        yield timed(scene, FORWARD, idle, text, remedy, "no op and no CUDA call is open")


# --- launches that wait ----------------------------------------------------------------------------------------------


@rule("full-queue", "launches wait for room in the queue of launches, for over 5 % of the forward")
def full_queue(scene: Scene) -> Iterator[Finding]:
    """The queue of launches is full, so the device is the bottleneck and time in launches costs no forward time."""
    split, line = scene.split, TimeLine.of(scene.facts)
    waits = [wait for wait in split.waits if wait.kind == FULL_QUEUE] if split else []
    waited, count = sum(wait.time_us for wait in waits), sum(wait.count for wait in waits)
    if not split or not line or waited < LEAST_SHARE * split.time_us:
        return
    launches = [call for call in scene.facts.calls if call_kind(call) in (LAUNCH, FULL_QUEUE)]
    queued = max((line.queued(call.start_us) for call in launches), default=0)
    busy = split.of_kind(*DEVICE_KINDS, EARLIER) / split.time_us
    names = ", ".join(dict.fromkeys(wait.name for wait in waits))
    text = (
        f"Launches wait {_times(count)} in a forward for room in the queue of launches, {duration(waited)} in all "
        f"({names}): up to {queued} are queued, and the device is busy for {percent(busy)} of the time. The device is "
        "the bottleneck, not the launching."
    )
    remedy = "None for the launches: the time is that of the kernels. Make those faster, or fewer."
    evidence = "; ".join(f"{wait.name} from {wait.op or 'no op'} {duration(wait.time_us)}" for wait in waits[:5])
    level = "medium" if waited >= MUCH_WAITED * split.time_us else "info"
    yield timed(scene, FORWARD, waited, text, remedy, evidence, level=level)


@rule("kernel-loading", "CUDA loads kernels inside a forward, for over 5 % of it")
def kernel_loading(scene: Scene) -> Iterator[Finding]:
    """CUDA loads a kernel when it is first launched; most often only the first forward has to."""
    loads = loading_by_forward(scene.facts)
    wholes = {(f.process, f.index): f.cpu_time_us for f in scene.facts.forwards}
    shares = {place: part(sum(names.values()), wholes.get(place)) or 0.0 for place, names in loads.items()}
    often = [place for place, share in shares.items() if share >= LEAST_SHARE]
    if not often:
        return
    worst = max(often, key=lambda place: shares[place])
    time_us, share = sum(loads[worst].values()), shares[worst]
    which = "the first forward" if worst[1] == 0 else f"forward {worst[1] + 1}"
    listed = ", ".join(f"{name} {duration(time)}" for name, time in loads[worst].items())
    text = f"CUDA loads kernels inside the forward: {listed}, of the {duration(wholes[worst])} of {which}"
    others = median(time for place, time in wholes.items() if place not in often)
    text += f"; the median of the forwards that load none is {duration(others)}." if others is not None else "."
    remedy = "Warm up with all shapes before measuring or serving, or set CUDA_MODULE_LOADING=EAGER."
    level = severity(share) if scene.facts.chosen in often or share < 0.2 else "medium"
    evidence = f"{listed} in {which}; {len(often)} of {plural(len(wholes), 'forward')} load kernels"
    yield timed(scene, FORWARD, time_us, text, remedy, evidence, RECOVERABLE, whole_us=wholes[worst], level=level)


def loading_by_forward(facts: CaseFacts) -> dict[tuple[int, int], dict[str, float]]:
    """(process, index) of a forward -> time in which CUDA loads kernels, by the name of CUPTI's overhead."""
    loads: dict[tuple[int, int], dict[str, float]] = {}
    for total in facts.call_totals:
        if total.category == OVERHEAD and kind_of_name(total.name) == LOADING:
            loads.setdefault((total.process, total.index), {})[total.name] = total.cpu_time_us
    return loads


# --- remedies ---------------------------------------------------------------------------------------------------------


def blocking_calls(facts: CaseFacts) -> list[Wait]:
    """Calls in the forward that block the CPU, longest first; a CUDA graph cannot capture a forward with any of them.

    Empty without device activities.
    """
    line = TimeLine.of(facts)
    return [wait for wait in line.waits() if wait.kind in WAIT_REMEDIES] if line else []


def wait_remedy(wait: Wait) -> str:
    op = wait.op or ""
    if wait.kind == SYNCHRONIZATION and op in READING_OPS:
        return f"Keep the value on the device, or read it once after the last step: {op} waits for the device."
    if wait.kind == SYNCHRONIZATION and op in COPYING_OPS:
        return (
            "Copy with non_blocking=True; a copy to the CPU into pinned memory, with one synchronization before it is "
            "read."
        )
    if wait.kind == SYNCHRONIZATION and op in SIZED_BY_DATA:
        return f"Replace {op}, whose output size depends on the data, by an op with a fixed size (torch.where, a mask)."
    origin = f"{wait.name} from {op}" if op else wait.name
    return f"{WAIT_REMEDIES[wait.kind]} ({origin})."


# --- parts -----------------------------------------------------------------------------------------------------------


def _by_op(split: TimeSplit | None) -> Iterator[tuple[str | None, list[Wait]]]:
    """(op, its synchronizations)."""
    waits = [wait for wait in split.waits if wait.kind == SYNCHRONIZATION] if split else []
    for op in dict.fromkeys(wait.op for wait in waits):
        yield op, [wait for wait in waits if wait.op == op]


def _time(split: TimeSplit | None, kind: str, op: str | None) -> float:
    causes: Iterable[Cause] = split.causes if split else ()
    return sum(cause.time_us for cause in causes if cause.kind == kind and cause.op == op)


def _names(split: TimeSplit, kind: str) -> str:
    """The longest causes of a kind with their times."""
    causes = [cause for cause in split.causes if cause.kind == kind]
    return "; ".join(f"{cause.name[:48]} {duration(cause.time_us)}" for cause in causes[:5])


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
