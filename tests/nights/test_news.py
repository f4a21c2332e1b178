"""How the site lists changes: merged over runs, with dates in words, and those that still last."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernelbook.history.night_events import NightEvent
from kernelbook.history.site.news import lasting, merged, when


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


@pytest.mark.parametrize(("values", "words"), [((100, 119, 118), "1 change still lasts"), ((100, 119, 101), "")])
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
