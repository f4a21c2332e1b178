"""A made-up edition, its rendered report, and a browser to read it with."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelbook.report.rendering import render_report
from tests.helpers.patience import LONG
from tests.helpers.required import required_program, skip_or_fail
from tests.report import made_edition

HERE = Path(__file__).parent
CREATED = "2026-11-29T15:00:00Z"
INSIDE = ("file:", "blob:", "data:")
LOADS = itertools.count()


@pytest.fixture(scope="session")
def edition_dir(tmp_path_factory) -> Path:
    return made_edition.build(tmp_path_factory.mktemp("results") / "test" / "edition")


@pytest.fixture(scope="session")
def report(edition_dir, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("reports") / "test"
    render_report(edition_dir, output, CREATED)
    return output


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory) -> Path:
    """A report of two runs on one GPU, the second 1.25 times as slow, and a third on another GPU."""
    runs = (
        {"run": "torch-a", "kind": "container", "device": "NVIDIA H200", "torch": "2.11"},
        {"run": "torch-b", "kind": "container", "device": "NVIDIA H200", "torch": "2.12"},
        {"run": "a100", "kind": "container", "device": "NVIDIA A100", "torch": "2.12"},
    )
    folder = tmp_path_factory.mktemp("two")
    edition = made_edition.build(folder / "edition", runs=runs, factors=(1.0, 1.25, 2.0))
    render_report(edition, folder / "report", CREATED)
    return folder / "report"


def settled(page):
    """The page, once it has done what waits for the next frames: observers, events of opening and of scrolling."""
    for _ in range(3):
        page.evaluate("new Promise(requestAnimationFrame)")
    return page


@pytest.fixture(scope="session")
def settle() -> Callable:
    """settle(page), for pages that open_page did not open, and after a scroll."""
    return settled


@pytest.fixture(scope="session")
def kept_page(browser):
    """One page for all tests, since a new page is a new process of the browser."""
    return browser.new_context(accept_downloads=True).new_page()


@pytest.fixture
def open_page(browser, kept_page) -> Iterator[Callable]:
    """open_page(report, hash="", width=...) -> page, ready. A console error or a request fails the test at its end.

    A second page of a test, and one with options, has a browser context of its own; page: opens it there instead.
    """
    contexts, pages, trouble = [], [], []
    listeners = {
        "console": lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None,
        "pageerror": lambda error: trouble.append(str(error)),
        "request": lambda sent: None if sent.url.startswith(INSIDE) else trouble.append(sent.url),
        "dialog": lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()),
    }

    def new_page(width: int, height: int, color_scheme: str, options: dict):
        if options or kept_page in pages:
            screen = {"width": width, "height": height}
            contexts.append(browser.new_context(viewport=screen, color_scheme=color_scheme, **options))
            page = contexts[-1].new_page()
        else:
            page = kept_page
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion="null")
        pages.append(page)
        for event, listener in listeners.items():
            page.on(event, listener)
        return page

    def opened(report: Path, hash_: str = "", width: int = 1280, height: int = 900, page=None, **options):
        permissions = options.pop("permissions", ())
        page = page or new_page(width, height, options.pop("color_scheme", "light"), options)
        page.context.grant_permissions(permissions)
        # a query of its own, since another hash alone loads nothing
        page.goto(f"{(report / 'index.html').as_uri()}?{next(LOADS)}{hash_}")
        page.wait_for_selector("html[data-ready]")
        return settled(page)

    yield opened
    for context in contexts:
        context.close()
    if kept_page in pages:
        for event, listener in listeners.items():
            kept_page.remove_listener(event, listener)
        kept_page.context.clear_permissions()
        kept_page.evaluate("localStorage.clear()")
        kept_page.mouse.move(0, 0)
    assert trouble == []


@pytest.fixture(scope="session")
def npm_packages(tmp_path_factory) -> Path:
    """The node_modules folder of package.json, installed by npm into a folder of its own."""
    npm = required_program("npm")
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    done = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    if done.returncode:
        skip_or_fail(f"npm ci failed: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"


@pytest.fixture(scope="session")
def axe(npm_packages) -> str:
    """The source of axe-core."""
    return (npm_packages / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
