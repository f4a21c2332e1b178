"""Arrow arrays made from their buffers, and sums of calls, against what pyarrow itself makes."""

import pyarrow as pa
import pytest

from kernelbook.cases import CASE_COLUMNS, call_totals
from kernelbook.text.arrow_values import array_of

INNER = pa.struct([("x", pa.float64()), ("b", pa.bool_()), ("t", pa.string())])
NESTED = pa.struct([("a", pa.int64()), ("m", pa.map_(pa.string(), pa.float64())), ("s", pa.list_(INNER))])
ROWS = [
    {"a": 2**62, "m": [("k", 1.5), ("none", None)], "s": [{"x": 1.0, "b": True, "t": "é"}, None]},
    None,
    {"a": None, "m": None, "s": None},
    {"a": -1, "m": [], "s": [{"x": None, "b": None, "t": None}, {"x": 2, "b": False, "t": ""}]},
]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (ROWS, NESTED),
        ([None] * 9, NESTED),
        ([b"\x00", None, b""], pa.binary()),
        ([None, None], pa.null()),
        (["a", None], pa.large_string()),
        *[([], column.type) for column in CASE_COLUMNS],
        *[([None], column.type) for column in CASE_COLUMNS],
    ],
)
def test_an_array_is_that_of_pyarrow(values, kind):
    made = array_of(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [(0, pa.string(), TypeError), (1.5, pa.int64(), TypeError), (2**63, pa.int64(), OverflowError)],
)
def test_a_value_of_another_type_is_an_error(value, kind, error):
    with pytest.raises(error):
        array_of([value], kind)


def test_calls_are_summed_by_name_and_forward():
    columns = {"run": ["r"] * 5, "case": ["c"] * 5, "process": [1] * 5, "rank": pa.array([None] * 5, pa.int64())}
    columns |= {"index": [0, 1, 0, 0, 0], "category": ["op"] * 5, "name": ["b", "b", "a", "c", "b"], "depth": [0] * 5}
    columns |= {"duration_us": [9.0, 1.0, 2.0, 4.0, 8.0], "self_us": [9.0, 1.0, None, 4.0, 0.5]}
    calls = pa.table(columns | {"kernels": pa.array([7, 1, 0, None, 2], pa.int64())})
    summed = call_totals(calls)
    rows = [tuple(row.values()) for row in summed.drop_columns(["run", "case", "process", "rank"]).to_pylist()]
    assert rows == [
        (0, "op", "b", 2, 17.0, 9.5, 9),
        (1, "op", "b", 1, 1.0, 1.0, 1),
        (0, "op", "a", 1, 2.0, None, 0),
        (0, "op", "c", 1, 4.0, 4.0, None),
    ]
    keys = ["run", "case", "process", "rank", "index", "category", "name"]
    sums = [("depth", "count"), ("duration_us", "sum"), ("self_us", "sum"), ("kernels", "sum")]
    by_name = [("name", "ascending"), ("index", "ascending")]
    of_pyarrow = calls.group_by(keys).aggregate(sums).rename_columns(summed.column_names)
    assert summed.sort_by(by_name).equals(of_pyarrow.sort_by(by_name))
    assert call_totals(pa.concat_tables([calls.slice(0, 2), calls.slice(2)])).equals(summed)
    assert call_totals(calls.slice(0, 0)).schema.equals(summed.schema)
