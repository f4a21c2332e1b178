"""The docs as a site: every page is in it, and every link leads somewhere."""

import importlib.util
import re
from html.parser import HTMLParser

import build_docs
from tests.docs.doc_pages import pages
from tests.helpers import ROOT
from tests.helpers.required import skip_or_fail


class Links(HTMLParser):
    """The addresses of a page's links and images."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_the_menu_has_the_links_of_the_index_in_its_sections():
    index = (
        "# Docs\n\n**To start:** [a first hour](tutorial.md)\n\n**How to**"
        "\n\n- [run `it`](how-to/run.md) and\n  [b](b.md#x)\n\nSee [`c.py` x](../C.md)"
    )
    assert build_docs.menu(index) == [
        {"Kernelbook": "README.md"},
        {"Docs": "docs/README.md"},
        {"A first hour": "docs/tutorial.md"},
        {"How to": [{"Run it": "docs/how-to/run.md"}, {"B": "docs/b.md"}]},
        {"c.py x": "C.md"},
    ]


def test_the_pages_that_are_copied_are_those_that_links_reach():
    files = {file.relative_to(ROOT).as_posix() for file in build_docs.linked_files([ROOT / "README.md"])}
    assert {"docs/gallery.md", "CONTRIBUTING.md", "docs/images/strips.png"} <= files
    assert "scripts/kernelbook/trace/trace.schema.json" in files  # linked by docs/reference/trace-json.md
    assert not any(file.startswith("tests/") for file in files)


def test_the_site_has_no_dead_link_and_loads_nothing_from_elsewhere(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        skip_or_fail("mkdocs-material is not installed")
    site = tmp_path / "site"
    assert build_docs.main(["--source", str(tmp_path / "source"), "--output", str(site)]) == 0
    dead = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links begin at the top of a server
            continue
        for link in Links(page.read_text(encoding="utf-8")).found:
            place = link.partition("#")[0].partition("?")[0]
            if "://" not in link and place and not link.startswith(("data:", "mailto:")):
                dead += [(page.name, link)] if not (page.parent / place).exists() else []
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img)[^>]+src="https?:|<link[^>]+rel="stylesheet"[^>]+href="https?:', text)
    assert dead == []
    assert [page for page in pages(ROOT) if not (site / page.relative_to(ROOT)).with_suffix(".html").is_file()] == [
        ROOT / "README.md",
        ROOT / "docs/README.md",
    ]  # which are index.html
    assert (site / "docs/gallery.html").is_file()
