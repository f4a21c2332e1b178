"""Facts of cases from folders of recorded results."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.extraction.process_tables import Origin, tables_of

Facts = dict[str, CaseFacts]
"""Facts by case."""
Look = Callable[[str], CaseFacts]
"""A function from the name of a case to its facts."""


def facts_of_folder(run: str, folder: Path, case: str = "*") -> dict[str, CaseFacts]:
    """Case -> facts of the cases under a folder of <case>/<process>/measurement.json. case: a glob."""
    return {facts.case: facts for facts in case_facts(_tables_of_folder(run, folder, case)).values()}


def _tables_of_folder(run: str, folder: Path, chosen: str) -> dict[str, pa.Table]:
    parts: dict[str, list[pa.Table]] = {}
    for measurement in sorted(folder.glob(f"{chosen}/*/measurement.json")):
        case, process = measurement.parent.parent.name, int(measurement.parent.name)
        made = tables_of(Origin(run, case, process, {}), {}, measurement)
        for name, table in made.items():
            parts.setdefault("cases" if name == "case" else name, []).append(table)
    return {name: pa.concat_tables(found, promote_options="default") for name, found in parts.items()}


def facts_read_once(run: str, folder: Path, kept: Path) -> dict[str, CaseFacts]:
    """`facts_of_folder` by the first of several processes; the others find its result in the file `kept`."""
    with kept.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if stored := file.read():
            return pickle.loads(stored)
        facts = facts_of_folder(run, folder)
        pickle.dump(facts, file)
        return facts


def taking(facts: CaseFacts, *medians: float) -> CaseFacts:
    """The case with these unprofiled forward times of its processes, µs."""
    processes = zip(facts.processes, medians, strict=True)
    slowed = tuple(replace(each, forward_times_us=(us,), forward_time_us=us) for each, us in processes)
    return replace(facts, processes=slowed, forward_time_us=median(medians))


def waiting(facts: CaseFacts, *medians: float) -> CaseFacts:
    """The case with these unprofiled forward times, in which the CPU is always busy."""
    made = taking(facts, *medians)
    occupied = (replace(process, cpu_time_us=2 * us) for process, us in zip(made.processes, medians, strict=True))
    return replace(made, processes=tuple(occupied))
