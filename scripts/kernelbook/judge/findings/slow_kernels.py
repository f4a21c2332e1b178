"""Device work that other code would spare: casts and layout copies, chains of kernels that one kernel could replace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kernelbook.cases import Activity
from kernelbook.judge.cost_model import Launched, launched
from kernelbook.judge.cost_model.roof import time_at
from kernelbook.judge.cost_model.shapes import Operand, operands
from kernelbook.judge.findings.attention_backends import MATH, fused_backend
from kernelbook.judge.findings.copies import casts
from kernelbook.judge.findings.costs import began_inside, slow_finding, total
from kernelbook.judge.findings.rules import Finding, Scene, rule, type_name
from kernelbook.text.units import duration, plural, significant

#: Families and ops of kernels that read and write whole tensors, which one kernel could do together.
CHAINED = ("elementwise", "copy/cast", "fill/mask", "reduction", "softmax")
LEAST_CHAIN = 3


# --- casts and layouts -----------------------------------------------------------------------------------------------


@rule("casts", "copies that change the element type take over 5 % of the device time")
def casts_of_forward(scene: Scene) -> Iterator[Finding]:
    """Summed over the forward, without casts inside a chain (unfused-chain) and around products (fp32-gemm)."""
    chained = {pair.activity.position for chain in _chains(scene) for pair, _ in chain}
    outside = {cast.position: cast for cast in casts(scene) if cast.position not in chained}
    work = [activity for activity in scene.kernels if activity.position in outside]
    if not work or any(MATH in activity.op_path for activity in work):
        return
    in_order = [outside[activity.position] for activity in work]
    ways = dict.fromkeys(f"{type_name(cast.source)} to {type_name(cast.target)}" for cast in in_order)
    explicit = any(a.op_path and a.op_path[0] in ("aten::to", "aten::_to_copy", "aten::copy_") for a in work)
    by_autocast = not explicit and not any(cast.widens for cast in in_order)
    text = (
        f"{plural(len(work), 'cast')} ({', '.join(ways)}) {'takes' if len(work) == 1 else 'take'} "
        f"{duration(total(work))} a forward."
    )
    remedy = "Keep tensors in one type, or compile the casts into their neighbours (torch.compile)."
    if by_autocast:
        remedy = (
            "Store the weights in 16 bits (model.bfloat16()): autocast casts them in each forward where its cache does "
            "not hold them, as it does for leaves that require a gradient."
        )
    yield from slow_finding(scene, "casts", work, total(work), text, remedy, spared=len(work))


@rule("layout-copies", "kernels that change the memory layout take over 5 % of the device time")
def layout_copies(scene: Scene) -> Iterator[Finding]:
    """cuDNN's transposes between NCHW and NHWC, and copies asked for by `contiguous`."""
    transposes = [a for a in scene.kernels if "nchwToNhwc" in a.name or "nhwcToNchw" in a.name]
    if transposes:
        text = (
            f"cuDNN transposes between NCHW and NHWC in {plural(len(transposes), 'kernel')}, "
            f"{duration(total(transposes))} a forward."
        )
        remedy = "Use channels_last: model.to(memory_format=torch.channels_last), and the same for the input."
        yield from slow_finding(
            scene, "layout-copies", transposes, total(transposes), text, remedy, spared=len(transposes)
        )
    copies = [a for a in scene.kernels if a.op_path and a.op_path[0] == "aten::contiguous"]
    if copies:
        text = (
            f"aten::contiguous copies in {plural(len(copies), 'kernel')}, {duration(total(copies))} a forward: its "
            "input is strided."
        )
        remedy = "Choose a layout in which all ops work, and drop the calls of contiguous()."
        yield from slow_finding(scene, "layout-copies", copies, total(copies), text, remedy, len(copies))


# --- chains ----------------------------------------------------------------------------------------------------------

NORM = "F.layer_norm or F.rms_norm"
#: (ops of the chain, ops elsewhere in the forward, what they compute, what computes it in one kernel); first match.
TOGETHER: tuple[tuple[set[str], set[str], str, str], ...] = (
    ({"exp", "sum", "div"}, {"log", "gather"}, "a cross entropy", "F.cross_entropy"),
    ({"exp", "sum", "div"}, set(), "a softmax", "F.softmax"),
    ({"rsqrt", "mean"}, set(), "a normalization", NORM),
    ({"sqrt", "mean"}, set(), "a normalization", NORM),
    ({"var", "div"}, set(), "a normalization", NORM),
    ({"tanh", "mul"}, set(), "an activation", "F.gelu(approximate='tanh')"),
    ({"erf", "mul"}, set(), "an activation", "F.gelu"),
    ({"sigmoid", "mul"}, set(), "an activation", "F.silu"),
)


@rule(
    "unfused-chain",
    "three or more kernels in a row read and write tensors of one size, over 5 % of the device time",
    yields=1,
)
def unfused_chain(scene: Scene) -> Iterator[Finding]:
    """One kernel would read the input and write the output once; the time of that is known with a memory ceiling."""
    by_result: dict[tuple[str, str], list[list[tuple[Launched, Operand]]]] = {}
    for chain in _chains(scene):
        by_result.setdefault(_result(scene, chain), []).append(chain)
    for (makes, instead), chains in by_result.items():
        pairs = [link for chain in chains for link in chain]
        work = [pair.activity for pair, _ in pairs]
        moved = sum(2 * max(tensor.bytes for _, tensor in chain) for chain in chains)
        least = time_at(moved, scene.ceilings.bytes_per_s)
        ops = ", ".join(dict.fromkeys(pair.op.name.removeprefix("aten::").strip("_") for pair, _ in pairs))
        size = significant(max(tensor.bytes for _, tensor in pairs) / 2**20)
        rows, each = ("a row", "") if len(chains) == 1 else (f"{len(chains)} rows", " for each")
        once = f", {duration(least)} at the memory ceiling" if least else ""
        computes, condition = (f"compute {makes} over", "") if makes else ("work on", " if each uses the last result")
        text = (
            f"{len(work)} kernels in {rows} ({ops}) {computes} tensors of {size} MiB in {duration(total(work))}; one "
            f"kernel{each} would read and write them once{once}{condition}.{_measured(scene, work)}"
        )
        saved = total(work) - least if least and least < total(work) else None
        spared = len(work) - len(chains)
        yield from slow_finding(scene, "unfused-chain", work, saved, text, instead, spared)


def _measured(scene: Scene, work: Iterable[Activity]) -> str:
    """The DRAM traffic of kernels by Nsight Compute; empty unless it measured each."""
    rows = [scene.facts.measured.get(activity.position) for activity in work]
    moved = [row.dram_bytes for row in rows if row and row.dram_bytes is not None]
    if len(moved) < len(rows):
        return ""
    return f" They move {significant(sum(moved) / 2**20)} MiB of DRAM traffic (measured by Nsight Compute)."


def _result(scene: Scene, chain: Sequence[tuple[Launched, Operand]]) -> tuple[str, str]:
    """(what the chain computes, empty if it is not known, remedy)."""
    ops = {pair.op.name.removeprefix("aten::").strip("_") for pair, _ in chain}
    around = {call.name.removeprefix("aten::") for call in scene.facts.ops}
    if any(name.startswith("Torch-Compiled Region") for pair, _ in chain for name in pair.activity.op_path):
        return "", "It runs in a compiled region and nothing was fused: use backend='inductor'."
    if "log_softmax" in ops:
        return "a cross entropy", "Use F.cross_entropy, or torch.compile, which fuses them."
    if any(pair.activity.family == "softmax" for pair, _ in chain):
        fused = fused_backend(scene)
        return "a scaled or masked softmax", f"In attention {fused}; elsewhere fuse them with torch.compile."
    for names, beside, what, call in TOGETHER:
        if names <= ops and beside <= around:
            return what, f"Use {call}, or torch.compile, which fuses them."
    return "", "Fuse them with torch.compile."


def _chains(scene: Scene) -> Iterator[list[tuple[Launched, Operand]]]:
    """Runs of kernels whose largest tensor has the same number of elements, or which reduce or broadcast to it.

    A run that casts take more than half of is left to the rule `casts`. A run of one op alone, which may work on as
    many tensors, is no chain.
    """
    chain: list[tuple[Launched, Operand]] = []
    converting = {cast.position for cast in casts(scene)}
    optimizers = [c for c in scene.facts.calls if c.name.startswith("Optimizer.")]
    for pair in [*launched(scene.facts), None]:
        joins = pair is not None and pair.activity.family in CHAINED and pair.alone
        updates = pair is not None and began_inside(pair.op.start_us, optimizers)
        tensor = _largest(operands(pair.op)) if pair and joins and not updates else None
        fits = tensor is not None and (not chain or _same_rows(tensor, chain[0][1]))
        if pair is not None and tensor is not None and fits:
            chain.append((pair, tensor))
            continue
        work = [link.activity for link, _ in chain]
        cast_us = total(activity for activity in work if activity.position in converting)
        several = len({link.op.name for link, _ in chain}) > 1
        if several and len(_whole(chain)) >= LEAST_CHAIN and cast_us <= 0.5 * total(work):
            yield chain
        chain = [(pair, tensor)] if pair is not None and tensor is not None else []


def _largest(tensors: Iterable[Operand | None] | None) -> Operand | None:
    shaped = [tensor for tensor in tensors or () if tensor is not None and tensor.shape]
    return max(shaped, key=lambda tensor: tensor.elements, default=None)


def _same_rows(tensor: Operand, first: Operand) -> bool:
    """Whether one has the elements of the other, or one for each of its rows."""
    small, large = sorted((tensor.elements, first.elements))
    return small == large or (small > 1 and large % small == 0 and large // small == (first.shape or (1,))[-1])


def _whole(chain: Sequence[tuple[Launched, Operand]]) -> list[tuple[Launched, Operand]]:
    """The kernels over the whole tensors, without those over one value a row."""
    most = max((tensor.elements for _, tensor in chain), default=0)
    return [(pair, tensor) for pair, tensor in chain if tensor.elements == most]
