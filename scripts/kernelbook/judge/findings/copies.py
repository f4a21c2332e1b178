"""Copies: implicit ones, copies of a bias before a product, cleared workspaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kernelbook.cases import Activity
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, launched, operands
from kernelbook.judge.findings.costs import (
    described,
    device_finding,
    forward_span,
    part,
    positions,
    slow_finding,
    timed,
    total,
)
from kernelbook.judge.findings.rules import DEVICE, SPENT, Finding, Scene, rule
from kernelbook.text.formatting import duration, plural, size

#: Ops that are explicit copies.
ASKED_FOR = {"aten::copy_", "aten::clone", "aten::to", "aten::_to_copy", "aten::contiguous", "aten::cat", "aten::stack",
             "aten::repeat",
            "aten::_foreach_copy_", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"}  # fmt: skip
SEEDED = {"aten::addmm", "aten::baddbmm", "aten::addbmm", "aten::_addmm_activation"}
COPY = "aten::copy_"
#: Explicit copies below this share of the device time are not reported.
LEAST_COPYING = 0.1
#: C++ names of element types as traces give them, and torch's.
TYPE_NAMES = {"c10::BFloat16": "bfloat16", "c10::Half": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Cast:
    """A copy that changes the element type: position, number of elements, and torch's names of both types."""

    position: int
    elements: int
    source: str
    target: str
    widens: bool


def casts(scene: Scene) -> list[Cast]:
    """The converting copies of the forward, from the operands (target, source) of their ``aten::copy_``.

    Empty if no shapes were recorded, or if ops and activities cannot be paired.
    """
    result = []
    for pair in launched(scene.facts):
        arguments = operands(pair.op) if pair.op.name == COPY else None
        target, source = arguments[:2] if arguments and len(arguments) > 1 else (None, None)
        if target and source and target.kind != source.kind:
            before, after = (TYPE_NAMES.get(operand.kind, operand.kind) for operand in (source, target))
            widens = ELEMENT_BYTES[target.kind] > ELEMENT_BYTES[source.kind]
            result.append(Cast(pair.activity.position, target.elements, before, after, widens))
    return result


def converts(activity: Activity) -> bool:
    """Whether the kernel's name states a change of the element type."""
    return activity.family == "copy/cast" and activity.decoded.what.startswith("converts")


def seeds_a_product(scene: Scene, activity: Activity) -> bool:
    """Whether it is a copy inside an addmm-like op that launches a GEMM after it."""
    if activity.family != "copy/cast" or activity.op not in SEEDED:
        return False
    later = [a for a in scene.activities if a.position > activity.position and a.op_path == activity.op_path]
    return any(a.family == "GEMM" for a in later)


def unwritten(scene: Scene) -> list[Activity]:
    """Copies on the device inside other ops than copies, without conversions and copies of a bias."""
    converting = {cast.position for cast in casts(scene)}
    return [
        a
        for a in scene.activities
        if a.family == "copy/cast"
        and a.decoded.library in ("ATen", "CUDA runtime")
        and ("DtoD" in a.name or a.category == "kernel")
        and _asking(a)
        and _asking(a) not in ASKED_FOR
        and not converts(a)
        and a.position not in converting
        and not seeds_a_product(scene, a)
    ]


def _asking(activity: Activity) -> str | None:
    """The outermost op around it, without wrappers (a compiled region, an autograd function)."""
    return next((op for op in activity.op_path if "::" in op), None)


@rule("unwritten-copy", "a device-to-device copy inside an op that is not a copy")
def unwritten_copy(scene: Scene) -> Iterator[Finding]:
    for op in dict.fromkeys(_asking(a) for a in unwritten(scene)):
        copies = [a for a in unwritten(scene) if _asking(a) == op]
        moved = sum(a.bytes or 0 for a in copies)
        size = f" of {moved / 2**20:.0f} MiB" if moved else ""
        ops = copies[0].op_path
        way = " > ".join(ops[ops.index(op or "") + 1 :]) or op
        number = "an implicit copy" if len(copies) == 1 else f"{len(copies)} implicit copies"
        text = f"{op} makes {number}{size}, by way of {way}."
        remedy = "Use an op that works in place or returns a view."
        if "aten::reshape" in ops or "aten::contiguous" in ops:
            text += " Its input is not contiguous."
            remedy = (
                "Keep the layout that the op takes, so that a view is enough, or make it contiguous once beforehand."
            )
        elif "aten::to" in ops:
            remedy = "Pass the tensor in the element type and on the device that the op takes."
        cloning = [name for name in cloning_ops(scene) if name in ops]
        if cloning:
            text += f" It works out of place: it clones its input and runs {cloning[0]}_ on the clone."
            remedy = _in_place(cloning[0])
        yield from device_finding(scene, copies, text, remedy)


@rule("bias-memcpy", "a copy fills the output with the addend before a GEMM adds to it")
def bias_memcpy(scene: Scene) -> Iterator[Finding]:
    """addmm with an addend other than a row vector, which cuBLAS reads from the output."""
    copies = [a for a in scene.activities if seeds_a_product(scene, a)]
    ops = ", ".join(dict.fromkeys(a.op or "" for a in copies))
    kind = "memcpy" if all(copy.category == "memcpy" for copy in copies) else "copy"
    text = f"A {kind} writes the addend of {ops} to the output before the GEMM adds to it."
    text += _all_the_same(scene)
    remedy = (
        "If the addend is one row, pass it as a vector, which the GEMM adds in its bias epilogue without a copy; for a "
        "full matrix try torch.compile(mode='max-autotune'), whose Triton products can add it in their epilogue."
    )
    yield from device_finding(scene, copies, text, remedy, kind=SPENT)


def _all_the_same(scene: Scene) -> str:
    """A sentence if every unprofiled forward is shorter than eager's despite the copy."""
    twin = scene.eager_twin()
    mine, eager = forward_span(scene.facts), forward_span(twin) if twin and scene.comparable(twin) else None
    if twin is None or mine is None or eager is None or mine.high_us >= eager.low_us:
        return ""
    return f" Despite the copy, an unprofiled forward takes {mine} against {eager} of {twin.case}."


@rule(
    "workspace-memset",
    "a memset directly before a GEMM or attention kernel of the same op",
    "Workspaces are cleared before GEMM or attention kernels in {cases} (by {subjects}): one more launch each, {times} "
    "of device time a forward.",
)
def workspace_memset(scene: Scene) -> Iterator[Finding]:
    """The library clears its counters; reported because each is a launch."""
    rows = scene.activities
    clears = [
        a
        for a, after in pairwise(rows)
        if a.category == "memset" and after.family in ("GEMM", "attention") and after.op_path == a.op_path
    ]
    if not clears:
        return
    after = (rows[a.position + 1] for a in clears if a.position + 1 < len(rows))
    libraries = ", ".join(sorted({activity.decoded.library for activity in after}))
    counts = sorted({a.bytes for a in clears if a.bytes is not None})
    sizes = ", ".join(size(count) if count >= 1024 else f"{count} bytes" for count in counts)
    each = "one memset" if len(clears) == 1 else f"{len(clears)} memsets"
    text = (
        f"{libraries} clears a workspace of {sizes or 'unknown size'} before {plural(len(clears), 'kernel')}: {each} "
        "more to launch in each forward."
    )
    remedy = "None needed: the library requires it, and it takes little time."
    where, listed = positions(clears), described(clears)
    yield timed(
        scene, DEVICE, total(clears), text, remedy, listed, where=where, level="info", theme="", subject=libraries
    )


@rule("out-of-place", "an op clones its input and runs its in-place variant on the clone")
def out_of_place(scene: Scene) -> Iterator[Finding]:
    """For example aten::masked_fill: a clone and aten::masked_fill_. Skipped if unwritten-copy reports it."""
    reported = {a.position for a in unwritten(scene)}
    for op in cloning_ops(scene):
        copies = [a for a in scene.activities if op in a.op_path and a.op_path[-1] in (COPY, "aten::clone")]
        text = (
            f"{op.removeprefix('aten::')} works out of place: it clones its input and runs the in-place variant on "
            "the clone."
        )
        if not reported.issuperset(positions(copies)):
            yield from device_finding(scene, copies, text, _in_place(op))


def cloning_ops(scene: Scene) -> tuple[str, ...]:
    """Names of the ops that clone and then run their in-place variant."""
    calls = {call.position: call for call in scene.facts.calls}
    inside = defaultdict(set)  # position of a call -> names of the ops in it that clone, copy or work in place
    for op in scene.facts.ops:
        parent = op.parent if op.name.endswith("_") or op.name == "aten::clone" else None
        while parent in calls:
            inside[parent].add(op.name)
            parent = calls[parent].parent
    out_of_place = (op for op in scene.facts.ops if f"{op.name}_" in inside[op.position])
    return tuple(dict.fromkeys(op.name for op in out_of_place if inside[op.position] & {"aten::clone", COPY}))


def _in_place(op: str) -> str:
    return (
        f"Call {op.removeprefix('aten::')}_ if nothing else reads the input. This is safe without autograd "
        "(torch.no_grad), but not if backward needs the overwritten value."
    )


#: Ops that copy whole tensors -> how to avoid the copy.
COPYING = {
    "aten::cat": "Write into slices of one tensor that is allocated once, instead of joining tensors in each call.",
    "aten::stack": "Write into slices of one tensor that is allocated once, instead of stacking tensors in each call.",
    "aten::repeat": "Use expand, which copies nothing, where the consumer broadcasts.",
    "aten::repeat_interleave": "Use expand, which copies nothing, or enable_gqa=True of SDPA for grouped heads.",
    "aten::clone": "Drop the clone, or reuse one buffer for it.",
}


@rule("copying", "explicit copies (cat, stack, repeat, clone) take over 10 % of the device time")
def copying(scene: Scene) -> Iterator[Finding]:
    """By the outermost op; copies to another type or layout have separate rules."""
    for op, remedy in COPYING.items():
        work = [a for a in scene.activities if _asking(a) == op and a.family == "copy/cast"]
        if (part(total(work), scene.device_time_us) or 0.0) < LEAST_COPYING:
            continue
        text = f"{op} copies in {plural(len(work), 'kernel')}, {duration(total(work))} a forward."
        yield from slow_finding(scene, work, total(work), text, remedy, len(work))
