"""A comparison that cannot be made ends with status 2 and leaves no verdict, also none of the comparison before."""

from __future__ import annotations

from pathlib import Path

import pytest

import compare
from kernelbook.compare.output import REPORT, RESULT

WORKLOAD = "def block(context):\n    raise NotImplementedError\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a workload, a configuration with a mistake, and the results of an earlier comparison."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(WORKLOAD, encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("runs: {host: {host: true}}\ncases: {one: {workloat: linear}}\n")
    (tmp_path / "cut.yaml").write_text("cases: [\n")
    for place in compare.DEFAULT_OUTPUT, Path("elsewhere"):
        for side in "AB":
            (place / side / "block" / "1").mkdir(parents=True)
            (place / side / "block" / "1" / "measurement.json").write_text("{}")
        for name in (RESULT, REPORT):
            (place / name).write_text('{"exit_status": 0}')
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["mine.py:block", "nothing"],
        ["nothing", "mine.py:block"],
        ["mine.py:block", "absent.py:block"],
        ["mine.py:block", "absent.sif"],
        [".", ".", "--config", "bad.yaml"],
        [".", ".", "--config", "cut.yaml"],
    ],
)
@pytest.mark.parametrize("output", [None, "elsewhere"])
def test_status_2_leaves_no_verdict_of_the_last_comparison(
    folder: Path, words: list[str], output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(output) if output else compare.DEFAULT_OUTPUT
    assert compare.main([*words, *(["--output", output] if output else [])]) == 2
    assert capsys.readouterr().err.startswith("compare: ")
    assert [name for name in (RESULT, REPORT) if (place / name).exists()] == []
    assert list(place.rglob("measurement.json")) == []
    other = compare.DEFAULT_OUTPUT if output else Path("elsewhere")
    assert (other / RESULT).exists()  # of another comparison
