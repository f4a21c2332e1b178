"""The line under a cost table that says which ceilings its shares refer to."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.judge.cost_model import Ceiling
from kernelbook.judge.insight_tables import CEILINGS, COSTS
from kernelbook.judge.trust import Trust
from kernelbook.report.rendering import render_report
from kernelbook.report.trust_section import ceiling_lines as lines
from tests.report import made_edition

COMPUTE = Ceiling("h200", "compute", 813.8e12, "matmul-add", "nvjet", "bfloat16", 989e12, 0.8229, "a data sheet")
MEMORY = Ceiling("h200", "memory", 4256.6e9, "ceiling-copy")


def trusted(case: str, sm_after_mhz: float | None) -> Trust:
    known = {"run": "h200", "case": case, "sm_after_mhz": sm_after_mhz, "max_sm_mhz": 1980.0}
    return Trust(**{**dict.fromkeys(Trust.__dataclass_fields__), **known})


def test_a_ceiling_is_told_with_source_clock_and_share_of_the_data_sheet() -> None:
    (line,) = lines(
        [COMPUTE, MEMORY], [trusted("matmul-add", 1755.0), trusted("ceiling-copy", 1980.0)], ["h200", "h200"]
    )
    assert line == (
        "Ceilings of h200: 813.8 TFLOP/s in bfloat16 (a product of matmul-add, SM clock after it 1,755 of "
        "1,980 MHz, 82 % of the data sheet’s 989 TFLOP/s); 4,257 GB/s (ceiling-copy)."
    )


def test_runs_with_the_same_ceilings_share_a_sentence() -> None:
    ceilings = [MEMORY, replace(MEMORY, run="b200", per_s=7e12), replace(MEMORY, run="h200-too")]
    assert lines(ceilings, [], ["h200", "b200", "h200-too"]) == (
        "Ceilings of h200 and h200-too: 4,257 GB/s (ceiling-copy).",
        "Ceilings of b200: 7,000 GB/s (ceiling-copy).",
    )


def test_runs_without_ceilings_are_left_out() -> None:
    assert lines([COMPUTE], [], ["cpu"]) == ()
    assert lines([], [], ["h200"]) == ()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("costs")
    edition = made_edition.build(folder / "edition")
    forward = {"run": "h200", "case": "sdpa-math-eager", "scope": "forward", "limiter": "excess traffic or work"}
    forward |= {"limiter_processes": 2, "processes": 3}
    forward |= {"tflops": 6.53, "share_of_compute": 0.00803, "compulsory_gb_per_s": 25.5, "times_compulsory": 95.2}
    pq.write_table(pa.Table.from_pylist([forward], schema=COSTS), edition / "costs.parquet")
    cases = pq.read_table(edition / "cases.parquet").to_pylist()
    cases = [row | {"useful_flops": (row["flops"] or 0) // 2} for row in cases]  # as of causal attention
    pq.write_table(pa.Table.from_pylist(cases, schema=CASE_COLUMNS), edition / "cases.parquet")
    rows = [asdict(ceiling) for ceiling in (COMPUTE, MEMORY)]
    pq.write_table(pa.Table.from_pylist(rows, schema=CEILINGS), edition / "ceilings.parquet")
    render_report(edition, folder / "report", "2026-11-29T15:00:00Z")
    return folder / "report"


def test_a_cost_table_names_what_it_counts_and_its_ceilings(report: Path) -> None:
    text = (report / "details.md").read_text()
    counted = "TFLOP/s, masked half left out | of ceiling | compulsory GB/s | of ceiling | traffic / compulsory"
    assert f"| run | limited by | {counted} | least time | times the least | against its fastest peer |" in text
    assert (
        "| h200 | excess traffic or work (in 2 of 3 processes) | 6.53 | 0.8 % | 25.5 | n/a | 95.2× | n/a | n/a |  |"
        in text
    )
    told = "Ceilings of h200: 813.8 TFLOP/s in bfloat16 (a product of matmul-add, 82 % of the data"
    assert (report / "report.md").read_text().count(told) == 1  # with the runs, not beside each case
    page = (report / "index.html").read_text()
    assert '<p class="note">Ceilings of h200: 813.8 TFLOP/s in bfloat16' in page
    assert '<th class="r" data-unit="">TFLOP/s, masked half left out</th>' in page


def test_ceilings_are_in_the_summary_and_the_tables(report: Path) -> None:
    summary = json.loads((report / "summary.json").read_text())
    assert [Ceiling(**row) for row in summary["ceilings"]] == [COMPUTE, MEMORY]
    assert (report / "tables" / "ceilings.csv").read_text().startswith("run,quantity,per_s,case,")
