"""What the device of a run can do at most, measured in that run and never taken from a data sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelbook.cases import YARDSTICK, CaseFacts
from kernelbook.judge.cost_model.data_sheets import DATA_SHEETS
from kernelbook.judge.cost_model.gemm import compulsory_bytes, dense_flops, gemm_costs
from kernelbook.judge.cost_model.roof import Ceilings, per_second

COMPUTE, MEMORY = "compute", "memory"


@dataclass(frozen=True)
class Ceiling:
    """One ceiling of a run and where it comes from.

    ``quantity``: compute, in FLOP/s of products in ``dtype``, or memory, in bytes/s. ``case``: whose rate it is;
    ``kernel``: that of its product, None where it is that of the whole forward. ``data_sheet_per_s`` and ``source``:
    what the maker states of the device, None where no sheet of it is known here.
    """

    run: str
    quantity: str
    per_s: float
    case: str
    kernel: str | None = None
    dtype: str | None = None
    data_sheet_per_s: float | None = None
    share_of_data_sheet: float | None = None
    source: str | None = None


def ceilings_of(cases: Mapping[str, CaseFacts]) -> Ceilings:
    """The ceilings that one run measured, None without its ceiling case: see `measured_ceilings`."""
    by_quantity = {ceiling.quantity: ceiling for ceiling in measured_ceilings(cases)}
    compute, memory = by_quantity.get(COMPUTE), by_quantity.get(MEMORY)
    return Ceilings(
        compute.per_s if compute else None, memory.per_s if memory else None, compute.dtype if compute else None
    )


def measured_ceilings(cases: Mapping[str, CaseFacts]) -> list[Ceiling]:
    """The ceilings that one run measured, each with its source; none without its ceiling case.

    Compute: the best rate of the ceiling case and of every product, alone or as its whole forward, that the run
    computed in the same element type; one large product that the device throttles is not its best. Memory: that of the
    ceiling's copy, of whose size no L2 cache holds much.
    """
    good = [facts for facts in cases.values() if facts.status == "ok"]
    matmul = next((f for f in good if f.workload == YARDSTICK and f.variant == "matmul"), None)
    copy = next((f for f in good if f.workload == YARDSTICK and f.variant != "matmul"), None)
    ceilings = []
    own = per_second(dense_flops(matmul), matmul.device_time_us) if matmul else None
    if matmul and own:
        rates: list[tuple[float, CaseFacts, str | None]] = [(own, matmul, None)]
        rates += [rate for facts in good if facts.dtype == matmul.dtype for rate in _product_rates(facts)]
        best, of, kernel = max(rates, key=lambda rate: rate[0])
        ceilings.append(_ceiling(COMPUTE, best, of, kernel))
    of_copy = per_second(compulsory_bytes(copy), copy.device_time_us) if copy else None
    if copy and of_copy:
        ceilings.append(_ceiling(MEMORY, of_copy, copy))
    return ceilings


def _product_rates(facts: CaseFacts) -> Iterator[tuple[float, CaseFacts, str | None]]:
    """(FLOP/s, case, kernel) of each product of a forward and of the whole forward; empty without products."""
    gemms = gemm_costs(facts)
    yield from ((gemm.tflops * 1e12, facts, gemm.label) for gemm in gemms if gemm.tflops)
    whole = per_second(dense_flops(facts), facts.device_time_us)
    if gemms and whole:
        yield whole, facts, None


def _ceiling(quantity: str, per_s: float, facts: CaseFacts, kernel: str | None = None) -> Ceiling:
    sheet = DATA_SHEETS.get(facts.device or "")
    stated = None
    if sheet and quantity == MEMORY:
        stated = sheet.bytes_per_s
    elif sheet and facts.dtype in ("bfloat16", "float16"):
        stated = sheet.flops_per_s
    return Ceiling(
        run=facts.run,
        quantity=quantity,
        per_s=per_s,
        case=facts.case,
        kernel=kernel,
        dtype=facts.dtype if quantity == COMPUTE else None,
        data_sheet_per_s=stated,
        share_of_data_sheet=per_s / stated if stated else None,
        source=sheet.source if sheet and stated else None,
    )
