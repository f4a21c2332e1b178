"""Numbers and names as a reader sees them, and names from traces made harmless in Markdown and CSV.

HTML is left to Jinja's autoescape. `visible` must run first everywhere: it takes from a name the characters that
would reorder or hide what stands beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from kernelbook.text.units import NOT_AVAILABLE, UNITS, duration, plural, significant  # noqa: F401 - read through this module

# What Markdown gives a meaning: signs anywhere; an underscore at the edge of a word; what makes an address a link; and
# at the start of a line, after at most one blank, what begins a list, a heading or the like.
_MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~^$<>&{}]|(?<![^\W_])_|_(?![^\W_])|=(?==)|(?<==)=|:(?=//)|(?<=www)\.")
_MARKDOWN_START = re.compile(r"^( ?)([#=!?]|[-+](?!\d))|^( ?\d+)([.)])(?=\s|$)")
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_PLAIN_NAME = re.compile(r"[\w.:,/()+=@%>·…-]+(?: [\w.:,/()+=@%>·…-]+)*")
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r")


class Markdown(str):
    """Text that is Markdown already and must not be escaped again."""


def visible(value: object) -> str:
    """Text with control, format and lone surrogate characters spelled out, `[U+202E]`, and line breaks as spaces."""
    text = re.sub(r"[\r\n\t\u2028\u2029]+", " ", str(value))
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in {"Cc", "Cf", "Cs"} else c for c in text)


def clip(value: object, limit: int = 96) -> str:
    """At most `limit` characters; the middle is what is left out, since both ends of a kernel's name tell."""
    text = visible(value)
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - limit :]}"


def markdown(value: object) -> Markdown:
    """Any text as inert inline Markdown, fit for a table cell.

    Signs with a meaning become HTML entities. These are right both in Markdown and inside HTML blocks, in which some
    renderers read no Markdown at all, so that a backslash would protect nothing.
    """
    if isinstance(value, Markdown):
        return value
    return Markdown(NOT_AVAILABLE if value is None else _inert(re.sub(r"^\s+", " ", visible(value))))


def _inert(text: str) -> str:
    text = _MARKDOWN_SPECIAL.sub(lambda found: _entity(found[0]), text)
    return _MARKDOWN_START.sub(lambda found: (found[1] or found[3] or "") + _entity(found[2] or found[4]), text)


def _entity(sign: str) -> str:
    return _NAMED.get(sign, f"&#{ord(sign)};")


def code(value: object, limit: int = 96) -> Markdown:
    """A name as code, fit for a table cell. Backticks are for plain names only, as they protect nothing inside HTML."""
    text = clip(value, limit).strip()
    plain = _PLAIN_NAME.fullmatch(text)
    return Markdown(f"`{text}`" if plain else f"<code>{_inert(text)}</code>")


def block(lines: Iterable[str]) -> Markdown:
    """Lines of text as they are."""
    return Markdown("\n".join(["<pre>", *(_inert(visible(line)) for line in lines), "</pre>"]))


def csv_cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: such text gets a leading apostrophe. Numbers stay as they are.

    Control characters are spelled out, as everywhere: a terminal may be what shows the file.
    """
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value.startswith(_FORMULA_START) else value)


def slug(value: object) -> str:
    """An id for an anchor, of lower-case letters, digits, dots and dashes only."""
    return re.sub(r"[^a-z0-9.-]+", "-", str(value).lower()).strip("-")[:80] or "x"


def titles(workloads: Iterable[str]) -> dict[str, str]:
    """What each workload is called in a heading: one in a file without its folders, if it alone is so."""
    names = list(workloads)
    short = {name: name.rsplit("/", 1)[-1] or name for name in names}
    often = Counter(short.values())
    return {name: short[name] if often[short[name]] == 1 else name for name in names}


def axis(value: float, scale: float) -> str:
    """A tick's label in the unit of its scale, so that all ticks of an axis share one: `0.5 ms` beside `2 ms`."""
    size, unit = next(((size, unit) for size, unit in UNITS if scale >= size), UNITS[-1])
    return f"{value / size:g} {unit}" if value else "0"


def listed(value: object, limit: int = 240) -> str:
    """As many whole items of a list as fit, and how many more there are; one item alone is clipped in its middle.

    Items end at semicolons, else at commas: at both where that of a semicolon is too long, and then they are not
    counted. Where some are of several each (`2 x fill`), it is kinds that are left.
    """
    whole = visible(value)
    items = re.split(r"(?<=;) ", whole)
    cut = len(items) > 1 and len(items[0]) > limit
    if cut or len(items) == 1:
        items = re.split(r"(?<=[,;]) ", whole)
    kept = items[0]
    for number, item in enumerate(items[1:], 1):
        if len(kept) + 1 + len(item) > limit:
            left = len(items) - number
            kinds = "; " not in whole and re.search(r"(?:^|[:,] )\d+ x ", whole)
            more = "more" if cut else plural(left, "more kind") if kinds else f"{left} more"
            return f"{clip(kept.rstrip(',;'), limit)} and {more}"
        kept = f"{kept} {item}"
    return clip(kept, limit)


def lead(value: object, limit: int = 220) -> str:
    """As many whole sentences as fit, the first at least; that one is clipped where it alone is too long."""
    sentences = re.split(r"(?<=\.) ", visible(value))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + 1 + len(sentence) > limit:
            break
        kept = f"{kept} {sentence}"
    return clip(kept, limit)


def number(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else significant(value)


def ratio(value: float | None, places: int = 2) -> str:
    """`2.80×`, `0.80×`; very small ones keep significant digits."""
    if value is None:
        return NOT_AVAILABLE
    return f"{value:.{places}f}×" if 0.1 <= value < 10 else f"{significant(value)}×"


def share(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else f"{value * 100:.{0 if value >= 0.1 else 1}f} %"


def size(value: float | None) -> str:
    """Bytes with a binary unit."""
    if value is None:
        return NOT_AVAILABLE
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{significant(value)} {unit}"
        value /= 1024
    return f"{significant(value)} TiB"
