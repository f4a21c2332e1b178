"""Avoidable device work: casts, layout copies, chains that one kernel could replace, kernels with a low memory rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kernelbook.cases import Activity, CaseFacts
from kernelbook.counters import KernelCounters
from kernelbook.judge.cost_model import Ceilings, KernelCost, Launched, kernel_costs, launched
from kernelbook.judge.cost_model.roof import time_at
from kernelbook.judge.cost_model.shapes import Operand, operands
from kernelbook.judge.findings.attention_backends import MATH, fused_backend
from kernelbook.judge.findings.copies import casts, converts
from kernelbook.judge.findings.costs import began_inside, part, slow_finding, timed, total
from kernelbook.judge.findings.rules import DEVICE, RECOVERABLE, Finding, Scene, rule, type_name
from kernelbook.text.formatting import duration, percent, plural, significant, size

#: Families of kernels that read and write whole tensors, whose work one kernel could do together.
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
    yield from slow_finding(scene, work, total(work), text, remedy, spared=len(work))


@rule("layout-copies", "kernels that change the memory layout take over 5 % of the device time")
def layout_copies(scene: Scene) -> Iterator[Finding]:
    """cuDNN's transposes between NCHW and NHWC, and copies by `contiguous`."""
    transposes = [a for a in scene.kernels if "nchwToNhwc" in a.name or "nhwcToNchw" in a.name]
    if transposes:
        text = (
            f"cuDNN transposes between NCHW and NHWC in {plural(len(transposes), 'kernel')}, "
            f"{duration(total(transposes))} a forward."
        )
        remedy = "Use channels_last: model.to(memory_format=torch.channels_last), and the same for the input."
        yield from slow_finding(scene, transposes, total(transposes), text, remedy, spared=len(transposes))
    copies = [a for a in scene.kernels if a.op_path and a.op_path[0] == "aten::contiguous"]
    if copies:
        text = (
            f"aten::contiguous copies in {plural(len(copies), 'kernel')}, {duration(total(copies))} a forward: its "
            "input is strided."
        )
        remedy = "Choose a layout in which all ops work, and drop the calls of contiguous()."
        yield from slow_finding(scene, copies, total(copies), text, remedy, len(copies))


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
    """One kernel would read the input and write the output once; its least time follows from the memory ceiling."""
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
        yield from slow_finding(scene, work, saved, text, instead, spared)


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

    A run is left to the rule `casts` if casts take more than half of its time. A run of a single op is not a chain,
    since each call may use another tensor.
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


# --- kernels with a memory rate far below that of a copy -------------------------------------------------------------


POINTWISE, ROWWISE = ("elementwise", "copy/cast", "fill/mask"), ("softmax", "reduction")
#: A kernel is slow below this share of the copy ceiling, if it takes at least this share of the device time.
SLOW_BELOW, LEAST_SHARE = 0.7, 0.05
#: Another kernel is mentioned if its share is larger by this factor; bytes within ALIKE count as equal.
MUCH_BETTER, ALIKE = 1.2, 0.01


def _in_several(group: Sequence[Finding]) -> str:
    """The text of the most expensive one, and the times of the same kernel in other cases."""
    dearest = max(group, key=lambda finding: finding.time_us or 0.0)
    others = "; ".join(f"{f.case}: {f.subject}" for f in group if f.case != dearest.case)
    return f"{dearest.text} The same kernel in {others}."


@rule(
    "slow-pointwise",
    "a pointwise kernel, a softmax or a reduction under 70 % of the memory ceiling, and over 5 % of the forward",
    _in_several,
    yields=2,
)
def slow_pointwise(scene: Scene) -> Iterator[Finding]:
    """By the bytes of whole tensors, each read or written once. The time is the saving of a kernel at the ceiling.

    The severity is low if no other kernel shows that it can be faster: a softmax over long rows reads them twice.
    """
    whole = scene.device_time_us
    rows = {a.position: a for a in scene.activities}
    for moved in kernel_costs(scene.facts, scene.ceilings):
        kernel, share = rows[moved.position], moved.share_of_memory
        weighs = (part(moved.time_us, whole) or 0.0) > LEAST_SHARE
        if share is None or share >= SLOW_BELOW or not weighs or kernel.family not in POINTWISE + ROWWISE:
            continue
        counted = scene.facts.measured.get(moved.position)
        if counted and (counted.dram_percent or 0.0) >= 100 * SLOW_BELOW:  # DRAM is busy with more than these bytes
            continue
        saved = moved.time_us * (1 - share)
        swifter = _swifter(scene, moved, ROWWISE if kernel.family in ROWWISE else POINTWISE)
        text = (
            f"{kernel.label}{scene.computed_ops(kernel)} moves {_moved(moved, counted)} of the memory ceiling."
            f"{swifter}{f' {counted.sentence}' if counted and counted.sentence else ''}"
        )
        evidence = f"{kernel.label}, {moved.op or 'no op'}: {size(moved.bytes)} in {duration(moved.time_us)}"
        yield timed(
            scene, DEVICE, saved, text, _remedy(scene, kernel), evidence, RECOVERABLE, (moved.position,),
            level=None if swifter else "low", theme=f"{kernel.name} {moved.bytes}", subject=duration(moved.time_us),
        )  # fmt: skip


def _moved(cost: KernelCost, counted: KernelCounters | None) -> str:
    """Bytes, time, rate and share of the memory ceiling: from Nsight Compute if measured, else from the tensors."""
    mib, gb_per_s, share = cost.bytes / 2**20, cost.gb_per_s or 0.0, cost.share_of_memory or 0.0
    source = ""
    if counted and counted.dram_bytes is not None:
        source = f" of DRAM traffic (measured by Nsight Compute; {significant(mib)} MiB by its tensors)"
        ratio = counted.dram_bytes / cost.bytes
        mib, gb_per_s, share = mib * ratio, gb_per_s * ratio, share * ratio
    size = f"{significant(mib)} MiB{source}"
    return f"{size} in {duration(cost.time_us)}: {significant(gb_per_s)} GB/s, {percent(share)}"


def _swifter(scene: Scene, cost: KernelCost, families: Sequence[str]) -> str:
    """A much faster kernel of these families: of the same forward, otherwise of a peer with similar bytes."""
    own = _best(scene.facts, scene.ceilings, cost, families)
    if own:
        return f" {own.label} in the same forward reaches {percent(own.share_of_memory or 0.0)}."
    candidates = []
    for peer in scene.peers():
        best = _best(peer, scene.ceilings, cost, families, cost.bytes)
        if best and peer.case != scene.facts.case:
            candidates.append((best, peer.case))
    if not candidates:
        return ""
    best, case = min(candidates, key=lambda one: one[0].time_us)
    return f" {best.label} in {case} moves as much in {duration(best.time_us)}, {percent(best.share_of_memory or 0.0)}."


def _best(
    facts: CaseFacts, ceilings: Ceilings, cost: KernelCost, families: Sequence[str], moved: int | None = None
) -> KernelCost | None:
    """The kernel of these families nearest to the ceiling, if it is much nearer; ``moved``: bytes that it must have."""
    kernels = {kernel.position for kernel in facts.kernels_of(*families)}
    others = [
        other
        for other in kernel_costs(facts, ceilings)
        if other.position in kernels and (moved is None or abs(other.bytes - moved) <= ALIKE * moved)
    ]
    best = max(others, key=lambda other: other.share_of_memory or 0.0, default=cost)
    return best if (best.share_of_memory or 0.0) >= MUCH_BETTER * (cost.share_of_memory or 0.0) else None


def _remedy(scene: Scene, kernel: Activity) -> str:
    if MATH in kernel.op_path:
        return f"SDPA's math backend launches it, so that no caller can change it: {fused_backend(scene)}."
    if converts(kernel):
        return (
            "Keep one element type along this path, so that no conversion is needed: store weights in the type that "
            "is computed in, and enable autocast once around the model; torch.compile fuses a remaining conversion."
        )
    if kernel.family in ROWWISE and kernel.decoded.library == "ATen":
        return "Let torch.compile fuse it with what stands before it; in attention a fused backend does without it."
    if kernel.decoded.library == "ATen" and "vectorized" not in kernel.label:
        return (
            "Fuse it (torch.compile, a fused backend), or give it contiguous operands of one shape: it loads one "
            "element at a time (no vectorized_elementwise_kernel), as for broadcast or strided operands."
        )
    if kernel.decoded.library == "Triton" and scene.facts.mode == "compile":
        return "Let Inductor try more block sizes (torch.compile(mode='max-autotune'))."
    return "Fuse it with its neighbours, so that its bytes are not moved at all; or tune its block and vector sizes."
