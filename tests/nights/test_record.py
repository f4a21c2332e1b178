"""From an edition to the rows of a night: counts checked against what the recorded H200 traces are known to hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases.process import Clocks, GpuReading
from kernelbook.counters import KernelCounters
from kernelbook.edition.paths import SCHEMA, EditionFiles
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.history.record import RecordError, night_tables, read_kept_edition, sm_clock

KERNELS = {"mlp-eager": 5, "mlp-compile": 4, "linear-eager": 1, "sdpa-math-eager": 20}
"""Kernels of one forward, as published with the recorded run (README of the recorded run and torch's own tables)."""


def edition_of(
    tables: dict[str, list[pa.Table]], runs: list[dict[str, Any]], name: str, left_out: list | None = None
) -> EditionFiles:
    joined = {
        ("cases" if key == "case" else key): pa.concat_tables(parts, promote_options="default")
        for key, parts in tables.items()
    }
    return EditionFiles(
        {"schema": SCHEMA, "created_utc": f"{name}T03:00:00Z", "edition": name, "runs": runs}
        | {"left_out": left_out or []},
        joined,
    )


@pytest.fixture(scope="module")
def recorded(recorded_h200: Path) -> dict[str, list[pa.Table]]:
    """Four recorded cases as if they had been measured on the host, and one whose run was lost."""
    tables: dict[str, list[pa.Table]] = {}
    for case in KERNELS:
        file = recorded_h200 / case / "1" / "measurement.json"
        if not file.is_file():
            pytest.skip("the recorded run is not there")
        made = tables_of(Origin("host", case, 1, {"kind": "host"}), {"case": case}, file)
        for name, table in made.items():
            tables.setdefault(name, []).append(table)
    lost = Origin("broken", "mlp-eager", 1, {"kind": "container", "reason": "the image will not start"})
    tables["case"].append(tables_of(lost, {"case": "mlp-eager", "workload": "mlp"}, None)["case"])
    return tables


RUNS = [{"run": "host", "kind": "host"}, {"run": "broken", "kind": "container"}, {"run": "h200", "kind": "recorded"}]


@pytest.fixture(scope="module")
def night(recorded: dict[str, list[pa.Table]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    folder = tmp_path_factory.mktemp("edition")
    left_out = [{"run": "ngc", "reason": "needs its container: add --use-singularity"}]
    edition_of(recorded, RUNS, "2026-11-29", left_out).write(folder)
    made = night_tables(read_kept_edition(folder), {"host": "main"})
    return {run: table.to_pylist() for run, table in made.items()}


def test_one_row_a_case_and_process_of_measured_runs_only(night: dict[str, list[dict]]) -> None:
    assert sorted(night) == ["broken", "host", "ngc"]
    assert {row["case"]: row["status"] for row in night["host"]} == dict.fromkeys(KERNELS, "ok")
    assert {row["line"] for row in night["host"]} == {"main"}
    assert {row["night"] for row in night["host"]} == {"2026-11-29"}


def test_kernels_of_one_forward_in_order(night: dict[str, list[dict]]) -> None:
    rows = {row["case"]: row for row in night["host"]}
    assert {case: len(row["kernels"]) for case, row in rows.items()} == KERNELS
    assert {case: row["kernel_count"] for case, row in rows.items()} == KERNELS
    assert rows["linear-eager"]["kernels"][0].startswith("nvjet_")  # cuBLAS on Hopper
    assert rows["mlp-eager"]["memsets"] == 2
    ops = rows["linear-eager"]["ops"]
    assert ops.index("aten::linear") < ops.index("aten::addmm")
    assert "aten::add" not in ops


def test_raw_samples_are_kept(night: dict[str, list[dict]], recorded_h200: Path) -> None:
    for row in night["host"]:
        measured = json.loads((recorded_h200 / row["case"] / "1" / "measurement.json").read_text())
        assert row["forward_times_us"] == measured["forward_times_us"]


def test_a_lost_run_and_one_left_out_are_rows_with_reasons(night: dict[str, list[dict]]) -> None:
    (lost,) = night["broken"]
    assert (lost["status"], lost["series"]) == ("failed", None)
    assert "the image will not start" in lost["reason"]
    (left,) = night["ngc"]
    assert (left["status"], left["case"]) == ("left out", None)


def test_different_params_are_different_series(night: dict[str, list[dict]]) -> None:
    assert len({row["series"] for row in night["host"]}) == len(KERNELS)


def test_what_cannot_be_recorded_says_why(recorded: dict[str, list[pa.Table]], tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="make its report first"):
        read_kept_edition(tmp_path)
    edition_of(recorded, RUNS, "latest").write(tmp_path / "a")
    with pytest.raises(RecordError, match="'latest' is not a night"):
        night_tables(read_kept_edition(tmp_path / "a"))
    edition_of(recorded, RUNS[2:], "2026-11-29").write(tmp_path / "b")
    with pytest.raises(RecordError, match="nothing to record"):
        night_tables(read_kept_edition(tmp_path / "b"))


def test_an_edition_without_a_single_trace(tmp_path: Path) -> None:
    lost = tables_of(Origin("host", "mlp-eager", 1, {"reason": "no torch"}), {"case": "mlp-eager"}, None)
    edition_of({name: [table] for name, table in lost.items()}, RUNS[:1], "2026-11-29").write(tmp_path)
    (row,) = night_tables(read_kept_edition(tmp_path))["host"].to_pylist()
    assert row["status"] == "failed"
    assert row["kernels"] is None
    assert pq.read_table(tmp_path / "cases.parquet").num_rows == 1


def test_the_clock_is_the_higher_of_before_and_after() -> None:
    assert sm_clock(Clocks(GpuReading(sm_mhz=345.0, max_sm_mhz=1980.0), GpuReading(sm_mhz=1905.0))) == 1905.0
    assert sm_clock(Clocks(after=GpuReading(memory_mhz=2619.0))) is None
    assert sm_clock(None) is None


def test_occupancy_is_that_of_the_counters_by_duration(recorded: dict[str, list[pa.Table]], tmp_path: Path) -> None:
    def counted(run: str, case: str, percent: float | None, duration_us: float) -> dict[str, Any]:
        row = KernelCounters(run=run, case=case, status="joined", occupancy_percent=percent, duration_us=duration_us)
        return asdict(row) | {"occupancy_limits": [], "stalls": []}

    counters = [
        counted("host", "mlp-eager", 50.0, 3.0),
        counted("host", "mlp-eager", 90.0, 1.0),
        counted("host", "mlp-eager", None, 5.0),
        counted("host", "linear-eager", None, 1.0),
    ]
    edition_of(recorded | {"counters": [pa.Table.from_pylist(counters)]}, RUNS, "2026-11-29").write(tmp_path)
    rows = night_tables(read_kept_edition(tmp_path))["host"].to_pylist()
    occupancy = {row["case"]: row["occupancy_percent"] for row in rows}
    assert occupancy == dict.fromkeys(KERNELS) | {"mlp-eager": 60.0}  # (50 * 3 + 90 * 1) / 4
