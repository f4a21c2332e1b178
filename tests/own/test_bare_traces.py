"""A bare trace as a row: what is taken for its forward, and files that are no traces."""

import json

import pytest

from kernelbook.case_tables import Origin, tables_of
from kernelbook.config import trace_case

STATUS = {"status": "ok", "reason": None, "image_digest": None}


def span(name, start, length):
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}


@pytest.fixture
def row_of(tmp_path):
    def row(text, annotation=None):
        file = tmp_path / "step.pt.trace.json"
        file.write_text(text)
        tables = tables_of(Origin("mine", "step", 1, STATUS), trace_case("step", annotation).measurement, file)
        return tables["case"].to_pylist()[0]

    return row


TRACE = json.dumps(
    {"traceEvents": [span("load", 0, 5), span("step", 10, 40), span("loss", 12, 30), span("step", 60, 42)]}
)


def test_the_forward_is_the_outer_range_that_takes_longest(row_of):
    row = row_of(TRACE)
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("step", 2, 41)


def test_or_the_one_that_the_configuration_names(row_of):
    row = row_of(TRACE, "loss")
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("loss", 1, 30)


def test_a_name_that_the_trace_does_not_have_is_told(row_of):
    row = row_of(TRACE, "train")
    assert row["cpu_time_us"] is None
    assert "no range named 'train'" in row["warnings"]


@pytest.mark.parametrize(
    ("text", "words"), [("{}", "an empty JSON object"), ('{"name": "x"}', "the keys 'name'"), ("", "empty")]
)
def test_a_file_that_is_no_trace_is_a_failed_row_with_the_reason(row_of, text, words):
    row = row_of(text)
    assert row["status"] == "failed"
    assert "the trace cannot be read" in row["reason"]
    assert words in row["reason"]
