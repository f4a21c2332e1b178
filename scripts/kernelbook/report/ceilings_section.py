"""The ceilings that the shares of a cost table are of, in a line that names their source."""

from __future__ import annotations

from collections.abc import Iterable

from kernelbook.judge.cost_model import Ceiling
from kernelbook.judge.trust import Trust
from kernelbook.text.units import significant

UNITS = {"compute": (1e12, "TFLOP/s"), "memory": (1e9, "GB/s")}


def lines(ceilings: Iterable[Ceiling], trust: Iterable[Trust], runs: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each of these runs that measured a ceiling."""
    clocks = {(row.run, row.case): row for row in trust}
    told: dict[str, list[str]] = {}
    for ceiling in ceilings:
        told.setdefault(ceiling.run, []).append(_told(ceiling, clocks.get((ceiling.run, ceiling.case))))
    return tuple(f"Ceilings measured on {run}: {'; '.join(told[run])}." for run in dict.fromkeys(runs) if run in told)


def _told(ceiling: Ceiling, clock: Trust | None) -> str:
    """`813.8 TFLOP/s in bfloat16 (a product of matmul-add, SM clock after it 1,755 of 1,980 MHz, 82 % of ...)`."""
    size, unit = UNITS[ceiling.quantity]
    rate = f"{significant(ceiling.per_s / size, 4)} {unit}" + (f" in {ceiling.dtype}" if ceiling.dtype else "")
    details = [f"a product of {ceiling.case}" if ceiling.kernel else ceiling.case]
    if clock and clock.sm_after_mhz and ceiling.quantity == "compute":
        of = f" of {clock.max_sm_mhz:,.0f}" if clock.max_sm_mhz else ""
        details.append(f"SM clock after it {clock.sm_after_mhz:,.0f}{of} MHz")
    if ceiling.data_sheet_per_s and ceiling.share_of_data_sheet:
        stated = f"{significant(ceiling.data_sheet_per_s / size)} {unit}"
        details.append(f"{ceiling.share_of_data_sheet:.0%} of the data sheet\u2019s {stated}".replace("%", " %", 1))
    return f"{rate} ({', '.join(details)})"
