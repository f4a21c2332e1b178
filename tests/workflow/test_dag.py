"""Real Snakemake runs in a folder of their own: measuring, failing, resuming, re-measuring."""

import pytest

from tests.helpers.snakemake import BROKEN, WorkingFolder

pytestmark = [pytest.mark.torch, pytest.mark.slow]

QUICK = {"samples": 5, "warmup": 1, "schedule": {"active": 3}}
SIX_ROWS = {
    "linear-eager": "ok",
    "matmul-add-64-eager": "ok",
    "own-softmax": "ok",
    "crash": "failed",
    "hang": "failed",
    "unwilling": "unsupported",
}


def configuration():
    return {
        "measure": QUICK,
        "runs": {
            "host": {"host": True},
            "image": {"container": "docker://example.invalid/torch:1"},
            "old": {"recorded": "resources/recorded/absent"},
        },
        "cases": {
            "linear-eager": {"workload": "linear", "variant": "plain", "expect": {"ops_absent": ["aten::add"]}},
            "matmul-add-64-eager": {
                "workload": "matmul_add",
                "variant": "plain",
                "annotation": "matmul_add",
                "params": {"size": 64},
            },
            "own-softmax": {"workload": f"{BROKEN}:fine"},
            "crash": {"workload": f"{BROKEN}:crashing", "retries": 0},
            # wherever it is by then: on a slow machine still in the import of torch
            "hang": {"workload": f"{BROKEN}:hanging", "timeout_s": 4, "retries": 0},
            "unwilling": {"workload": f"{BROKEN}:unwilling"},
        },
        "report": {"headline": ["linear-eager", "own-softmax"]},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return WorkingFolder(tmp_path_factory.mktemp("with a space"))


@pytest.fixture(scope="module", autouse=True)
def first_output(folder):
    """What Snakemake printed when it made everything for the first time."""
    folder.configure(configuration())
    return folder.snakemake()


def started(folder):
    """When the measurement of each case began."""
    return {case: folder.measurement("host", case)["started_utc"] for case in SIX_ROWS}


def test_every_case_has_its_row_whatever_happened_to_it(folder):
    rows = folder.cases()
    assert {case: row["status"] for case, row in rows.items()} == SIX_ROWS
    assert "SIGSEGV" in rows["crash"]["reason"]
    assert rows["hang"]["reason"].startswith("stopped at its time limit of 4 s during ")
    assert "flux capacitor" in rows["unwilling"]["reason"]


def test_the_report_explains_failures_and_runs_left_out(folder, first_output):
    page = folder.report()
    for words in ("SIGSEGV", "flux capacitor", "add --use-singularity", "correct runs.old.recorded"):
        assert words in page
    assert {left["run"] for left in folder.summary()["left_out"]} == {"image", "old"}
    assert "report: reports/latest/index.html" in first_output


def test_the_report_says_that_few_forwards_were_timed(folder):
    page = folder.report()
    cases = {case["case"]: case for case in folder.summary()["cases"]}
    for case, status in SIX_ROWS.items():
        codes = [warning["code"] for warning in cases[case]["warnings"]]
        assert ("few_samples" in codes) is (status == "ok")
    assert "the forward time rests on 5 calls" in page


def test_a_second_execution_runs_no_job(folder):
    assert "Nothing to be done" in folder.snakemake()


def test_an_added_case_alone_is_measured(folder):
    before = started(folder)
    config = configuration()
    config["cases"]["added"] = {"workload": "matmul_add", "variant": "plain", "params": {"size": 32}}
    folder.configure(config)
    output = folder.snakemake()
    assert output.count("Measuring ") == 1
    assert started(folder) == before
    assert folder.cases()["added"]["status"] == "ok"


def test_failed_rows_alone_are_measured_again_when_asked(folder):
    failed = [case for case, row in folder.cases().items() if row["status"] == "failed"]
    before = started(folder)
    folder.snakemake("--config", "retry_failed=true")
    again = {case for case, begun in started(folder).items() if begun != before[case]}
    assert again == set(failed)
    assert "Nothing to be done" in folder.snakemake()


def test_a_mistake_in_the_configuration_stops_everything_in_plain_words(folder):
    output = folder.snakemake("--config", "only_cases=linaer-eager", "edition=2.10", status=1)
    assert "--config: edition: arrives as the number 2.1, and a name is text: write v2.10" in output
    assert "only_cases: names no case: 'linaer-eager': did you mean 'linear-eager'?" in output
    assert "Traceback" not in output
