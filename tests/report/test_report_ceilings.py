"""The line under a cost table that says what its shares are of."""

from __future__ import annotations

from kernelbook.report.ceilings import Ceiling, lines
from kernelbook.trust import Trust

COMPUTE = Ceiling("h200", "compute", 813.8e12, "matmul-add", "nvjet", "bfloat16", 989e12, 0.8229, "a data sheet")
MEMORY = Ceiling("h200", "memory", 4256.6e9, "ceiling-copy")


def trusted(case: str, sm_after_mhz: float | None) -> Trust:
    known = {"run": "h200", "case": case, "sm_after_mhz": sm_after_mhz, "max_sm_mhz": 1980.0}
    return Trust(**{**dict.fromkeys(Trust.__dataclass_fields__), **known})


def test_a_ceiling_is_told_with_source_clock_and_share_of_the_data_sheet() -> None:
    (line,) = lines([COMPUTE, MEMORY], [trusted("matmul-add", 1755.0), trusted("ceiling-copy", None)], ["h200", "h200"])
    assert line == (
        "Ceilings measured on h200: 813.8 TFLOP/s in bfloat16 (a product of matmul-add, SM clock after it 1,755 of "
        "1,980 MHz, 82 % of the data sheet’s 989 TFLOP/s); 4,257 GB/s (ceiling-copy)."
    )


def test_runs_without_ceilings_are_left_out() -> None:
    assert lines([COMPUTE], [], ["cpu"]) == ()
    assert lines([], [], ["h200"]) == ()
