"""Tables of the report: one statement of columns and rows, two renderings; what is copied from the page is raw."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from kernelbook.report.rendering import render_report
from kernelbook.report.table import Line, Part, Table, cell, figure, html, markdown, table, time, words
from tests.report import made_edition

HOSTILE = "<script>x</script>|`*"


def made(*rows: tuple[object, ...]) -> Table:
    """Columns: name, time in us, count (on the page alone)."""
    columns = (
        words("name", lambda row: Part(row[0], "code")),
        time("device time", lambda row: row[1]),
        figure("kernels", lambda row: row[2], page_only=True),
    )
    return table("t", "A caption", columns, rows)


def test_html_holds_raw_values_and_units_and_escapes_names() -> None:
    root = ElementTree.fromstring(str(html(made((HOSTILE, 1234.56789, 5), ("b", None, 0)))))
    heads = root.findall(".//th")
    assert [head.text for head in heads] == ["name", "device time", "kernels"]
    assert [head.get("data-unit") for head in heads] == [None, "µs", ""]
    first, second = root.findall(".//tbody/tr")
    assert [each.get("data-v") for each in first] == [None, "1234.57", "5"]
    assert "".join(first[0].itertext()) == HOSTILE
    assert first[1].text == "1.23 ms"
    assert [(each.text, each.get("data-v")) for each in second][1:] == [("n/a", ""), ("0", "0")]


def test_markdown_leaves_out_what_is_for_the_page_alone() -> None:
    lines = markdown(made((HOSTILE, 1234.5, 5))).splitlines()
    assert lines == [
        "| name | device time |",
        "| --- | ---: |",
        "| <code>&lt;script&gt;x&lt;/script&gt;&#124;&#96;&#42;</code> | 1.23 ms |",
    ]


def test_a_line_across_and_its_panel() -> None:
    columns = made().columns
    failed = Line((cell("host"), cell(Part("failed", "bad"), "it broke")), across=True, panel=Markup("<p>more</p>"))
    shown = Table("t", "c", columns, (failed,))
    assert markdown(shown).splitlines()[2:] == ["| host | **failed** it broke |"]
    row, panel = ElementTree.fromstring(str(html(shown))).findall(".//tbody/tr")
    assert [each.get("colspan") for each in row] == [None, "2"]
    assert (panel.get("class"), panel[0].get("colspan")) == ("panel below", "3")


@pytest.mark.browser
def test_what_is_copied_is_raw_with_the_unit_in_the_heading(tmp_path, open_page) -> None:
    render_report(made_edition.build(tmp_path / "edition"), tmp_path / "report")
    page = open_page(tmp_path / "report", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Copy cases as CSV").click()
    (heads, *rows) = csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()")))
    measured = dict(zip(heads, rows[-1], strict=True))
    # made_edition: one kernel of 2.72 us, 5 * 2**28 bytes at the peak
    assert measured["device, µs"] == "2.72"
    assert measured["peak memory, bytes"] == str(5 * 2**28)
    assert measured["busy, µs"] == "2.72"  # a column that is not displayed yet
    assert dict(zip(heads, rows[2], strict=True))["published, µs"] == "7239"
