"""The inputs of ops: what the profiler writes of them, also where it is damaged, and as older tables hold it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kernelbook.cases import case_facts
from kernelbook.trace.inputs import Input, parse_inputs


@pytest.mark.parametrize(
    ("texts", "inputs"),
    [
        ((b"[[2, 3]]", b'["float"]', b'[""]', b"[[3, 1]]"), [("float", (2, 3), (3, 1), "", None)]),
        ((b"[[]]", b'["Scalar"]', b'["1.5"]', b""), [("Scalar", (), None, "1.5", None)]),
        ((b"[[[8], [2, 4]]]", b'["TensorList"]', b"", b""), [("TensorList", None, None, None, ((8,), (2, 4)))]),
        ((b"[[4]]", b'["float", "int"]', b"", b""), [("float", (4,), None, None, None), ("int", *[None] * 4)]),
        ((b'{"a": 1}', b"[", b"7", b""), []),
        ((b"[5, [[1], 2]]", b"", b"[3]", b""), [(None, None, None, "3", None), (None,) * 5]),
        ((b"[[99999999999999999999]]", b"[\"\\ud800\"]", b"", b""), [(None,) * 5]),
    ],
)  # fmt: skip
def test_inputs_are_read_from_what_the_profiler_writes(texts, inputs):
    assert parse_inputs(texts) == [Input(*each) for each in inputs]


def test_tables_that_hold_text_are_still_read():
    """The tables of version 0.1: op_path as one text, the inputs of a call as JSON."""
    key = {"run": "r", "case": "c", "process": 1}
    step = {"annotation": "c", "index": 0, "kernels": 1, "cpu_time_us": 9.0, "forward": True, "kind": 0, "parent": None}
    activity = {"index": 0, "position": 0, "category": "kernel", "name": "k", "start_us": 1.0, "duration_us": 2.0}
    call = {
        "index": 0,
        "position": 0,
        "depth": 0,
        "parent": None,
        "category": "op",
        "name": "aten::mm",
        "start_us": 0.0,
    }
    call |= {"duration_us": 3.0, "self_us": 3.0, "kernels": 1, "input_shapes": "[[2, 3]]", "input_types": '["float"]'}
    tables = {
        "cases": [key | {"status": "ok"}],
        "ranges": [key | step],
        "activities": [key | activity | {"op_path": "aten::linear > aten::mm"}],
        "calls": [key | call | {"concrete_inputs": None, "input_strides": "[[3, 1]]"}],
    }
    facts = case_facts({name: pa.Table.from_pylist(rows) for name, rows in tables.items()})["r", "c"]
    assert facts.activities[0].op_path == ("aten::linear", "aten::mm")
    assert facts.activities[0].launched_by == "aten::linear > aten::mm"
    assert facts.calls[0].inputs == (Input("float", (2, 3), (3, 1)),)
