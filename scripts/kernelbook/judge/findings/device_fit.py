"""Products of equal FLOPs in one forward that take unlike times on unlike kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import GemmCost, gemm_costs
from kernelbook.judge.cost_model.gemm import COLUMN_MAJOR
from kernelbook.judge.findings.costs import note, process_medians
from kernelbook.judge.findings.rules import Finding, Scene, rule
from kernelbook.judge.findings.together import in_cases
from kernelbook.kernel_names import decode
from kernelbook.text.units import duration

#: Times that differ by less than this share are not told.
LEAST_GAP = 0.05


def _alike(group: Sequence[Finding]) -> str:
    each = "; ".join(f"{finding.case} {finding.subject}" for finding in group)
    return f"In {in_cases(group)}, products of {group[0].theme}. Times: {each}."


@rule("unequal-gemms", "products of equal FLOPs in one forward run on different kernels in unlike times", _alike)
def unequal_gemms(scene: Scene) -> Iterator[Finding]:
    """With sizes, tiles and waves; why the library chose so, the trace does not say.

    Means over the products of one kernel are compared. Silent where they differ by less than a twentieth, or by no
    more than products of one kernel do among themselves and the processes of the case do.
    """
    by_flops: dict[int, list[GemmCost]] = {}
    for gemm in gemm_costs(scene.facts):
        by_flops.setdefault(gemm.flops, []).append(gemm)
    for flops, gemms in by_flops.items():
        kernels: dict[str, list[GemmCost]] = {}
        for gemm in gemms:
            kernels.setdefault(gemm.kernel, []).append(gemm)
        if len(kernels) > 1 and _told(scene.facts, list(kernels.values())):
            yield _finding(flops, gemms, list(kernels.values()))


def _told(facts: CaseFacts, kernels: Sequence[Sequence[GemmCost]]) -> bool:
    means = [mean(gemm.time_us for gemm in gemms) for gemms in kernels]
    gap = max(means) - min(means)
    within = max(max(g.time_us for g in gemms) - min(g.time_us for g in gemms) for gemms in kernels)
    apart = max(_between_processes(facts, gemm.position) for gemms in kernels for gemm in gemms)
    return gap > max(LEAST_GAP * min(means), within, apart)


def _between_processes(facts: CaseFacts, position: int) -> float:
    """How far the processes lie apart in what one activity takes, in µs."""
    name = facts.activities[position].name
    lengths = {
        (f.process, f.index): f.activities[position].duration_us
        for f in facts.usual_forwards
        if position < len(f.activities) and f.activities[position].name == name
    }
    medians = process_medians(lengths).values()
    return max(medians, default=0.0) - min(medians, default=0.0)


def _finding(flops: int, gemms: Sequence[GemmCost], kernels: Sequence[Sequence[GemmCost]]) -> Finding:
    times = [duration(mean(gemm.time_us for gemm in of_it)) for of_it in kernels]
    labels = ", ".join(f"{of_it[0].label} {time}" for of_it, time in zip(kernels, times, strict=True))
    fits = "; ".join(dict.fromkeys(_fit(gemm) for gemm in gemms))
    alike = (
        f"{flops / 1e9:.1f} GFLOP each run on {len(kernels)} kernels and take unlike times. {_differing(gemms)} {fits}"
    )
    text = f"{len(gemms)} products of {alike}. Times: {' and '.join(times)}."
    remedy = "Equal FLOPs are not equal work; why the library chose these kernels, the trace does not say."
    where = tuple(gemm.position for gemm in gemms)
    return note("unequal-gemms", labels, remedy, text, where, theme=alike, subject=" and ".join(times))


def _differing(gemms: Sequence[GemmCost]) -> str:
    """Which of the sizes are not the same: ``n and k differ.``"""
    names = [name for name in ("batch", "m", "n", "k") if len({getattr(gemm, name) for gemm in gemms}) > 1]
    if not names:
        return "Their sizes are the same: compare layout, strides and epilogue."
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{listed} {'differ' if len(names) > 1 else 'differs'}."


def _fit(gemm: GemmCost) -> str:
    """Size, tile, and how often the device is filled: waves, or of a persistent kernel the tiles that a block makes."""
    size = f"{gemm.m} x {gemm.n} x {gemm.k}" + (f" x {gemm.batch}" if gemm.batch > 1 else "")
    if gemm.tiles_per_block and gemm.tiles_per_block > 1:
        filled = f"persistent, {gemm.tiles_per_block:.2f} tiles a block"
    else:
        filled = f"{gemm.waves:.2f} waves" if gemm.waves else "waves unknown"
    return f"{size}: tile {tile_of(gemm) or 'unknown'}, {filled}"


def tile_of(gemm: GemmCost) -> str | None:
    """Its tile as m x n x k, like the sizes: the name of a column-major kernel has n first."""
    sides = (gemm.tile or "").split("x")
    if decode(gemm.kernel).library in COLUMN_MAJOR and len(sides) > 1:
        sides[:2] = reversed(sides[:2])
    return "x".join(sides) or None
