"""Copies: those nobody wrote, those that seed a product with its bias, workspaces that are cleared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kernelbook.case_facts import Activity, Call
from kernelbook.findings.registry import Finding, Scene, described, device_finding, positions, rule, total
from kernelbook.units import duration, plural

#: Ops by which a program asks for a copy in so many words.
ASKED_FOR = {"aten::copy_", "aten::clone", "aten::to", "aten::_to_copy", "aten::contiguous", "aten::cat", "aten::stack",
             "aten::repeat", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"}  # fmt: skip
SEEDED = {"aten::addmm", "aten::baddbmm", "aten::addbmm", "aten::_addmm_activation"}


def converts(activity: Activity) -> bool:
    """Whether the copy changes the element type."""
    return activity.decoded.what == "converts while it copies"


def seeds_a_product(scene: Scene, activity: Activity) -> bool:
    """Whether it is a memcpy inside an addmm-like op that launches a GEMM after it."""
    if activity.category != "memcpy" or activity.op not in SEEDED:
        return False
    later = [a for a in scene.activities if a.position > activity.position and a.op_path == activity.op_path]
    return any(a.family == "GEMM" for a in later)


def unwritten(scene: Scene) -> list[Activity]:
    """Copies on the device whose outermost op does not ask for one; conversions and seeds are other findings."""
    return [
        a
        for a in scene.activities
        if a.family == "copy/cast"
        and a.decoded.library in ("ATen", "CUDA runtime")
        and ("DtoD" in a.name or a.category == "kernel")
        and _asking(a)
        and _asking(a) not in ASKED_FOR
        and not converts(a)
        and not seeds_a_product(scene, a)
    ]


def _asking(activity: Activity) -> str | None:
    """The outermost op around it that is no mere wrapper (a compiled region, an autograd function)."""
    return next((op for op in activity.ops if "::" in op), None)


@rule("unwritten-copy", "a device-to-device copy was launched inside an op that is no copy")
def unwritten_copy(scene: Scene) -> Iterator[Finding]:
    """One finding for each op that copies."""
    for op in dict.fromkeys(_asking(a) for a in unwritten(scene)):
        copies = [a for a in unwritten(scene) if _asking(a) == op]
        moved = sum(a.bytes or 0 for a in copies)
        size = f" of {moved / 2**20:.0f} MiB" if moved else ""
        ops = copies[0].ops
        way = " > ".join(ops[ops.index(op or "") + 1 :]) or op
        text = f"{op} launched {_number(copies)}{size} that nobody wrote, by way of {way}."
        remedy = "Look for an op that works in place or returns a view."
        cloning = [name for name in cloning_ops(scene) if name in ops]
        if cloning:
            remedy = _in_place(cloning[0])
        yield from device_finding(scene, "unwritten-copy", copies, text, remedy)


def _number(copies: list[Activity]) -> str:
    return "a copy" if len(copies) == 1 else f"{len(copies)} copies"


@rule("bias-memcpy", "a memcpy fills the output with the addend before a GEMM adds to it")
def bias_memcpy(scene: Scene) -> Iterator[Finding]:
    """addmm whose addend is no row vector: cuBLAS reads it from the output."""
    copies = [a for a in scene.activities if seeds_a_product(scene, a)]
    ops = ", ".join(dict.fromkeys(a.op or "" for a in copies))
    text = f"A memcpy seeds the output of {ops} with the addend, and the GEMM adds to it: the addition costs a copy."
    remedy = "An addend of one row goes into the GEMM's bias epilogue without a copy; a full matrix is cheaper fused."
    yield from device_finding(scene, "bias-memcpy", copies, text, remedy)


@rule("workspace-memset", "a memset directly before a GEMM or attention kernel of the same op")
def workspace_memset(scene: Scene) -> Iterator[Finding]:
    """The library clears its counters; shown, because it is a launch of its own."""
    rows = scene.activities
    clears = [
        a
        for a, after in pairwise(rows)
        if a.category == "memset" and after.family in ("GEMM", "attention") and after.op_path == a.op_path
    ]
    libraries = {rows[a.position + 1].decoded.library for a in clears if a.position + 1 < len(rows)}
    sizes = sorted({a.bytes for a in clears if a.bytes is not None})
    size = ", ".join(f"{s} bytes" for s in sizes) or "unknown size"
    text = (
        f"{', '.join(sorted(libraries))} clears a workspace of {size} before {plural(len(clears), 'kernel')}: as many "
        f"launches more a forward, {duration(total(clears))} on the device."
    )
    remedy = "Nothing to do; it is no kernel, but a graph (CUDA graphs) hides its launch."
    yield from device_finding(scene, "workspace-memset", clears, text, remedy, info=True)


@rule("out-of-place", "an op clones its input and then runs its own in-place twin on the clone")
def out_of_place(scene: Scene) -> Iterator[Finding]:
    """For example aten::masked_fill, which is a clone and aten::masked_fill_.

    Without time where unwritten-copy lists the copies: what they cost is told once.
    """
    told = {a.position for a in unwritten(scene)}
    for op in cloning_ops(scene):
        copies = [a for a in scene.activities if op in a.ops and a.ops[-1] in ("aten::copy_", "aten::clone")]
        text = f"{op.removeprefix('aten::')} works out of place: it clones its input, then runs the in-place twin."
        if copies and told.issuperset(positions(copies)):
            evidence = described(copies)
            yield Finding("out-of-place", "info", None, None, evidence, _in_place(op), text, positions(copies))
        else:
            yield from device_finding(scene, "out-of-place", copies, text, _in_place(op))


def cloning_ops(scene: Scene) -> tuple[str, ...]:
    """Names of the ops that clone and then run their in-place twins."""
    calls = {call.position: call for call in scene.facts.calls}
    ops = (op for op in scene.facts.ops if not op.name.endswith("_"))
    return tuple(dict.fromkeys(op.name for op in ops if _clones_first(scene, op, calls)))


def _in_place(op: str) -> str:
    return (
        f"Call {op.removeprefix('aten::')}_ where nothing else reads the input; safe without autograd (torch.no_grad, "
        "inference), not where backward needs the value that is overwritten."
    )


def _clones_first(scene: Scene, op: Call, calls: dict[int, Call]) -> bool:
    inside = {c.name for c in scene.facts.ops if _within(c, op.position, calls)}
    return f"{op.name}_" in inside and bool(inside & {"aten::clone", "aten::copy_"})


def _within(call: Call, position: int, calls: dict[int, Call]) -> bool:
    parent = call.parent
    while parent is not None and parent in calls:
        if parent == position:
            return True
        parent = calls[parent].parent
    return False
