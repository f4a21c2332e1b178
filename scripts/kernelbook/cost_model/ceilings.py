"""What the device of a run can do at most, measured in that run and never taken from a data sheet."""

from __future__ import annotations

from collections.abc import Mapping

from kernelbook.case_facts import YARDSTICK, CaseFacts
from kernelbook.cost_model.gemm import gemm_costs
from kernelbook.cost_model.needs import compulsory_bytes, dense_flops
from kernelbook.cost_model.roof import Ceilings, per_second


def ceilings_of(cases: Mapping[str, CaseFacts]) -> Ceilings:
    """The ceilings that one run measured, None without its ceiling case.

    Compute: the best rate of the ceiling case and of every product, alone or as its whole forward, that the run
    computed in the same element type; one large product that the device throttles is not its best. Memory: that of the
    ceiling's copy, of whose size no L2 cache holds much.
    """
    good = [facts for facts in cases.values() if facts.status == "ok"]
    matmul = next((f for f in good if f.workload == YARDSTICK and f.variant == "matmul"), None)
    copy = next((f for f in good if f.workload == YARDSTICK and f.variant != "matmul"), None)
    own = per_second(dense_flops(matmul), matmul.device_time_us) if matmul else None
    of_copy = per_second(compulsory_bytes(copy), copy.device_time_us) if copy else None
    if matmul is None or own is None:
        return Ceilings(None, of_copy)
    others = (rate for facts in good if facts.dtype == matmul.dtype for rate in _product_rates(facts))
    return Ceilings(max(own, *others), of_copy, matmul.dtype)


def _product_rates(facts: CaseFacts) -> list[float]:
    """FLOP/s of each product of a forward and of the whole; none where there is no product."""
    gemms = gemm_costs(facts)
    whole = per_second(dense_flops(facts), facts.device_time_us) if gemms else None
    return [gemm.tflops * 1e12 for gemm in gemms if gemm.tflops] + ([whole] if whole else [])
