"""Ceilings of a run: best rates of its device, measured if possible, otherwise from elsewhere, with their origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from kernelbook.cases import CaseFacts
from kernelbook.devices import DATA_SHEETS, RECORDED
from kernelbook.judge.cost_model.gemm import compulsory_bytes, dense_flops, forward_type, gemm_costs, product_types
from kernelbook.judge.cost_model.kernel_costs import kernel_costs
from kernelbook.judge.cost_model.roof import COMPUTE, COMPUTE_TYPES, L2, MEMORY, Ceilings, per_second
from kernelbook.text.meaning import doc

#: Origins of a ceiling, best first.
MEASURED, OTHER_RUN, RECORDED_RUN, DATA_SHEET = ("measured", "other run", "recorded run", "data sheet")


@dataclass(frozen=True)
class Ceiling:
    """One ceiling of a run and its origin. ``case``: the one that measured it, None if none did."""

    run: str
    quantity: Annotated[str, doc("", "compute", "memory", "L2 cache")]
    per_s: Annotated[float, doc("Operations or bytes per second.")]
    case: str | None
    kernel: Annotated[
        str | None, doc("The product of the case with this rate; empty if it is the rate of the whole forward.")
    ] = None
    dtype: Annotated[str | None, doc("Element type of the inputs of the case.")] = None
    data_sheet_per_s: Annotated[
        float | None, doc("Rate in the data sheet, without sparsity; empty for an unknown device or type.")
    ] = None
    share_of_data_sheet: Annotated[float | None, doc("The rate over that of the data sheet.")] = None
    source: Annotated[str | None, doc("The data sheet, or the run that measured the rate.")] = None
    compute_type: Annotated[
        str | None,
        doc("Type of the products, fp64, fp32 (CUDA cores), tf32, 16-bit or fp8; empty for memory and L2 cache."),
    ] = None
    origin: Annotated[
        str,
        doc(
            "measured in this run, other run (of this edition, on a GPU of the same name), recorded run (that "
            "ships with the project) or data sheet.",
            *("measured", "other run", "recorded run", "data sheet"),
        ),
    ] = MEASURED
    largest_bytes: Annotated[
        int | None, doc("For the L2 cache, the largest working set to which the rate applies; else empty.")
    ] = None

    @property
    def key(self) -> tuple[str, str | None]:
        """Quantity and compute type: a run has one ceiling of each."""
        return self.quantity, self.compute_type


def ceilings_of(cases: Mapping[str, CaseFacts], elsewhere: Iterable[Ceiling] = ()) -> Ceilings:
    return rates_of(run_ceilings(cases, elsewhere))


def rates_of(ceilings: Sequence[Ceiling]) -> Ceilings:
    compute = {each.compute_type: each.per_s for each in ceilings if each.compute_type}
    memory = next((each.per_s for each in ceilings if each.quantity == MEMORY), None)
    cache = next((each for each in ceilings if each.quantity == L2), None)
    return Ceilings(compute, memory, cache.per_s if cache else None, cache.largest_bytes if cache else None)


def run_ceilings(cases: Mapping[str, CaseFacts], elsewhere: Iterable[Ceiling] = ()) -> list[Ceiling]:
    """The ceilings of one run, one of each quantity and compute type, each from the best origin that has it.

    elsewhere: ceilings that other runs measured on a device of the same name. Without a measurement the rates are those
    that the project measured on that device (`RECORDED`), otherwise those of its data sheet. Empty for an unknown
    device.
    """
    facts = next((facts for facts in cases.values() if facts.status == "ok" and facts.on_device and facts.device), None)
    if facts is None:
        return []
    candidates = [*measured_ceilings(cases), *_borrowed(facts, elsewhere)]
    by_key = {ceiling.key: ceiling for ceiling in reversed(candidates)}
    order = [(COMPUTE, kind) for kind in reversed(COMPUTE_TYPES)] + [(MEMORY, None), (L2, None)]
    return [by_key[key] for key in order if key in by_key]


def used_ceilings(cases: Mapping[str, CaseFacts], ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """The ceilings that were measured in the run, or against which one of its cases is judged."""
    rates = rates_of(ceilings)
    good = [facts for facts in cases.values() if facts.status == "ok" and facts.on_device]
    kinds = {kind for facts in good for kind in (forward_type(facts), *product_types(facts)) if kind}
    quantities = {MEMORY, *(cost.roof for facts in good for cost in kernel_costs(facts, rates))} - {COMPUTE}
    return [c for c in ceilings if c.origin == MEASURED or c.quantity in quantities or c.compute_type in kinds]


def _borrowed(facts: CaseFacts, elsewhere: Iterable[Ceiling]) -> Iterator[Ceiling]:
    """Ceilings that the run did not measure itself, best origin first."""
    for ceiling in elsewhere:
        if ceiling.origin == MEASURED and ceiling.run != facts.run:
            yield replace(ceiling, run=facts.run, origin=OTHER_RUN, source=f"run {ceiling.run}")
    for sheets, origin in ((RECORDED, RECORDED_RUN), (DATA_SHEETS, DATA_SHEET)):
        sheet = sheets.get(facts.device or "")
        if sheet:
            rates = [(COMPUTE, kind, rate) for kind, rate in sheet.flops_per_s.items()]
            for quantity, kind, rate in [*rates, (MEMORY, None, sheet.bytes_per_s), (L2, None, sheet.l2_bytes_per_s)]:
                if rate:
                    ceiling = _ceiling(quantity, rate, facts, kind, case=None, source=sheet.source, origin=origin)
                    yield replace(ceiling, largest_bytes=sheet.l2_bytes if quantity == L2 else None)


def measured_ceilings(cases: Mapping[str, CaseFacts]) -> list[Ceiling]:
    """The ceilings that one run measured; empty without ceiling cases.

    Compute, for each type with a ceiling case: the best rate of that case and of every product of the type, alone or as
    its whole forward, because a single large product may be throttled. Memory: the rate of the ceiling's copy, which is
    much larger than any L2 cache. L2 cache: that of the copy that fits there, if it is above that of memory.
    """
    good = [facts for facts in cases.values() if facts.status == "ok"]
    matmuls = [facts for facts in good if facts.ceiling == COMPUTE]
    copy = next((facts for facts in good if facts.ceiling == MEMORY), None)
    candidates = [facts for facts in good if not facts.measures_fp8] if matmuls else []
    rates = [rate for facts in candidates for rate in _product_rates(facts)]
    ceilings = []
    rates += [Rate(_measured_type(f), per_second(dense_flops(f), f.device_time_us) or 0.0, f) for f in matmuls]
    for kind in dict.fromkeys(_measured_type(facts) for facts in matmuls):
        best = max((rate for rate in rates if rate.kind == kind), key=lambda rate: rate.per_s)
        if kind and best.per_s:
            ceilings.append(_ceiling(COMPUTE, best.per_s, best.facts, kind, case=best.facts.case, kernel=best.kernel))
    of_copy = per_second(compulsory_bytes(copy), copy.device_time_us) if copy else None
    if copy and of_copy:
        ceilings.append(_ceiling(MEMORY, of_copy, copy, None, case=copy.case))
    in_cache = next((facts for facts in good if facts.ceiling == L2), None)
    of_cache = _copied_per_s(in_cache) if in_cache else None
    if in_cache and of_cache and of_cache > (of_copy or 0.0):
        largest = in_cache.l2_bytes or compulsory_bytes(in_cache)
        ceilings.append(replace(_ceiling(L2, of_cache, in_cache, None, case=in_cache.case), largest_bytes=largest))
    return ceilings


def _measured_type(matmul: CaseFacts) -> str | None:
    """The compute type whose ceiling a product measures; the kernel's name need not state fp8."""
    return "fp8" if matmul.measures_fp8 else forward_type(matmul)


def _copied_per_s(facts: CaseFacts) -> float | None:
    """Bytes read and written a second by the copies of a forward, without the gaps between them."""
    costs = kernel_costs(facts)
    return per_second(sum(cost.bytes for cost in costs), sum(cost.time_us for cost in costs))


@dataclass(frozen=True)
class Rate:
    """FLOP/s of a compute type: of one product, or of a whole forward with ``kernel`` None."""

    kind: str | None
    per_s: float
    facts: CaseFacts
    kernel: str | None = None


def _product_rates(facts: CaseFacts) -> Iterator[Rate]:
    """The rate of each product of a forward, and of the whole forward if all its products have its type."""
    gemms = gemm_costs(facts)
    yield from (Rate(gemm.compute_type, gemm.tflops * 1e12, facts, gemm.label) for gemm in gemms if gemm.tflops)
    if gemms and {gemm.compute_type for gemm in gemms} == {forward_type(facts)}:
        yield Rate(forward_type(facts), per_second(dense_flops(facts), facts.device_time_us) or 0.0, facts)


def _ceiling(
    quantity: str, per_s: float, facts: CaseFacts, kind: str | None, case: str | None, kernel: str | None = None,
    source: str | None = None, origin: str = MEASURED,
) -> Ceiling:  # fmt: skip
    sheet = DATA_SHEETS.get(facts.device or "")
    stated = sheet.flops_per_s.get(kind) if sheet and kind else None
    if sheet and quantity == MEMORY:
        stated = sheet.bytes_per_s
    return Ceiling(
        run=facts.run,
        quantity=quantity,
        per_s=per_s,
        case=case,
        kernel=kernel,
        dtype=facts.dtype if quantity == COMPUTE and case else None,
        data_sheet_per_s=stated,
        share_of_data_sheet=per_s / stated if stated else None,
        source=source or (sheet.source if sheet and stated else None),
        compute_type=kind,
        origin=origin,
    )
