"""Reports of every kind, made of the recorded runs: the sentence that leads them, and how they stand on any screen."""

from __future__ import annotations

import pytest

from tests.helpers.patience import LONG
from tests.report import editions

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCREENS = [(scheme, width) for width in (1280, 390) for scheme in ("light", "dark")]
A4 = 703  # px between margins of 12 mm
#: What the sentence of each says: (its beginning, its end, whether it is red). Numbers of guesses are left out.
SENTENCES = {
    "example": ("All ", " guesses held.", False),
    "cpu-and-h200": ("", " guesses were judged, all held.", False),
    "six-runs": ("9 of ", " guesses broke.", True),  # of one case on three runs: memcpys, the same kernels, faster
    "twelve-broken": ("20 of ", " guesses broke.", True),  # twelve numbers of kernels, and eight families
    "many-failures": ("12 cases failed; ", " guesses were judged, all held.", True),
    "lost-run": ("1 run lost, 6 cases failed; ", " guesses were judged, all held.", True),
    "job-of-ranks": ("fsdp2-step: rank 1 comes last to ", " guesses held.", False),
}
SERIOUS = """axe.run(document, {resultTypes: ["violations"], preload: false}).then(found => found.violations
    .filter(v => ["serious", "critical"].includes(v.impact))
    .map(v => [v.id, ...v.nodes.slice(0, 3).map(node => node.html.slice(0, 160))]))"""
#: Leaves one element of each kind not yet seen: its tag, class and role, and those of what it is in. Of tables whole
#: rows go. Returns the kinds seen so far.
THIN_OUT = """before => {
    const kind = one => [one.tagName, one.getAttribute("class"), one.getAttribute("role")].join(".")
    const kinds = box => [box, ...box.querySelectorAll("*")].map(one => `${kind(one.parentElement)} ${kind(one)}`)
    const removable = ".case, .case :not(table *), tbody tr, li, svg *, option"
    const seen = new Set(before)
    const walk = box => {
        for (const one of [...box.children]) {
            const inside = kinds(one)
            if (one.matches(removable) && inside.every(each => seen.has(each))) one.remove()
            else {
                seen.add(inside[0])
                walk(one)
            }
        }
    }
    walk(document.body)
    return [...seen]
}"""
#: Tables and charts whose content is wider than they are, by their names.
CUT = """() => [...document.querySelectorAll(".table, .chart, .pairs, .lanes-figure")]
    .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
    .map(box => box.dataset.table ?? box.dataset.name ?? box.className)"""


@pytest.fixture(scope="module")
def seen() -> list[str]:
    """Kinds of elements whose contrast an earlier edition has shown."""
    return []


@pytest.mark.parametrize("name", editions.EDITIONS)
def test_a_report_says_what_happened_and_is_legible_anywhere(open_page, axe, settle, tmp_path, name, seen):
    """With all cases open: on paper, and in light and dark on a desk and on a phone; the example in both on each."""
    report = editions.render(name, tmp_path / "report", tmp_path)
    page = open_page(report, width=A4)
    page.set_default_timeout(1000 * LONG)
    _leads_with(page.locator("h1"), *SENTENCES[name])
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # opens and builds all that is folded
    page.emulate_media(media="print", reduced_motion="reduce")
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    page.emulate_media(media="screen")
    page.evaluate("document.querySelector('#compare').scrollIntoView()")
    page.wait_for_selector(".compare-title", state="attached")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    page.evaluate(axe)
    kinds, violations = list(seen), []
    for scheme, width in SCREENS if name == "example" else SCREENS[::3]:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        seen += page.evaluate(THIN_OUT, kinds)  # again on each screen, since another width draws the figures anew
        violations += [(scheme, width, *each) for each in page.evaluate(SERIOUS)]
    assert violations == []


def _leads_with(title, begin, end, bad):
    text = title.inner_text()
    assert text.startswith(begin)
    assert text.endswith(end)
    assert (title.locator(".broke").count() > 0) == bad


def test_the_site_of_many_nights_is_legible(browser, axe, tmp_path):
    """One of the four cases that change, and one change of torch, in 125 nights."""
    site = editions.year_of_nights(tmp_path / "site", tmp_path, nights=125)
    pages = [site / "index.html", max(site.glob("nights/*/index.html")), site / "trends" / "host" / "mlp-eager.html"]
    context = browser.new_context(bypass_csp=True, reduced_motion="reduce")
    page = context.new_page()
    found = []
    for name in pages:
        page.goto(name.as_uri())
        page.evaluate(axe)
        for scheme, width in SCREENS if name == pages[0] else SCREENS[::3]:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width, (name.name, scheme, width)
            found += [(name.name, scheme, width, *each) for each in page.evaluate(SERIOUS)]
    page.goto(pages[0].as_uri())
    lead = page.locator(".lead").inner_text()
    context.close()
    assert found == []
    assert "runs (host: NVIDIA H200, nightly: NVIDIA H200). " in lead
    assert ".All" not in lead
