"""The plan of an edition: who takes part, what is left out and why, and what makes a measurement stale."""

import json

import pytest

from kernelbook.config.loading import load_config
from kernelbook.plan.plan_texts import plan_json
from kernelbook.plan.planning import make_plan
from kernelbook.trace.recorded import recorded_cases

RAW = {
    "runs": {
        "host": {"host": True},
        "image": {"container": "docker://example.org/torch:1"},
        "old": {"recorded": "recorded/old"},
        "lost": {"recorded": "recorded/lost"},
        "traces": {"recorded": "recorded/traces"},
    },
    "cases": {"linear-eager": {"workload": "linear"}, "mlp-eager": {"workload": "mlp", "annotation": "mlp_fwd"}},
    "repeats": 2,
    "report": {"headline": ["linear-eager", "mlp-eager"]},
}


@pytest.fixture
def plan_of(root, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelbook.plan.planning.runtime", lambda: "apptainer")  # as on a machine that has one
    for process in ("1", "3", "notes"):
        folder = tmp_path / "recorded/old/linear-eager" / process
        folder.mkdir(parents=True)
        (folder / "measurement.json").write_text("{}")
    traces = tmp_path / "recorded/traces"
    (traces / "deep").mkdir(parents=True)
    for name in ("Step 1.json.gz", "deep/job_rank-0.json", "deep/job_rank-7.json", "9.pt.trace.json", "notes.txt"):
        (traces / name).write_text("{}")

    def make(containers_on=False, **changes):
        return make_plan(load_config(RAW | changes, root / "workflow" / "schemas"), tmp_path, root, containers_on)

    return make


def test_a_container_run_is_left_out_without_the_flag_and_listed(plan_of):
    reasons = {left.run: left.reason for left in plan_of().left_out}
    assert reasons["image"] == "needs its container: add --use-singularity"
    assert "correct runs.lost.recorded" in reasons["lost"]
    assert "image" not in {left.run for left in plan_of(containers_on=True).left_out}


def test_a_recorded_run_has_the_cases_and_processes_of_its_folder(plan_of):
    rows = [row for row in plan_of().rows() if row[0] == "old"]
    assert rows == [("old", "linear-eager", 1), ("old", "linear-eager", 3)]


def test_measured_runs_have_as_many_processes_as_asked_for(plan_of):
    rows = [row for row in plan_of(containers_on=True).rows() if row[0] == "image"]
    assert rows == [("image", case, process) for case in ("linear-eager", "mlp-eager") for process in (1, 2)]


def test_bare_traces_are_cases_named_after_their_files_and_ranks_are_processes(plan_of):
    plan = plan_of()
    assert {row[1:] for row in plan.rows() if row[0] == "traces"} == {
        ("step-1", 1),
        ("trace-9.pt.trace", 1),
        ("deep-job", 1),
        ("deep-job", 8),
    }
    assert plan.measurement_of("traces", "deep-job", 8).as_posix() == "recorded/traces/deep/job_rank-7.json"


def trace_of(rank, size, begun=0):
    """A trace without work; `begun`: what tells it from another of the same rank, since copies are left out."""
    job = {"backend": "nccl", "rank": rank, "world_size": size}
    mark = {"ph": "i", "name": "begun", "pid": 1, "tid": 1, "ts": begun}
    return json.dumps({"distributedInfo": job, "traceEvents": [mark]})


@pytest.fixture
def traces_named(tmp_path):
    def cases(files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        found = recorded_cases(tmp_path)
        return {case: {n: each.files[0].name for n, each in processes.items()} for case, processes in found.items()}

    return cases


def test_files_that_say_inside_that_they_are_ranks_of_one_job_are_one_case(traces_named):
    found = traces_named({"gpu4_812.177.pt.trace.json": trace_of(1, 2), "gpu4_805.177.pt.trace.json": trace_of(0, 2)})
    assert found == {"gpu4": {1: "gpu4_805.177.pt.trace.json", 2: "gpu4_812.177.pt.trace.json"}}


@pytest.fixture
def cycles(root, tmp_path):
    """A plan over two folders of one job: two ranks with two windows each, from different hosts and times."""
    for folder, host, time in (("before", "node01", 1796008518075623954), ("after", "gpu-9", 1799998518075623954)):
        (tmp_path / folder).mkdir()
        for rank in (0, 1):
            for window in (0, 1):
                name = f"{host}_{40 + rank}.{time + 10**9 * window + rank}.pt.trace.json"
                (tmp_path / folder / name).write_text(trace_of(rank, 4, begun=window))
    config = {"runs": {name: {"recorded": name} for name in ("before", "after")}}
    return make_plan(load_config(config, root / "workflow" / "schemas"), tmp_path, root, containers_on=False)


def test_two_folders_of_one_job_have_the_same_rows_and_a_process_has_its_windows(cycles):
    assert set(cycles.rows()) == {(run, "trace", process) for run in ("before", "after") for process in (1, 2)}
    files = [file.name for file in cycles.files_of("before", "trace", 2)]
    assert files == ["node01_41.1796008518075623955.pt.trace.json", "node01_41.1796008519075623955.pt.trace.json"]
    (lacking,) = json.loads(cycles.case_json("before", "trace", 2))["warnings"]
    assert lacking["message"] == "2 of 4 ranks have no trace here: 2, 3"


def test_an_ending_may_be_in_capitals(traces_named):
    found = traces_named({"A.JSON": trace_of(0, 1), "b.Json": trace_of(0, 1)})
    assert found == {"a": {1: "A.JSON"}, "b": {1: "b.Json"}}


def test_files_of_different_jobs_or_of_one_rank_twice_stay_cases_of_their_own(traces_named):
    files = {"a.json": trace_of(0, 2), "b.json": trace_of(0, 2, 1), "c.json": trace_of(1, 4), "d.json": trace_of(0, 1)}
    assert list(traces_named(files)) == ["a", "b", "c", "d"]


def test_the_folder_of_an_own_workload_outside_is_bound_into_containers(plan_of, tmp_path):
    files = ("../elsewhere/rows.py:softmax", "/opt/models/toy.py:toy", "inside/mine.py:mine", "linear")
    plan = plan_of(cases={f"case-{n}": {"workload": file} for n, file in enumerate(files)}, report={})
    bound = [word.partition(":")[0] for word in plan.start_arguments()]
    assert {str(tmp_path.parent / "elsewhere"), "/opt/models"} <= set(bound)
    assert str(tmp_path / "inside") not in bound


def leave(plan, status):
    file = plan.root / plan.measurement_of("image", "mlp-eager", 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    found = {"schema": 1, "status": status, "started_utc": "2026-11-29T10:00:00Z", "case": {"case": "mlp-eager"}}
    file.write_text(json.dumps(found))


def test_a_run_is_looked_at_again_once_its_image_file_is_deleted(plan_of, tmp_path):
    """Before the first pull there was no file either; what is passed on has to differ all the same."""
    seen = json.loads(plan_of(containers_on=True, edition="first").run_json("image"))["container"]["seen"]
    file = tmp_path / "results/latest/image/run.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"status": "ok", "image_seen": seen, "image_stamp": "the file as it was pulled"}))
    assert json.loads(plan_of(containers_on=True).run_json("image"))["container"]["seen"] != seen


def test_a_failed_measurement_is_repeated_only_when_asked_for(plan_of):
    leave(plan_of(), "failed")
    kept = json.loads(plan_of().case_json("image", "mlp-eager", 1))
    again = json.loads(plan_of(retry_failed=True).case_json("image", "mlp-eager", 1))
    assert "retry_of" not in kept
    assert again["retry_of"] == "2026-11-29T10:00:00Z"


def test_a_good_measurement_is_never_repeated_by_retry_failed(plan_of):
    leave(plan_of(), "ok")
    assert "retry_of" not in json.loads(plan_of(retry_failed=True).case_json("image", "mlp-eager", 1))


def test_the_digest_follows_guesses_and_left_out_runs_but_not_the_clock(plan_of):
    assert plan_json(plan_of()) == plan_json(plan_of())
    assert plan_json(plan_of()) != plan_json(plan_of(containers_on=True))
    cases = {**RAW["cases"], "mlp-eager": {**RAW["cases"]["mlp-eager"], "note": "other"}}
    assert plan_json(plan_of()) != plan_json(plan_of(cases=cases))


def test_cases_that_no_run_takes_are_not_in_the_edition(plan_of):
    listed = json.loads(plan_json(plan_of(only_runs=["traces"])))["cases"]
    assert {case["case"] for case in listed} == {"step-1", "trace-9.pt.trace", "deep-job"}


def test_traces_of_any_name_have_names_that_a_folder_may_have(traces_named, tmp_path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "gone.json").symlink_to("nowhere")
    long, turned = "a" * 200 + ".json", "\u202e$(x)\n'.json"
    hostile = ["run.json.json", "probe.log.json", "rank12345678901234567890.json", long, turned]
    names = {next(iter(files.values())): case for case, files in traces_named(dict.fromkeys(hostile, "{}")).items()}
    assert names["run.json.json"] == "run-json"
    assert names["probe.log.json"] == "probe-log"
    assert names[long] == "a"
    assert names["rank12345678901234567890.json"] == "rank12345678901234567890"
    assert names[turned] == "x"
    assert len(names) == len(hostile)


@pytest.mark.parametrize("process", ["²", "01", "0", "9" * 30])
def test_a_folder_that_is_no_process_number_is_no_process(tmp_path, process):
    for name in ("1", process):
        (tmp_path / "linear-eager" / name).mkdir(parents=True)
        (tmp_path / "linear-eager" / name / "measurement.json").write_text("{}")
    assert list(recorded_cases(tmp_path)["linear-eager"]) == [1]


def test_a_path_that_no_file_can_have_is_a_run_left_out(plan_of):
    left = plan_of(runs={"far": {"recorded": "x" * 300}, "old": {"recorded": "recorded/old"}}).left_out
    assert [(run.run, run.reason[:12]) for run in left] == [("far", "no folder xx")]


PUBLISHED = "source: {title: x}\ncapability: 8.0\ncases: {lin: {kernels: one, device_time_us: .5}, mlp-eager: 5}"


def test_broken_published_figures_are_left_out_before_anything_is_measured(plan_of, tmp_path):
    (tmp_path / "figures.yaml").write_text(PUBLISHED)
    (left,) = plan_of(runs={"pub": {"published": "figures.yaml"}, "old": {"recorded": "recorded/old"}}).left_out
    assert [line.partition(": ")[2] for line in left.reason.split("; ")] == [
        "capability: must be a text, got 8.0: quote it",
        "cases.lin.kernels: must be a whole number, at least 0, got one",
        "cases.mlp-eager: must be a map of figure: value, got 5",
    ]
