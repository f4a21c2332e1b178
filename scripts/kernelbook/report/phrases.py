"""Short phrases for a case or a finding that several parts of the report use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model.forward import DTYPES, computed_in
from kernelbook.judge.findings import Finding
from kernelbook.report.ranges import WholeFile
from kernelbook.text.formatting import NOT_AVAILABLE, clip, duration, ends, plural, ratio, size


def cost(finding: Finding) -> str:
    """The time of a finding: `128 µs`, or `51.1 µs – 69.4 µs` if the processes differ."""
    low, high = (duration(each) for each in (finding.time_low_us, finding.time_high_us))
    one = finding.time_us is None or finding.time_low_us is None or finding.time_high_us is None or low == high
    return duration(finding.time_us) if one else f"{low} – {high}"


def parameter(name: str, value: object) -> str:
    """The value for reading: numbers of bytes with a binary unit, `1 GiB`."""
    text = str(value)
    if name.rpartition("_")[2] == "bytes" and text.isdecimal() and int(text) >= 1024:
        number, unit = size(int(text)).split(" ")
        return f"{float(number.replace(',', '')):g} {unit}"
    return text


def size_of(row: CaseFacts, order: Iterable[str] = ()) -> str:
    """Element type and numeric parameters: `bf16, 8 × 16 × 1024 × 64`; one parameter has its name: `bf16, size 64`."""
    parts = (DTYPES.get(row.dtype or "", row.dtype), sizes_of(row, order))
    return clip(", ".join(part for part in parts if part), 60)


def sizes_of(row: CaseFacts, order: Iterable[str] = ()) -> str:
    """The numeric parameters: `8 × 16 × 1024 × 64`; one has its name: `size 64`.

    order: names of parameters that come first, since a failed case has them in another order than one that ran.
    """
    names = [name for name in dict.fromkeys((*order, *row.params)) if name in row.params]
    values = ((name, row.params[name]) for name in names)
    numbers = [(name, parameter(name, value)) for name, value in values if str(value).replace(".", "", 1).isdigit()]
    return " ".join(numbers[0]) if len(numbers) == 1 else " × ".join(value for _, value in numbers)


def counts(row: CaseFacts | WholeFile) -> str:
    """`5 kernels + 1 memcpy + 1 memset`, or n/a if the trace has no device activity."""
    if row.kernels is None:
        return NOT_AVAILABLE
    every = ((row.kernels, "kernel"), (row.memcpys, "memcpy"), (row.memsets, "memset"))
    return " + ".join(plural(count, one) for count, one in every if count) or "0 kernels"


def ratios(values: Iterable[float]) -> str:
    """`2.46× to 2.80×`; one ratio if both ends are printed alike."""
    return ends([ratio(value) for value in sorted(values)])


def inside(row: CaseFacts) -> str:
    """` (fp32 inside)` if matrix products spend most of their time in another precision than that of the inputs."""
    other = computed_in(row.conditions.dtype, row.activities)
    return f" ({other} inside)" if other else ""


def conditions(row: CaseFacts) -> str:
    """The conditions of a measurement: `bfloat16, batch 8, seq 1024, eager, 3 warm-up calls`."""
    params = [f"{name} {parameter(name, value)}" for name, value in row.params.items()]
    warmup = "no warm-up" if row.warmup == 0 else row.warmup and plural(row.warmup, "warm-up call")
    return ", ".join(part for part in (row.dtype, *params, row.mode, warmup) if part)


def on_runs(runs: Sequence[str]) -> str:
    """`first, second and third`; `first and 3 more runs` if there are more, or if their names are long."""
    first, *others = runs
    if not others:
        return first
    if len(others) <= 2 and sum(map(len, runs)) <= 40:
        return f"{', '.join(runs[:-1])} and {runs[-1]}"
    return f"{first} and {plural(len(others), 'more run')}"
