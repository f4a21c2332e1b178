"""Which backends a device takes: equal answers are one row, and torch's reasons are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.cases import CaseFacts, Process
from kernelbook.cases.process import Backend
from kernelbook.cases.records import record_of
from kernelbook.judge.sdpa_backends import SCHEMA, backends_table, describe

YES = {"usable": True, "reasons": []}
NO = {"usable": False, "reasons": ["Flash attention requires q,k,v to be half.", "Got float."]}


def case(name: str, answers: dict, seq: int = 1024, dtype: str = "float32", run: str = "r") -> CaseFacts:
    backends = {backend: record_of(Backend, answer) for backend, answer in answers.items()}
    process = Process(run, name, "attention", dtype=dtype, sdpa_backends=backends)
    return CaseFacts(run, name, processes=(replace(process, params={"head_dim": 64, "seq": seq, "batch": 8}),))


def test_equal_answers_of_several_cases_are_one_row() -> None:
    both = {"flash": NO, "math": YES}
    none = CaseFacts("r", "linear", processes=(Process("r", "linear", "linear", dtype="float32"),))
    found = backends_table([case("a", both), case("a", both), case("b", both, seq=2048), none])
    assert found.schema == SCHEMA
    assert found.to_pylist() == [
        {
            "run": "r",
            "workload": "attention",
            "backend": "math",
            "usable": True,
            "reason": None,
            "inputs": "float32, batch 8, seq 1024 or 2048, head_dim 64, causal",
            "cases": ["a", "b"],
        },
        {
            "run": "r",
            "workload": "attention",
            "backend": "flash",
            "usable": False,
            "reason": "Flash attention requires q,k,v to be half. Got float.",
            "inputs": "float32, batch 8, seq 1024 or 2048, head_dim 64, causal",
            "cases": ["a", "b"],
        },
    ]


def test_different_answers_and_runs_are_different_rows() -> None:
    rows = [case("a", {"flash": NO}), case("b", {"flash": YES}, dtype="bfloat16"), case("a", {"flash": NO}, run="s")]
    found = backends_table(rows).to_pylist()
    assert [(each["run"], each["usable"], each["cases"]) for each in found] == [
        ("r", True, ["b"]),
        ("r", False, ["a"]),
        ("s", False, ["a"]),
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


def test_no_case_gives_no_row() -> None:
    assert backends_table([]).num_rows == 0
