"""The site of the nights links the docs, where the configuration says where they are."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import publish_site
from kernelbook.history.schema import table_of
from kernelbook.history.site.pages import Site
from kernelbook.history.store import Store
from tests.nights.made_nights import editions, row


def published(folder: Path, docs: str | None) -> list[str]:
    """The links named Docs of the pages of a site with one night: of the first page, and of the night's."""
    store = Store(folder / "history")
    (date,) = editions(1)
    store.add_night(date, {"host": table_of([row(date, "host", "case", 1)])})
    settings = {**publish_site.DEFAULTS, "folder": str(folder / "site"), "docs": docs}
    publish_site.publish_all(store, folder / "reports", settings, {})
    pages = [folder / "site" / "index.html", folder / "site" / "nights" / date / "index.html"]
    return [page.read_text(encoding="utf-8").partition('">Docs</a>')[0].rpartition('href="')[2] for page in pages]


def test_a_path_counts_from_the_first_page(tmp_path: Path) -> None:
    first, of_night = published(tmp_path, "../docs-site/index.html")
    assert first == "../docs-site/index.html"
    assert of_night == "../../../docs-site/index.html"


def test_an_address_is_the_same_on_each_page(tmp_path: Path) -> None:
    assert published(tmp_path, "https://example.org/docs/") == ["https://example.org/docs/"] * 2


def test_without_one_nothing_is_linked() -> None:
    assert Site("nights", "2026-11-30").docs_from("../") is None


@pytest.mark.parametrize("docs", ["javascript:alert(1)", "", "<script>"])
def test_what_is_no_address_is_refused(root: Path, docs: str) -> None:
    schema = json.loads((root / "workflow/schemas/nights.schema.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"publish": {"docs": docs}}, schema)
