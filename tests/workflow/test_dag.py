"""Real Snakemake runs in a folder of their own: measuring, failing, resuming, re-measuring."""

import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import yaml

from tests.helpers.patience import LONG

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


def configuration(root):
    broken = root / "tests/workflow/broken_workloads.py"
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
            "own-softmax": {"workload": f"{broken}:fine"},
            "crash": {"workload": f"{broken}:crashing", "retries": 0},
            # wherever it is by then: on a slow machine still in the import of torch
            "hang": {"workload": f"{broken}:hanging", "timeout_s": 4, "retries": 0},
            "unwilling": {"workload": f"{broken}:unwilling"},
        },
        "report": {"headline": ["linear-eager", "own-softmax"]},
    }


class Folder:
    """A working folder with a config.yaml, in which Snakemake is run."""

    def __init__(self, root, path, config):
        self.root, self.path = root, path
        self.save(config)

    def save(self, config):
        (self.path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def snakemake(self, *arguments, status=0):
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            self.root / "Snakefile",
            "--cores",
            "1",
            *arguments,
        ]
        environment = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def cases(self):
        rows = pq.read_table(self.path / "results/latest/edition/cases.parquet").to_pylist()
        return {row["case"]: row for row in rows}

    def started(self, case):
        file = self.path / f"results/latest/host/{case}/1/measurement.json"
        return json.loads(file.read_text())["started_utc"]

    def summary(self):
        return json.loads((self.path / "reports/latest/summary.json").read_text())


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    made = Folder(root, tmp_path_factory.mktemp("with a space"), configuration(root))
    made.first_output = made.snakemake()
    return made


def test_every_case_has_its_row_whatever_happened_to_it(folder):
    rows = folder.cases()
    assert {case: row["status"] for case, row in rows.items()} == SIX_ROWS
    assert "SIGSEGV" in rows["crash"]["reason"]
    assert rows["hang"]["reason"].startswith("stopped at its time limit of 4 s during ")
    assert "flux capacitor" in rows["unwilling"]["reason"]


def test_the_report_explains_failures_and_runs_left_out(folder):
    page = (folder.path / "reports/latest/index.html").read_text()
    for words in ("SIGSEGV", "flux capacitor", "add --use-singularity", "correct runs.old.recorded"):
        assert words in page
    assert {left["run"] for left in folder.summary()["left_out"]} == {"image", "old"}
    assert "report: reports/latest/index.html" in folder.first_output


def test_the_report_says_that_few_forwards_were_timed(folder):
    page = (folder.path / "reports/latest/index.html").read_text()
    cases = {case["case"]: case for case in folder.summary()["cases"]}
    for case, status in SIX_ROWS.items():
        codes = [warning["code"] for warning in cases[case]["warnings"]]
        assert ("few_samples" in codes) is (status == "ok")
    assert "the forward time rests on 5 calls" in page


def test_a_second_execution_runs_no_job(folder):
    assert "Nothing to be done" in folder.snakemake()


def test_an_added_case_alone_is_measured(folder, root):
    before = {case: folder.started(case) for case in SIX_ROWS}
    config = configuration(root)
    config["cases"]["added"] = {"workload": "matmul_add", "variant": "plain", "params": {"size": 32}}
    folder.save(config)
    output = folder.snakemake()
    assert output.count("Measuring ") == 1
    assert {case: folder.started(case) for case in SIX_ROWS} == before
    assert folder.cases()["added"]["status"] == "ok"


def test_failed_rows_alone_are_measured_again_when_asked(folder):
    failed = [case for case, row in folder.cases().items() if row["status"] == "failed"]
    before = {case: folder.started(case) for case in SIX_ROWS}
    folder.snakemake("--config", "retry_failed=true")
    again = {case for case in SIX_ROWS if folder.started(case) != before[case]}
    assert again == set(failed)
    assert "Nothing to be done" in folder.snakemake()


def test_a_mistake_in_the_configuration_stops_everything_in_plain_words(folder, root):
    output = folder.snakemake("--config", "only_cases=linaer-eager", status=1)
    assert "only_cases: names no case: 'linaer-eager': did you mean 'linear-eager'?" in output
    assert "Traceback" not in output
