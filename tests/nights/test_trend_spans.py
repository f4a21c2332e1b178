"""A trend of many nights can be looked at from close by: the last 90 and the last 30 nights have their own charts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import detect_changes
import publish_site
from kernelbook.charts.lines import Curve, since
from kernelbook.history.store import Store
from tests.nights.made_nights import editions, night

NIGHTS = editions(70)
#: Where the points of the charts that can be seen lead.
LINKS = """() => [...document.querySelectorAll("main svg a")].filter(each => each.closest("div").checkVisibility())
    .map(each => each.getAttribute("href"))"""


@pytest.fixture(scope="module")
def trend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a case of seventy nights, slower by a tenth from the tenth night on; judged when it had happened."""
    folder = tmp_path_factory.mktemp("spans")
    store, rng = Store(folder / "history"), np.random.default_rng(3)
    for at, edition in enumerate(NIGHTS):
        factor = 1.1 if at >= 20 else 1.0
        store.add_night(edition, night(edition, ["host"], ["case"], rng, change=lambda *_, f=factor: {"factor": f}))
        if at in (20, 21, 69):
            detect_changes.main(["--history", str(store.folder)])
    publish = json.dumps({"folder": str(folder / "site")})
    assert publish_site.main(["--history", str(store.folder), "--publish", publish]) == 0
    return (folder / "site" / "trends" / "host" / "case.html").resolve()


@pytest.mark.browser
def test_a_choice_of_nights_shows_them_alone(trend: Path, browser) -> None:
    page = browser.new_page()
    page.goto(trend.as_uri())
    assert page.evaluate(LINKS) == [f"../../nights/{each}/index.html" for each in NIGHTS] * 2  # of two figures
    assert page.get_by_role("radio").count() == 2  # seventy nights are too few for the last ninety
    page.get_by_label("last 30").check()
    assert page.evaluate(LINKS) == [f"../../nights/{each}/index.html" for each in NIGHTS[40:]] * 2
    # the step of the twentieth night is outside, so the axis shows the level since then from close by
    assert page.locator("main .over:visible").count() == 0
    page.close()


def test_a_part_of_a_curve_keeps_its_breaks_levels_and_links() -> None:
    """Five points, interrupted before the fourth; a level of the first two and one of the last three."""
    words = tuple((f"{at}.html", str(at)) for at in range(5))
    curve = Curve(np.arange(5.0), 10 * np.arange(5.0), (3,), ((0, 1, 5.0), (2, 4, 30.0)), "css", words)
    part = since(curve, 3.0)
    assert part.x.tolist() == [3.0, 4.0]
    assert part.y.tolist() == [30.0, 40.0]
    assert part.breaks == ()  # a line begins anew before its first point anyway
    assert part.levels == ((0, 1, 30.0),)
    assert part.links == words[3:]
    assert since(curve, 2.0).breaks == (1,)
    assert since(curve, 2.0).levels == ((0, 2, 30.0),)
