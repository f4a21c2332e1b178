"""The published site: links, feed, news for machines, untrusted names, and that readers never see half of it."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest

import detect_changes
import publish_site
from kernelbook.charts.drawing import TOKENS
from kernelbook.charts.lines import around, number
from kernelbook.history.schema import table_of
from kernelbook.history.site.feed import xml_text
from kernelbook.history.site.publish import PublishError, publish
from kernelbook.history.site.webhook import message
from kernelbook.history.store import Store
from tests.nights.made_nights import ADD, GEMM, GEMM_2, editions, night, row
from tests.nights.sudden_death import copies_after_deaths

CASES = [f"case-{number}" for number in range(5)]
DATES = editions(60)
#: Colours of kernels in chart.css, which the site does not draw.
FAMILIES = {"--f-gemm"}
EVIL = '<script>alert("x")</script> & <b>'


class Links(HTMLParser):
    """Every address in a page, every id, and whether anything would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]


def broken_links(site: Path) -> list[str]:
    """Links of all pages that lead nowhere, are absolute, or leave the site."""
    wrong = []
    root = site.resolve()
    files = {str(path) for path in root.rglob("*") if path.is_file()}
    for page in sorted(root.rglob("*.html")):
        parser = Links()
        parser.feed(page.read_text(encoding="utf-8"))
        for link in parser.links:
            parts = urlsplit(link)
            if link == "data:,":
                continue
            target = os.path.normpath(page.parent / unquote(parts.path))
            if parts.scheme or parts.netloc or link.startswith("/") or target not in files:
                wrong.append(f"{page.relative_to(root)}: {link}")
    return wrong


@pytest.fixture(autouse=True)
def _no_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELBOOK_WEBHOOK", raising=False)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty judged nights with events of every kind, and the reports of the last five."""
    folder = tmp_path_factory.mktemp("work")
    store, rng = Store(folder / "history"), np.random.default_rng(3)
    for at, date in enumerate(DATES):

        def change(run: str, case: str, at: int = at) -> dict:
            found: dict = {"torch": "2.14.0" if run == "stable" and at >= 30 else "2.13.0"}
            if (run, case) == ("host", "case-1") and at >= 40:
                found["factor"] = 1.08
            if (run, case) == ("stable", "case-2") and at >= 50:
                found["kernels"] = [GEMM_2, EVIL, ADD]
            if run == "host" and at >= 55:
                found["driver"] = "590.10"
            return found

        tables = night(date, ["host", "stable"], CASES, rng, change=change)
        if at == 59:
            bad = row(date, "host", "case-4", 1, status="failed", reason=EVIL)
            tables["host"] = table_of([*tables["host"].to_pylist()[:-5], bad])
        store.add_night(date, tables)
    assert detect_changes.main(["--history", str(folder / "history"), "--since", DATES[36]]) == 0
    for date in DATES[-5:]:
        report = folder / "reports" / date
        (report / "tables").mkdir(parents=True)
        (report / "index.html").write_text(f'<!doctype html><title>{date}</title><a href="tables/cases.csv">cases</a>')
        (report / "tables" / "cases.csv").write_text("run,case\n")
    return folder


def publish_in(work: Path, *more: str, **settings: object) -> Path:
    site = work / str(settings.get("folder", "site"))
    chosen = json.dumps({"folder": str(site), **{key: value for key, value in settings.items() if key != "folder"}})
    arguments = ["--history", str(work / "history"), "--reports", str(work / "reports"), "--publish", chosen]
    assert publish_site.main([*arguments, *more]) == 0
    return site


@pytest.fixture(scope="module")
def site(work: Path) -> Path:
    return publish_in(work, full_nights=3)


def test_all_links_of_sixty_nights_are_good_and_relative(site: Path) -> None:
    assert len(list(site.resolve().glob("nights/*/index.html"))) == 60
    assert len(list(site.resolve().glob("trends/*/*.html"))) == 10
    assert broken_links(site) == []


def test_the_link_checker_finds_broken_ones(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="gone.html">x</a><a href="https://example.org">y</a><a href="/z">z</a>'
    )
    assert len(broken_links(tmp_path)) == 3


def test_pages_load_nothing_and_run_nothing(site: Path) -> None:
    for page in site.resolve().rglob("*.html"):
        if "report" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        parser = Links()
        parser.feed(text)
        assert not {"script", "iframe", "object", "img"} & set(parser.tags), page
        assert "http" not in text.replace("http://www.w3.org", ""), page


def test_names_from_traces_are_text(site: Path) -> None:
    trend = (site / "trends/stable/case-2.html").read_text(encoding="utf-8")
    last = (site / "nights" / DATES[-1] / "index.html").read_text(encoding="utf-8")
    for page in (trend, last):
        assert EVIL not in page
        assert "&lt;script&gt;" in page


def test_the_last_nights_are_there_in_full_and_the_rest_as_tables(site: Path) -> None:
    full = [path.parent.parent.name for path in site.resolve().glob("nights/*/report/index.html")]
    assert sorted(full) == DATES[-3:]
    assert (site / "nights" / DATES[-1] / "report/tables/cases.csv").is_file()
    table = (site / "nights" / DATES[0] / "cases.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + 10
    run, case, status, reason, forward, change, device, kernels = table[1].split(",")
    assert (run, case, status, reason, change, kernels) == ("host", "case-0", "ok", "", "", "2")
    assert float(forward) == pytest.approx(100, rel=0.1)
    assert float(device) == pytest.approx(80, rel=0.1)


def test_a_report_that_was_cleared_away_stays_published(work: Path) -> None:
    site = publish_in(work, folder="other", full_nights=2)
    (work / "reports").rename(work / "gone")
    try:
        publish_in(work, folder="other", full_nights=2)
    finally:
        (work / "gone").rename(work / "reports")
    assert (site / "nights" / DATES[-1] / "report/index.html").is_file()


def test_the_first_page_counts_the_cases_that_were_not_measured(site: Path) -> None:
    """Two runs of five cases, one of which failed."""
    assert len(CASES) == 5
    assert "9 of 10 cases measured on 2 runs" in (site / "index.html").read_text()


def test_the_first_page_says_what_to_look_at_with_which_versions_and_what_to_do(site: Path) -> None:
    """A case failed in the last night, and one became slower within the last 14 nights or before."""
    first = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", (site / "index.html").read_text(encoding="utf-8")))
    pressing = first.partition("What to look at")[2].partition(" Nights ")[0]
    assert pressing
    assert "case-4 on" in pressing.partition("Earlier changes")[0]


def test_one_night_of_one_case_is_spoken_of_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path / "history").add_night(DATES[0], night(DATES[0], ["host"], ["case"], np.random.default_rng(1)))
    site = publish_in(tmp_path)
    assert f"published 1 night: {site}/index.html" in capsys.readouterr().out
    first = (site / "index.html").read_text()
    assert "1 case measured on 1 run (" in first
    assert "host: NVIDIA H200" in first


def test_why_a_series_begins_anew_is_told_once(site: Path) -> None:
    driver = "driver 580.95.05 → 590.10"
    page = (site / "trends" / "host" / "case-0.html").read_text().replace("\u200b", "")
    entry = re.search(r"<li>(?:(?!<li>).)*series start.*?</li>", page, re.S)
    assert entry
    assert re.sub(r"<[^>]+>", "", entry[0]).count(driver) == 1
    feed = ElementTree.parse(site / "feed.xml")
    summaries = [node.text or "" for node in feed.iter("{http://www.w3.org/2005/Atom}summary")]
    assert {text.count(driver) for text in summaries if driver in text} == {1}


def test_latest_json_says_how_the_last_night_went(site: Path) -> None:
    latest = json.loads((site / "latest.json").read_text(encoding="utf-8"))
    assert latest["edition"] == DATES[-1]
    assert latest["judged"]["exit_status"] == 4
    assert latest["judged"]["failed"][0]["case"] == "case-4"
    assert (site / latest["page"]).is_file()
    assert (site / latest["report"]).is_file()


def test_trends_show_changes_and_versions(site: Path) -> None:
    slower = (site / "trends/host/case-1.html").read_text(encoding="utf-8")
    assert re.search(r"forward time \d+\.\d\xa0% slower", slower)
    assert DATES[40] in slower
    assert "driver 580.95.05 → 590.10" in slower
    assert slower.count('class="mark slower"') == 2  # on both charts
    assert "torch 2.13.0 → 2.14.0" in (site / "trends/stable/case-0.html").read_text(encoding="utf-8")


def test_each_point_of_a_trend_links_to_its_night(site: Path) -> None:
    """Sixty nights on each of two charts; the words of a point are its night and its value."""
    text = (site / "trends/host/case-1.html").read_text(encoding="utf-8")
    points = re.findall(r'<a href="../../nights/([^/]+)/index.html"><path class="dots"[^>]*><title>(.*?)</title>', text)
    assert [night for night, _ in points] == [*DATES, *DATES]
    assert all(re.fullmatch(rf"{night}: [\d.,]+ µs", words) for night, words in points)


@pytest.mark.parametrize("values", [[100.0, 100.1], [99.7, 104.0], [5.0, 9.0], [1.0, 1000.0], [0.0312, 0.0313]])
def test_an_axis_has_at_least_three_rules(values: list[float]) -> None:
    scale = around(np.array(values))
    assert len(scale.steps) >= 3
    assert scale.low <= scale.steps[0] < scale.steps[-1] <= scale.high
    assert len({number(step) for step in scale.steps}) == len(scale.steps)


def test_silence_counts_the_nights_that_were_judged(tmp_path: Path) -> None:
    store, rng = Store(tmp_path / "history"), np.random.default_rng(1)
    for date in DATES[:3]:
        store.add_night(date, night(date, ["host"], ["case"], rng))
    pages = ("index.html", "trends/host/case.html")
    for page in pages:
        text = (publish_in(tmp_path) / page).read_text()
        assert "None of 3 nights was judged." in text
        assert "Nothing has changed" not in text
    assert "This night was not judged." in (publish_in(tmp_path) / "latest.html").read_text()
    detect_changes.main(["--history", str(store.folder)])
    for page in pages:
        assert "No change was reported; 1 of 3 nights were judged." in (publish_in(tmp_path) / page).read_text()


def test_the_site_has_the_colours_and_typefaces_of_the_report(site: Path) -> None:
    style = (site / "style.css").read_text(encoding="utf-8")
    assert TOKENS in style
    assert set(re.findall(r"var\((--[\w-]+)\)", style)) - set(re.findall(r"(--[\w-]+):", style)) == FAMILIES


def test_the_feed_is_valid_atom(site: Path, work: Path) -> None:
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.parse(site / "feed.xml").getroot()
    assert feed.tag == f"{atom}feed"
    for parent in (feed, *feed.iter(f"{atom}entry")):
        for name in ("title", "id", "updated"):
            (element,) = parent.findall(f"{atom}{name}")
            assert element.text
        assert datetime.fromisoformat(parent.findtext(f"{atom}updated")).utcoffset().total_seconds() == 0
        assert parent.findtext(f"{atom}id").startswith("urn:uuid:")
        for link in parent.findall(f"{atom}link"):
            assert (site / link.get("href")).is_file()
    assert feed.findtext(f"{atom}author/{atom}name")
    ids = [entry.findtext(f"{atom}id") for entry in feed.iter(f"{atom}entry")]
    assert len(ids) == len(set(ids)) == 4
    again = ElementTree.parse(publish_in(work, folder="again") / "feed.xml").getroot()
    assert [entry.findtext(f"{atom}id") for entry in again.iter(f"{atom}entry")] == ids


def test_signs_that_xml_cannot_hold_are_left_out_of_the_feed() -> None:
    assert xml_text("a\x00b\x1bc\ud800d\n<é𝄞>") == "abcd\n<é𝄞>"


def test_with_an_address_the_feed_links_absolutely(work: Path) -> None:
    site = publish_in(work, folder="addressed", url="https://example.org/nights")
    assert 'href="https://example.org/nights/trends/host/case-1.html"' in (site / "feed.xml").read_text(
        encoding="utf-8"
    )
    assert broken_links(site) == []


def texts(folder: Path) -> set[str]:
    """What stands in the sixty pages of a made-up site."""
    return {(folder / f"{number}.html").read_text() for number in range(60)}


def made_up(stamp: str) -> Iterator[tuple[str, str]]:
    return ((f"{number}.html", stamp) for number in range(60))


def test_readers_see_the_old_site_or_the_new_one_whole(tmp_path: Path) -> None:
    site = tmp_path / "site"
    publish(made_up("0"), {}, site)
    begun = Path(os.path.realpath(site))  # as a server that has begun to answer
    publish(made_up("1"), {}, site)
    assert texts(begun) == {"0"}
    assert texts(site) == {"1"}
    meanwhile = []

    def slowly() -> Iterator[tuple[str, str]]:
        for name, text in made_up("2"):
            yield name, text
            meanwhile.append(texts(site))

    publish(slowly(), {}, site)
    assert meanwhile == [{"1"}] * 60
    assert texts(site) == {"2"}
    assert len(list((tmp_path / ".site-versions").glob("[0-9]*"))) == 2


PUBLISHING = """
from kernelbook.history.site.publish import publish
def act(folder):
    pages = [(name, "new") for name in ("index.html", "trends/a.html", "nights/2026-01-02/index.html")]
    publish(pages, {"2026-01-02": folder / "report"}, folder / "site")
"""


def test_killed_at_any_moment_publishing_leaves_a_whole_site(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "report/tables").mkdir(parents=True)
    report = ("index.html", "tables/cases.csv")
    for name in report:
        (work / "report" / name).write_text("new")
    names = ("index.html", "trends/a.html", "nights/2026-01-02/index.html")
    publish([(name, "old") for name in names], {}, work / "site")
    seen = []
    for copy in copies_after_deaths(work, PUBLISHING):
        found = {(copy / "site" / name).read_text() for name in names}
        assert len(found) == 1
        seen += found
        if found == {"new"}:
            assert [(copy / "site/nights/2026-01-02/report" / name).read_text() for name in report] == ["new", "new"]
        begun = Path(os.path.realpath(copy / "site"))
        publish([(name, "newer") for name in names], {}, copy / "site")
        assert {(copy / "site" / name).read_text() for name in names} == {"newer"}
        assert {(begun / name).read_text() for name in names} == found
        left = [path.name for path in (copy / ".site-versions").iterdir() if path.name != ".lock"]
        assert len(left) == 2
        assert all(name.isdigit() for name in left)
        assert sorted(path.name for path in copy.iterdir()) == [".site-versions", "report", "site"]
    assert seen == sorted(seen, reverse=True)  # up to one moment it is the old one, and from then on the new one
    assert {"old", "new"} == set(seen)
    assert len(seen) > 20


def written(site: Path) -> set[str]:
    """Files of the published version that are not links to the version before."""
    root = site.resolve()
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)) for path in files if path.stat().st_nlink == 1}


def test_publishing_writes_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = (f"2026-02-01T00:00:{second:02}Z" for second in range(60))
    for module in (publish_site, detect_changes):
        monkeypatch.setattr(module, "utc_now", lambda: next(times))
    store, rng = Store(tmp_path / "history"), np.random.default_rng(1)
    dates = editions(4)
    for date in dates[:3]:
        runs = ["host", "old"] if date == dates[0] else ["host"]
        store.add_night(date, night(date, runs, ["case"], rng))
        report = tmp_path / "reports" / date
        report.mkdir(parents=True)
        (report / "index.html").write_text("report")
    detect_changes.main(["--history", str(store.folder)])
    site = publish_in(tmp_path)
    first = {path.relative_to(site.resolve()) for path in site.resolve().rglob("*") if path.is_file()}
    assert Path("trends/old/case.html") in first
    publish_in(tmp_path)
    assert written(site) == {"index.html"}  # it has the time of publication
    (tmp_path / "reports" / dates[0] / "index.html").write_text("another report")
    store.add_night(dates[3], night(dates[3], ["host"], ["case"], rng))
    detect_changes.main(["--history", str(store.folder)])
    publish_in(tmp_path)
    assert written(site) == {
        "index.html", "latest.html", "latest.json", "feed.xml",
        f"nights/{dates[0]}/report/index.html",
        f"nights/{dates[2]}/index.html",  # links to the newer night
        f"nights/{dates[3]}/index.html", f"nights/{dates[3]}/cases.csv",
        "trends/index.html", "trends/host/case.html",
    }  # fmt: skip
    assert (site / "nights" / dates[0] / "report/index.html").read_text() == "another report"


def test_publishing_copies_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links")

    monkeypatch.setattr(os, "link", refuse)
    for _ in range(2):
        publish(made_up("0"), {}, tmp_path / "site")
    assert texts(tmp_path / "site") == {"0"}


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "precious").touch()
    with pytest.raises(PublishError, match=r"publish\.folder"):
        publish([("index.html", "")], {}, tmp_path / "site")
    assert (tmp_path / "site" / "precious").is_file()


def test_a_site_of_no_night_at_all(tmp_path: Path) -> None:
    site = publish_in(tmp_path)
    assert "No night has been recorded yet" in (site / "index.html").read_text(encoding="utf-8")
    assert broken_links(site) == []
    assert json.loads((site / "latest.json").read_text())["edition"] is None


def test_the_branch_is_one_commit_and_is_pushed(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet", "--bare", "remote.git")
    git("init", "--quiet", "-b", "main", "checkout")
    checkout = tmp_path / "checkout"
    (checkout / "file").write_text("mine")
    git("add", "file", cwd=checkout)
    monkeypatch.chdir(checkout)
    remote = str(tmp_path / "remote.git")
    for _ in range(2):
        publish_in(work, folder=str(tmp_path / "pages"), git_branch="gh-pages", git_remote=remote)
    assert git("rev-list", "--count", "gh-pages", cwd=tmp_path / "remote.git") == "1"
    names = git("ls-tree", "-r", "--name-only", "gh-pages", cwd=tmp_path / "remote.git").splitlines()
    assert {"index.html", "feed.xml", ".nojekyll", f"nights/{DATES[0]}/index.html"} <= set(names)
    assert git("status", "--short", cwd=checkout) == "A  file"  # the user's own index is as it was


def test_a_push_that_fails_is_an_error_with_git_s_words(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", "checkout"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path / "checkout")
    with pytest.raises(ValueError, match="push"):
        publish_in(work, folder=str(tmp_path / "pages"), git_branch="gh-pages", git_remote=str(tmp_path / "nowhere"))
    assert (tmp_path / "pages" / "index.html").is_file()


class Hook(http.server.BaseHTTPRequestHandler):
    """A chat that remembers what it was told."""

    told: list[tuple[str, dict]]
    answer = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).told.append((self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> type[Hook]:
    Hook.told, Hook.answer = [], 200
    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KERNELBOOK_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret-path")
    yield Hook
    server.shutdown()


def test_the_webhook_is_told_of_a_night_with_news(work: Path, hook: type[Hook]) -> None:
    publish_in(work, "--tell", DATES[-1], folder="told", url="https://example.org")
    ((kind, body),) = hook.told
    assert kind == "application/json"
    assert list(body) == ["text"]
    assert "failed: host case-4: &lt;script&gt;" in body["text"]
    assert f"https://example.org/nights/{DATES[-1]}/index.html" in body["text"]


def test_the_webhook_is_not_told_of_a_quiet_night(work: Path, hook: type[Hook]) -> None:
    publish_in(work, "--tell", DATES[45], folder="told")
    assert hook.told == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/secret-path", "nonsense", None])
def test_a_dead_webhook_never_fails_the_night_and_stays_secret(
    work: Path, hook: type[Hook], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, address: str | None
) -> None:
    hook.answer = 500
    if address:
        monkeypatch.setenv("KERNELBOOK_WEBHOOK", address)
    publish_in(work, "--tell", DATES[-1], folder="told")
    said = capfd.readouterr()
    assert "KERNELBOOK_WEBHOOK" in said.err
    assert "secret-path" not in said.err + said.out


def test_many_cases_with_one_cause_are_one_line() -> None:
    event = {"kind": "time", "night": "2026-01-02", "run": "host", "series": "s", "text": "slower", "change": 0.05}
    many = [event | {"case": f"case-{number}", "causes": ["torch 2.13.0 → 2.14.0"]} for number in range(40)]
    text = message({"edition": "2026-01-03", "events": many, "failed": []}, "Nights", None)
    assert text.splitlines()[1:] == [
        "host: 40 cases since 2026-01-02, slower: torch 2.13.0 → 2.14.0".replace(">", "&gt;")
    ]
    assert GEMM  # names are those of made_nights


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_open_in_chromium_on_a_desk_and_on_a_phone(site: Path, browser, scheme: str) -> None:
    pages = ["index.html", "latest.html", "trends/index.html", "trends/host/case-1.html", "trends/stable/case-2.html"]
    for width in (1280, 390):
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        errors, requested = [], []
        page.on("console", lambda entry, errors=errors: errors.append(entry.text))
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.on("request", lambda request, requested=requested: requested.append(request.url))
        for name in pages:
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            ink, paper = page.evaluate(
                "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
            )
            assert (ink_of(ink) > ink_of(paper)) == (scheme == "dark")
        assert page.locator("svg path.line").count() == 2
        assert page.locator("svg path.line").first.bounding_box()["width"] > 200
        page.get_by_role("link", name="Latest", exact=True).click()
        assert page.url.endswith("/latest.html")
        assert errors == []
        assert {urlsplit(url).scheme for url in requested} <= {"file", "data"}
        page.close()


def ink_of(colour: str) -> int:
    """Sum of red, green and blue of a computed colour."""
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])
