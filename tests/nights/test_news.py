"""How the site lists changes: merged over runs, with dates in words, and those that still last."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernelbook.history.night_events import NightEvent
from kernelbook.history.site.news import advice, failures, lasting, merged, urgent, when


def change(run: str, case: str = "linear-eager", **more: object) -> NightEvent:
    fields = {
        "before": 100.0,
        "after": 119.0,
        "change": 0.19,
        "metric": "forward_time_us",
        "found": "2026-11-29",
    } | more
    return NightEvent("time", "2026-11-28", run, case, f"{run}-{case}", "19 % slower", ("only the time",), **fields)


def test_one_change_of_several_runs_is_listed_once() -> None:
    host, nightly, other = change("host"), change("nightly"), change("host", "mlp-eager")
    faster, later = change("nightly", change=-0.19), change("nightly", found="2026-11-30")
    assert merged([host, other, nightly]) == [(host, nightly), (other,)]
    assert merged([host, faster, later]) == [(host,), (faster,), (later,)]


def test_dates_of_a_change_are_in_words() -> None:
    assert when(change("host")) == "since 28 November, reported on 29 November 2026"
    assert when(change("host", found="2026-11-28")) == "28 November 2026"
    assert when(change("host", found="2027-01-02")) == "since 28 November 2026, reported on 2 January 2027"
    assert when(replace(change("host"), night="first", found="first")) == "first"


@pytest.mark.parametrize(
    ("values", "words"), [((100, 119, 118), "1 change still lasts: linear-eager"), ((100, 119, 101), "")]
)
def test_a_change_is_counted_while_it_lasts(values: tuple[float, ...], words: str) -> None:
    """From 100 to 119 µs on two runs; then near 119 µs still, or back near 100 µs."""
    events = (change("host"), change("nightly"))
    nights = ("2026-11-28", "2026-11-29", "2026-11-30")
    series = [
        SimpleNamespace(run=event.run, case=event.case, nights=[0, 1, 2], values={event.metric: values})
        for event in events
    ]
    book = SimpleNamespace(
        events=events,
        history=SimpleNamespace(nights=nights),
        histories=SimpleNamespace(series=series),
        is_alert=lambda event: True,
    )
    assert lasting(book) == words


def test_what_needs_action_comes_worst_first_and_faster_or_older_cases_do_not() -> None:
    nights = tuple(f"2026-11-{day:02}" for day in range(1, 31))
    slower, faster = change("host", found=nights[-2]), change("host", "mlp-eager", change=-0.19, found=nights[-1])
    long_ago = change("host", "sdpa-math-eager", found=nights[0])
    failed = replace(change("host", "linear-compile", found=nights[-3]), kind="failure")
    tones = {slower: "slower", faster: "faster", long_ago: "slower", failed: "failure"}
    book = SimpleNamespace(events=(faster, slower, failed, long_ago), tone=tones.get)
    book.history = SimpleNamespace(nights=nights)
    assert urgent(book, 12) == [failed, slower]
    assert urgent(book, 1) == [failed]


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({"causes": ("torch 2.13.0 → 2.14.0",)}, "Measure the case with both versions"),
        ({"causes": ("SM clock lower by 5.0 %",)}, "Look at the power limit"),
        ({"causes": ("only CPU time changed: the device time is the same",)}, "Look at the CPU"),
        ({}, "Run the case again."),
        ({"kind": "kernels", "causes": (), "change": None}, "Compare the reports of the two nights"),
        ({"kind": "failure", "text": "it failed: CUDA ran out of memory: use smaller params"}, "Use smaller params."),
        ({"change": -0.19}, ""),
        ({"kind": "series"}, ""),
    ],
)
def test_each_change_for_the_worse_has_something_to_do(fields: dict[str, object], begins: str) -> None:
    text = advice(replace(change("host"), **fields))
    assert text.startswith(begins)
    assert bool(text) == bool(begins)


def test_cases_that_failed_for_one_reason_are_listed_once() -> None:
    reason = "CUDA ran out of memory: use smaller params"
    failed = [{"run": "host", "case": name, "reason": reason, "processes": 1} for name in ("a", "b", "c")]
    failed.append({"run": "ngc", "case": None, "reason": "no such image", "processes": 1})
    first, lost = failures(SimpleNamespace(judged={"failed": failed}))
    assert (first.subject, first.fact, first.remedy) == (
        "a and 2 more cases", "CUDA ran out of memory", "Use smaller params."
    )  # fmt: skip
    assert (lost.subject, lost.cases, lost.fact, lost.remedy) == ("ngc", (), "no such image", "")
