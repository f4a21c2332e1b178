"""Products that could be one, and products that nothing uses, as far as shapes show it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from kernelbook.cases import Call
from kernelbook.judge.cost_model import GemmCost, gemm_costs, launched, shaped_calls
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, operands
from kernelbook.judge.findings.costs import idle_of_launches, part, positions, severity, slow_finding, total
from kernelbook.judge.findings.device_fit import waves_of
from kernelbook.judge.findings.rules import FORWARD, RECOVERABLE, Finding, Scene, rule
from kernelbook.text.units import duration, plural, significant

#: Products in a row that a layer makes of one input: q, k and v; gate and up. Longer rows are taken for a chain.
MOST_APART = 4
#: Least share of the forward that one product instead of several would save.
LEAST_SAVED = 0.05
#: Ops that give the same elements another shape. They alone are no use of a result.
RESHAPING = {"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::t", "aten::transpose", "aten::permute",
             "aten::unsqueeze", "aten::squeeze", "aten::flatten", "aten::unflatten"}  # fmt: skip


# --- products that could be one --------------------------------------------------------------------------------------


@rule("products-apart", "two to four products of one input size in a row, which one product would do in less time")
def products_apart(scene: Scene) -> Iterator[Finding]:
    """The time is that of the launches spared, if the device waits for them, and of waves that are not full.

    A trace does not record which tensor an op reads. With as many columns as rows of the weight, the products may also
    be a chain, each reading the result of the one before.
    """
    if scene.split is None:
        return
    for row in _rows(scene):
        work = [scene.activities[gemm.position] for gemm in row]
        saved = idle_of_launches(scene, len(row) - 1) + total(work) * _unfilled(scene, row)
        share = part(saved, scene.split.time_us)
        if (share or 0.0) < LEAST_SAVED:
            continue
        first, columns = row[0], " + ".join(str(gemm.n) for gemm in row)
        weights = "their weights side by side"
        text = (
            f"{plural(len(row), 'product')} of an input of {first.m} × {first.k} in a row, with {columns} columns, "
            f"{duration(total(work))} of device time: one product with {weights} has one launch"
            f"{', and fuller waves' if _unfilled(scene, row) else ''}."
        )
        if all(gemm.n == gemm.k for gemm in row[:-1]):
            text += " This holds if they read the same tensor (q, k and v; gate and up), which a trace does not record."
        remedy = f"Keep {weights} in one matrix (one nn.Linear for q, k and v), and split the result into views."
        evidence = "; ".join(f"{gemm.label} {gemm.m} × {gemm.n} × {gemm.k} {duration(gemm.time_us)}" for gemm in row)
        yield Finding(
            "products-apart", severity(share), saved, share, evidence, remedy, text, positions(work), FORWARD,
            RECOVERABLE,
        )  # fmt: skip


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


def _unfilled(scene: Scene, row: Sequence[GemmCost]) -> float:
    """Share of the waves of these products that one product of the same tiles would spare; 0 if it is not known."""
    waves = [(waves_of(scene, gemm)[0] or 0.0) * max(gemm.tiles_per_block or 1.0, 1.0) for gemm in row]
    apart = sum(math.ceil(each - 1e-6) for each in waves)
    return 1 - math.ceil(sum(waves) - 1e-6) / apart if all(waves) else 0.0


# --- products that nothing uses --------------------------------------------------------------------------------------


@rule("unused-result", "no later op takes a tensor of a product's size, and the forward returns less than that")
def unused_result(scene: Scene) -> Iterator[Finding]:
    """Needs the shapes of all later ops and the measured size of the results.

    A result that another op of equal size might have taken is not found: a trace does not record which tensor is read.
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
            yield from slow_finding(scene, "unused-result", [pair.activity], gemm.time_us, text, remedy)


def _may_take(call: Call, elements: int) -> bool:
    """Whether an op takes a tensor of so many elements, or tensors of unknown sizes."""
    if not call.inputs:
        return bool(call.kernels)
    tensors = operands(call)
    return tensors is None or any(each is not None and each.elements == elements for each in tensors)
