"""Which cases are taken: sweeps by their name, recorded cases that the configuration lacks, and selections of none."""

from __future__ import annotations

import shutil

import pytest

from kernelbook.config.loading import ConfigError, load_config
from kernelbook.plan.plan_texts import summary
from kernelbook.plan.planning import make_plan
from kernelbook.sources.workload_source import Places
from tests.helpers.snakemake import WorkingFolder

RAW = {
    "runs": {"host": {"host": True}, "old": {"recorded": "old"}},
    "cases": {
        "linear-eager": {"workload": "linear"},
        "mlp-sweep": {"workload": "mlp", "variant": "torch", "sweep": {"batch": [1, 4, 16]}, "enabled": False},
        "off": {"workload": "mlp", "variant": "torch", "enabled": False},
    },
    "report": {"headline": ["linear-eager", "linear-eager"]},
}


@pytest.fixture
def plan_of(root, tmp_path):
    for name in ("linear-eager", "off", "brought", "Not $(a) name", "cache"):
        (tmp_path / "old" / name / "1").mkdir(parents=True)
        (tmp_path / "old" / name / "1/measurement.json").write_text("{}")

    def make(**changes):
        config = load_config(RAW | changes, root / "workflow/schemas", [], Places(tmp_path, root))
        return make_plan(config, tmp_path, root, containers_on=False)

    return make


def taken(plan, run):
    return [case for name, case, _ in plan.rows() if name == run]


SWEPT = ["mlp-sweep-batch-1", "mlp-sweep-batch-4", "mlp-sweep-batch-16"]


def test_the_name_of_a_sweep_takes_all_its_values(plan_of):
    assert taken(plan_of(only_cases="mlp-sweep"), "host") == SWEPT
    assert taken(plan_of(only_cases="mlp-sweep-batch-4"), "host") == SWEPT[1:2]
    runs = {"host": {"host": True, "cases": ["mlp-sweep"]}}
    assert taken(plan_of(runs=runs, only_cases="*"), "host") == SWEPT


def test_a_guess_names_one_case_and_no_sweep(plan_of):
    cases = {**RAW["cases"], "linear-eager": {"workload": "linear", "expect": {"same_kernels_as": "mlp-sweep"}}}
    with pytest.raises(ConfigError, match=r"cases\.linear-eager\.expect: names no case: 'mlp-sweep'"):
        plan_of(cases=cases)


def test_recorded_cases_that_the_configuration_lacks_come_along(plan_of):
    plan = plan_of()
    assert taken(plan, "old") == ["linear-eager", "brought"]
    assert "run old (recorded, old): 2 cases, 2 processes" in summary(plan)
    assert "  skipped, switched off in the configuration: off" in summary(plan)
    assert "  skipped, not a name that a case can have: Not $(a) name, cache" in summary(plan)


def test_recorded_cases_can_be_selected_by_name(plan_of):
    plan = plan_of(only_cases="brought,off")
    assert (taken(plan, "old"), taken(plan, "host")) == (["off", "brought"], ["off"])
    assert "skipped" not in summary(plan)
    with pytest.raises(ConfigError, match="only_cases: names no case: 'brougt': did you mean 'brought'"):
        plan_of(only_cases="brougt")


def test_a_run_without_a_case_is_told(plan_of):
    assert summary(plan_of(only_cases="brought", only_runs="old")).endswith("(recorded, old): 1 case, 1 process")
    runs = {**RAW["runs"], "host": {"host": True, "cases": ["off"]}}
    assert "  no case is taken: see only_cases, cases, and runs.host.cases" in summary(plan_of(runs=runs))


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"only_cases": "brougt", "only_runs": "old"}, "only_cases: names no case: 'brougt': did you mean 'brought'?"),
        (
            {"only_cases": "brought", "only_runs": "host"},
            "only_cases: the runs that are taken have none of these cases",
        ),
        ({"only_cases": "mlp-sweep", "only_runs": "old"}, "there is: Not $(a) name, brought, cache, linear-eager, off"),
        ({"only_runs": "old,hots"}, "only_runs: names no run: 'hots': did you mean 'host'?"),
        (
            {"only_runs": "host", "cases": {"a": {"workload": "mlp", "enabled": False}}, "report": {}},
            "cases: no run takes",
        ),
        ({"runs": {"host": {"host": True, "enabled": False}}}, "runs: none is on: set `enabled: true` on one"),
    ],
)
def test_a_selection_of_nothing_is_an_error_that_names_what_there_is(plan_of, changes, fact):
    with pytest.raises(ConfigError) as caught:
        plan_of(**changes)
    assert fact in str(caught.value)


@pytest.mark.slow
def test_a_recorded_case_of_another_name_is_in_the_report(tmp_path, recorded_h200):
    if not (recorded_h200 / "linear-eager").is_dir():
        pytest.skip("the recorded run is not there")
    shutil.copytree(recorded_h200 / "linear-eager/1", tmp_path / "old/brought/1")
    (tmp_path / "old/damaged/1").mkdir(parents=True)
    (tmp_path / "old/damaged/1/measurement.json").write_text("{")
    folder = WorkingFolder(tmp_path)
    folder.configure(RAW | {"only_runs": ["old"]})
    folder.snakemake()
    cases = {case["case"]: case for case in folder.summary()["cases"]}
    assert (cases["brought"]["status"], cases["brought"]["kernels"]) == ("ok", 1)  # as the recorded run's README has it
    assert cases["damaged"]["status"] == "failed"
    output = folder.snakemake("--config", "only_cases=linear-eager", status=1)
    assert "--config: only_cases: the runs that are taken have none of these cases" in output
