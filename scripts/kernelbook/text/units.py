"""Times, counts and quantiles: one format for the whole project.

`report/assets/format.js` implements the same format for the scripts of the page; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable

NOT_AVAILABLE = "n/a"
UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
ROUNDS_UP_FROM = 0.9995  # of a unit: with three digits it would read as 1000 of the unit below


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent: 0.736, 2.70, 945, 2,634."""
    if value == 0:
        return "0"
    places = max(digits - _whole(value), 0)
    if _whole(round(value, places)) > _whole(value):  # 9.997 becomes 10.0
        places = max(places - 1, 0)
    return f"{value:,.{places}f}"


def _whole(value: float) -> int:
    """Number of digits before the point; 0 for numbers below 1."""
    return len(str(int(abs(value)))) if abs(value) >= 1 else 0


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
    """Microseconds in a suitable unit with every digit that was published: 1.955 ms, 277.9 µs; n/a for None."""
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
