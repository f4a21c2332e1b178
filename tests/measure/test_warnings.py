"""What the measuring side says against its own figures stands in the row of the case, and so in the report."""

from __future__ import annotations

import json
import shutil

import pytest

from kernelbook.config.loading import NO_FIGURE
from kernelbook.extraction.process_tables import Origin, tables_of

NOT_FINITE = {"code": "not_finite", "count": 3, "message": "the result is not finite: 3 of its 8 values"}


@pytest.fixture
def warnings_of(recorded_h200, tmp_path):
    """The warnings of a recorded case whose measurement.json says this instead: code -> (count, message)."""
    source = recorded_h200 / "linear-eager" / "1"

    def warnings(**keys):
        measured = {**json.loads((source / "measurement.json").read_text(encoding="utf-8")), **keys}
        shutil.copy(source / "trace.json.gz", tmp_path)
        file = tmp_path / "measurement.json"
        file.write_text(json.dumps(measured), encoding="utf-8")
        row = tables_of(Origin("host", "linear-eager", 1, {"kind": "host"}), {}, file)["case"]
        return {note["code"]: (note["count"], note["message"]) for note in row["warnings"][0].as_py()}

    return warnings


def test_a_measurement_that_is_well_has_no_warning_of_its_own(warnings_of):
    assert not warnings_of().keys() & {"not_finite", "few_samples", "no_figure", "unlocked_gpu", "shared_gpu"}


def test_a_result_that_is_not_finite_is_told_loudly(warnings_of):
    assert warnings_of(warnings=[NOT_FINITE])["not_finite"] == (3, NOT_FINITE["message"])


def test_a_figure_that_could_not_be_had_says_why(warnings_of):
    note = "no relative error: the result is of shape [8], its reference of [8, 8]"
    assert warnings_of(notes=[note])["no_figure"] == (1, note)


@pytest.mark.parametrize(("taken", "told"), [(1, True), (29, True), (30, False), (50, False), (0, False)])
def test_few_forward_times_are_told(warnings_of, taken, told):
    found = warnings_of(forward_times_us=[10.0] * taken)
    assert ("few_samples" in found) is told
    if told:
        assert found["few_samples"] == (
            taken, f"the forward time rests on {taken} calls: a quick look; set samples to 30 or more",
        )  # fmt: skip


def test_a_row_without_a_trace_keeps_its_warnings(warnings_of):
    assert set(warnings_of(warnings=[NOT_FINITE], trace=None, status="failed", reason="x")) == {"not_finite"}


@pytest.mark.parametrize(
    ("spec", "measured", "bound"),
    [({}, {}, None), ({}, {"error_bound": 0.02}, 0.02), ({"max_relative_error": 0.5}, {"error_bound": 0.02}, 0.5)],
)
def test_the_bound_of_a_case_goes_before_that_of_its_dtype(recorded_h200, tmp_path, spec, measured, bound):
    """It is applied when the measurement is read: after a change of the bound nothing is measured again."""
    source = recorded_h200 / "linear-eager" / "1" / "measurement.json"
    file = tmp_path / "measurement.json"
    file.write_text(
        json.dumps({**json.loads(source.read_text(encoding="utf-8")), "trace": None, "error_bound": None, **measured})
    )
    row = tables_of(Origin("host", "linear-eager", 1, {"kind": "host"}), spec, file)["case"]
    assert row["error_bound"].to_pylist() == [bound]
    assert "max_relative_error" in NO_FIGURE
