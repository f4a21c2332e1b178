"""Device work that other code would do faster: products of unaligned sizes or of a wide type, casts and layout copies,
chains of pointwise kernels that one kernel could replace, attention that no fast backend takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from kernelbook.cases import Activity
from kernelbook.judge.cost_model import GemmCost, Launched, gemm_costs, launched
from kernelbook.judge.cost_model.gemm import ALIGNED_BYTES
from kernelbook.judge.cost_model.roof import time_at
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, Operand, operands
from kernelbook.judge.findings.attention_backends import MATH, fused_backend
from kernelbook.judge.findings.copies import casts
from kernelbook.judge.findings.costs import began_inside, device_finding, percent, total
from kernelbook.judge.findings.rules import RECOVERABLE, SPENT, Finding, Scene, rule
from kernelbook.kernel_names.model import UNKNOWN, element
from kernelbook.text.units import duration, plural, significant

#: Work below this share of the device time is not reported.
LEAST_SHARE = 0.05
#: Padded sizes are multiples of this many elements, whole tiles of most kernels.
PAD_TO = 64
#: A product is slow below this share of its roof, where the roof is known.
SLOW_BELOW = 0.5
#: FLOPs a byte above which a product in fp32 is bound by compute on any GPU of a data centre.
COMPUTE_BOUND = 32
#: Least share of a product's time that a full last wave would save.
LEAST_WAVE = 0.1
#: Families and ops of kernels that read and write whole tensors, which one kernel could do together.
CHAINED = ("elementwise", "copy/cast", "fill/mask", "reduction", "softmax")
LEAST_CHAIN = 3


def _slow(
    scene: Scene, name: str, work: Sequence[Activity], saved_us: float | None, text: str, remedy: str
) -> Iterator[Finding]:
    """A finding about `work` of weight. saved_us: what the remedy saves at the ceilings; None: all of it was spent."""
    kind = SPENT if saved_us is None else RECOVERABLE
    return device_finding(scene, name, work, text, remedy, saved_us, kind, LEAST_SHARE)


# --- products --------------------------------------------------------------------------------------------------------


@rule(
    "unaligned-product", "a product whose rows are not multiples of 16 bytes, on a kernel that is not for this device"
)
def unaligned_product(scene: Scene) -> Iterator[Finding]:
    """cuBLAS falls back to kernels that load one element at a time."""
    for gemm, activity, kind in _products(scene):
        step = ALIGNED_BYTES // ELEMENT_BYTES[kind]
        odd = {side.upper(): size for side, size in gemm.unaligned("nk", step).items()}
        fast = gemm.share_of_roof is not None and gemm.share_of_roof >= SLOW_BELOW
        current = activity.decoded.architecture is not None and activity.decoded.architecture == _device(scene)
        if step < 2 or not odd or fast or current:
            continue
        sizes = " and ".join(f"{name} = {size}" for name, size in odd.items())
        pads = " and ".join(f"{name} to {math.ceil(size / PAD_TO) * PAD_TO}" for name, size in odd.items())
        text = (
            f"A product of {gemm.m} × {gemm.n} × {gemm.k} ({_type(kind)}) runs on {activity.label} in "
            f"{duration(activity.duration_us)}{_rate(gemm)}: {sizes} is not a multiple of {step} elements "
            f"({ALIGNED_BYTES} bytes), so the tensor cores are fed by narrow loads."
        )
        yield from _slow(
            scene, "unaligned-product", [activity], _above_roof(gemm), text, f"Pad {pads}, a multiple of {PAD_TO}."
        )


@rule("product-without-tf32", "products of fp32 tensors on CUDA cores")
def product_without_tf32(scene: Scene) -> Iterator[Finding]:
    """TF32 is off by default in torch. Products that memory bounds would not be faster, and are left out."""
    slow = [
        (gemm, activity)
        for gemm, activity, kind in _products(scene)
        if kind == "float" and activity.decoded.tensor_cores == "no" and gemm.intensity >= COMPUTE_BOUND
    ]
    if slow and scene.facts.device_type != "cpu":
        activities = [activity for _, activity in slow]
        text = (
            f"{plural(len(slow), 'product')} of fp32 tensors {'runs' if len(slow) == 1 else 'run'} on CUDA cores, in "
            f"{duration(total(activities))} a forward{_rate(slow[0][0])}.{_in_tf32(scene, [gemm for gemm, _ in slow])}"
        )
        remedy = (
            "Allow TF32 (torch.set_float32_matmul_precision('high'), 10 bits of mantissa), or compute in bfloat16, if "
            "the result may be less exact."
        )
        yield from _slow(scene, "product-without-tf32", activities, None, text, remedy)


def _in_tf32(scene: Scene, gemms: Sequence[GemmCost]) -> str:
    """A sentence with the time of these products at the ceiling of TF32; empty where that is not known."""
    least = time_at(sum(gemm.flops for gemm in gemms), scene.ceilings.compute("tf32"))
    return f" The ceiling of TF32 allows {duration(least)}." if least else ""


@rule("product-in-fp64", "products of fp64 tensors in a case of another type")
def product_in_fp64(scene: Scene) -> Iterator[Finding]:
    """One fp64 operand makes an expression fp64."""
    wide = [activity for _, activity, kind in _products(scene) if kind == "double"]
    if wide and scene.facts.dtype != "float64":
        text = f"{plural(len(wide), 'product')} in fp64, {duration(total(wide))} a forward."
        remedy = "Look for an fp64 operand (a NumPy array or a Python list makes one) and create it in the dtype meant."
        yield from _slow(scene, "product-in-fp64", wide, None, text, remedy)


@rule("tail-wave", "a product whose last wave of blocks fills less than 40 % of the multiprocessors")
def tail_wave(scene: Scene) -> Iterator[Finding]:
    """133 blocks on 132 multiprocessors take two waves. Persistent kernels deal out tiles instead of blocks."""
    for gemm, activity, _ in _products(scene):
        if not gemm.waves or not gemm.blocks:
            continue
        waves = gemm.waves * max(gemm.tiles_per_block or 1.0, 1.0)
        whole = math.ceil(waves - 1e-6)
        fill, lost = waves - (whole - 1), 1 - waves / whole if whole else 0.0
        if whole >= 2 and fill < 0.4 and lost >= LEAST_WAVE:
            saved = activity.duration_us * lost
            text = (
                f"The product of {gemm.m} × {gemm.n} × {gemm.k} on {activity.label} takes {whole} waves, and its last "
                f"wave fills {percent(fill)} of the device."
            )
            remedy = "Change the batch, or try torch.compile(mode='max-autotune'), which times other tiles."
            yield from _slow(scene, "tail-wave", [activity], saved, text, remedy)


def _products(scene: Scene) -> Iterator[tuple[GemmCost, Activity, str]]:
    """(cost, kernel, the profiler's name of the element type) of each product."""
    kinds = {pair.activity.position: _kind(pair) for pair in launched(scene.facts)}
    by_position = {activity.position: activity for activity in scene.activities}
    for gemm in gemm_costs(scene.facts, scene.ceilings):
        kind = kinds.get(gemm.position)
        if kind is not None:
            yield gemm, by_position[gemm.position], kind


def _kind(pair: Launched) -> str | None:
    tensors = [operand for operand in operands(pair.op) or () if operand is not None and len(operand.shape) > 1]
    return tensors[-1].kind if tensors else None


def _rate(gemm: GemmCost) -> str:
    share = f", {percent(gemm.share_of_roof)} of its roof" if gemm.share_of_roof else ""
    return f" ({significant(gemm.tflops)} TFLOP/s{share})" if gemm.tflops else ""


def _above_roof(gemm: GemmCost) -> float | None:
    """What a product at its roof would save."""
    return gemm.time_us * (1 - gemm.share_of_roof) if gemm.share_of_roof else None


def _device(scene: Scene) -> str | None:
    capability = scene.facts.capability
    return f"sm{capability.replace('.', '')}" if capability else None


def _type(kind: str) -> str:
    """The type as kernel names spell it; a type that none of them has as it is."""
    name = element(kind)
    return kind if name == UNKNOWN else name


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
    ways = dict.fromkeys(f"{_type(cast.source)} to {_type(cast.target)}" for cast in in_order)
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
    yield from _slow(scene, "casts", work, total(work), text, remedy)


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
        yield from _slow(scene, "layout-copies", transposes, total(transposes), text, remedy)
    copies = [a for a in scene.kernels if a.op_path and a.op_path[0] == "aten::contiguous"]
    if copies:
        text = (
            f"aten::contiguous copies in {plural(len(copies), 'kernel')}, {duration(total(copies))} a forward: its "
            "input is strided."
        )
        remedy = "Choose a layout in which all ops work, and drop the calls of contiguous()."
        yield from _slow(scene, "layout-copies", copies, total(copies), text, remedy)


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
        yield from _slow(scene, "unfused-chain", work, saved, text, instead)


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


# --- attention -------------------------------------------------------------------------------------------------------


@rule("slow-attention-backend", "attention in fp32 or with a dense mask, which the fastest backends do not take")
def slow_attention_backend(scene: Scene) -> Iterator[Finding]:
    """From the inputs of scaled_dot_product_attention and the kernel that ran."""
    for call in scene.facts.calls:
        if call.name != "aten::scaled_dot_product_attention":
            continue
        tensors = operands(call) or ()
        query, mask = (tensors[0] if tensors else None), (tensors[3] if len(tensors) > 3 else None)
        work = [a for a in scene.kernels if call.name in a.op_path and a.family == "attention"]
        if query is None or not work:
            continue
        ran = work[0].label
        if query.kind == "float":
            text = (
                f"Attention of fp32 tensors ran on {ran}, in {duration(total(work))}: FlashAttention and cuDNN take "
                "16-bit inputs alone."
            )
            remedy = "Compute attention in bfloat16 or float16 (autocast does)."
        elif mask is not None and len(mask.shape) > 1:
            text = (
                f"Attention with a dense mask of {' × '.join(map(str, mask.shape))} ran on {ran}, in "
                f"{duration(total(work))}: the kernel computes all blocks, and FlashAttention takes no mask."
            )
            remedy = (
                "If the mask is causal, pass is_causal=True; for other patterns use flex_attention, which skips blocks."
            )
        else:
            continue
        yield from _slow(scene, "slow-attention-backend", work, None, text, remedy)
        return
