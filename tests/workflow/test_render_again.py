"""A report stays where it is until a new one takes its place, and is rendered again where it was deleted."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from kernelbook.edition.paths import EditionError, read_files
from tests.helpers.patience import LONG

pytestmark = pytest.mark.slow
STEP = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 9}


@pytest.fixture(scope="module")
def snakemake(root, tmp_path_factory):
    """Run Snakemake in a folder (`.folder`) with one recorded trace; returns its exit status and output."""
    folder = tmp_path_factory.mktemp("render again")
    (folder / "traces").mkdir()
    (folder / "traces/one.json").write_text(json.dumps({"traceEvents": [STEP]}))
    (folder / "config.yaml").write_text(yaml.safe_dump({"runs": {"old": {"recorded": "traces"}}}))

    def run(*arguments):
        command = [sys.executable, "-m", "snakemake", "--snakefile", root / "Snakefile", "--cores", "1", *arguments]
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
            check=False,
        )
        return done.returncode, done.stdout

    run.folder = folder
    assert run()[0] == 0
    return run


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_failed_rendering_leaves_the_last_report_and_names_file_and_remedy(snakemake):
    report, edition = snakemake.folder / "reports/latest", snakemake.folder / "results/latest/edition"
    before = files_of(report)
    assert {"index.html", "report.md", "summary.json"} <= before.keys()
    whole = (edition / "edition.json").read_text()
    (edition / "edition.json").write_text(whole[:200])
    status, said = snakemake("-R", "render_report")
    assert status == 1
    assert "results/latest/edition/edition.json: is damaged (" in said
    assert "delete the folder results/latest/edition and run the workflow again" in said
    assert said.splitlines()[-2] == "The last report is still there: reports/latest/index.html"
    assert files_of(report) == before
    assert snakemake()[0] == 1  # it is tried again, not taken for done
    shutil.rmtree(edition)
    status, said = snakemake()
    assert status == 0
    assert "report: reports/latest/index.html" in said
    assert "Reading old" not in said


def test_what_was_deleted_by_hand_is_rendered_again_and_nothing_else(snakemake):
    report = snakemake.folder / "reports/latest"
    before = files_of(report)
    for delete in ((report / "index.html").unlink, lambda: shutil.rmtree(report / "tables")):
        delete()
        status, said = snakemake()
        assert status == 0
        assert "Writing reports/latest/index.html" in said
        assert "Collecting" not in said
        assert files_of(report).keys() == before.keys()
    assert "Nothing to be done" in snakemake("--dry-run")[1]


def test_a_damaged_table_names_file_and_remedy(snakemake, tmp_path):
    folder = tmp_path / "edition"
    shutil.copytree(snakemake.folder / "results/latest/edition", folder)
    (folder / "cases.parquet").write_bytes(b"PAR1")
    with pytest.raises(EditionError, match=r"cases.parquet: is damaged \(.*delete the folder .*/edition and run"):
        read_files(folder)
    (folder / "edition.json").write_text('{"edition": "x", "schema": 1}')
    with pytest.raises(EditionError, match="has no 'edition' or no 'created_utc'"):
        read_files(folder)
