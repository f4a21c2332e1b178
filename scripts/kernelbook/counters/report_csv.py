"""The raw page of a report of Nsight Compute as CSV (`ncu --csv --page raw`): one row a kernel."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from kernelbook.counters.kernel import Profiled
from kernelbook.counters.metrics import figures, scale_of

NEEDED = ("Kernel Name", "Grid Size", "Block Size")
EXPORT = "export it with ncu --import REPORT --csv --page raw"
DETAILS = "Metric Name"  # a column of the details page
LONGEST_FIELD = 1 << 20
#: Signs between groups of digits that no locale uses for decimals.
GROUPING = re.compile(r"(?<=\d)['’\s](?=\d{3})")
NUMBER = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+|-?\d+,\d+|-?\d{1,3}(\.\d{3}){2,}")
TOO_LARGE = 1e18  # bytes, µs, percent or registers


class CountersError(ValueError):
    """A report that cannot be read; the message states the fact and the remedy."""


def parse(text: str) -> list[Profiled]:
    """The kernels in the order of their rows.

    What ncu prints before the table is skipped, and so is what the profiled program printed between the rows. Raises
    CountersError where there is no table, of another page, of a cut file, and for numbers with a decimal comma.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(('"ID",', "ID,"))), None)
    if start is None:
        raise CountersError(f"there is no table of kernels in it: {EXPORT}")
    if lines[-1].startswith('"') and lines[-1].count('"') % 2:
        raise CountersError(f"it ends within a row: {EXPORT}")
    csv.field_size_limit(LONGEST_FIELD)
    try:
        rows = list(csv.reader(line for line in lines[start:] if line and not line.startswith("==")))
    except csv.Error as error:
        raise CountersError(f"it is no CSV ({error}): {EXPORT}") from error
    head, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if DETAILS in head or any(name not in head for name in NEEDED):
        raise CountersError(f"it is not the raw page of a report: {EXPORT}")
    places = {name: number for number, name in enumerate(head)}
    units = body[0] if body and not body[0][0].strip() else []
    kernels = body[1 if units else 0 :]
    if not kernels:
        raise CountersError(f"it holds no kernel: {EXPORT}")
    metrics = {name: (place, scale_of(name, units[place] if units else "")) for name, place in places.items()}
    used = {name: (place, scale) for name, (place, scale) in metrics.items() if "__" in name and scale is not None}
    if any(_is_decimal_comma(row[place]) for row in kernels for place, _ in used.values()):
        raise CountersError(f"its numbers have a decimal comma: {EXPORT}, with LC_ALL=C in the environment")
    return [_kernel(number, row, places, used) for number, row in enumerate(kernels)]


def _kernel(
    number: int, row: list[str], places: Mapping[str, int], metrics: Mapping[str, tuple[int, float]]
) -> Profiled:
    values = {}
    for name, (place, scale) in metrics.items():
        value = _number(row[place], scale)
        if value is not None:
            values[name] = value
    name, grid, block = (row[places[column]] for column in NEEDED)
    return Profiled(number=number, name=name, grid=_sizes(grid), block=_sizes(block), **figures(values))


def _number(text: str, scale: float) -> float | None:
    """`1,234.5` times the scale; None of what is no number, and of what no metric can be."""
    plain = GROUPING.sub("", text.strip())
    if not NUMBER.fullmatch(plain):
        return None
    value = float(f"{float(plain.replace(',', '')) * scale:.12g}")  # 84,832 ns are 84.832 µs
    return value if 0 <= value < TOO_LARGE else None


def _is_decimal_comma(text: str) -> bool:
    plain = GROUPING.sub("", text.strip())
    return DECIMAL_COMMA.fullmatch(plain) is not None and not NUMBER.fullmatch(plain)


def _sizes(text: str) -> tuple[int, ...]:
    """`(384, 1, 1)`."""
    return tuple(int(number) for number in re.findall(r"\d{1,18}", text)[:3])
