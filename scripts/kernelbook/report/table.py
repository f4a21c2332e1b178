"""A table of the report: columns and rows, stated once and rendered as HTML and as Markdown.

A cell shows text and may hold the raw value behind it. The page sorts by the raw value, and copies it (as CSV or
Markdown) with the column's unit in the heading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from markupsafe import Markup, escape

from kernelbook.text import formatting

Row = TypeVar("Row")
#: Classes of parts that Markdown sets in bold.
STRONG = ("no", "bad")
NOTHING = Markup("")


@dataclass(frozen=True)
class Part:
    """A piece of a cell's text.

    kind: "", code (a name), muted, ok, no, flag or bad (a flag for a failure). href: anchor of a link on the page.
    page_only: left out of report.md.
    """

    text: str
    kind: str = ""
    title: str = ""
    href: str = ""
    page_only: bool = False


@dataclass(frozen=True)
class Cell:
    """The content of one cell, and the raw value by which it is sorted and exported; None sorts last.

    drawing: an SVG that the page shows below the parts.
    """

    parts: tuple[Part, ...]
    value: str | float | None = None
    drawing: Markup = NOTHING

    @property
    def text(self) -> str:
        """The cell without its markup."""
        return " ".join(part.text for part in self.parts)


#: case -> anchor of its panel on the page
Anchors = Mapping[str, str]


def case_link(case: str, anchors: Anchors) -> Part:
    """The name of a case, as a link to its panel."""
    return Part(case, href=anchors.get(case, "cases"))


def yes_no(value: bool) -> Part:
    """`yes` or `no`, in the colours of a verdict."""
    return Part("yes", "ok") if value else Part("no", "no")


def cell(text: str | Part | None, *more: str | Part | None, value: str | float | None = None) -> Cell:
    """A cell of these parts without None; `n/a` if no part is left."""
    parts = [each if isinstance(each, Part) else Part(each) for each in (text, *more) if each is not None]
    return Cell(tuple(parts) or (Part(formatting.NOT_AVAILABLE),), value)


@dataclass(frozen=True)
class TableColumn(Generic[Row]):
    """One column. `cell` takes a row. `page_only`: left out of report.md.

    unit: of the raw values, "" if they have none; None for text, which is exported as text. css: classes of its cells
    on the page; `r` aligns to the right. optional: whether the page hides it until a reader chooses it.
    """

    title: str
    cell: Callable[[Row], Cell]
    unit: str | None = None
    css: str = ""
    page_only: bool = False
    optional: bool = False

    @property
    def right(self) -> bool:
        """Whether the column is aligned to the right."""
        return "r" in self.css.split()


def words(
    title: str, get: Callable[[Row], Any], limit: int = 0, css: str = "", page_only: bool = False
) -> TableColumn[Row]:
    """A column of text; longer values are clipped to `limit` characters."""

    def of_row(row: Row) -> Cell:
        value = get(row)
        if isinstance(value, Part):
            return cell(value)
        return cell(None if value is None else formatting.clip(value, limit) if limit else str(value))

    return TableColumn(title, of_row, css=css, page_only=page_only)


def figure(
    title: str, get: Callable[[Row], Any], show: Callable[[Any], str] = str, unit: str = "", page_only: bool = False
) -> TableColumn[Row]:
    """A column of numbers, formatted by `show` and exported raw, in `unit`."""

    def of_row(row: Row) -> Cell:
        value = get(row)
        return cell(None if value is None else show(value), value=value)

    return TableColumn(title, of_row, unit, "r num", page_only)


def time(title: str, get: Callable[[Row], float | None], page_only: bool = False) -> TableColumn[Row]:
    """A column of times in µs."""
    return figure(title, get, formatting.duration, "µs", page_only)


def share(title: str, get: Callable[[Row], float | None], page_only: bool = False) -> TableColumn[Row]:
    """A column of shares, 0 to 1."""
    return figure(title, get, formatting.share, "", page_only)


@dataclass(frozen=True)
class Line:
    """One row of a table. across: whether its last cell spans all remaining columns.

    data: data- attributes of the row. panel: HTML that the page shows below the row, over its whole width.
    """

    cells: tuple[Cell, ...]
    css: str = ""
    anchor: str = ""
    across: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
    panel: Markup = NOTHING


@dataclass(frozen=True)
class Table:
    """Columns and rows. `name` is unique in the report; `css` are classes of the table on the page.

    row_heads: whether the first cell of a row is its heading. titled: whether the caption is visible. box: the class of
    the element around it on the page; readers can sort, filter and copy a `table`.
    """

    name: str
    caption: str
    columns: tuple[TableColumn[Any], ...]
    lines: tuple[Line, ...]
    css: str = ""
    row_heads: bool = False
    titled: bool = True
    box: str = "table"


def table(name: str, caption: str, columns: Sequence[TableColumn[Row]], rows: Iterable[Row], css: str = "") -> Table:
    """A table with a line for each row."""
    lines = tuple(Line(tuple(column.cell(row) for column in columns)) for row in rows)
    return Table(name, caption, tuple(columns), lines, css)


# --- renderings -------------------------------------------------------------------------------------------------------


def html(table: Table) -> Markup:
    """The table for the page; `data-v` of a cell is its raw value, `data-unit` of a heading its unit."""
    heads = Markup("").join(_head(column) for column in table.columns)
    body = Markup("\n").join(_html_line(line, table.columns, table.row_heads) for line in table.lines)
    return Markup(
        '<div class="{}" data-table="{}"><table{}><caption{}>{}</caption>\n<thead><tr>{}</tr></thead><tbody>\n{}\n'
        "</tbody></table></div>"
    ).format(
        table.box,
        formatting.visible(table.name),
        _attribute("class", table.css),
        _attribute("class", "" if table.titled else "sr"),
        formatting.visible(table.caption),
        heads,
        body,
    )


def _head(column: TableColumn[Any]) -> Markup:
    unit = Markup("") if column.unit is None else Markup(' data-unit="{}"').format(column.unit)
    hidden = Markup(" hidden" if column.optional else "")
    attributes = _attribute("class", column.css.replace("num", "").strip()) + unit + hidden
    return Markup("<th{}>{}</th>").format(attributes, formatting.visible(column.title))


def _html_line(line: Line, columns: Sequence[TableColumn[Any]], row_heads: bool) -> Markup:
    cells = [_html_cell(each, columns[place], line.across and place > 0) for place, each in enumerate(line.cells)]
    visible_columns = sum(not column.optional for column in columns)
    if line.across:
        cells[-1] = Markup('<td colspan="{}"{}').format(visible_columns - len(cells) + 1, cells[-1][len("<td") :])
    if row_heads:
        cells[0] = Markup('<th scope="row"{}</th>').format(cells[0][len("<td") : -len("</td>")])
    data = Markup("").join(Markup(' data-{}="{}"').format(name, value) for name, value in line.data.items())
    attributes = _attribute("class", line.css) + _attribute("id", line.anchor) + data
    row = Markup("<tr{}>{}</tr>").format(attributes, Markup("").join(cells))
    if line.panel:
        row += Markup('\n<tr class="panel below"><td colspan="{}">{}</td></tr>').format(visible_columns, line.panel)
    return row


def _html_cell(each: Cell, column: TableColumn[Any], across: bool) -> Markup:
    css = "" if across else column.css
    raw = f"{each.value:.6g}" if isinstance(each.value, float) else each.value
    sort = Markup("")
    if "num" in css.split() or each.value is not None:
        sort = Markup(' data-v="{}"').format("" if raw is None else raw)
    hidden = Markup(" hidden" if column.optional and not across else "")
    content = Markup(" ").join(map(_html_part, each.parts)) + each.drawing
    return Markup("<td{}>{}</td>").format(_attribute("class", css) + sort + hidden, content)


def _html_part(part: Part) -> Markup:
    text = escape(formatting.visible(part.text))
    if part.href:
        text = Markup('<a href="#{}">{}</a>').format(part.href, text)
    css = {"code": "mono", "bad": "flag bad"}.get(part.kind, part.kind)
    title = _attribute("title", formatting.visible(part.title))
    return Markup("<span{}{}>{}</span>").format(_attribute("class", css), title, text) if css or title else text


def _attribute(name: str, value: str | None) -> Markup:
    return Markup(' {}="{}"').format(Markup(name), value) if value else Markup("")


def markdown(table: Table) -> formatting.Markdown:
    """The table for report.md, without columns that are only for the page."""
    places = [place for place, column in enumerate(table.columns) if not column.page_only]
    columns = [table.columns[place] for place in places]
    lines = [
        _markdown_row(formatting.markdown(column.title) for column in columns),
        _markdown_row("---:" if column.right else "---" for column in columns),
    ]
    for line in table.lines:
        cells = [_markdown_cell(each) for each in line.cells]
        cells = [*cells, *[""] * (len(places) - len(cells))] if line.across else [cells[place] for place in places]
        lines.append(_markdown_row(cells))
    return formatting.Markdown("\n".join(lines))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(each: Cell) -> str:
    text = ""
    for part in each.parts:
        if not part.page_only:
            text += (", " if part.kind == "flag" else " ") * bool(text) + _markdown_part(part)
    return text


def _markdown_part(part: Part) -> str:
    text = formatting.code(part.text) if part.kind == "code" or part.href else formatting.markdown(part.text)
    return f"**{text}**" if part.kind in STRONG and text else str(text)
