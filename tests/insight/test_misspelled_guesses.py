"""A guess that a name is absent gets a note if the name occurs nowhere in the run and is similar to one that does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.insight.insight_recorded import Facts
from tests.insight.test_expectations import FIVE, LINEAR, facts, verdict

OTHER = facts(
    case="other",
    activities=(("kernel", "triton_poi_fused_add_0", "x"), ("memcpy", "Memcpy DtoD (Device -> Device)", "x")),
    ops=((0, "aten::contiguous"), (1, "aten::clone")),
)


@pytest.mark.parametrize(
    ("word", "value", "suggestion"),
    [
        ("ops_absent", "aten::contigous", "'aten::contiguous'"),  # an op of another case
        ("ops_absent", "contiguous", "'aten::contiguous'"),
        ("ops_absent", "aten::Clone", "'aten::clone'"),
        ("ops_absent", ["aten::mm", "aten::transposed"], "'aten::transpose'"),
        ("ops_absent", "*contig", "'aten::contiguous'"),
        ("ops_absent", "tig", "'*tig*'"),
        ("op_counts", {"aten::addm": 0}, "'aten::addmm'"),
        ("activity_names_absent", "trition_*", "'triton' as in triton_poi_fused_add_0"),
        ("activity_names_absent", "triton_poi", "'*triton_poi*'"),
        ("activity_names_absent", "Memcopy DtoD*", "'Memcpy DtoD'"),
    ],
)
def test_a_name_that_occurs_nowhere_gets_a_suggestion(word: str, value: Any, suggestion: str) -> None:
    judged = verdict(word, value, LINEAR, OTHER)
    assert judged[0] == "confirmed"
    assert judged[2].endswith(f" occurs nowhere in the run: did you mean {suggestion}?")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("ops_absent", "aten::clone"),  # an op of another case
        ("ops_absent", "aten::cl*"),
        ("ops_absent", "aten::softmax"),  # nothing is similar
        ("op_counts", {"aten::clone": 0, "aten::addmm": 1}),
        ("activity_names_absent", "triton_*"),
        ("activity_names_absent", "ncclDevKernel*"),
    ],
)
def test_a_name_that_occurs_or_resembles_nothing_gets_no_note(word: str, value: Any) -> None:
    judged = verdict(word, value, LINEAR, OTHER)
    assert judged[0] == "confirmed"
    assert "occurs nowhere" not in judged[2]


def test_the_case_itself_counts_as_part_of_the_run() -> None:
    assert verdict("activity_names_absent", "nvjett_*", FIVE)[2].startswith(
        "none of 6 device activities; nvjett_* occurs nowhere in the run: did you mean 'nvjet' as in nvjet_sm90"
    )
    assert verdict("ops_absent", "aten::relu6", LINEAR)[2].endswith("did you mean 'aten::relu'?")


def test_names_of_other_forwards_count(recorded_facts: Facts) -> None:
    case = recorded_facts["linear-eager"]
    judged = verdict("ops_absent", ["aten::addd", "aten::add"], case, *recorded_facts.values())
    assert judged[2].endswith("; aten::addd occurs nowhere in the run: did you mean 'aten::add'?")
