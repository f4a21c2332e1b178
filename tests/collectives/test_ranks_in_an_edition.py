"""Ranks in an edition: a job is one case with the figures of its slowest rank, and each table has a row per rank."""

import gzip
import json
import os
import shutil
from dataclasses import replace

import pyarrow.compute as pc
import pytest

from kernelbook.cases import CaseFacts, ProfiledForward, case_facts
from kernelbook.config.loading import load_config
from kernelbook.containers.probe import probe
from kernelbook.edition.collect import collect
from kernelbook.edition.model import edition_of
from kernelbook.extraction.run_tables import read_run, readings_of
from kernelbook.home import home
from kernelbook.judge.expectations import judge
from kernelbook.plan.plan_texts import inputs_json, plan_json
from kernelbook.plan.planning import make_plan
from kernelbook.report.first_screen import verdict
from tests.collectives.made_job import folder_of_pair, late_pair, read, write_rank


@pytest.fixture
def edition_files(tmp_path):
    """folder of recorded traces or cases -> the files of an edition of it."""

    def make(folder):
        settings = {"edition": "made", "runs": {"mine": {"recorded": str(folder)}}}
        plan = make_plan(load_config(settings, home() / "workflow" / "schemas"), tmp_path, home(), containers_on=False)
        work = tmp_path / "results"
        (work / "mine").mkdir(parents=True)
        status = probe(json.loads(plan.run_json("mine")), tmp_path)
        (work / "mine" / "run.json").write_text(json.dumps(status), encoding="utf-8")
        inputs = json.loads(inputs_json(plan, "mine"))
        read_run(readings_of(inputs, status, work / "mine", work / "logs"), "", os.cpu_count() or 1)
        return collect(json.loads(plan_json(plan)), work)

    return make


@pytest.fixture
def bare(tmp_path):
    return folder_of_pair(tmp_path / "traces")


@pytest.fixture
def measured(tmp_path):
    """A case of two ranks as `ranks: 2` leaves it; unprofiled forwards of rank 1 take twice as long."""
    process = tmp_path / "recorded" / "ddp-step" / "1"
    case = {"case": "ddp-step", "workload": "data_parallel", "variant": "ddp", "mode": "eager", "params": {}}
    case |= {"annotation": "train_step", "dtype": "bfloat16"}
    about = {"schema": 1, "case": case, "status": "ok", "device": {"type": "cuda", "name": "Made GPU"}}
    process.mkdir(parents=True)
    (process / "measurement.json").write_text(json.dumps(about | {"ranks": 2}), encoding="utf-8")
    for rank, events in enumerate(late_pair()):
        folder = process / f"rank-{rank}"
        folder.mkdir()
        trace = write_rank(folder, rank, events, 2, file="trace.json")
        (folder / "trace.json.gz").write_bytes(gzip.compress(trace.read_bytes()))
        trace.unlink()
        own = {"rank": rank, "world_size": 2, "local_rank": rank, "trace": "trace.json.gz"}
        own |= {"forward_times_us": [700.0 * (rank + 1)] * 30}
        (folder / "measurement.json").write_text(json.dumps(about | own), encoding="utf-8")
    return tmp_path / "recorded"


def rows(files, table, **wanted):
    return [row for row in files.tables[table].to_pylist() if all(row[name] == value for name, value in wanted.items())]


def ranks_of(files, table):
    return sorted(pc.unique(files.tables[table]["rank"]).to_pylist())


def test_the_ranks_of_a_folder_of_traces_are_one_case_of_the_slowest_rank(edition_files, bare):
    """Rank 0 spans 20 to 600 of each step, rank 1 too, but rank 1 is late by its CPU: both ranges take 700."""
    files = edition_files(bare)
    (facts,) = case_facts(files.tables).values()
    assert [(process.process, process.rank) for process in facts.processes] == [(1, 0)]
    assert facts.device_time_us == 100 + 300  # of rank 0; not the median of 400 and 200
    note = "figures are those of rank 0, the slowest of 2 ranks; device time 200 µs to 400 µs over the ranks"
    assert facts.note("ranks").message == note


def test_every_table_has_rows_of_every_rank(edition_files, bare):
    files = edition_files(bare)
    for table in ("cases", "ranges", "activities", "ops", "kernels", "ranks", "collectives"):
        assert ranks_of(files, table) == [0, 1], table
    assert [row["wait_us"] for row in rows(files, "collectives", rank=0)] == [200, 200, 200]
    assert [row["idle_us"] for row in rows(files, "ranks", rank=0, index=1)] == [180]


def test_the_lanes_of_all_ranks_are_on_one_clock(edition_files, tmp_path):
    """Rank 1's clock is five seconds ahead: its all-reduce starts 200 after that of rank 0 all the same."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank, events in enumerate(late_pair(shift=5_000_000.0)):
        write_rank(folder, rank, events, 2)
    files = edition_files(folder)
    (facts,) = case_facts(files.tables).values()
    starts = {}
    for rank in (0, 1):
        clock = rows(files, "ranks", rank=rank, index=None)[0]["clock_us"]
        lane = rows(files, "activities", rank=rank, index=facts.chosen[1], category="kernel")
        starts[rank] = [row["start_us"] + clock for row in lane if row["name"].startswith("nccl")]
    assert starts[1][0] - starts[0][0] == pytest.approx(200)


def test_a_measured_job_has_the_figures_of_its_slowest_rank(edition_files, measured):
    files = edition_files(measured)
    (facts,) = case_facts(files.tables).values()
    assert facts.forward_time_us == 1400  # of rank 1; not the median of 700 and 1400
    assert facts.device_time_us == 200
    assert [(p.process, p.rank, p.world_size) for p in facts.processes] == [(1, 1, 2)]
    assert {(row["process"], row["rank"]) for row in rows(files, "cases")} == {(1, 0), (1, 1)}
    assert len(rows(files, "samples", rank=0)) == 30
    assert {forward.index for forward in facts.forwards} == {0, 1, 2}
    assert all(call.position == place for place, call in enumerate(facts.calls))


def test_the_first_line_of_measured_jobs_is_about_their_ranks(edition_files, measured):
    sentence = verdict(edition_of(edition_files(measured))).sentence
    assert sentence == (
        "ddp-step: rank 1 comes last to 3 of 3 all-reduces, by 200 µs in the median, because its CPU queues work too "
        "late; rank 0 spends 50 % of its device time waiting."
    )


def test_a_job_that_failed_fails_its_case_with_the_reason_of_the_rank(edition_files, measured):
    file = measured / "ddp-step" / "1" / "measurement.json"
    reason = "rank 1: CUDA ran out of memory: use smaller params"
    for each in (file, *file.parent.glob("rank-*/measurement.json")):
        failed = json.loads(each.read_text()) | {"status": "failed", "reason": reason}
        each.write_text(json.dumps(failed), encoding="utf-8")
    (facts,) = case_facts(edition_files(measured).tables).values()
    assert (facts.status, facts.reason) == ("failed", reason)


def test_a_bare_rank_that_cannot_be_read_leaves_the_others(edition_files, bare):
    (bare / "job_rank1.json").write_text("not a trace", encoding="utf-8")
    (facts,) = case_facts(edition_files(bare).tables).values()
    assert (facts.status, facts.device_time_us) == ("ok", 400)
    assert "1 of 2 processes failed" in facts.note("failed_processes").message


def test_the_finding_and_the_first_words_are_the_sentence_on_the_straggler(edition_files, bare):
    files = edition_files(bare)
    finding = next(row for row in rows(files, "findings") if row["rule"] == "straggler")
    assert finding["text"].startswith(
        "Rank 1 comes last to 3 of 3 all-reduces, by 200 µs in the median, because its CPU"
    )
    assert finding["time_us"] == 200
    assert "rank 1 comes last to 3 of 3 all-reduces" in files.about["words"][0]


def test_collectives_are_held_against_the_sweep_of_the_same_run(edition_files, measured):
    """The sweep moves 4 MiB in 100 µs: 41.9 GB/s on two ranks; the step reaches a quarter of it."""
    folder = measured / "all-reduce" / "1"
    shutil.copytree(measured / "ddp-step" / "1", folder)
    for file in folder.rglob("measurement.json"):
        about = json.loads(file.read_text())
        about["case"] |= {"case": "all-reduce", "workload": "collective", "variant": "all-reduce"}
        file.write_text(json.dumps(about), encoding="utf-8")
    for file in folder.rglob("trace.json.gz"):
        text = gzip.decompress(file.read_bytes()).decode().replace(f": {2**19},", f": {2**21},")
        file.write_bytes(gzip.compress(text.encode()))
    files = edition_files(measured)
    (row, *_) = rows(files, "collectives", case="ddp-step", rank=0)
    assert row["bus_gb_s"] == pytest.approx(2**20 / 100e-6 / 1e9)
    assert row["measured_gb_s"] == pytest.approx(2**22 / 100e-6 / 1e9)


def test_an_edition_with_ranks_is_read_again_as_it_was(edition_files, measured):
    files = edition_files(measured)
    (facts,) = edition_of(files).case_runs
    assert (facts.forward_time_us, facts.processes[0].rank) == (1400, 1)


@pytest.mark.parametrize(
    ("guess", "verdict"),
    [
        ({"collectives": {"all_reduce": 1}}, "confirmed"),
        ({"collectives": {"all_reduce": 2}}, "broken"),
        ({"overlap_percent": {"max": 0}}, "confirmed"),
        # 300 of the 580 of a forward of rank 0
        ({"exposed_percent": "51-52"}, "confirmed"),
        ({"exposed_percent": {"max": 10}}, "broken"),
        # 1 MiB in 100 µs, two ranks: 10.49 GB/s
        ({"bus_gb_s": {"all_reduce": {"min": 10.4}}}, "confirmed"),
        ({"bus_gb_s": {"all_reduce": {"min": 10.5}}}, "broken"),
        ({"bus_gb_s": {"all_gather": {"min": 1}}}, "not applicable"),
        ({"ranks_equal_within_percent": 1}, "confirmed"),
    ],
)
def test_guesses_about_ranks(tmp_path, guess, verdict):
    report = read({rank: write_rank(tmp_path, rank, events, 2) for rank, events in enumerate(late_pair())})
    facts = replace(
        CaseFacts("r", "c", kernels=1, forwards=(ProfiledForward(1, 0, 700.0),), chosen=(1, 0)), jobs=(report,)
    )
    (judged,) = judge("c", guess, facts, {"c": facts})
    assert judged.verdict == verdict, judged


def test_a_guess_about_ranks_cannot_be_judged_without_them():
    facts = CaseFacts("r", "c", kernels=1, forwards=(ProfiledForward(1, 0, 700.0),), chosen=(1, 0))
    words = {"collectives": {"all_reduce": 1}, "overlap_percent": {"min": 1}, "ranks_equal_within_percent": 5}
    assert {judged.verdict for judged in judge("c", words, facts, {"c": facts})} == {"not applicable"}
