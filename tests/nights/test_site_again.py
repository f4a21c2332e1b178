"""A site that is published again is that of a first publication, and only pages whose contents changed are rendered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import detect_changes
import publish_site
from kernelbook.history.site import pages
from kernelbook.history.store import Store
from tests.nights.made_nights import editions, night

DATES = editions(16)
TIME = "2026-02-01T00:00:00Z"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fourteen judged nights of one case on two runs, one of which ended after six, and a report of the last."""
    for module in (publish_site, detect_changes):
        monkeypatch.setattr(module, "utc_now", lambda: TIME)
    store, rng = Store(tmp_path / "history"), np.random.default_rng(1)
    for at, date in enumerate(DATES[:14]):
        store.add_night(date, night(date, ["host", "old"] if at < 6 else ["host"], ["case"], rng))
    judge(tmp_path)
    add_report(tmp_path, DATES[13])
    return tmp_path


def judge(work: Path) -> None:
    assert detect_changes.main(["--history", str(work / "history")]) in (0, 3)


def add_report(work: Path, date: str) -> None:
    (work / "reports" / date).mkdir(parents=True)
    (work / "reports" / date / "index.html").write_text("report")


def add_night(work: Path, date: str, runs: tuple[str, ...] = ("host",), **changes: object) -> None:
    tables = night(date, runs, ["case"], np.random.default_rng(2), change=lambda run, case: changes)
    Store(work / "history").add_night(date, tables)


def published(work: Path, name: str = "site", rules: dict | None = None, **settings: object) -> dict[str, bytes]:
    """The files of the site, by path."""
    chosen = json.dumps({"folder": str(work / name), **settings})
    where = ["--history", str(work / "history"), "--reports", str(work / "reports")]
    assert publish_site.main([*where, "--publish", chosen, "--rules", json.dumps(rules or {})]) == 0
    root = (work / name).resolve()
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the pages that are rendered from now on: the night, or the case and line."""
    made: list[str] = []
    environment = pages._environment()

    def render(self: object, values: dict) -> str:
        shown = values.get("night") or values.get("trend")
        made.append(getattr(shown, "edition", None) or getattr(shown, "line", None) or "list")
        return original(self, values)

    original = environment.template_class.render
    monkeypatch.setattr(environment.template_class, "render", render)
    return made


def test_without_anything_new_no_page_of_a_night_or_case_is_rendered(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = published(work)
    made = rendered(monkeypatch)
    assert published(work) == first
    assert made == ["list", DATES[13], "list"]  # index.html, latest.html, trends/index.html


def test_with_one_more_night_its_neighbour_and_the_measured_case_are_rendered(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(work)
    add_night(work, DATES[14])
    made = rendered(monkeypatch)
    assert set(published(work)) == set(published(work, "anew"))
    assert made[:6] == ["list", DATES[14], DATES[14], DATES[13], "list", "host"]  # and no page of the run that ended


CHANGES: dict[str, Callable[[Path], dict]] = {
    "one more night": lambda work: add_night(work, DATES[14]) or judge(work) or {},
    "a slow night": lambda work: add_night(work, DATES[14], factor=3.0) or judge(work) or {},
    "an old night measured again": lambda work: add_night(work, DATES[2], ("host", "old"), factor=1.2) or {},
    "one night less": lambda work: shutil.rmtree(work / "history/nights" / DATES[4]) or {},
    "events that are gone": lambda work: shutil.rmtree(work / "history/events") or {},
    "a run that is back": lambda work: add_night(work, DATES[14], ("host", "old")) or {},
    "another version": lambda work: add_night(work, DATES[14], torch="2.14.0") or {},
    "another driver": lambda work: add_night(work, DATES[14], driver="590.10") or judge(work) or {},
    "one more report": lambda work: add_report(work, DATES[12]) or {},
    "a report that is left out": lambda work: {"full_nights": 0},
    "another title": lambda work: {"title": "Ours"},
    "docs": lambda work: {"docs": "../docs/index.html"},
    "a rule": lambda work: {"rules": {"min_nights": 40}},
    "a page that is gone": lambda work: (work / "site/nights" / DATES[3] / "index.html").unlink() or {},
    "a table that is gone": lambda work: (work / "site/nights" / DATES[3] / "cases.csv").unlink() or {},
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_site_is_that_of_a_first_publication(work: Path, change: str) -> None:
    before = published(work)
    settings = CHANGES[change](work)
    again = published(work, **settings)
    assert again == published(work, "anew", **settings)
    assert (again == before) == change.endswith("is gone")


def test_other_code_renders_all_pages(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(work)
    monkeypatch.setattr(pages, "_code", lambda: "other code")
    made = rendered(monkeypatch)
    assert published(work) == published(work, "anew")
    assert len(made) == 2 * (3 + 14 + 2)
