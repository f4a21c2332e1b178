"""A report stays until a new one replaces it, and is rendered again if it was deleted."""

import json
import shutil

import pytest

from kernelbook.edition.paths import EditionError, read_files
from tests.helpers.snakemake import WorkingFolder

pytestmark = pytest.mark.slow
STEP = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 9}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with one recorded trace, whose report was rendered once."""
    folder = WorkingFolder(tmp_path_factory.mktemp("render again"))
    (folder.path / "traces").mkdir()
    (folder.path / "traces/one.json").write_text(json.dumps({"traceEvents": [STEP]}))
    folder.configure({"runs": {"old": {"recorded": "traces"}}})
    folder.snakemake()
    return folder


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_failed_rendering_leaves_the_last_report_and_names_file_and_remedy(folder):
    report, edition = folder.path / "reports/latest", folder.path / "results/latest/edition"
    before = files_of(report)
    assert {"index.html", "report.md", "summary.json"} <= before.keys()
    whole = (edition / "edition.json").read_text()
    (edition / "edition.json").write_text(whole[:200])
    said = folder.snakemake("-R", "render_report", status=1)
    assert "results/latest/edition/edition.json: is damaged (" in said
    assert "delete the folder results/latest/edition and run the workflow again" in said
    assert said.splitlines()[-2] == "The last report is still there: reports/latest/index.html"
    assert files_of(report) == before
    folder.snakemake(status=1)  # rendering is tried again, not considered done
    shutil.rmtree(edition)
    said = folder.snakemake()
    assert "report: reports/latest/index.html" in said
    assert "Reading old" not in said


def test_what_was_deleted_by_hand_is_rendered_again_and_nothing_else(folder):
    report = folder.path / "reports/latest"
    before = files_of(report)
    for delete in ((report / "index.html").unlink, lambda: shutil.rmtree(report / "tables")):
        delete()
        said = folder.snakemake()
        assert "Writing reports/latest/index.html" in said
        assert "Collecting" not in said
        assert files_of(report).keys() == before.keys()
    assert "Nothing to be done" in folder.snakemake("--dry-run")


def test_a_damaged_table_names_file_and_remedy(folder, tmp_path):
    edition = tmp_path / "edition"
    shutil.copytree(folder.path / "results/latest/edition", edition)
    (edition / "cases.parquet").write_bytes(b"PAR1")
    with pytest.raises(EditionError, match=r"cases.parquet: is damaged \(.*delete the folder .*/edition and run"):
        read_files(edition)
    (edition / "edition.json").write_text('{"edition": "x", "schema": 1}')
    with pytest.raises(EditionError, match="has no 'edition' or no 'created_utc'"):
        read_files(edition)
