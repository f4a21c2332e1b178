"""Names made harmless, and numbers as a reader sees them."""

from __future__ import annotations

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kernelbook.charts import drawing
from kernelbook.report import page, page_data, styles
from kernelbook.report.rendering import render_report
from kernelbook.text import formatting
from tests.report import made_edition

NASTY = st.text(alphabet=st.sampled_from("ab|`<>&\\*_[]()!#~$\n\r\t\u202e\u2066\u200f\"'=+-@ :/www."), max_size=40)
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def rendered_cell(cell: str) -> str:
    """What a reader of a one-cell Markdown table sees, after a parser that is not ours."""
    page_ = MARKDOWN.render(f"| h | i |\n| --- | --- |\n| {cell} | end |\n")
    cells = re.findall(r"<td>(.*?)</td>", page_, re.DOTALL)
    assert len(cells) == 2
    assert cells[1] == "end"
    return cells[0]


@given(NASTY)
def test_text_in_a_markdown_cell_is_read_back_as_it_was(value):
    cell = rendered_cell(formatting.markdown(value))
    assert not re.search(r"<(?!/?(p|br)\b)", cell)
    assert html.unescape(cell).split() == formatting.visible(value).split()


@given(NASTY)
def test_name_in_a_markdown_cell_is_one_code_span(value):
    shown = formatting.visible(value)
    if not shown.strip():
        return
    cell = rendered_cell(formatting.code(value))
    inner = re.fullmatch(r"<code>(.*)</code>", cell, re.DOTALL)
    assert inner, cell
    assert html.unescape(inner[1]).split() == shown.split()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2", "'-2"),
        ("\tx", "' x"),
        ("aten::mm", "aten::mm"),
        (-2.5, -2.5),
        (None, None),
    ],
)
def test_no_csv_cell_is_a_formula(value, expected):
    assert formatting.csv_cell(value) == expected


def test_control_characters_of_a_name_are_spelled_out_in_csv():
    assert formatting.csv_cell("k\0\x1b[31m") == "k[U+0000][U+001B][31m"
    assert formatting.csv_cell("=1\x07") == "'=1[U+0007]"


def test_hidden_characters_are_spelled_out():
    assert formatting.visible("a\u202eb\u200f\x00\ud800") == "a[U+202E]b[U+200F][U+0000][U+D800]"
    assert formatting.visible("two\nlines\u2028here") == "two lines here"
    assert formatting.visible("naïve µs 中") == "naïve µs 中"


def test_long_names_keep_both_ends():
    short = formatting.clip("head" + "x" * 5000 + "tail", 40)
    assert len(short) == 40
    assert short.startswith("head")
    assert short.endswith("tail")


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (None, "n/a"),
        (0, "0"),
        (0.736, "0.74 µs"),
        (2.72, "2.72 µs"),
        (945.2, "945 µs"),
        (2634, "2.63 ms"),
        (3.2e7, "32.0 s"),
    ],
)
def test_durations(us, expected):
    assert formatting.duration(us) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "n/a"), (0.0, "0"), (0.00203, "0.0020"), (0.0036, "0.0036"), (1.23e-7, "1.2e-07"), (12.4, "12")],
)
def test_relative_errors_have_two_digits(value, expected):
    assert formatting.error(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ""),
        ("3 kernels: gelu, mul, add", "3 kernels: gelu, mul, add"),
        ("5 kernels: gelu, multiply, add, sum, softmax", "5 kernels: gelu, multiply and 3 more"),
        ("a 1 µs (aten::mm); b 2 µs (aten::add); c", "a 1 µs (aten::mm) and 2 more"),
        ("sm80: no, built for sm80; sm90: yes, built for sm90; c", "sm80: no, built for sm80 and 2 more"),
        ("9 kernels: 3 × copy, 2 × mul, fill, where, all", "9 kernels: 3 × copy, 2 × mul and 3 more kinds"),
        ("5 kernels: 3 × copy, sum, multiply", "5 kernels: 3 × copy, sum and 1 more kind"),
        ("gelu, multiply, add, sum and tanh, softmax; mul", "gelu, multiply, add and more"),
        ("x" * 60 + ", y, z", "x" * 19 + "…" + "x" * 10 + " and 2 more"),
    ],
)
def test_a_list_that_is_cut_keeps_whole_items_and_counts_the_others(value, expected):
    assert formatting.listed(value, 30) == expected


@given(st.recursive(st.text() | st.none() | st.integers(), st.lists, max_leaves=8))
def test_data_in_a_script_element_cannot_close_it(value):
    written = page_data.script_json(value)
    assert "<" not in written
    assert json.loads(written) == value


def test_slug_collisions_get_anchors_of_their_own():
    from kernelbook.report.case_views import Anchors

    anchors = Anchors()
    given_ = [anchors.of(name) for name in ("a b", "a-b", "A B", "a b")]
    assert given_ == ["a-b", "a-b-2", "a-b-3", "a-b"]


def test_policy_names_the_hash_of_the_one_script_and_nothing_from_outside(report):
    import base64
    import hashlib

    written = (report / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', written)[1])
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"\son\w+=", re.sub(r"<script.*?</script>", "", written, flags=re.DOTALL))
    assert "src=" not in re.sub(r"<script.*?</script>", "", written, flags=re.DOTALL)


def test_every_script_of_the_page_is_on_disk():
    on_disk = {path.name for path in styles.ASSETS.iterdir()}
    assert on_disk == {*page.SCRIPTS, *styles.STYLES}


def test_hostile_names_are_harmless_in_markdown_and_csv(tmp_path):
    folder = made_edition.build(tmp_path / "edition", made_edition.HOSTILE, made_edition.HOSTILE_RUNS)
    render_report(folder, tmp_path / "report")
    files = ("summary.md", "report.md", "details.md")
    shown = "".join(MARKDOWN.render((tmp_path / "report" / name).read_text(encoding="utf-8")) for name in files)
    allowed = {
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "code",
        "strong",
        "ol",
        "ul",
        "li",
        "h1",
        "h2",
        "h3",
        "img",
        "br",
    }
    inert = re.sub(r"<details><summary>.*?</summary>|</details>", "", shown, flags=re.DOTALL)
    assert {name.lower() for name in re.findall(r"</?(\w+)", inert)} <= allowed
    assert set(re.findall(r'<a href="([^"]*)"', inert)) == {"index.html", "summary.json", *files[1:]}
    assert set(re.findall(r'<img src="([^"]*)"', inert)) <= {
        f"figures/{path.name}" for path in (tmp_path / "report" / "figures").iterdir()
    }
    for path in (tmp_path / "report" / "tables").glob("*.csv"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r'(^|,)"?[=@]', line)


def test_colours_for_both_themes_are_tokens_and_nothing_else():
    """Only a custom property can be given a fallback for browsers that do not know light-dark()."""
    for path in styles.ASSETS.glob("*.css"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "light-dark(" not in line or line.strip().startswith("--"), f"{path.name}: {line}"
    style = str(page.assets().style)
    fallback = style.split("@supports not (color: light-dark(#000, #fff))")[1]
    assert "--paper:#fcfbf8;" in fallback
    assert "--f-gemm:#2f66a3;" in fallback


def selectors(style: str) -> list[str]:
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    return [one.strip() for head in re.findall(r"([^{};]+)\{", style) for one in re.split(r",(?![^()]*\))", head)]


def test_a_class_of_drawings_is_no_class_of_the_page():
    """The page's own header was once `.bar`, which print hides, and bars of charts were gone on paper."""
    in_drawings = {
        name
        for selector in selectors(drawing.CHART_STYLE.read_text(encoding="utf-8"))
        if selector.startswith(".plot ")
        for name in re.findall(r"\.([\w-]+)", selector)[1:]
    }
    assert {"bar", "bar-0", "grid", "sample"} <= in_drawings
    for path in styles.ASSETS.glob("*.css"):
        bare = {name for one in selectors(path.read_text(encoding="utf-8")) for name in re.findall(r"^\.([\w-]+)", one)}
        assert not in_drawings & bare, path.name


def test_long_names_break_behind_dots_underscores_and_brackets():
    text = "Keep <16> bits (torch.backends.allow_bf16_math(True)), as in torch.compile: 1.955"
    name = "(<wbr>torch.<wbr>backends.<wbr>allow_<wbr>bf16_<wbr>math(<wbr>True)),"
    assert page.breakable(text) == f"Keep &lt;16&gt; bits {name} as in torch.compile: 1.955"
    assert "<b>" not in page.breakable("<b>" * 9 + "_x")
    for as_html in (page.breakable, page.dated):
        assert as_html("a\u202e") == "a[U+202E]"
