"""Guesses that nothing could meet are refused before anything is measured, each as path, fact and remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.config.loading import ConfigError, load_config
from kernelbook.judge.expectations import judge, vocabulary
from kernelbook.judge.expectations.vocabulary import COUNT, FIGURE
from tests.insight.test_expectations import FIVE, LINEAR, NVJET, OTHER_GEMM, facts, verdict

Refused = Callable[[dict[str, dict[str, Any]]], list[str]]
A_COUNT = 'must be a whole number, a range such as "3-5", or a map of min and max, got '
NAMES = "must be a name or a list of names, got "


@pytest.fixture(scope="module")
def refused(root: Path) -> Refused:
    """A function from the guesses of cases to the mistakes found; the cases are here, there and yonder."""

    def look(guesses: dict[str, dict[str, Any]]) -> list[str]:
        cases = {
            name: {"workload": "linear", "variant": "linear", "mode": "eager", "expect": guesses.get(name, {})}
            for name in ("here", "there", "yonder")
        }
        try:
            load_config({"runs": {"host": {"host": True}}, "cases": cases}, root / "workflow" / "schemas")
        except ConfigError as error:
            return [problem.removeprefix("config.yaml: ") for problem in error.problems]
        return []

    return look


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"kernels": "5-3"}, "kernels: must not begin above its end, got 5-3: write 3-5"),
        ({"kernels": {"min": 5, "max": 3}}, "kernels: must not begin above its end, got 5-3: write 3-5"),
        ({"op_counts": {"aten::mm": "2-1"}}, "op_counts.aten::mm: must not begin above its end, got 2-1: write 1-2"),
        ({"cuda": {"memsets": "2-1"}}, "cuda.memsets: must not begin above its end, got 2-1: write 1-2"),
        ({"sm90": {"kernel_families": {"GEMM": "2-1"}}},
         "sm90.kernel_families.GEMM: must not begin above its end, got 2-1: write 1-2"),
        ({"slower_than": {"there": "3-2"}}, "slower_than.there: must not begin above its end, got 3-2: write 2-3"),
        ({"slower_than": {"there": 0.5}},
         "slower_than.there: must be a factor of 1 or more, got 0.5: for less, use faster_than"),
        ({"faster_than": {"there": {"max": 0.5}}},
         'faster_than.there: must be a factor of 1 or more, got {"max": 0.5}: for less, use slower_than'),
        ({"more_cpu_time_than": {"there": "0-2"}},
         'more_cpu_time_than.there: must be a factor of 1 or more, got "0-2": give 1 or more, or leave it out'),
        ({"kernels": {}}, f"kernels: {A_COUNT}{{}}"),
        ({"kernels": "٣"}, f'kernels: {A_COUNT}"\\u0663"'),  # a digit, but none of 0 to 9
        ({"kernel_families": {"gemm": 1}}, "kernel_families: got \"gemm\": did you mean 'GEMM'?"),
        ({"op_counts": {"": 1}}, 'op_counts: must be a name, got ""'),
        ({"ops_present": []}, f"ops_present: {NAMES}[]"),
        ({"ops_present": "  "}, f'ops_present: {NAMES}"  "'),
        ({"ops_present": ["aten::mm", ""]}, 'ops_present.1: must be a name, got ""'),
        ({"forward_time_us": 500},
         'forward_time_us: must be a range such as "10-12.5", or a map of min and max, got 500'),
        ({"roof_percent": {"nvjet*": "9-5"}},
         "roof_percent.nvjet*: must not begin above its end, got 9-5: write 5-9"),
        ({"ops_in_order": ["aten::mm >"]},
         'ops_in_order: must name an op on either side of >, got "aten::mm >": add it'),
        ({"gemm_type": "bfloat16"}, 'gemm_type: must be fp64, fp32, tf32, fp16, bf16, fp8 or int8, got "bfloat16"'),
    ],
)  # fmt: skip
def test_a_guess_that_nothing_could_meet_is_refused(refused: Refused, expect: dict[str, Any], said: str) -> None:
    assert refused({"here": expect}) == [f"cases.here.expect.{said}"]


def test_another_case_goes_by_its_whole_name(refused: Refused) -> None:
    assert refused({"here": {"same_kernels_as": "the*"}}) == [
        "cases.here.expect: names no case: 'the*': did you mean 'there'?",
    ]
    assert refused({"here": {"slower_than": {"nowhere": 2}}}) == [
        "cases.here.expect: names no case: 'nowhere': did you mean 'here'?",
    ]
    assert refused({"here": {"same_kernels_as": ["there", "here"]}}) == [
        "cases.here.expect: compares the case with itself: name another case",
    ]


def test_cases_may_not_each_be_above_the_next(refused: Refused) -> None:
    assert refused({"here": {"slower_than": "there"}, "there": {"slower_than": {"here": 2}}}) == [
        "cases.here.expect: no device time can be so: here > there > here: delete one of these guesses",
    ]
    in_one_order = {"here": {"more_kernels_than": ["there"]}, "yonder": {"fewer_kernels_than": ["there", "here"]}}
    assert refused(in_one_order) == []
    three = {"yonder": {"more_kernels_than": "here"}, "here": {"more_kernels_than": "there"}}
    assert refused(three | {"there": {"more_kernels_than": "yonder"}}) == [
        "cases.here.expect: no kernels can be so: here > there > yonder > here: delete one of these guesses",
    ]
    # One of them on one device, the other on another: no circle.
    assert refused({"here": {"sm80": {"slower_than": "there"}}, "there": {"sm90": {"slower_than": "here"}}}) == []
    # A device's word beside a common one of the other direction, and a device's word in place of the common one.
    assert refused({"here": {"faster_than": "there", "sm90": {"slower_than": "there"}}}) == [
        "cases.here.expect: no device time can be so: here > there > here: delete one of these guesses",
    ]
    assert refused({"here": {"slower_than": "there"}, "there": {"sm90": {"slower_than": "yonder"}}}) == []
    # Kernels may be the same both ways round.
    assert refused({"here": {"same_kernels_as": "there"}, "there": {"same_kernels_as": "here"}}) == []


def test_odd_values_are_read_without_a_stumble(refused: Refused) -> None:
    assert refused({"here": {"slower_than": {"there": {"min": "3"}}}}) == [
        'cases.here.expect.slower_than.there.min: must be a number, got "3"',
    ]
    assert verdict("memcpys", 1e300, LINEAR)[0] == "broken"  # a whole number to JSON
    assert [j.expected for j in judge("h", {"op_counts": {"min": "2-3", "max": 1}}, LINEAR, {})] == ["min: 2-3, max: 1"]
    assert refused({"here": {"op_counts": {"min": 3, "max": 1}}}) == []  # two ops of these names
    assert judge("h", {"op_counts": {"min": 3, "max": 1}}, LINEAR, {})[0].verdict == "broken"


@pytest.mark.parametrize("word", [name for name, word in vocabulary().items() if word.schema in (COUNT, FIGURE)])
def test_every_word_with_a_range_refuses_a_reversed_one(refused: Refused, word: str) -> None:
    assert refused({"here": {word: {"min": 5, "max": 3}}}) == [
        f"cases.here.expect.{word}: must not begin above its end, got 5-3: write 3-5",
    ]


@pytest.mark.parametrize(("above", "below"), [("slower_forward_than", "faster_forward_than"),
                                              ("more_memory_than", "less_memory_than")])  # fmt: skip
def test_every_order_of_cases_is_checked(refused: Refused, above: str, below: str) -> None:
    assert refused({"here": {above: {"there": 0.5}}}) == [
        f"cases.here.expect.{above}.there: must be a factor of 1 or more, got 0.5: for less, use {below}",
    ]
    quantity = vocabulary()[above].schema["order"]["of"]
    assert refused({"here": {above: "there"}, "there": {above: "here"}}) == [
        f"cases.here.expect: no {quantity} can be so: here > there > here: delete one of these guesses",
    ]
    assert refused({"here": {above: "there"}, "there": {below: "here"}}) == []


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [("kernel_families", 5, "must be a map of kernel families and how many, got 5"),
     ("kernels", "5-3", "must not begin above its end, got 5-3: write 3-5"),
     ("slower_than", {"x": "3-2"}, "must not begin above its end, got 3-2: write 2-3"),
     ("ops_in_order", "> b", 'must be an op, or "a > b" for b inside a, got \'> b\''),
     ("tensor_cores", 1, "must be yes or no, got 1")],
)  # fmt: skip
def test_judged_without_a_configuration_they_are_refused_too(word: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (its text is compared whole)
        judge("here", {word: value}, LINEAR, {})
    assert str(caught.value) == f"cases.here.expect.{word}: {said}"


# --- cases that failed ---

FAILED = CaseFacts("h200", "failed", status="failed", reason="out of memory")
LACKING = CaseFacts("h200", "lacking", status="unsupported", reason="needs sm100")
OTHER = facts(case="other", activities=(("kernel", OTHER_GEMM, "aten::bmm"),))


def test_the_same_kernels_as_one_of_several_is_open_while_one_of_them_is_not_known() -> None:
    assert verdict("same_kernels_as", ["other", "failed"], LINEAR, OTHER, FAILED) == (
        "not applicable",
        "nothing to compare with",
        f"other: only here {NVJET}, only there {OTHER_GEMM}; failed failed: out of memory",
    )
    twin = replace(LINEAR, case="twin")
    assert verdict("same_kernels_as", ["failed", "twin"], LINEAR, FAILED, twin)[:2] == ("confirmed", "the same as twin")
    assert verdict("same_kernels_as", "lacking", LINEAR, LACKING)[2] == "lacking is unsupported: needs sm100"
    copy = facts(activities=(("memcpy", "Memcpy DtoD", "aten::copy_"),))
    assert verdict("same_kernels_as", "other", copy, OTHER)[:2] == ("not applicable", "no kernel")
    assert verdict("same_gemms_as", "other", copy, OTHER)[1] == "no GEMM kernel"


def test_of_several_comparisons_one_that_is_broken_breaks_the_guess_whatever_failed() -> None:
    more = facts(case="more", device_time_us=1.0, activities=FIVE_KERNELS)
    for order in (["failed", "more"], ["more", "failed"]):
        found = verdict("more_kernels_than", order, LINEAR, FAILED, more)
        assert found[:2] == ("broken", "1 kernel here, 5 in more")
        assert "failed failed: out of memory" in found[2]
        assert verdict("slower_than", dict.fromkeys(order, 20), LINEAR, FAILED, more)[:2] == (
            *("broken", "10.00× the device time"),
        )  # fmt: skip
    less = facts(case="less", activities=(("memcpy", "Memcpy DtoD", "aten::copy_"),))
    assert verdict("more_kernels_than", ["less", "failed"], LINEAR, FAILED, less)[:2] == (
        *("not applicable", "nothing to compare with"),
    )  # fmt: skip


FIVE_KERNELS = tuple((a.category, a.name, " > ".join(a.op_path)) for a in FIVE.activities if a.category == "kernel")


@pytest.mark.parametrize("word", ["same_kernels_as", "more_kernels_than", "slower_than", "fewer_cpu_ops_than"])
def test_a_case_of_a_sweep_is_not_compared_with_itself(word: str) -> None:
    assert verdict(word, "linear-eager", LINEAR, LINEAR) == (
        *("not applicable", "nothing to compare with", "linear-eager is this case itself"),
    )  # fmt: skip


def test_a_case_without_a_forward_or_a_time_says_so() -> None:
    empty = replace(OTHER, forwards=(), chosen=None)
    assert verdict("more_kernels_than", "other", LINEAR, empty)[2] == "the trace of other has no forward of it"
    timeless = replace(OTHER, device_time_us=None)
    assert verdict("slower_than", "other", LINEAR, timeless)[1:] == (
        *("no time to compare", "there is no device time of other"),
    )  # fmt: skip
