"""The table `ncu` of one process: the kernels that Nsight Compute profiled, or one row with the reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelbook.counters import CountersError, Profiled, counters_beside, read_counters
from kernelbook.extraction.measurement import CounterPass, Measurement


def profiled_kernels(trace: Path | None, measurement: Measurement | None, folder: Path) -> Sequence[Profiled]:
    """The counters that measurement.json names, else those beside the trace; empty where none were asked for.

    folder: that of measurement.json. Raises nothing for a damaged file: its row has the reason.
    """
    about = (measurement and measurement.counter_pass) or CounterPass()
    if measurement and measurement.counters:
        file: Path | None = folder / measurement.counters
    elif about.reason is not None:
        return [Profiled(reason=about.reason, seconds=about.seconds)]
    else:
        file = counters_beside(trace) if trace else None
    if file is None:
        return []
    try:
        kernels = read_counters(file)
    except CountersError as error:
        return [Profiled(reason=str(error), seconds=about.seconds)]
    return [replace(kernel, functions=about.functions, seconds=about.seconds) for kernel in kernels]
