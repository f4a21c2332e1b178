"""Recorded traces whose file names no shell, no Snakemake and no table likes; and what a killed execution left."""

import base64
import json
import os
import shutil

import pytest

from kernelbook.extraction.arrow_files import read_table
from tests.helpers.snakemake import WorkingFolder

pytestmark = pytest.mark.slow

STEP = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
NAMES = [
    "{wild}",
    "{{x}}",
    "line\nbreak",
    "$(touch pwned)",
    "q'u\"o;t`e",
    "\u202egnp",
    "x" * 200,
    "-rf",
    "run.json",
    "%s",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("it's ünder $HOME")
    traces = path / "evil traces"
    (traces / "dir.json").mkdir(parents=True)
    os.mkfifo(traces / "pipe.json")
    (traces / "loop.json").symlink_to("loop.json")
    (traces / "up").symlink_to("..")
    for name in NAMES:
        (traces / f"{name}.json").write_text(json.dumps({"traceEvents": [STEP]}))
    (traces / "empty.json").write_text("")
    (traces / os.fsdecode(b"\xff.json")).write_text(json.dumps({"traceEvents": [STEP]}))
    folder = WorkingFolder(path)
    folder.configure({"runs": {"evil": {"recorded": "evil traces"}}})
    folder.snakemake()
    return folder


def test_traces_of_every_name_become_rows_and_none_is_executed(folder):
    rows = folder.cases()
    failed = {case: row["reason"] for case, row in rows.items() if row["status"] == "failed"}
    assert len(rows) == len(NAMES) + 2
    assert set(failed) == {"empty", "trace"}
    assert "the file is empty" in failed["empty"]
    assert failed["trace"] == "the trace's name is no text ('\\udcff.json'): rename the file"
    assert {path.name for path in folder.path.iterdir()} <= {
        *("config.yaml", "evil traces", "logs", "reports", "results", ".snakemake"),
    }


def test_what_a_killed_execution_left_half_done_is_done_again(folder):
    half = "results/latest/evil/wild/1/case.arrow"
    (folder.path / half).write_bytes(b"ARROW1")
    mark = folder.path / ".snakemake/incomplete" / base64.b64encode(half.encode()).decode()
    mark.write_text("")
    folder.snakemake()
    assert read_table(folder.path / half).num_rows == 1


def test_odd_measurements_of_a_recorded_folder_are_failed_rows_beside_a_good_one(root, tmp_path):
    recorded = root / "resources/recorded/h200-torch2.11/linear-eager/1"
    text = (recorded / "measurement.json").read_text()
    odd = {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "loop": lambda file: file.symlink_to(file.name),
        "outside": lambda file: file.symlink_to("/etc/passwd"),
        "large": lambda file: (file.touch(), os.truncate(file, 2 << 30)),
        "infinite": lambda file: file.write_text(text.replace('"flops": ', '"flops": 1e999, "was": ')),
        "deep": lambda file: file.write_text("[" * 200_000),
    }
    for case in ("good", *odd):
        shutil.copytree(recorded, tmp_path / "recorded" / case / "1")
    for case, make in odd.items():
        file = tmp_path / "recorded" / case / "1/measurement.json"
        file.unlink()
        make(file)
    cases = {case: {"workload": "linear", "annotation": "linear_fwd"} for case in ("good", *odd)}
    config = {"runs": {"old": {"recorded": "recorded"}}, "cases": cases, "report": {"headline": ["good", "good"]}}
    folder = WorkingFolder(tmp_path)
    folder.configure(config)
    folder.snakemake()
    rows = folder.cases()
    assert {case for case, row in rows.items() if row["status"] == "failed" and row["reason"]} == set(odd)
    assert [case for case, row in rows.items() if row["status"] == "ok"] == ["good"]
    assert folder.report()
    assert "Nothing to be done" in folder.snakemake("--dry-run")
