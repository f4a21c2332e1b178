"""The recorded faults of tests/insight/faults as cases."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.extraction.process_tables import Origin, tables_of

FAULTS = Path(__file__).parent / "faults"


def fault_facts(name: str, median_us: float | None) -> CaseFacts:
    """A recorded fault or counterpart as a case."""
    spec = {"case": name, "annotation": "fwd", "workload": name, "params": {}}
    tables = tables_of(Origin("faults", name, 1, {}), spec, FAULTS / f"{name}.json.gz")
    tables["cases"] = tables.pop("case")
    (facts,) = case_facts({part: tables[part] for part in ("cases", "ranges", "activities", "calls")}).values()
    if median_us is None:
        return facts
    processes = tuple(
        replace(process, forward_times_us=(median_us,), forward_time_us=median_us) for process in facts.processes
    )
    return replace(facts, forward_time_us=median_us, processes=processes)


def recorded_faults() -> list[tuple[str, float | None]]:
    """(name, median of the unprofiled forwards in µs), None where a forward is slow only once."""
    with (FAULTS / "faults.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row["name"], None if row["median_us"] == "nan" else float(row["median_us"])) for row in rows]
