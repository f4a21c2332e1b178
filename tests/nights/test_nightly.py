"""The nightly itself, for real: one tiny case on the CPU, killed, started twice, gone on with, finished."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import detect_changes
import nightly
from kernelbook.history.nights import tonight
from kernelbook.history.store import Store
from kernelbook.plan import folder_owners
from tests.helpers.forks import forking
from tests.helpers.patience import LONG, wait_for
from tests.helpers.snakemake import WorkingFolder
from tests.nights.made_nights import night

CONFIG = {
    "device": "cpu",
    "threads": 1,
    "measure": {"samples": 5, "warmup": 1, "schedule": {"active": 2}},
    "schedule": {"repeats": 2, "confirm": 2},
    "runs": {"host": {"host": True}},
    "cases": {
        "linear-eager": {
            "workload": "linear",
            "variant": "plain",
            "annotation": "linear_fwd",
            "params": {"batch": 8, "in_features": 8, "out_features": 8, "bias": True},
        }
    },
}
EARLIER = ["2026-01-01", "2026-01-02"]


class Work:
    """A working folder with two earlier nights in its history; `night` is tonight's, whatever date it ends on."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root, self.night = folder, root, tonight()
        (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
        self.store = Store(folder / "history")
        for date in EARLIER:
            self.store.add_night(date, night(date, ["host"], ["case"], np.random.default_rng(1), samples=3))
            detect_changes.main(["--history", str(self.store.folder), "--night", date])
        self.before = self.earlier()

    def start(self, suffix: str = "", *words: str) -> subprocess.Popen:
        """Start the nightly in a process group of its own, by forks of a process that has imported what it needs."""
        variables = forking()
        command = [variables["FORK_PYTHON"], self.root / "scripts/nightly.py", "--snakefile", self.root / "Snakefile"]
        return subprocess.Popen(
            [*command, "--cores", "1", "--night", self.night + suffix, *words],
            cwd=self.folder,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def earlier(self) -> dict[str, bytes]:
        """Every file of the earlier nights, byte for byte."""
        places = [*(f"nights/{date}/host.parquet" for date in EARLIER), *(f"events/{date}.json" for date in EARLIER)]
        return {place: (self.store.folder / place).read_bytes() for place in places}

    def measured(self, edition: str = "*") -> dict[str, float]:
        """When each measurement of a night was made."""
        found = self.folder.glob(f"results/{edition}/host/*/*/measurement.json")
        return {str(path): path.stat().st_mtime for path in found}


@pytest.fixture
def work(tmp_path: Path, root: Path) -> Work:
    return Work(tmp_path, root)


def finish(running: subprocess.Popen) -> tuple[int, str]:
    said, _ = running.communicate(timeout=LONG)
    return running.returncode, said


@pytest.mark.torch
@pytest.mark.slow
def test_killed_ten_times_a_night_loses_nothing_and_is_finished_by_the_next_start(work: Work) -> None:
    chance, suffixes, killed = random.Random(8), ["-a"], 0
    while killed < 10:
        running = work.start(suffixes[-1])
        time.sleep(chance.uniform(0.1, 2))
        if running.poll() is not None:  # this one got through: kill the next
            status, said = finish(running)
            assert status == 0, said
            suffixes.append(f"-a{len(suffixes)}")
            continue
        with_children = killed % 2 == 0  # else what it started lives on for a while
        (os.killpg if with_children else os.kill)(running.pid, signal.SIGKILL)
        running.communicate()
        killed += 1
        assert work.earlier() == work.before
        assert work.store.read().damaged == ()
        assert set(work.store.nights()) - set(EARLIER) <= {work.night + suffix for suffix in suffixes}
    last = work.night + suffixes[-1]
    measured = work.measured(last)
    status, said = finish(work.start(suffixes[-1]))
    assert status == 0, said
    assert work.store.nights() == (*EARLIER, *(work.night + suffix for suffix in suffixes))
    assert last in work.store.read_events()[0]
    rows = pq.read_table(work.store.folder / "nights" / last / "host.parquet").to_pylist()
    assert [(row["process"], row["status"]) for row in rows] == [(1, "ok"), (2, "ok")]
    assert (work.folder / "site" / "nights" / last / "report" / "index.html").is_file()
    assert work.earlier() == work.before
    after = work.measured(last)
    assert sum(after[path] != when for path, when in measured.items()) <= 1  # at most the one it was at is redone


@pytest.mark.torch
@pytest.mark.slow
def test_of_two_at_once_one_wins_and_a_finished_night_is_not_run_again(work: Work) -> None:
    both = [work.start(), work.start()]
    ended = sorted(finish(running) for running in both)
    late = ended[0][0] == ended[1][0] == 0  # it came to its first line only when the other had ended
    words = "is finished: nothing to do" if late else "one is at work already"
    assert [words in said for _, said in ended].count(True) == 1, ended
    assert ended[0][0] == 0, ended
    assert late or ended[1][0] == 1, ended
    assert work.store.read().damaged == ()
    rows = pq.read_table(work.store.folder / "nights" / work.night / "host.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert [len(row["forward_times_us"]) for row in rows] == [5, 5]
    assert "aten::linear" in rows[0]["ops"]
    measured = work.measured()
    status, said = finish(work.start())
    assert status == 0
    assert "is finished: nothing to do" in said
    assert work.measured() == measured
    bare = WorkingFolder(work.folder)
    bare.snakemake("nightly", "--config", f"edition={work.night}")
    assert work.measured() == measured
    shutil.rmtree(work.folder / ".site-versions")
    bare.snakemake("publish")
    assert (work.folder / "site" / "nights" / work.night / "report" / "index.html").is_file()


@pytest.mark.torch
@pytest.mark.slow
def test_a_failed_case_ends_with_4_a_changed_kernel_with_3(work: Work) -> None:
    config = CONFIG | {"schedule": {"repeats": 1, "confirm": 2}}
    config["cases"] = {**CONFIG["cases"], "broken": {**CONFIG["cases"]["linear-eager"], "params": {"batch": "many"}}}
    (work.folder / "config.yaml").write_text(yaml.safe_dump(config))
    status, said = finish(work.start("-b"))
    assert status == 4, said
    history = work.store.folder / "nights" / f"{work.night}-b" / "host.parquet"
    rows = {row["case"]: row for row in pq.read_table(history).to_pylist()}
    assert (rows["linear-eager"]["status"], rows["broken"]["status"]) == ("ok", "failed")
    table = pq.read_table(history)
    place = table.column_names.index("ops_id")
    ids = ["another" if name == "linear-eager" else None for name in table["case"].to_pylist()]
    table = table.set_column(place, table.schema.field(place), [ids])
    shutil.rmtree(work.store.folder / "nights" / f"{work.night}-b")
    work.store.add_night(f"{work.night}-b", {"host": table})
    status, said = finish(work.start("-c", "--config", "only_cases=linear-eager"))
    assert status == 3, said
    assert "change:" in said
    WorkingFolder(work.folder).snakemake("nightly", "--config", f"edition={work.night}-c")  # finished before


def test_an_interrupted_night_is_gone_on_with_until_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime(2026, 11, 29, 23, 59, tzinfo=UTC)
    monkeypatch.setattr(nightly, "tonight", lambda suffix=None: tonight(suffix, now))
    settings = nightly.Settings(tmp_path / "history", 20)
    left = {"night": "2026-11-28", "started": 1000.0}
    assert nightly.choose_night(settings, None, left, now=1000.0 + 19 * 3600) == "2026-11-28"
    assert capsys.readouterr().out == "nightly: going on with night 2026-11-28\n"
    assert nightly.choose_night(settings, None, left, now=1000.0 + 21 * 3600) == "2026-11-29"
    assert "night 2026-11-28 was left unfinished; it can be finished with --night 2026-11-28" in capsys.readouterr().out
    assert nightly.choose_night(settings, "b", left, now=1001.0) == "2026-11-29-b"
    assert nightly.choose_night(settings, None, {}) == "2026-11-29"
    assert nightly.choose_night(settings, None, {"night": "../x", "started": 1000.0}, now=1001.0) == "2026-11-29"


def test_a_nightly_that_was_killed_is_gone_on_with_by_the_next_start_which_says_so(tmp_path: Path, root: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        'rule nightly:\n    shell: "echo {config[edition]} >> began; while [ ! -e go ]; do sleep 0.1; done"\n'
    )
    command = [forking()["FORK_PYTHON"], root / "scripts/nightly.py", "--cores", "1", "--nolock"]
    places: dict = {"cwd": tmp_path, "env": os.environ | forking()}
    killed = subprocess.Popen(command, **places, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
    wait_for((tmp_path / "began").exists)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    (tmp_path / "go").touch()
    done = subprocess.run(command, **places, capture_output=True, text=True, timeout=LONG, check=True)
    first, again = (tmp_path / "began").read_text().split()
    assert first == again
    assert f"nightly: going on with night {first}" in done.stdout


def test_a_finished_night_advises_a_suffix_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nightly, "tonight", lambda suffix=None: tonight(suffix, datetime(2026, 11, 29, tzinfo=UTC)))
    for edition, advised in (("2026-11-29", "b"), ("2026-11-29-b", "c"), ("2026-11-29-c", "d")):
        (tmp_path / "history" / "nights" / edition).mkdir(parents=True)
        (tmp_path / "history" / "nights" / edition / "host.parquet").touch()
        (tmp_path / "history" / "events").mkdir(exist_ok=True)
        (tmp_path / "history" / "events" / f"{edition}.json").write_text('{"events": []}')
        assert nightly.free_suffix(nightly.Settings(tmp_path / "history", 20)) == advised
    assert nightly.main(["--night", "2026-11-29-b"]) == 0
    assert capsys.readouterr().out.endswith("--suffix d)\n")


def test_the_lock_of_a_dead_owner_is_free_and_tells_the_night_it_was_at(tmp_path: Path) -> None:
    lock, owner = nightly.take_lock(tmp_path)
    assert owner == {}
    nightly.write_owner(lock, "2026-11-28")
    with pytest.raises(SystemExit, match="one is at work already"):
        nightly.take_lock(tmp_path)
    os.close(lock)
    again, owner = nightly.take_lock(tmp_path)
    assert owner["night"] == "2026-11-28"
    started = owner["started"]
    nightly.write_owner(again, "2026-11-28")
    assert nightly.read_owner(again)["started"] == started
    os.close(again)
    (tmp_path / ".nightly.lock").write_text("half of")
    lock, owner = nightly.take_lock(tmp_path)
    assert owner == {}
    os.close(lock)


def test_settings_are_read_even_from_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    assert nightly.read_settings(path) == nightly.Settings(Path("history"), 20.0)
    path.write_text("history: {folder: elsewhere}\nschedule: {resume_hours: 3}\n")
    assert nightly.read_settings(path) == nightly.Settings(Path("elsewhere"), 3.0)
    path.write_text("history: [\n")
    assert nightly.read_settings(path) == nightly.Settings(Path("history"), 20.0)


def test_where_a_snakemake_runs_no_nightly_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = folder_owners.Owner(7, 1, 1, "another-host")
    folder_owners.OWNERS.mkdir(parents=True)
    (folder_owners.OWNERS / str(elsewhere)).touch()
    with pytest.raises(SystemExit, match="process 7 on another-host runs snakemake in this folder"):
        nightly.main([])


def test_outside_the_checkout_the_snakefile_is_that_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = Path(nightly.__file__).resolve().parent.parent / "Snakefile"
    assert nightly.own_snakefile(["--cores", "1"]) == ["--snakefile", str(ours)]
    assert nightly.own_snakefile(["--snakefile", "mine.smk"]) == []
    assert nightly.own_snakefile(["--snakefile=mine.smk"]) == []
    assert nightly.own_snakefile(["-s", "mine.smk"]) == []
    (tmp_path / "Snakefile").touch()
    assert nightly.own_snakefile(["--cores", "1"]) == []
