"""The roofline of a run: a dot for each kernel of known FLOPs and bytes under the ceilings of its device.

Williams, Waterman, Patterson: Roofline: an insightful visual performance model (CACM 2009). Both axes are logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import HEIGHT, WIDTH, Chart, Label, Panel, Tick, path, stretched
from kernelbook.edition.model import Edition
from kernelbook.judge.cost_model import Ceiling, KernelCost
from kernelbook.report.families import family_of
from kernelbook.report.trust_section import CEILING_UNITS
from kernelbook.text.formatting import clip, duration, significant, visible

#: Diameters of the dots of the shortest and the longest kernel, px.
LEAST, MOST = 5.0, 24.0
#: Part of a hollow dot's diameter that is paper.
HOLE = 0.62
NOTE = (
    "Each circle is one kernel of known FLOPs and bytes, as large as its time; it links to the kernel. Hollow: FLOPs "
    "over the modelled bytes. Filled: over the DRAM bytes that Nsight Compute measured, joined to its hollow circle. "
    "Solid lines: measured ceilings; dashed: those of the data sheet. A thick line joins the longest such kernel of a "
    "workload’s first case, of that case compiled, and of the fastest case."
)


@dataclass(frozen=True)
class Dot:
    """intensity: FLOPs per modelled byte. measured: FLOPs per byte of DRAM by the counters, if known. rate: FLOP/s."""

    row: CaseFacts
    cost: KernelCost
    intensity: float
    measured: float | None
    rate: float

    @property
    def best_intensity(self) -> float:
        """The measured intensity, else the modelled one."""
        return self.measured or self.intensity


@dataclass(frozen=True)
class Plane:
    """The powers of ten between which both axes run."""

    x: tuple[int, int]
    y: tuple[int, int]

    def at(self, intensity: float, rate: float) -> tuple[float, float]:
        """The place in units of a drawing."""
        across = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        down = (self.y[1] - math.log10(rate)) / (self.y[1] - self.y[0])
        return across * WIDTH, down * HEIGHT


def dots_of(edition: Edition, run: str) -> tuple[Dot, ...]:
    """The kernels of a run whose FLOPs, bytes and time are known, without those of its ceiling cases."""
    dots = []
    for row in edition.case_runs:
        if row.run == run and not row.ceiling:
            for cost in edition.kernel_costs.get(row.key, {}).values():
                if cost.flops and cost.bytes and cost.time_us:
                    rate = cost.flops / cost.time_us * 1e6
                    dots.append(Dot(row, cost, cost.flops / cost.bytes, cost.measured_intensity, rate))
    return tuple(dots)


def chart(edition: Edition, run: str, anchors: Mapping[tuple[str, str], str]) -> Chart | None:
    """The roofline of a run; None without dots or without a memory ceiling.

    anchors: (run, case) -> anchor of its row.
    """
    dots = dots_of(edition, run)
    ceilings = [ceiling for ceiling in edition.ceilings if ceiling.run == run and ceiling.quantity != "L2 cache"]
    memory = [ceiling for ceiling in ceilings if ceiling.quantity == "memory"]
    if not dots or not memory:
        return None
    rates = [dot.rate for dot in dots] + [
        rate for each in ceilings if each.quantity == "compute" for rate in _rates(each)
    ]
    ridge = max(rates) / memory[0].per_s
    intensities = [each for dot in dots for each in (dot.intensity, dot.best_intensity)]
    plane = Plane(_decades([ridge, *intensities]), _decades(rates))
    parts = [path("roof" + (" dashed" if sheet else ""), shape) for shape, sheet in _roofs(ceilings, plane)]
    parts += [path("journey", shape) for shape in _journeys(dots, plane)]
    parts += [_dot(dot, plane, max(each.cost.time_us for each in dots), anchors) for dot in dots]
    drawing = stretched(parts, f"Roofline of {len(dots)} kernels on {run}", role="group")
    y_ticks = tuple(Tick(_part(power, plane.y, True), _rate(10.0**power)) for power in range(*plane.y))
    powers = range(plane.x[0], plane.x[1] + 1)
    x_ticks = tuple(Tick(_part(power, plane.x), significant(10.0**power, 1)) for power in powers)
    panel = Panel(drawing, height=340, y_ticks=y_ticks, labels=tuple(_labels(ceilings, plane)))
    return Chart(f"roofline-{run}", "roofline", f"Roofline of {run}, FLOP per byte", (panel,), x_ticks, (), NOTE)


def _decades(values: Iterable[float]) -> tuple[int, int]:
    powers = [math.log10(value) for value in values]
    return math.floor(min(powers) - 0.05), math.ceil(max(powers) + 0.05)


def _part(power: float, ends: tuple[int, int], down: bool = False) -> float:
    part = (power - ends[0]) / (ends[1] - ends[0])
    return 1 - part if down else part


def _rates(ceiling: Ceiling) -> list[float]:
    """The ceiling itself and, if it has one, that of the data sheet."""
    return [rate for rate in (ceiling.per_s, ceiling.data_sheet_per_s) if rate]


def _roofs(ceilings: Iterable[Ceiling], plane: Plane) -> Iterable[tuple[str, bool]]:
    """(shape, whether it is of the data sheet): slopes of memory, levels of compute."""
    low, high = (10.0**power for power in plane.x)
    top = 10.0 ** plane.y[1]
    for ceiling in ceilings:
        for place, rate in enumerate(_rates(ceiling)):
            ends = [(low, rate * low), (min(high, top / rate), min(rate * high, top))]
            if ceiling.quantity == "compute":
                ends = [(low, rate), (high, rate)]
            yield _line(ends, plane), place > 0 or ceiling.origin == "data sheet"


def _line(points: Iterable[tuple[float, float]], plane: Plane) -> str:
    return "M" + "L".join(f"{x:.4g} {y:.4g}" for x, y in (plane.at(*point) for point in points))


def _journeys(dots: Iterable[Dot], plane: Plane) -> Iterable[str]:
    """A line for each workload: first case, the same compiled, fastest case of the same element type and parameters."""
    longest: dict[str, dict[str, Dot]] = {}
    for dot in dots:
        cases = longest.setdefault(dot.row.workload or "", {})
        if dot.row.case not in cases or dot.cost.time_us > cases[dot.row.case].cost.time_us:
            cases[dot.row.case] = dot
    for cases in longest.values():
        first = next(iter(cases.values()))
        same = [dot for dot in cases.values() if dot.row.conditions == first.row.conditions]
        compiled = (d for d in same if d.row.variant == first.row.variant and d.row.mode != first.row.mode)
        fastest = min(same, key=lambda dot: dot.row.device_time_us or math.inf)
        points = dict.fromkeys((dot.best_intensity, dot.rate) for dot in (first, *list(compiled)[:1], fastest))
        if len(points) > 1:
            yield _line(points, plane)


def _dot(dot: Dot, plane: Plane, longest_us: float, anchors: Mapping[tuple[str, str], str]) -> Markup:
    size = LEAST + (MOST - LEAST) * math.sqrt(dot.cost.time_us / longest_us)
    family = family_of("kernel", next((a.family for a in dot.row.activities if a.position == dot.cost.position), None))
    title = f"{dot.row.case}: {clip(dot.cost.label, 60)}, {duration(dot.cost.time_us)}, {_rate(dot.rate)}"
    title += f", {significant(dot.intensity)} FLOP per modelled byte"
    modelled = _line([(dot.intensity, dot.rate)], plane) + "z"
    shapes = path("kernel", modelled) + f'<path class="hole" style="stroke-width:{size * HOLE:.1f}" d="{modelled}"/>'
    if dot.measured:
        title += f", {significant(dot.measured)} per measured byte"
        ends = [(dot.intensity, dot.rate), (dot.measured, dot.rate)]
        shapes = path("to-measured", _line(ends, plane)) + shapes
        shapes += path("kernel measured", _line(ends[1:], plane) + "z")
    return Markup(
        '<a href="#{}~k{}" aria-label="{}" style="stroke:var(--f-{});stroke-width:{:.1f}"><title>{}</title>{}</a>'
    ).format(
        anchors.get(dot.row.key, ""),
        dot.cost.position,
        visible(title),
        family.key,
        size,
        visible(title),
        Markup(shapes),
    )


def _rate(per_s: float) -> str:
    return f"{significant(per_s / 1e12)} TFLOP/s"


def _labels(ceilings: Iterable[Ceiling], plane: Plane) -> Iterable[Label]:
    for ceiling in ceilings:
        size, unit = CEILING_UNITS[ceiling.quantity]
        name = f"{ceiling.compute_type or ceiling.quantity} {significant(ceiling.per_s / size)} {unit}"
        text = f"{name} ({ceiling.origin})"
        if ceiling.quantity == "compute":
            x, y = plane.at(10.0 ** plane.x[0], ceiling.per_s)
            yield Label(1.0, y / HEIGHT + 0.06, text, "soft end")
        else:
            x, y = plane.at(10.0 ** (plane.x[0] + 0.55), ceiling.per_s * 10.0 ** (plane.x[0] + 0.55))
            if 0 < y < HEIGHT:
                yield Label(x / WIDTH + 0.16, y / HEIGHT + 0.05, text, "soft")
