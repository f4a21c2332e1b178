"""How large a report's page is, and how soon it can be used, in a real browser: chromium, headless.

Two pages, both of the recorded run: the default cases, with counters and without, and 40 cases by 6 runs, for which
cases and runs are repeated under other names. Or any page of yours. Times are medians of several loads, in ms: until
DOMContentLoaded (which includes the page's script), until the first paint, and from a click on a heading of the table
of cases until the next frame has the rows in the new order. CPU: of the page's main thread until the script has run,
which other programs disturb least. Run it on a quiet machine all the same: the load average is printed.

Examples:
  python benchmarks/page.py
  python benchmarks/page.py reports/latest/index.html
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from playwright.sync_api import Browser, sync_playwright  # noqa: E402  # found by the path above

from kernelbook.report.rendering import render_report  # noqa: E402
from render_example import collect_example  # noqa: E402
from tests.report import editions  # noqa: E402

CASES, RUNS, LOADS = 40, 6, 7
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TIMES = """() => ({
  dom: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
})"""
SORT = """() => new Promise(done => {
  const start = performance.now();
  [...document.querySelectorAll("[data-table=cases] th button")].find(each => each.textContent === "device").click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""


def without_counters(scratch: Path) -> Path:
    def drop(case: str, measurement: dict[str, Any], folder: Path) -> None:
        measurement |= {"counters": None, "counter_pass": None}

    run = editions.recorded(editions.copied_run(scratch / "plain", drop), "without counters")
    return editions.collected(scratch, {"h200": run} | editions.shipped("a100-series"))


def many(scratch: Path) -> Path:
    """The edition of 40 cases by 6 runs."""
    first = editions.default_cases()
    again = {f"{case}-again": case for case in first[: CASES - len(first)]}
    runs = {}
    for number in range(1, RUNS + 1):
        folder = editions.copied_run(scratch / f"run-{number}", lambda *_: None)
        for name, case in again.items():
            shutil.copytree(folder / case, folder / name)
            for file in folder.glob(f"{name}/*/measurement.json"):
                measurement = json.loads(file.read_text(encoding="utf-8"))
                measurement["case"]["case"] = name
                file.write_text(json.dumps(measurement), encoding="utf-8")
        runs[f"run-{number}"] = editions.recorded(folder, f"the recorded run, copy {number}")

    def more(cases: dict[str, Any]) -> None:
        cases |= {name: copy.deepcopy(cases[case]) for name, case in again.items()}

    return editions.collected(scratch, runs, more)


def made(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, make in (
        ("default cases", collect_example),
        ("default cases without counters", without_counters),
        (f"{CASES} cases by {RUNS} runs", many),
    ):
        scratch = folder / name.replace(" ", "-")
        scratch.mkdir()
        render_report(make(scratch), scratch / "report", editions.CREATED)
        yield name, scratch / "report" / "index.html"


def measured(browser: Browser, page_file: Path) -> dict[str, float]:
    """Medians over the loads, in ms."""
    loads = []
    for _ in range(LOADS):
        page = browser.new_page()
        page.set_default_timeout(120_000)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(page_file.resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        times = page.evaluate(TIMES) | {"cpu": 1000 * metrics["TaskDuration"]}
        loads.append(times | {"sort": page.evaluate(SORT)})
        page.close()
    return {name: statistics.median(load[name] for load in loads) for name in loads[0]}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", type=Path, help="an index.html")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        pages = [(str(page), page) for page in args.page] or made(Path(scratch))
        print(f"{'page':34} {'bytes':>10} {'DOM ready':>10} {'CPU':>8} {'paint':>8} {'sort':>8}  load average")
        for name, page in pages:
            times = measured(browser, page)
            figures = " ".join(f"{times[name]:>5.0f} ms" for name in ("dom", "cpu", "paint", "sort"))
            print(f"{name:34} {page.stat().st_size:>10,}   {figures}  {os.getloadavg()[0]:.1f}", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
