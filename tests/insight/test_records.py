"""Dataclasses as rows of Arrow tables: types by hand, and every value comes back as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kernelbook.cases import CASE_COLUMNS, Environment, Process
from kernelbook.cases.process import Backend, Clocks, GpuReading
from kernelbook.cases.records import records_of, table_of, text_value, value_text
from kernelbook.trace import TraceWarning

FULL = Process(
    "r",
    "c",
    params={"size": 64, "causal": True, "like": "64", "name": "half", "shape": [1, [2]], "none": None, "empty": ""},
    environment=Environment(threads=8, packages={"numpy": "2.4", "none": None}),
    clocks=Clocks(after=GpuReading(sm_mhz=1980.0, throttle_reasons=())),
    sdpa_backends={"flash": Backend(False, ("needs half",)), "math": Backend(True, ())},
    forward_times_us=(1.5, 2.0),
    warnings=(TraceWarning("a", 2, "text"),),
)


def test_a_row_comes_back_as_it_was() -> None:
    assert records_of(Process, table_of([FULL, Process("r", "d")], CASE_COLUMNS)) == [FULL, Process("r", "d")]


def test_columns_are_nested_and_hold_no_json() -> None:
    text = pa.string()
    assert CASE_COLUMNS.field("params").type == pa.map_(text, text)
    assert CASE_COLUMNS.field("forward_times_us").type == pa.list_(pa.float64())
    backend = pa.struct([("usable", pa.bool_()), ("reasons", pa.list_(text))])
    assert CASE_COLUMNS.field("sdpa_backends").type == pa.map_(text, backend)
    assert "merged" not in CASE_COLUMNS.names


@pytest.mark.parametrize(
    ("value", "text"),
    [(64, "64"), ("64", '"64"'), ("half", "half"), ("", ""), (True, "true"), ("true", '"true"'), (None, "null")],
)
def test_a_text_has_quotes_only_where_it_reads_as_another_value(value: object, text: str) -> None:
    assert value_text(value) == text
    assert text_value(text) == value


def test_null_nan_and_a_missing_column_take_the_default_and_another_type_is_refused() -> None:
    rows = pa.table(
        {"run": ["r"], "case": ["c"], "forward_time_us": [float("nan")], "process": pa.nulls(1, pa.int64())}
    )
    assert records_of(Process, rows) == [Process("r", "c")]
    with pytest.raises(ValueError, match=r"a row does not fit Process: .*warmup"):
        records_of(Process, pa.table({"run": ["r"], "case": ["c"], "warmup": ["three"]}))
