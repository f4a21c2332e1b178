"""docs/reference/tables.md: the columns of an edition's tables, with the types that a real edition has."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import yaml

from kernelbook.cases import Activity, Call, Process
from kernelbook.cases.facts import CallTotal
from kernelbook.cases.records import meanings
from kernelbook.collectives.model import Collective, RankForward
from kernelbook.config.loading import load_config
from kernelbook.counters import KernelCounters
from kernelbook.edition.collect import OfRepresentative, Sample, collect
from kernelbook.extraction.arrow_files import write_tables
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.insight_tables import ComparisonRow, CostKey, SplitKey
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.time_split import Cause
from kernelbook.judge.trust import Trust
from kernelbook.plan.plan_texts import plan_json
from kernelbook.plan.planning import make_plan
from kernelbook.plan.published import PublishedFigure
from kernelbook.reference.pages import table
from kernelbook.trace.rows import InForward, KernelRow, OpRow, RangeRow

RUNS = ("h200", "two-h200", "a100-series")
CASES = ("mlp-eager", "mlp-compile", "attention-inplace-eager", "sdpa-math-eager", "ceiling-*", "ddp-step")


class DescribedTable(NamedTuple):
    """A table: what a row is, and the classes whose fields are its columns, with their meaning."""

    about: str
    rows: tuple[type, ...]


#: Columns that most tables have.
KEYS = {
    "run": "Name of the run in config.yaml.",
    "case": "Name of the case; for bare traces, what the paths of the job's files have in common.",
    "process": "Number of the process, from 1; for a recorded job with ranks, the rank plus one.",
    "rank": "Rank of the process in its job, from 0; empty if the case has no `ranks`.",
}
#: In the order of the page.
TABLE_DOCS: Mapping[str, DescribedTable] = {
    "cases": DescribedTable(
        "One row per run, case and process, and per rank if the case has ranks. Counts are those of most forwards, "
        "times are medians over forwards.",
        (Process,),
    ),
    "ranges": DescribedTable(
        "One row per record_function range of the trace, including nested ones; figures include nested ranges.",
        (RangeRow,),
    ),
    "activities": DescribedTable(
        "One row per device activity of a forward.",
        (Activity, InForward, OfRepresentative),
    ),
    "calls": DescribedTable(
        "One row per CPU event of the representative forward, including those of other threads.", (Call, InForward)
    ),
    "call_totals": DescribedTable(
        "One row per name of CPU events in each forward of each process; CPU times of findings come from it.",
        (CallTotal,),
    ),
    "ops": DescribedTable(
        "One row per op name, over the whole trace, counted as torch's key_averages counts.", (OpRow,)
    ),
    "kernels": DescribedTable(
        "One row per name of device activities, over the whole trace, including work from before the window.",
        (KernelRow,),
    ),
    "ranks": DescribedTable(
        "One row per rank and forward of a job of several ranks, and one for the whole file of each rank. Times are "
        "lengths of unions of intervals, so that span_us is compute_us + exposed_us + copies_us + idle_us.",
        (RankForward,),
    ),
    "collectives": DescribedTable("One row per communication kernel of a job of several ranks.", (Collective,)),
    "samples": DescribedTable("One row per unprofiled forward.", (Sample,)),
    "expectations": DescribedTable("One row per word of a guess, for each run that measured the case.", (Judgement,)),
    "published": DescribedTable("One row per published figure.", (PublishedFigure,)),
    "findings": DescribedTable("One row per finding; the page of findings has the condition of each rule.", (Finding,)),
    "comparisons": DescribedTable(
        "Two cases, or one case on two runs, b against a: a row of scope summary, then one for each difference.",
        (ComparisonRow,),
    ),
    "costs": DescribedTable(
        "The least cost of a forward, and the rates of its kernels and matrix products, against the ceilings of "
        "the device.",
        (CostKey, ForwardCost, KernelCost, GemmCost),
    ),
    "ceilings": DescribedTable(
        "The best rates of a run's device, by which its forwards and kernels are judged, and their origin.", (Ceiling,)
    ),
    "time_split": DescribedTable(
        "Where the time of a forward goes. The rows of a case add up to its forward time, longest first. How idle "
        "time finds its cause is described in scripts/kernelbook/judge/time_line.py.",
        (SplitKey, Cause),
    ),
    "clock": DescribedTable(
        "Where the time of a forward goes, medians over the forwards of a process, and of these over processes.",
        (Clock,),
    ),
    "counters": DescribedTable(
        "One row per kernel of the representative forward of a case that was measured with counters (Nsight Compute, "
        "ncu); one row for a case whose counters were refused. In a row that is not joined all figures are null.",
        (KernelCounters,),
    ),
    "trust": DescribedTable(
        "One row per measured run and case, on how far its figures can be trusted. A list is empty if "
        "nothing was found, null if nothing could be read.",
        (Trust,),
    ),
    "sdpa_backends": DescribedTable(
        "One row for each answer that an SDPA backend gives on a run. Each was called on the q, k and v of the "
        "attention cases, causal and without a mask.",
        (Answer,),
    ),
}
TYPES = {"string": "text", "int64": "whole number", "double": "number", "bool": "true or false"}
INTRO = """# Tables

The tables in `reports/<edition>/tables/`, each as Parquet and as CSV. The unit is part of a column's name: `_us` is
microseconds. An unknown value is null (in the CSV an empty cell), never 0. In the CSV lists, structs and maps
are JSON. The first columns of most tables are its keys:

"""


def tables_page(home: Path) -> str:
    """Every table and column that an edition of the recorded run has.

    Raises ValueError, which names every column without a meaning.
    """
    tables = edition_tables(home)
    columns = {name: columns_of(name) for name in tables}
    unknown = [
        f"{name}.{column}"
        for name, each in tables.items()
        for column in each.column_names
        if column not in KEYS and column not in columns[name]
    ]
    if unknown:
        raise ValueError(f"no meaning of {', '.join(unknown)}: write it at the field of the row's class, in doc(...)")
    parts = [INTRO, table(("column", "meaning"), [(f"`{name}`", text) for name, text in KEYS.items()])]
    for name, each in tables.items():
        own = [field for field in each.schema if field.name not in KEYS]
        rows = [(f"`{field.name}`", _type(field.type), columns[name][field.name]) for field in own]
        parts.append(f"\n## {name}\n\n{TABLE_DOCS[name].about}\n\n" + table(("column", "type", "meaning"), rows))
    return "".join(parts)


def columns_of(name: str) -> dict[str, str]:
    """Column -> meaning of a table, without the keys."""
    return {column: text for kind in TABLE_DOCS[name].rows for column, text in meanings(kind).items()}


def edition_tables(home: Path) -> dict[str, pa.Table]:
    """The tables of an edition of a few recorded and published cases, in the order in which they are described."""
    shipped = yaml.safe_load((home / "config.yaml").read_text(encoding="utf-8"))
    config = load_config(shipped | {"only_runs": list(RUNS), "only_cases": list(CASES)}, home / "workflow" / "schemas")
    plan = make_plan(config, home, home, containers_on=False)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        for run, case, process in plan.rows():
            status = {"run": run, "status": "ok", "reason": None, "image_digest": None}
            measured = home / plan.measurement_of(run, case, process)
            spec = json.loads(plan.case_json(run, case, process))
            tables = tables_of(Origin(run, case, process, status), spec, measured)
            write_tables(tables, results / run / case / str(process))
            (results / run / "run.json").write_text(json.dumps(status), encoding="utf-8")
        planned = json.loads(plan_json(plan))
        for run in planned["runs"]:
            run["source"] = str(home / run["source"])
        collected = collect(planned, results).tables
    return {name: collected[name] for name in TABLE_DOCS if name in collected and collected[name].num_columns}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        inner = kind.value_type
        return f"list of {_type(inner)}" if pa.types.is_nested(inner) else f"list of {_type(inner)}s"
    if pa.types.is_map(kind):
        return f"map from text to {_type(kind.item_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return TYPES.get(str(kind), str(kind))
