"""`kernelbook diff` of measured cases, runs and editions: which cases are pairs, by made traces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kernelbook.diffs import SideError, diff, sides
from kernelbook.diffs.sides import read_side
from kernelbook.edition.paths import SCHEMA, EditionFiles
from kernelbook.extraction.process_tables import Origin, tables_of
from tests.insight.insight_traces import Trace
from tests.trace import made_trace

GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(int)"


def measured(run: Path, case: str, *kernels: tuple[str, float]) -> None:
    """Three forwards of these (kernel, µs) as RUN/CASE/1."""
    trace = Trace()
    for _ in range(3):
        trace.forward(list(kernels))
    trace.write(run, case)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """old: cases same and grown. new: the same two, grown with a relu more, and a third."""
    old, new = tmp_path / "old", tmp_path / "new"
    for run in (old, new):
        measured(run, "same", (GEMM, 10.0))
    measured(old, "grown", (GEMM, 10.0))
    measured(new, "grown", (GEMM, 10.0), (RELU, 4.0))
    measured(new, "third", (GEMM, 10.0))
    return old, new


def edition_of(run: Path, name: str, folder: Path) -> Path:
    """The edition of a run, without what is judged."""
    parts: dict[str, list[pa.Table]] = {}
    for file in sorted(run.glob("*/*/measurement.json")):
        origin = Origin(name, file.parent.parent.name, int(file.parent.name), {})
        for table, rows in tables_of(origin, {}, file).items():
            parts.setdefault("cases" if table == "case" else table, []).append(rows)
    tables = {table: pa.concat_tables(rows, promote_options="default") for table, rows in parts.items()}
    about = {"schema": SCHEMA, "edition": "x", "created_utc": "2026-01-01T00:00:00Z"}
    about |= {"runs": [{"run": name, "kind": "host"}], "cases": []}
    EditionFiles(about, tables).write(folder / "edition")
    return folder


def counts(a: Path, b: Path) -> dict[str, tuple[int, int, int]]:
    """Name of each case -> its activities that are same, more and less."""
    return {each.a.case: (each.counts.same, each.counts.more, each.counts.less) for each in diff(a, b).comparisons}


EXPECTED = {"grown": (1, 1, 0), "same": (1, 0, 0)}


def test_cases_of_two_runs_are_pairs_by_name(runs: tuple[Path, Path]) -> None:
    found = diff(*runs)
    assert counts(*runs) == EXPECTED
    assert ([case.case for case in found.only_a], [case.case for case in found.only_b]) == ([], ["third"])
    assert not found.equal


def test_an_edition_is_compared_with_an_edition_and_with_a_run(runs: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = runs
    editions = edition_of(old, "host", tmp_path / "one"), edition_of(new, "host", tmp_path / "two")
    assert counts(*editions) == EXPECTED
    assert counts(editions[0], new) == EXPECTED
    assert counts(editions[0] / "edition", new) == EXPECTED
    assert diff(editions[0], editions[0]).equal


def test_one_case_and_one_process_are_compared_whatever_their_names(runs: tuple[Path, Path]) -> None:
    old, new = runs
    assert counts(old / "same", new / "grown") == {"same": (1, 1, 0)}
    assert counts(new / "grown" / "1", old / "same" / "1" / "measurement.json") == {"grown": (1, 0, 1)}


def test_relative_paths_name_the_run_by_its_folder(runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs[0])
    assert read_side(Path("grown")).runs == ("old",)
    assert [case.case for case in read_side(Path()).cases] == ["grown", "same"]


def test_nothing_in_common_is_refused_with_the_names(runs: tuple[Path, Path], tmp_path: Path) -> None:
    measured(tmp_path / "other", "p", (GEMM, 10.0))
    measured(tmp_path / "other", "q", (GEMM, 10.0))
    with pytest.raises(SideError, match=r"old/grown, old/same.*other/p, other/q"):
        diff(runs[0], tmp_path / "other")


def test_ranges_are_paired_by_name_before_their_facts_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of a range take longer than reading the trace."""
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, names in zip(files, (("a", "b"), ("c", "d")), strict=True):
        events = [made_trace.annotation(name, 1000 + 200 * at, 100) for at, name in enumerate(names)]
        made_trace.write(file, events)
    monkeypatch.delattr(sides, "tables_of_reading")
    with pytest.raises(SideError, match=r"no range or case of the same name: .*one.json \(a, b\) .*two.json \(c, d\)"):
        diff(*files)


def test_a_failed_case_is_a_difference_and_not_an_equal_one(runs: tuple[Path, Path]) -> None:
    file = runs[1] / "same" / "1" / "measurement.json"
    file.write_text("{")
    found = {each.a.case: each for each in diff(*runs).comparisons}
    assert "same of new failed" in (found["same"].refused or "")
    assert not diff(runs[0] / "same", runs[1] / "same").equal


def test_a_report_is_not_compared_and_its_edition_is_named(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "summary.json").write_text('{"schema": 2}')
    with pytest.raises(SideError, match=r"first: is a report: name its edition \(results/first\)"):
        read_side(tmp_path / "first")
