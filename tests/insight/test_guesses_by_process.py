"""Guesses that compare times, judged by the processes of both cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelbook.cases import CaseFacts, Process
from tests.insight.test_expectations import facts, verdict

COLUMNS = {
    "slower_than": "device_time_us",
    "more_cpu_time_than": "cpu_time_us",
    "slower_forward_than": "forward_time_us",
    "more_memory_than": "peak_memory_bytes",
}


def case(name: str, column: str, *values: float) -> CaseFacts:
    """A case with one process for each value of the column; the case itself has the first."""
    processes = tuple(Process("h200", name, process=i, **{column: value}) for i, value in enumerate(values, 1))
    return facts(case=name, processes=processes, **{column: values[0]})


@pytest.mark.parametrize(("word", "column"), COLUMNS.items())
def test_all_pairs_of_processes_decide(word: str, column: str) -> None:
    other = case("other", column, 100, 102)
    assert verdict(word, "other", case("a", column, 120, 130), other)[0] == "confirmed"
    assert verdict(word, {"other": 1.1}, case("a", column, 120, 130), other)[0] == "confirmed"  # 120 / 102 = 1.18
    assert verdict(word, {"other": 1.5}, case("a", column, 120, 130), other)[0] == "broken"
    assert verdict(word, "other", case("a", column, 70, 80), other)[0] == "broken"
    about = verdict(word, "other", case("a", column, 101, 102), other)  # medians 101.5 / 101
    assert about[0] == "broken"
    assert about[1].startswith("about equal (1.00× the ")


@pytest.mark.parametrize(("word", "column"), COLUMNS.items())
def test_a_split_vote_leaves_the_guess_open_and_is_stated(word: str, column: str) -> None:
    split = verdict(word, "other", case("a", column, 120, 95), case("other", column, 100, 102))  # 107.5 / 101
    assert split[:2] == ("not applicable", "processes differ")
    assert split[2].endswith(
        "the guess holds in 2 of 4 pairs of processes (slower in 2, faster in 2 of 4 pairs of processes)"
    )


@pytest.mark.parametrize(("word", "column"), COLUMNS.items())
def test_a_missing_figure_leaves_the_guess_open(word: str, column: str) -> None:
    here = case("a", column, 120)
    missing = replace(case("other", column, 100), processes=(), **{column: None})
    assert verdict(word, "other", here, missing)[0] == "not applicable"
    assert verdict(word, "absent", here)[:2] == ("not applicable", "nothing to compare with")


@pytest.mark.parametrize(
    ("word", "column", "observed"),
    [("faster_than", "device_time_us", "2.00× as fast"), ("faster_forward_than", "forward_time_us", "2.00× as fast"),
     ("less_memory_than", "peak_memory_bytes", "0.50× the peak memory")],
)  # fmt: skip
def test_less_of_a_figure(word: str, column: str, observed: str) -> None:
    small, large = case("small", column, 2**20), case("large", column, 2**21)
    assert verdict(word, {"large": 2}, small, large)[:2] == ("confirmed", observed)
    assert verdict(word, {"large": 3}, small, large)[0] == "broken"
    assert verdict(word, "small", large, small)[0] == "broken"
    assert verdict(word, "twin", small, replace(small, case="twin"))[0] == "broken"


def test_the_same_kernel_is_about_equal_to_itself() -> None:
    here, there = case("here", "device_time_us", 101), case("there", "device_time_us", 100)
    for word in ("slower_than", "faster_than"):
        assert verdict(word, "there", here, there)[0] == "broken"
    assert verdict("as_fast_as", "there", here, there)[:2] == ("confirmed", "about equal (1.01×)")
    assert verdict("as_fast_as", "slow", here, case("slow", "device_time_us", 200))[:2] == ("broken", "faster (0.51×)")
    differ = verdict("as_fast_as", "slow", here, case("slow", "device_time_us", 90, 130))
    assert differ[:2] == ("not applicable", "processes differ")
    assert verdict("as_fast_as", ["there", "absent"], here, there)[0] == "not applicable"


def bound(*times: tuple[float, float, float]) -> CaseFacts:
    """A case of processes with (unprofiled forward, busy, CPU) times in µs."""
    names = ("forward_time_us", "device_busy_us", "cpu_time_us")
    each = [dict(zip(names, values, strict=True)) for values in times]
    processes = tuple(Process("h200", "a", process=i, **values) for i, values in enumerate(each, 1))
    return facts(case="a", processes=processes, **each[0])


@pytest.mark.parametrize(
    ("value", "times", "wanted"),
    [("gpu", [(100, 98, 50), (100, 95, 50)], ("confirmed", "gpu")),
     ("launches", [(100, 98, 50), (100, 95, 50)], ("broken", "gpu")),
     ("launches", [(100, 20, 50), (100, 30, 50)], ("confirmed", "launches")),
     ("gpu", [(100, 98, 50), (100, 95, 50), (300, 98, 290)], ("not applicable", "processes differ"))],
)  # fmt: skip
def test_what_bounds_a_forward_is_asked_of_each_process(
    value: str, times: list[tuple[float, float, float]], wanted: tuple[str, str]
) -> None:
    judged: Any = verdict("bound_by", value, bound(*times))
    assert judged[:2] == wanted
    if wanted[1] == "processes differ":
        assert judged[2].endswith("; gpu in 2, launches in 1 of 3 processes")
