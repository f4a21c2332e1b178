"""Second measurements of suspects: read from their folders and added to the recorded night."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kernelbook.history.record import KeptEdition, confirmation_tables
from kernelbook.history.store import Store
from record_confirmation import measured_again
from tests.helpers.snakemake import WorkingFolder
from tests.nights.made_nights import editions, row, table_of

NIGHT = "2026-11-29"


@pytest.fixture
def results(tmp_path: Path, root: Path) -> Path:
    """Processes 4 and 5 of a recorded case as a night measures a suspect again; the second one failed."""
    run = tmp_path / "results" / "host"
    source = root / "resources/recorded/h200-torch2.11/linear-eager/1"
    for process in ("4", "5"):
        shutil.copytree(source, run / "linear-eager" / process)
        (run / "linear-eager" / process / "case.json").write_text(json.dumps({"case": "linear-eager"}))
    (run / "linear-eager" / "5" / "measurement.json").write_text("{")
    (run / "run.json").write_text(json.dumps({"run": "host", "kind": "host", "status": "ok"}))
    return tmp_path / "results"


def test_processes_that_measured_again_are_added_beside_the_first_ones(results: Path, tmp_path: Path) -> None:
    processes = list(measured_again(results, [{"run": "host", "case": "linear-eager"}], range(4, 6)))
    assert [process.status for process in processes] == ["ok", "failed"]
    edition = KeptEdition({"edition": "2026-01-01", "cases": []}, [], {}, {})
    tables = confirmation_tables(processes, edition, {"host": "line"})
    store = Store(tmp_path / "history")
    store.add_night("2026-01-01", {"host": table_of([row("2026-01-01", "host", "linear-eager", 1)])})
    store.add_confirmation("2026-01-01", tables)
    table = store.read().table
    (again,) = table.filter(pc.equal(table["confirmation"], True)).to_pylist()
    measured = json.loads((results / "host/linear-eager/4/measurement.json").read_text())
    middle = sorted(measured["forward_times_us"])
    assert middle[0] < again["forward_time_us"] < middle[-1]
    assert (again["run"], again["line"], again["case"], again["status"]) == ("host", "line", "linear-eager", "ok")


def test_a_suspect_with_ranks_is_its_slowest_rank_as_in_the_night(results: Path, root: Path) -> None:
    source = root / "resources/recorded/h200-x2-torch2.11/ddp-step/1"
    shutil.copytree(source, results / "host/ddp-step/4")
    (results / "host/ddp-step/4/case.json").write_text(json.dumps({"case": "ddp-step", "ranks": 2}))
    (again,) = measured_again(results, [{"run": "host", "case": "ddp-step"}], range(4, 5))
    files = [json.loads((source / f"rank-{rank}/measurement.json").read_text()) for rank in (0, 1)]
    medians = [statistics.median(file["forward_times_us"]) for file in files]
    assert (again.rank, again.forward_time_us) == (medians.index(max(medians)), pytest.approx(max(medians)))
    (results / "host/ddp-step/4/rank-1/measurement.json").write_text("{")
    (again,) = measured_again(results, [{"run": "host", "case": "ddp-step"}], range(4, 5))
    assert (again.rank, again.status) == (1, "failed")


def replaced(table: pa.Table, **columns: list[object]) -> pa.Table:
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
    return table


def slowest(process: Path) -> float:
    """The median forward time of the rank whose median is highest."""
    files = [json.loads((process / f"rank-{rank}/measurement.json").read_text()) for rank in (0, 1)]
    return max(statistics.median(file["forward_times_us"]) for file in files)


@pytest.mark.torch
@pytest.mark.slow
def test_a_suspect_with_ranks_is_measured_again_in_its_night_and_reported(tmp_path: Path, root: Path) -> None:
    """Both cases are measured once; in the twelve nights before, `pair` took a tenth of that, `linear` the same."""
    shutil.copy(root / "tests/measure/fixtures/rank_workloads.py", tmp_path)
    folder = WorkingFolder(tmp_path)
    folder.configure(
        {
            "device": "cpu",
            "threads": 1,
            "measure": {"samples": 5, "warmup": 1, "schedule": {"active": 2}, "retries": 0},
            "schedule": {"repeats": 1, "confirm": 2},
            "runs": {"host": {"host": True}},
            "cases": {
                "linear": {"workload": "linear", "variant": "plain"},
                "pair": {"workload": "rank_workloads.py:total", "ranks": 2},
            },
        }
    )
    folder.snakemake(f"results/{NIGHT}/night/recorded.json", "--config", f"edition={NIGHT}")
    store, cases = Store(tmp_path / "history"), ["linear", "pair"]
    tonight = pq.read_table(store.nights_folder / NIGHT / "host.parquet").sort_by("case")
    times = tonight["forward_time_us"].to_pylist()
    assert tonight["case"].to_pylist() == cases
    measured = tmp_path / f"results/{NIGHT}/host"
    assert times[1] == pytest.approx(slowest(measured / "pair/1"))
    for date in editions(12, "2026-11-17"):
        earlier = replaced(tonight, forward_time_us=[times[0], 0.1 * times[1]], edition=[date] * 2, night=[date] * 2)
        store.add_night(date, {"host": earlier})
    folder.snakemake("nightly", "--config", f"edition={NIGHT}", status=3)

    suspects = json.loads((tmp_path / f"results/{NIGHT}/night/suspects.json").read_text())
    assert suspects == [{"run": "host", "case": "pair"}]
    assert sorted(str(file.parent.relative_to(measured)) for file in measured.glob("*/*/measurement.json")) == [
        "linear/1", "pair/1", "pair/2", "pair/3",
    ]  # fmt: skip
    again = pq.read_table(store.nights_folder / NIGHT / "host+confirmation.parquet").to_pylist()
    again_times = [slowest(measured / f"pair/{process}") for process in (2, 3)]
    assert [(each["case"], each["process"], each["confirmation"]) for each in again] == [
        ("pair", 2, True), ("pair", 3, True),
    ]  # fmt: skip
    assert [each["forward_time_us"] for each in again] == pytest.approx(again_times)
    assert {each["series"] for each in again} == {tonight["series"][1].as_py()}
    verdict = json.loads((store.events_folder / f"{NIGHT}.json").read_text())
    (event,) = verdict["events"]
    assert (event["kind"], event["case"], event["night"], event["found"]) == ("time", "pair", NIGHT, NIGHT)
    assert event["before"] == pytest.approx(0.1 * times[1])
    assert min(times[1], *again_times) <= 1.001 * event["after"] <= 1.002 * max(times[1], *again_times)
    assert verdict["suspects"] == []
