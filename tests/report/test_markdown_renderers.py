"""report.md in three renderers, with the extensions that give more signs a meaning: nothing runs, names stay the same.

GitHub's own is a CommonMark parser that lets HTML through, as markdown-it does here; Python-Markdown is MkDocs' and
Pelican's, and reads no Markdown inside HTML blocks; mistune is Jupyter's.
"""

from __future__ import annotations

import html
from collections.abc import Callable

import markdown as python_markdown
import mistune
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kernelbook.cases import CASE_COLUMNS
from kernelbook.report import markdown_page
from kernelbook.report.rendering import render_report
from kernelbook.text import formatting
from tests.helpers.hostile import HOSTILE, Page
from tests.report import made_edition

EXTENSIONS = ["extra", "admonition", "nl2br", "sane_lists", "smarty", "toc", "wikilinks", "legacy_attrs"]
PLUGINS = [*("strikethrough", "footnotes", "table", "url", "task_lists", "def_list", "abbr", "mark", "insert"), "math"]
PLUGINS += ["superscript", "subscript", "spoiler"]
RENDERERS: dict[str, Callable[[str], str]] = {
    "markdown-it": MarkdownIt("gfm-like", {"linkify": False, "html": True}).render,
    "Python-Markdown": lambda written: python_markdown.markdown(written, extensions=EXTENSIONS),
    "Python-Markdown, bare": python_markdown.markdown,
    "mistune": mistune.create_markdown(escape=False, plugins=PLUGINS),
}
FILES = ("summary.md", "report.md", "details.md")
LOG = [*HOSTILE, "```", "</pre>", "", "    four spaces", "| a | b |", "| --- | --- |"]
TAGS = {"h1", "h2", "h3", "p", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "strong", "code", "pre"}
TAGS |= {"a", "img", "br", "hr", "div", "details", "summary"}
LINKS = {"index.html", "report.md", "details.md", "summary.json"}
ATTRIBUTES = {"href", "src", "alt", "style", "start", "align", "class", "id", "colspan", "title", "open"}
RIGHT = {"text-align:right", "text-align: right"}
CELL = "| a | b |\n| --- | --- |\n| {} | c |"
AROUND = ["{}", "x {}, y", "# {}", "- {}", CELL, f"<details><summary>x {{}}</summary>\n\n{CELL}\n\n</details>"]
ALPHABET = st.sampled_from(
    ["<", ">", "&", "`", "|", "*", "_", "[", "]", "(", ")", "{", "}", ":", "!", "#", "\\", "$", "~"]
)
PIECES = st.sampled_from(["<script>", "</script>", "</code>", "<!--", "-->", "javascript:", "onerror=", "a", " ", "\n"])


def check(rendered: str) -> Page:
    """Nothing but what a report is made of: no script, no handler, no address but those of its figures."""
    page = Page(rendered)
    assert page.tags <= TAGS
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert {value.strip(";") for name, value in page.attributes if name == "style"} <= RIGHT
    assert all(value.startswith("figures/") for name, value in page.attributes if name == "src")
    assert {value for name, value in page.attributes if name == "href"} <= LINKS
    assert not page.other
    return page


def words(value: str) -> str:
    """As it can be read: hidden characters spelled out, blanks as one."""
    return " ".join(formatting.visible(value).split())


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The twin of a report in which all names, reasons, guesses, findings and lines of a log are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    step = made_edition.Step
    steps = [step(name, name, (made_edition.kernel(name, "gemm", 5.0),)) for name in HOSTILE]
    case = made_edition.Made("evil<script>hurt()</script>", "work`<script>hurt()</script>", HOSTILE[0], HOSTILE[1],
        tuple(steps), guesses=tuple((name, name, name, "broken", name) for name in HOSTILE))  # fmt: skip
    runs = [
        {"run": f"r{place}{name}", "kind": "host", "description": name, "device": name, "reason": name}
        for place, name in enumerate(HOSTILE[:6])
    ]
    edition = made_edition.build(folder / "edition", (case, made_edition.CASES[1]), tuple(runs))
    rows = pq.read_table(edition / "cases.parquet").to_pylist()
    failed = {"process": 2, "status": "failed", "reason": HOSTILE[0], "log_tail": LOG}
    pq.write_table(pa.Table.from_pylist([*rows, rows[0] | failed], schema=CASE_COLUMNS), edition / "cases.parquet")
    render_report(edition, folder / "report")
    texts = [(folder / "report" / name).read_text(encoding="utf-8") for name in FILES]
    assert len(texts[0]) <= markdown_page.SUMMARY_LIMIT
    return "\n\n".join(texts)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_nothing_in_a_hostile_report_runs(twin, renderer):
    page = check(RENDERERS[renderer](twin))
    assert "details" in page.tags


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_can_be_read_as_it_is_wherever_it_stands(renderer, name):
    """As text and as code, in a paragraph, a table, a heading and a list, and inside HTML."""
    shown = [str(formatting.markdown(name)), str(formatting.code(name)), f"**{formatting.markdown(name)}**"]
    for written in (around.replace("{}", each) for each in shown for around in AROUND):
        page = check(RENDERERS[renderer](written))
        seen = " ".join(page.text.translate(CURLY).split())
        assert words(name) in seen or words(name).replace("`", "") in seen.replace("`", "")


CURLY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "--", "—": "---"})  # smarty's


@pytest.mark.parametrize("renderer", RENDERERS)
def test_lines_of_a_log_stay_lines(renderer):
    page = check(RENDERERS[renderer](f"<details><summary>log</summary>\n\n{formatting.block(LOG)}\n\n</details>"))
    seen = [line.strip() for line in page.text.splitlines()]
    at = seen.index(formatting.visible(LOG[0]).strip())
    assert seen[at : at + len(LOG)] == [formatting.visible(line).strip() for line in LOG]


@given(st.lists(ALPHABET | PIECES | st.text(max_size=3), max_size=12).map("".join))
def test_no_name_at_all_runs_anywhere(name):
    inside = f"| a | b |\n| --- | --- |\n| {formatting.markdown(name)} | {formatting.code(name)} |\n\n"
    written = f"{inside}<details><summary>x</summary>\n\n{inside}{formatting.block([name, name])}\n\n</details>\n"
    for render in RENDERERS.values():
        check(render(written))


def test_plain_names_stay_easy_to_read_in_the_file():
    assert formatting.code("matmul-add-4096-eager") == "`matmul-add-4096-eager`"
    assert formatting.code("aten::_scaled_dot_product_flash_attention") == "`aten::_scaled_dot_product_flash_attention`"
    assert formatting.markdown("5 kernels + 1 memcpy, −5.5 µs (-3 %): aten::add_bias") == html.unescape(
        formatting.markdown("5 kernels + 1 memcpy, −5.5 µs (-3 %): aten::add_bias")
    )
    assert formatting.code("k<4>|`x`") == "<code>k&lt;4&gt;&#124;&#96;x&#96;</code>"


def test_the_check_finds_what_runs():
    for bad in ("<script>x</script>", "<p onclick=x>", "<a href='javascript:x'>", "<img src=x>", "<!-- x -->"):
        with pytest.raises(AssertionError):
            check(bad)
