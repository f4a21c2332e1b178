"""Numbers, times and names as text, and untrusted names escaped for Markdown and CSV.

Jinja's autoescape escapes HTML. `visible` must be applied first everywhere: it replaces characters that would reorder
or hide the text around them. `report/assets/format.js` has the same formats for the page; a test compares the two.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

NOT_AVAILABLE = "n/a"
POWERS = tuple(10.0**power for power in range(16))  # more digits than any number is printed with
UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
ROUNDS_UP_FROM = 0.9995  # of a unit: with three digits it would be printed as 1000 of the next smaller unit


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent: 0.736, 2.70, 945, 2,634."""
    if value == 0:
        return "0"
    whole = _whole(value)
    places = max(digits - whole, 0)
    if places and abs(round(value, places)) >= 10**whole:  # 9.997 becomes 10.0
        places -= 1
    return f"{value:,.{places}f}"


def _whole(value: float) -> int:
    """Number of digits before the point, at most len(POWERS); 0 for numbers below 1."""
    return bisect_right(POWERS, abs(value))


def duration(us: float | None) -> str:
    """Microseconds in a suitable unit: 0.74 µs, 128 µs, 1.00 ms; n/a for None."""
    if us is None:
        return NOT_AVAILABLE
    if us == 0:
        return "0"
    for size, unit in UNITS:
        if abs(us) >= size * ROUNDS_UP_FROM:
            return f"{significant(us / size)} {unit}"
    return f"{us:.2f} µs"


def exact(us: float | None) -> str:
    """Microseconds in a suitable unit with up to six digits, as published: 1.955 ms, 277.9 µs; n/a for None."""
    if us is None:
        return NOT_AVAILABLE
    size, unit = next(((size, unit) for size, unit in UNITS if abs(us) >= size), UNITS[-1])
    return f"{us / size:.6g} {unit}"


def error(value: float | None) -> str:
    """A relative error with two significant digits: 0.0036, 0.0020, 1.2e-07; n/a for None."""
    if value is None:
        return NOT_AVAILABLE
    return f"{value:#.2g}".rstrip(".") if value else "0"


def plural(count: int, one: str, many: str | None = None) -> str:
    """1 launch, 2 launches, 1,000 launches."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def number_ranges(numbers: Iterable[int], most: int = 8) -> str:
    """Whole numbers in order, three or more in a row as a range: `0, 2 to 63`. Beyond `most` parts, their count."""
    ordered = sorted(set(numbers))
    rows: list[list[int]] = []
    for number in ordered:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    parts = [part for row in rows for part in ([f"{row[0]} to {row[-1]}"] if len(row) > 2 else map(str, row))]
    return ", ".join(parts) if len(parts) <= most else f"{', '.join(parts[:most])} ... ({len(ordered)} in all)"


def percent(share: float, places: int = 0) -> str:
    """``12 %``, by default without decimals."""
    return f"{share * 100:.{places}f} %"


def ends(texts: Sequence[str]) -> str:
    """The first and the last of texts in order: ``0.74 µs to 2.34 µs``; one of them if they are equal."""
    return " to ".join(dict.fromkeys((*texts[:1], *texts[-1:])))


def tally(names: Iterable[str], limit: int | None = None, more: str = "more", others: str | None = None) -> str:
    """Each name once with its count, up to `limit` names: ``2 × fill, tril and 3 more``."""
    parts = [name if count == 1 else f"{count} × {name}" for name, count in Counter(names).items()]
    left = len(parts) - limit if limit is not None else 0
    return ", ".join(parts[:limit]) + (f" and {plural(left, more, others or more)}" if left > 0 else "")


def at_border(name: str, limit: int) -> str:
    """Shorten a name to `limit` characters, after a whole word if that keeps at least half of them."""
    if len(name) <= limit:
        return name
    borders = [place for place, sign in enumerate(name[:limit]) if sign in "_:. " and place >= limit // 2]
    return name[: borders[-1] if borders else limit - 1].rstrip("_:. ") + "…"


def quantile(values: Iterable[float], share: float) -> float | None:
    """Quantile by linear interpolation (Hyndman and Fan's type 7), or None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# Markdown syntax: signs anywhere, an underscore at the edge of a word, the parts of an address that make it a link, and
# at the start of a line, after at most one blank, the signs of lists and headings.
_MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~^$<>&{}]|(?<![^\W_])_|_(?![^\W_])|=(?==)|(?<==)=|:(?=//)|(?<=www)\.")
_MARKDOWN_START = re.compile(r"^( ?)([#=!?]|[-+](?!\d))|^( ?\d+)([.)])(?=\s|$)")
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_PLAIN_NAME = re.compile(r"[\w.:,/()+=@%>·…-]+(?: [\w.:,/()+=@%>·…-]+)*")
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_NOT_PLAIN = re.compile(r"[^ -~\n]")
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r")


class Markdown(str):
    """Markdown text, which must not be escaped again."""


def visible(value: object) -> str:
    """Text with line breaks as spaces and control, format and lone surrogate characters as `[U+202E]`."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(r"[\r\n\t\u2028\u2029]+", " ", text)
    return hidden_characters(text, lambda sign: f"[U+{ord(sign):04X}]")


def hidden_characters(text: str, escape: Callable[[str], str]) -> str:
    """Text with each control, format and lone surrogate character escaped, and line separators except \\n."""

    def replace(match: re.Match[str]) -> str:
        return escape(match[0]) if unicodedata.category(match[0]) in _HIDDEN else match[0]

    return _NOT_PLAIN.sub(replace, text)


def clip(value: object, limit: int = 96) -> str:
    """Shorten to `limit` characters by leaving out the middle, since both ends of a kernel's name are informative."""
    text = visible(value)
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - limit :]}"


def markdown(value: object) -> Markdown:
    """Escape text for inline Markdown and table cells.

    Signs with a meaning become HTML entities, which also work inside HTML blocks. Some renderers read no Markdown
    there, so a backslash would have no effect.
    """
    if isinstance(value, Markdown):
        return value
    return Markdown(NOT_AVAILABLE if value is None else _inert(re.sub(r"^\s+", " ", visible(value))))


def _inert(text: str) -> str:
    text = _MARKDOWN_SPECIAL.sub(lambda match: _entity(match[0]), text)
    return _MARKDOWN_START.sub(lambda match: (match[1] or match[3] or "") + _entity(match[2] or match[4]), text)


def _entity(sign: str) -> str:
    return _NAMED.get(sign, f"&#{ord(sign)};")


def code(value: object, limit: int = 96) -> Markdown:
    """A name as code for a table cell. Only plain names get backticks, because these have no effect inside HTML."""
    text = clip(value, limit).strip()
    plain = _PLAIN_NAME.fullmatch(text)
    return Markdown(f"`{text}`" if plain else f"<code>{_inert(text)}</code>")


def block(lines: Iterable[str]) -> Markdown:
    return Markdown("\n".join(["<pre>", *(_inert(visible(line)) for line in lines), "</pre>"]))


def csv_cell(value: object) -> object:
    """Prefix text that a spreadsheet would read as a formula with an apostrophe.

    Control characters are replaced as in `visible`, since the file may be printed to a terminal.
    """
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value.startswith(_FORMULA_START) else value)


def slug(value: object) -> str:
    """An HTML id of lower-case letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.-]+", "-", str(value).lower()).strip("-")[:80] or "x"


def titles(workloads: Iterable[str]) -> dict[str, str]:
    """Title of each workload: its path without folders, if that is unique."""
    names = list(workloads)
    short = {name: name.rsplit("/", 1)[-1] or name for name in names}
    often = Counter(short.values())
    return {name: short[name] if often[short[name]] == 1 else name for name in names}


def axis(value: float, scale: float) -> str:
    """Label of a tick in the unit of its scale, so that all ticks of an axis share a unit: `0.5 ms`, `2 ms`."""
    size, unit = next(((size, unit) for size, unit in UNITS if scale >= size), UNITS[-1])
    return f"{value / size:g} {unit}" if value else "0"


def listed(value: object, limit: int = 240) -> str:
    """Shorten a list to as many whole items as fit and the number of the others; a single item is clipped.

    Items end at semicolons or, without these, at commas. If the first item is too long, they end at both and are not
    counted. If items have a number (`2 × fill`), the others are counted as kinds.
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
            kinds = "; " not in whole and re.search(r"(?:^|[:,] )\d+ × ", whole)
            more = "more" if cut else plural(left, "more kind") if kinds else f"{left} more"
            return f"{clip(kept.rstrip(',;'), limit)} and {more}"
        kept = f"{kept} {item}"
    return clip(kept, limit)


#: The end of a clause that is not inside parentheses.
_CLAUSE_END = re.compile(r"[;:](?= )(?![^()]*\))")


def lead(value: object, limit: int = 220) -> str:
    """As many whole sentences as fit, at least the first.

    If the first is too long, it ends with its last clause that fits, else after a whole word.
    """
    sentences = re.split(r"(?<=\.) ", visible(value))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + 1 + len(sentence) > limit:
            break
        kept = f"{kept} {sentence}"
    ends = [end.start() for end in _CLAUSE_END.finditer(kept) if limit / 2 <= end.start() < limit]
    return f"{kept[: ends[-1]]}." if ends and len(kept) > limit else at_border(kept, limit)


def unbroken(text: str) -> str:
    """The text with no line break between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:[µm]?s|%|[KMG]iB|GB/s)(?!\w))", "\u00a0", text)


def number(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else significant(value)


def ratio(value: float | None, places: int = 2) -> str:
    """`2.80×`, `0.80×`; very small and large ratios get significant digits."""
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


def last_words(lines: Sequence[str]) -> str:
    """The last line, without the prefixes of container runtimes."""
    prefixes = (
        r"^(FATAL|ERROR)\s*:\s*|While [a-z ]+: (?=.)|error fetching image to cache: |failed to get checksum for \S+: "
    )
    return re.sub(prefixes, "", lines[-1]) if lines else "it said nothing"


def utc_now() -> str:
    """The current time as 2026-11-29T15:00:00Z."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
