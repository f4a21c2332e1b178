"""The raw page of a report of Nsight Compute as CSV (`ncu --csv --page raw`): one row a kernel."""

from __future__ import annotations

import csv
import math
import re

from kernelbook.counters.kernel import Profiled
from kernelbook.counters.metrics import SCALES, figures

NEEDED = ("Kernel Name", "Grid Size", "Block Size")
EXPORT = "export it with ncu --import REPORT --csv --page raw"
DETAILS = "Metric Name"  # a column of the details page
LONGEST_FIELD = 1 << 20


class CountersError(ValueError):
    """A report that cannot be read; the message states the fact and the remedy."""


def parse(text: str) -> list[Profiled]:
    """The kernels in the order of their rows.

    What ncu prints before the table is skipped. Raises CountersError where there is no table, or of another page.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(('"ID",', "ID,"))), None)
    if start is None:
        raise CountersError(f"there is no table of kernels in it: {EXPORT}")
    csv.field_size_limit(LONGEST_FIELD)
    try:
        rows = list(csv.reader(line for line in lines[start:] if not line.startswith("==")))
    except csv.Error as error:
        raise CountersError(f"it is no CSV ({error}): {EXPORT}") from error
    head, body = rows[0], rows[1:]
    if DETAILS in head or any(name not in head for name in NEEDED):
        raise CountersError(f"it is not the raw page of a report: {EXPORT}")
    places = {name: number for number, name in enumerate(head)}
    units = body[0] if body and not body[0][0].strip() else []
    kernels = [row for row in body[1 if units else 0 :] if len(row) == len(head)]
    if not kernels:
        raise CountersError(f"it holds no kernel: {EXPORT}")
    return [_kernel(number, row, places, units) for number, row in enumerate(kernels)]


def _kernel(number: int, row: list[str], places: dict[str, int], units: list[str]) -> Profiled:
    values: dict[str, float] = {}
    for name, place in places.items():
        value = _number(row[place]) if "__" in name else None
        if value is not None:
            scale = SCALES.get(units[place] if place < len(units) else "", 1.0)
            values[name] = float(f"{value * scale:.12g}")  # 84,832 ns are 84.832 µs
    name, grid, block = (row[places[column]] for column in NEEDED)
    return Profiled(number=number, name=name, grid=_sizes(grid), block=_sizes(block), **figures(values))


def _number(text: str) -> float | None:
    """`1,234.5`; None of what is no finite number."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _sizes(text: str) -> tuple[int, ...]:
    """`(384, 1, 1)`."""
    return tuple(int(number) for number in re.findall(r"\d{1,18}", text)[:3])
