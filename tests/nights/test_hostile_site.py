"""Hostile names, reasons and titles in the history: pages, feed and latest.json of the site only show them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import detect_changes
import publish_site
from kernelbook.history.schema import table_of
from kernelbook.history.store import Store
from tests.helpers.hostile import HOSTILE, Page
from tests.nights.made_nights import editions, night, row

DATES = editions(14)
TITLE = "</title><script>hurt()</script>"
NEVER = {"script", "iframe", "object", "embed", "img", "image", "form", "base", "template", "foreignobject", "use"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nights in which each case's kernels were replaced by hostile ones, and one failed for a hostile reason."""
    folder = tmp_path_factory.mktemp("hostile")
    store, rng = Store(folder / "history"), np.random.default_rng(5)
    cases = [f"case-{number}" for number in range(len(HOSTILE))]
    for at, date in enumerate(DATES):

        def change(run: str, case: str, at: int = at) -> dict:
            name = HOSTILE[int(case.removeprefix("case-"))]
            return {"kernels": [name, name], "ops": [name], "torch": name} if at > 10 else {}

        tables = night(date, ["host"], cases, rng, processes=1, change=change)
        if at == 13:
            reasons = {f"bad-{place}": name for place, name in enumerate(HOSTILE)}
            bad = [row(date, "host", case, 1, status="failed", reason=reason) for case, reason in reasons.items()]
            tables["host"] = table_of([*tables["host"].to_pylist(), *bad])
        store.add_night(date, tables)
        if at > 9:
            assert detect_changes.main(["--history", str(folder / "history")]) == 0
    settings = json.dumps({"folder": str(folder / "site"), "title": TITLE})
    assert publish_site.main(["--history", str(folder / "history"), "--publish", settings]) == 0
    return (folder / "site").resolve()


def test_pages_hold_nothing_but_what_they_are_made_of(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(HOSTILE)
    shown = ""
    for file in pages:
        page = Page(file.read_text(encoding="utf-8"))
        assert not page.tags & NEVER, file
        assert not [name for name, _ in page.attributes if name.startswith("on")], file
        assert not [value for name, value in page.attributes if name in ("href", "src") and "script:" in value], file
        assert [text for text in page.other if text.lower() != "doctype html"] == [], file
        shown += page.text
    assert "hurt()" in shown


def test_the_feed_is_text(site: Path) -> None:
    feed = ElementTree.parse(site / "feed.xml").getroot()
    atom = "{http://www.w3.org/2005/Atom}"
    assert feed.findtext(f"{atom}title") == f"{TITLE}: changes"
    assert len(feed.findall(f"{atom}entry")) > 10
    assert {node.tag.removeprefix(atom) for node in feed.iter()} <= {
        *("feed", "title", "id", "updated", "link", "author", "name", "entry", "summary")
    }
    shown = [node for node in feed.iter() if node.tag in (f"{atom}title", f"{atom}summary")]
    assert {node.get("type", "text") for node in shown} == {"text"}


def test_latest_json_is_json(site: Path) -> None:
    latest = json.loads((site / "latest.json").read_text(encoding="utf-8"))
    assert len([item for item in latest["judged"]["failed"] if "hurt()" in item["reason"]]) > len(HOSTILE) / 2
