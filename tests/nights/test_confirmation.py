"""Second measurements of suspects: read from their folders and added to the recorded night."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

import pyarrow.compute as pc
import pytest

from kernelbook.history.record import KeptEdition, confirmation_tables
from kernelbook.history.store import Store
from record_confirmation import measured_again
from tests.nights.made_nights import row, table_of


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
