"""A result that is far from its reference is a finding of weight; one within its bound is none."""

from __future__ import annotations

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings.reliability import BOUNDS
from tests.insight.insight_findings import found, one


def facts(**keys: object) -> CaseFacts:
    return CaseFacts(run="r", case="c", **{"dtype": "bfloat16", "relative_error": 0.004, "error_bound": None, **keys})


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({}, False),
        ({"relative_error": 0.75}, True),
        ({"relative_error": 0.02}, False),  # the bound itself is allowed
        ({"relative_error": 0.021}, True),
        ({"relative_error": 0.021, "error_bound": 0.05}, False),
        ({"relative_error": 0.004, "error_bound": 0.001}, True),
        ({"relative_error": 2e-4, "dtype": "float32", "error_bound": 1e-4}, True),
        ({"relative_error": 2e-4, "dtype": "float32"}, False),  # it may have been TF32
        ({"relative_error": 6e-3, "dtype": "float32"}, True),
        ({"relative_error": 6e-3, "dtype": "float16"}, True),
        ({"relative_error": 1e-9, "dtype": "float64"}, True),
        ({"relative_error": None}, False),
        ({"relative_error": 0.75, "dtype": None}, False),
        ({"relative_error": 0.75, "status": "failed"}, False),
    ],
)
def test_a_result_above_its_bound(keys, wrong):
    assert len(found(facts(**keys), "wrong-result")) == wrong


def test_what_it_says():
    finding = one(facts(relative_error=0.75), "wrong-result")
    assert finding.severity == "high"
    assert "by a relative error of 0.75; rounding in bfloat16 explains up to 0.02" in finding.text
    assert "max_relative_error" in finding.remedy
    assert finding.evidence == "relative error 0.75 against a float64 reference, bound 0.02"


def test_the_bounds_are_those_of_the_measuring_side():
    accuracy = pytest.importorskip("workloads.harness.accuracy", reason="torch is not installed")
    assert {**accuracy.BOUNDS, "float32": accuracy.TF32_BOUND} == BOUNDS
