"""Which backends a device takes: equal answers are one row, and torch's reasons are kept."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kernelbook.judge.sdpa_backends import SCHEMA, backends_table, describe

YES = {"usable": True, "reasons": []}
NO = {"usable": False, "reasons": ["Flash attention requires q,k,v to be half.", "Got float."]}


def row(case: str, answers: dict, seq: int = 1024, dtype: str = "float32", run: str = "r") -> dict:
    params = {"head_dim": 64, "seq": seq, "batch": 8}
    told = {"sdpa_backends": json.dumps(answers), "params": json.dumps(params)}
    return {"run": run, "case": case, "workload": "attention", "dtype": dtype} | told


def test_equal_answers_of_several_cases_are_one_row() -> None:
    both = {"flash": NO, "math": YES}
    none = {"run": "r", "case": "linear", "workload": "linear", "dtype": "float32", "sdpa_backends": None}
    found = backends_table(pa.Table.from_pylist([row("a", both), row("a", both), row("b", both, seq=2048), none]))
    assert found.schema == SCHEMA
    assert found.to_pylist() == [
        {
            "run": "r",
            "workload": "attention",
            "backend": "math",
            "usable": True,
            "reason": None,
            "inputs": "float32, batch 8, seq 1024 or 2048, head_dim 64, causal",
            "cases": "a, b",
        },
        {
            "run": "r",
            "workload": "attention",
            "backend": "flash",
            "usable": False,
            "reason": "Flash attention requires q,k,v to be half. Got float.",
            "inputs": "float32, batch 8, seq 1024 or 2048, head_dim 64, causal",
            "cases": "a, b",
        },
    ]


def test_different_answers_and_runs_are_different_rows() -> None:
    rows = [row("a", {"flash": NO}), row("b", {"flash": YES}, dtype="bfloat16"), row("a", {"flash": NO}, run="s")]
    found = backends_table(pa.Table.from_pylist(rows)).to_pylist()
    assert [(each["run"], each["usable"], each["cases"]) for each in found] == [
        ("r", True, "b"),
        ("r", False, "a"),
        ("s", False, "a"),
    ]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], ""),
        ([(("dtype", "half"), ("seq", "1"))] * 2, "half, seq 1, causal"),
        ([(("dtype", "half"), ("seq", "1")), (("dtype", "float"), ("seq", "1"))], "half or float, seq 1, causal"),
        (
            [(("dtype", "half"), ("seq", "1")), (("dtype", "float"), ("seq", "2"))],
            "half, seq 1, causal; float, seq 2, causal",
        ),
        ([(("dtype", "half"),), (("dtype", "half"), ("seq", "2"))], "half, causal; half, seq 2, causal"),
    ],
)
def test_inputs_in_words(inputs, words) -> None:
    assert describe(inputs) == words


def test_no_table_of_cases_gives_none() -> None:
    assert backends_table(pa.table({})).num_rows == 0
