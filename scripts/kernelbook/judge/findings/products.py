"""Products that are slow for a reason that shapes, types and names show, products to merge, and unused products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from kernelbook.cases import Activity, Call
from kernelbook.judge.cost_model import GemmCost, Launched, gemm_costs, launched, shaped_calls
from kernelbook.judge.cost_model.gemm import ALIGNED_BYTES
from kernelbook.judge.cost_model.roof import COMPUTE, time_at
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, operands
from kernelbook.judge.cost_model.traffic import FACTORS, sizes
from kernelbook.judge.findings.costs import (
    idle_of_launches,
    positions,
    slow_finding,
    timed,
    total,
)
from kernelbook.judge.findings.device_fit import tile_of, waves_of
from kernelbook.judge.findings.rules import FORWARD, RECOVERABLE, Finding, Scene, rule, type_name
from kernelbook.kernel_names.products import SPLIT_K
from kernelbook.text.formatting import duration, percent, plural, significant

#: Padded sizes are multiples of this many elements, whole tiles of most kernels.
PAD_TO = 64
#: A product is slow below this share of its roof, if the roof is known.
SLOW_BELOW = 0.5
#: FLOPs a byte above which a product in fp32 is bound by compute on any data-center GPU.
COMPUTE_BOUND = 32
#: Least share of a product's time that a full last wave would save.
LEAST_WAVE = 0.1
#: Sides of a product below which no kernel reaches its roof.
LEAST_SIDE = 128
#: Shorter products, in µs, do not reach their roof: starting and ending them takes some µs.
LEAST_LENGTH = 20.0
#: Elements of the output that a block computes below which it loads more than the tensor cores can hide.
SMALL_TILE = 64 * 64


@rule(
    "unaligned-product", "a product whose rows are not multiples of 16 bytes, on a kernel that is not for this device"
)
def unaligned_product(scene: Scene) -> Iterator[Finding]:
    """cuBLAS falls back to kernels that load one element at a time."""
    for (gemm, activity, kind), work in _alike(scene):
        step = ALIGNED_BYTES // ELEMENT_BYTES[kind]
        odd = {side.upper(): size for side, size in gemm.unaligned("nk", step).items()}
        fast = gemm.share_of_roof is not None and gemm.share_of_roof >= SLOW_BELOW
        current = activity.decoded.architecture is not None and activity.decoded.architecture == _device(scene)
        if step < 2 or not odd or fast or current or activity.decoded.tensor_cores == "no":
            continue
        listed = " and ".join(f"{name} = {size}" for name, size in odd.items())
        pads = " and ".join(f"{name} to {math.ceil(size / PAD_TO) * PAD_TO}" for name, size in odd.items())
        text = (
            f"{_of_size(gemm, work)} ({type_name(kind)}) {_runs(work)} on {activity.label} in {duration(total(work))}"
            f"{_rate(gemm)}: {listed} is not a multiple of {step} elements ({ALIGNED_BYTES} bytes), so the tensor "
            "cores are fed by narrow loads."
        )
        saved = _above_roof(gemm, work)
        yield from slow_finding(scene, work, saved, text, f"Pad {pads}, a multiple of {PAD_TO}.")


@rule("product-without-tf32", "products of fp32 tensors on CUDA cores", yields=1)
def product_without_tf32(scene: Scene) -> Iterator[Finding]:
    """TF32 is off by default in torch. Memory-bound products would not be faster and are left out."""
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
        yield from slow_finding(scene, activities, None, text, remedy)


def _in_tf32(scene: Scene, gemms: Sequence[GemmCost]) -> str:
    """A sentence with the time of these products at the ceiling of TF32; empty if that is not known."""
    least = time_at(sum(gemm.flops for gemm in gemms), scene.ceilings.compute("tf32"))
    return f" The ceiling of TF32 allows {duration(least)}." if least else ""


@rule("product-in-fp64", "products of fp64 tensors in a case of another type")
def product_in_fp64(scene: Scene) -> Iterator[Finding]:
    """One fp64 operand makes an expression fp64."""
    wide = [activity for _, activity, kind in _products(scene) if kind == "double"]
    if wide and scene.facts.dtype != "float64":
        text = f"{plural(len(wide), 'product')} in fp64, {duration(total(wide))} a forward."
        remedy = "Look for an fp64 operand (a NumPy array or a Python list makes one) and create it in the dtype meant."
        yield from slow_finding(scene, wide, None, text, remedy)


@rule("tail-wave", "a product whose last wave of blocks fills less than 40 % of the multiprocessors")
def tail_wave(scene: Scene) -> Iterator[Finding]:
    """133 blocks on 132 multiprocessors take two waves. Persistent kernels distribute tiles instead of blocks.

    Waves are those measured by Nsight Compute, else computed from registers, shared memory and block size.
    """
    for (gemm, activity, _), work in _alike(scene):
        of_blocks, source = waves_of(scene, gemm)
        if not of_blocks or not gemm.blocks:
            continue
        waves = of_blocks * max(gemm.tiles_per_block or 1.0, 1.0)
        whole = math.ceil(waves - 1e-6)
        fill, lost = waves - (whole - 1), 1 - waves / whole if whole else 0.0
        if whole >= 2 and fill < 0.4 and lost >= LEAST_WAVE:
            takes = "takes" if len(work) == 1 else "take"
            text = (
                f"{_of_size(gemm, work)} on {activity.label} {takes} {whole} waves{source}, and the last wave fills "
                f"{percent(fill)} of the device."
            )
            remedy = "Change the batch, or try torch.compile(mode='max-autotune'), which times other tiles."
            yield from slow_finding(scene, work, total(work) * lost, text, remedy)


@rule("split-k-reduction", "kernels that add up the parts of split-K products take over 5 % of the device time")
def split_k_reduction(scene: Scene) -> Iterator[Finding]:
    """A library splits the inner dimension over blocks if the output has too few tiles for the device."""
    pairs = [pair for pair in launched(scene.facts) if pair.activity.decoded.what == SPLIT_K]
    work = [pair.activity for pair in pairs] or [a for a in scene.kernels if a.decoded.what == SPLIT_K]
    of_pairs = (sizes(pair.op) for pair in pairs if pair.op.name in FACTORS)
    shapes = dict.fromkeys(f"{size[1]} × {size[2]} × {size[3]}" for size in of_pairs if size)
    text = (
        f"{plural(len(work), 'product')}{f' of {_listed(shapes)}' if shapes else ''} "
        f"{'is' if len(work) == 1 else 'are'} split along the inner dimension (split-K), because the output has too "
        f"few tiles for the device: adding up the parts takes {duration(total(work))} in "
        f"{plural(len(work), 'more kernel')}."
    )
    remedy = (
        "Give the product more rows or columns (a larger batch, or several products as one aten::bmm), so that it need "
        "not be split; or try torch.compile(mode='max-autotune')."
    )
    yield from slow_finding(scene, work, None, text, remedy)


@rule("slow-product", "a product under half of the compute ceiling, if no other rule names the cause", yields=1)
def slow_product(scene: Scene) -> Iterator[Finding]:
    """Causes that a trace shows are too few tiles for the device and a small tile."""
    processors = scene.facts.device_properties.get("numSms")
    for (gemm, activity, kind), work in _alike(scene):
        share = gemm.share_of_roof
        short = min(gemm.m, gemm.n, gemm.k) < LEAST_SIDE or gemm.time_us < LEAST_LENGTH
        wide = kind == "float" and activity.decoded.tensor_cores == "no"
        if share is None or share >= SLOW_BELOW or gemm.roof != COMPUTE or short or wide:
            continue
        sides = [int(side) for side in (gemm.tile or "").split("x")[:2] if side.isdigit()]
        if processors and gemm.tiles and gemm.tiles < processors:
            cause = f"its output has {gemm.tiles} tiles for {processors} multiprocessors"
            remedy = "Batch several products into one, or try torch.compile(mode='max-autotune'), which can split K."
        elif len(sides) == 2 and math.prod(sides) <= SMALL_TILE:
            cause = f"its tile of {tile_of(gemm)} is small, so that each block loads much for what it computes"
            remedy = "Try torch.compile(mode='max-autotune'), which times larger tiles."
        else:
            cause = "the trace does not show why"
            remedy = "Try torch.compile(mode='max-autotune'); counters: true measures what the kernel waits for."
        counted = scene.facts.measured.get(activity.position)
        text = (
            f"{_of_size(gemm, work)} ({type_name(kind)}) {_runs(work)} on {activity.label} in {duration(total(work))}"
            f"{_rate(gemm)}: {cause}.{f' {counted.sentence}' if counted and counted.sentence else ''}"
        )
        yield from slow_finding(scene, work, _above_roof(gemm, work), text, remedy)


def _alike(scene: Scene) -> Iterator[tuple[tuple[GemmCost, Activity, str], list[Activity]]]:
    """The products of each size, type and kernel: the first of them, and the activities of all."""
    groups: dict[tuple[object, ...], list[tuple[GemmCost, Activity, str]]] = {}
    for gemm, activity, kind in _products(scene):
        groups.setdefault((gemm.batch, gemm.m, gemm.n, gemm.k, kind, gemm.kernel), []).append((gemm, activity, kind))
    for group in groups.values():
        yield group[0], [activity for _, activity, _ in group]


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


def _above_roof(gemm: GemmCost, work: Sequence[Activity]) -> float | None:
    """Time (µs) that these products would save at their roof; None if the share of it is unknown."""
    return total(work) * (1 - gemm.share_of_roof) if gemm.share_of_roof else None


def _of_size(gemm: GemmCost, work: Sequence[Activity]) -> str:
    """``A product of 4096 × 4096 × 4095``, ``12 products of ...``"""
    return f"{'A product' if len(work) == 1 else f'{len(work)} products'} of {gemm.m} × {gemm.n} × {gemm.k}"


def _runs(work: Sequence[Activity]) -> str:
    return "runs" if len(work) == 1 else "run"


def _listed(shapes: Iterable[str]) -> str:
    first, *others = shapes
    return f"{first} and {plural(len(others), 'other size')}" if others else first


def _device(scene: Scene) -> str | None:
    capability = scene.facts.capability
    return f"sm{capability.replace('.', '')}" if capability else None


# --- several products, and products that nothing uses ----------------------------------------------------------------


#: Most products in a row that a layer makes of one input (q, k and v; gate and up). Longer rows count as a chain.
MOST_APART = 4
#: Least share of the forward that one product instead of several would save.
LEAST_SAVED = 0.05
#: Ops that give the same elements another shape, which does not count as using them.
RESHAPING = {"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::t", "aten::transpose", "aten::permute",
             "aten::unsqueeze", "aten::squeeze", "aten::flatten", "aten::unflatten"}  # fmt: skip


# --- products that could be one --------------------------------------------------------------------------------------


@rule("products-apart", "two to four products of one input size in a row, which one product would do in less time")
def products_apart(scene: Scene) -> Iterator[Finding]:
    """The time is that of the saved launches, if the device waits for them, and of waves that are not full.

    A trace does not record which tensor an op reads. If the weight has as many columns as rows, the products may also
    be a chain, each reading the result of the one before.
    """
    if scene.split is None:
        return
    for row in _rows(scene):
        work = [scene.activities[gemm.position] for gemm in row]
        unfilled, source = _unfilled(scene, row)
        saved = idle_of_launches(scene, len(row) - 1) + total(work) * unfilled
        if saved < LEAST_SAVED * scene.split.time_us:
            continue
        first, columns = row[0], " + ".join(str(gemm.n) for gemm in row)
        weights = "their weights side by side"
        text = (
            f"{plural(len(row), 'product')} of an input of {first.m} × {first.k} in a row, with {columns} columns, "
            f"{duration(total(work))} of device time: one product with {weights} has one launch"
            f"{f', and fuller waves{source}' if unfilled else ''}."
        )
        if all(gemm.n == gemm.k for gemm in row[:-1]):
            text += " This holds if they read the same tensor (q, k and v; gate and up), which a trace does not record."
        remedy = f"Keep {weights} in one matrix (one nn.Linear for q, k and v), and split the result into views."
        evidence = "; ".join(f"{gemm.label} {gemm.m} × {gemm.n} × {gemm.k} {duration(gemm.time_us)}" for gemm in row)
        yield timed(scene, FORWARD, saved, text, remedy, evidence, RECOVERABLE, positions(work))


def _rows(scene: Scene) -> Iterator[list[GemmCost]]:
    """Products with the same input size, with no other kernel launched between them."""
    order = {pair.activity.position: place for place, pair in enumerate(launched(scene.facts))}
    gemms = sorted(gemm_costs(scene.facts, scene.ceilings), key=lambda gemm: order[gemm.position])
    for _, same in groupby(gemms, key=lambda gemm: (gemm.batch, gemm.m, gemm.k, gemm.compute_type)):
        row: list[GemmCost] = []
        for gemm in same:
            if row and order[gemm.position] != order[row[-1].position] + 1:
                yield from _apart(row)
                row = []
            row.append(gemm)
        yield from _apart(row)


def _apart(row: list[GemmCost]) -> Iterator[list[GemmCost]]:
    if 2 <= len(row) <= MOST_APART and row[0].batch == 1:
        yield row


def _unfilled(scene: Scene, row: Sequence[GemmCost]) -> tuple[float, str]:
    """Share of the waves of these products that one product of the same tiles would save, and the source of the waves.

    The share is 0 if the waves of a product are unknown.
    """
    counted = [waves_of(scene, gemm) for gemm in row]
    blocks = [max(gemm.tiles_per_block or 1.0, 1.0) for gemm in row]
    waves = [(each or 0.0) * tiles for (each, _), tiles in zip(counted, blocks, strict=True)]
    apart = sum(math.ceil(each - 1e-6) for each in waves)
    sources = {source for _, source in counted}
    source = sources.pop() if len(sources) == 1 else " (in part measured by Nsight Compute)"
    return (1 - math.ceil(sum(waves) - 1e-6) / apart if all(waves) else 0.0), source


# --- products that nothing uses --------------------------------------------------------------------------------------


@rule("unused-result", "no later op takes a tensor of a product's size, and the forward returns less than that")
def unused_result(scene: Scene) -> Iterator[Finding]:
    """Needs the shapes of all later ops and the measured size of the results.

    A result is not reported if a later op takes a tensor of its size: a trace does not record which tensor is read.
    """
    facts = scene.facts
    if facts.output_bytes is None:
        return
    calls = [call for call in shaped_calls(facts) if call.category == "op" and call.name not in RESHAPING]
    gemms = {gemm.position: gemm for gemm in gemm_costs(facts, scene.ceilings)}
    for pair in launched(facts):
        gemm = gemms.get(pair.activity.position)
        if gemm is None:
            continue
        kinds = [each.kind for each in operands(pair.op) or () if each is not None and each.shape]
        elements = gemm.batch * gemm.m * gemm.n
        size = elements * ELEMENT_BYTES[kinds[-1]]
        later = [call for call in calls if call.start_us >= pair.op.start_us + pair.op.duration_us]
        if facts.output_bytes < size and not any(_may_take(call, elements) for call in later):
            text = (
                f"The product of {gemm.m} × {gemm.n} × {gemm.k} takes {duration(gemm.time_us)}, and nothing uses its "
                f"result: no later op takes {significant(size / 2**20)} MiB, and the forward returns "
                f"{significant(facts.output_bytes / 2**20)} MiB."
            )
            remedy = "Drop the product, or return its result if it is meant to be one."
            yield from slow_finding(scene, [pair.activity], gemm.time_us, text, remedy)


def _may_take(call: Call, elements: int) -> bool:
    """Whether an op takes a tensor of so many elements, or tensors of unknown sizes."""
    if not call.inputs:
        return bool(call.kernels)
    tensors = operands(call)
    return tensors is None or any(each is not None and each.elements == elements for each in tensors)
