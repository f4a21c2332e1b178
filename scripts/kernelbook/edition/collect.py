"""Collects all runs and cases of an edition in one folder of tables, and describes each run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa

from kernelbook.cases import CASE_COLUMNS, CaseFacts, Process, call_totals, case_facts, merge_processes, with_counters
from kernelbook.cases.from_tables import spans_of
from kernelbook.cases.records import records_of, schema_of, table_of
from kernelbook.edition.jobs import by_case, job_tables, read_jobs, with_measured_rates
from kernelbook.edition.paths import SCHEMA, EditionFiles
from kernelbook.extraction.arrow_files import read_table
from kernelbook.judge.cost_model.traffic import conversions, tensor_sizes
from kernelbook.judge.fusions import source_ops
from kernelbook.judge.insight import Insight, judge_edition
from kernelbook.judge.sdpa_backends import backends_table
from kernelbook.judge.trust import against_model, counters_table, trust_table
from kernelbook.plan.earlier import TABLES, table_file
from kernelbook.plan.published import Published, PublishedFigure, case_rows, figure_rows, load_published
from kernelbook.text.arrow_values import array_of, rows_where
from kernelbook.text.formatting import utc_now
from kernelbook.text.meaning import doc
from kernelbook.text.scrubbing import Scrubber, edition_scrubber


@dataclass(frozen=True)
class Sample:
    """A row of the table `samples`."""

    run: str
    case: str
    process: int
    rank: int | None
    index: Annotated[int, doc("Which one, from 0.")]
    forward_time_us: Annotated[float, doc("Its time.")]


@dataclass(frozen=True)
class OfRepresentative:
    """The columns that an edition adds to `activities`; all but the first only for representative forwards."""

    representative: Annotated[
        bool, doc("Whether its forward is the one that stands for the case, of median device time.")
    ]
    median_duration_us: Annotated[
        float | None,
        doc(
            "How long the activity in this place usually takes, over the forwards of all processes with the same "
            "activities in the same order; of a process its median, and of these the median. Only in the "
            "representative forward."
        ),
    ]
    tensor_sizes: Annotated[
        tuple[int, ...] | None,
        doc(
            "Elements of the tensors that the op around the launch takes, largest first; for a matrix product its two "
            "factors. Only in the representative forward, if shapes were recorded."
        ),
    ]
    converts: Annotated[
        str | None,
        doc("For a copy that changes the element type: from which to which (bf16 to fp32), if types were recorded."),
    ]
    source_ops: Annotated[
        tuple[str, ...] | None,
        doc(
            "ATen ops that a kernel of torch.compile computes, in the order of its graph, by Inductor's output code; "
            "of the representative forward."
        ),
    ]


Key = tuple[str, str]
FIGURES = schema_of(PublishedFigure)
NO_ROWS = pa.schema([("run", pa.string())])
ADDED = schema_of(OfRepresentative)
FORWARD = ("run", "case", "process", "rank", "index")
SWEEP = "collective"  # the workload that measures one collective alone
DETAILS = ("activities", "calls")  # tables with many rows per forward; a job keeps those of one rank
RUN_COLUMNS = ("device", "device_type", "capability", "driver", "torch", "cuda", "cudnn", "image")


def collect(plan: Mapping[str, Any], results: Path) -> EditionFiles:
    """Collect the tables that the processes of an edition left in `results`.

    plan: content of plan.json. Raises FileNotFoundError if a table that the plan names is missing.
    """
    tables = {name: _concatenated(plan["rows"], results, name) for name in TABLES if name not in DETAILS}
    cases = tables.pop("case")
    sweeps = {(row["run"], row["case"]) for row in cases.select(["run", "case", "workload"]).to_pylist()
              if row["workload"] == SWEEP}  # fmt: skip
    jobs = with_measured_rates(read_jobs(tables.pop("rank_trace")), sweeps)
    tables |= job_tables(jobs)
    kept = _kept_ranks(cases, tables["ranks"])
    tables |= {name: _concatenated(plan["rows"], results, name, kept) for name in DETAILS}
    published = {run["name"]: load_published(Path(run["source"])) for run in plan["runs"] if run["kind"] == "published"}
    rows = [row for run, figures in published.items() for row in case_rows(run, figures)]
    cases = pa.concat_tables([cases, table_of(_of_plan(rows, plan), CASE_COLUMNS)])
    processes = records_of(Process, cases)
    figures = [row for run, figures_of_run in published.items() for row in figure_rows(run, figures_of_run)]
    facts = {
        "schema": SCHEMA,
        "edition": plan["edition"],
        "created_utc": utc_now(),
        "report": plan["report"],
        "runs": [_run_facts(run, results, processes, published.get(run["name"])) for run in plan["runs"]],
        "left_out": plan["left_out"],
        "cases": plan["cases"],
    }
    tables |= {
        "cases": cases,
        "published": table_of(figures, FIGURES),
        "samples": _samples(processes),
    }
    tables["call_totals"] = call_totals(tables["calls"])
    facts_by_case = _counted(case_facts(tables), tables.pop("ncu"))
    reports = by_case(jobs)
    facts_by_case = {key: replace(facts, jobs=reports.get(key, ())) for key, facts in facts_by_case.items()}
    tables = _with_representatives(tables, facts_by_case)
    tables["activities"] = _with_other_ranks(tables["activities"], facts_by_case, results)
    insight = _insight(plan, facts_by_case)
    facts_by_case |= {
        key: replace(facts_by_case[key], counters=against_model(facts_by_case[key], cost.kernels))
        for key, cost in insight.costs.items()
    }
    tables["counters"] = counters_table(facts_by_case.values())
    clocks = {key: cost.clock for key, cost in insight.costs.items()}
    tables |= {"trust": trust_table(facts_by_case, clocks), "sdpa_backends": backends_table(facts_by_case.values())}
    return _scrubbed(facts | {"words": list(insight.words)}, tables | insight.tables(), edition_scrubber(plan, results))


def _scrubbed(about: Mapping[str, Any], tables: Mapping[str, pa.Table], scrub: Scrubber) -> EditionFiles:
    """The edition without credentials and paths of the machine. Everything that is published is made from it.

    `trace_files` of edition.json, which is not published, keeps the paths of trace files in other folders.
    """
    paths = [path for path in tables["cases"]["trace_path"].unique().to_pylist() if path]
    moved = {scrub.text(path): path for path in paths if scrub.text(path) != path}
    return EditionFiles(
        {**scrub.value(about), "trace_files": moved}, {name: scrub.table(table) for name, table in tables.items()}
    )


def _counted(cases: Mapping[Key, CaseFacts], profiled: pa.Table) -> dict[Key, CaseFacts]:
    """The cases with the counters of their processes. profiled: the tables `ncu` of all processes."""
    profiled = profiled.combine_chunks()  # taking rows of one chunk a process is slow
    places: dict[Key, list[int]] = {}
    for row, key in enumerate(zip(*_columns(profiled, "run", "case"), strict=True)):
        places.setdefault(key, []).append(row)
    counted = {
        key: with_counters(cases[key], profiled.take(array_of(rows, pa.int64())))
        for key, rows in places.items()
        if key in cases
    }
    return {**cases, **counted}


def _insight(plan: Mapping[str, Any], cases: Mapping[tuple[str, str], CaseFacts]) -> Insight:
    return judge_edition(
        cases,
        {case["case"]: case["expect"] for case in plan["cases"]},
        headline=plan["report"]["headline"],
        baseline_run=plan["report"]["baseline_run"],
        published=[run["name"] for run in plan["runs"] if run["kind"] == "published"],
    )


def _of_plan(rows: Iterable[Mapping[str, Any]], plan: Mapping[str, Any]) -> list[Process]:
    """Published figures of the cases of this edition, completed with the configuration of each case."""
    configured = {case["case"]: case for case in plan["cases"]}
    names = ("workload", "variant", "mode", "dtype", "annotation")
    return [
        Process(**row, **{name: configured[row["case"]][name] for name in names})
        for row in rows
        if row["case"] in configured
    ]


def _kept_ranks(cases: pa.Table, ranks: pa.Table) -> dict[tuple[str, str, int], int | None]:
    """(run, case, process) -> the rank whose forwards are kept in full; -1 for none of that process."""
    by_key: dict[Key, list[Process]] = {}
    for process in records_of(Process, cases):
        by_key.setdefault(process.key, []).append(process)
    spans = spans_of(ranks)
    kept: dict[tuple[str, str, int], int | None] = {}
    for key, processes in by_key.items():
        kept |= dict.fromkeys(((*key, process.process) for process in processes), -1)
        for process in merge_processes(processes, spans.get(key)).processes:
            kept[*key, process.process] = process.rank
    return kept


def _with_other_ranks(activities: pa.Table, cases: Mapping[Key, CaseFacts], results: Path) -> pa.Table:
    """`activities`, and for each other rank of a job the activities of the representative forward."""
    parts = [activities]
    for case in cases.values():
        if case.chosen is None or not case.jobs:
            continue
        process, index = case.chosen
        for each in case.ranks:
            same = each.bare or each.process == process
            if same and each.status == "ok" and (each.process, each.rank) != (process, case.rank_of(process)):
                file = table_file(results / case.run / case.case / str(each.process), "activities")
                rows = read_table(file, each.rank)
                parts.append(rows_where(rows, (place == index for place in rows["index"].to_pylist())))
    return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else activities


def _concatenated(
    rows: Sequence[Sequence[Any]],
    results: Path,
    name: str,
    kept: Mapping[tuple[str, str, int], int | None] | None = None,
) -> pa.Table:
    """A table of all processes. kept: (run, case, process) -> the only rank whose rows are taken."""
    parts = []
    for run, case, process in rows:
        rank = kept.get((run, case, process)) if kept is not None else None
        parts.append(read_table(table_file(results / run / case / str(process), name), rank))
    if not parts:
        return table_of((), CASE_COLUMNS if name == "case" else NO_ROWS)
    return pa.concat_tables(parts, promote_options="default")


def _run_facts(
    run: Mapping[str, Any], results: Path, processes: Sequence[Process], published: Published | None
) -> dict[str, Any]:
    """The description of one run: its kind, its build and its machine, from its first process that has torch."""
    facts = {"run": run["name"], "kind": run["kind"], "description": run["description"], "status": "ok", "reason": None}
    facts |= {"source": None, "recorded_utc": None, "image_digest": None, "where": run["where"] or None}
    if published is not None:
        return facts | dict.fromkeys(RUN_COLUMNS) | dict(published.device) | {"source": published.source}
    status = json.loads((results / run["name"] / "run.json").read_text(encoding="utf-8"))
    facts |= {name: status.get(name) for name in ("status", "reason", "image_digest")}
    own = [process for process in processes if process.run == run["name"]]
    first = next((process for process in own if process.torch is not None), None)
    facts |= {name: getattr(first, name, None) for name in RUN_COLUMNS}
    environment = asdict(first.environment) if first and first.environment else {}
    # the processes of a run may use different GPUs, each the only visible one
    environment["gpu_id"] = ", ".join(dict.fromkeys(process.gpu_id for process in own if process.gpu_id))
    if first and environment.get("variables", {}).get("CUDA_VISIBLE_DEVICES") == f"GPU {first.gpu_id}":
        del environment["variables"]["CUDA_VISIBLE_DEVICES"]
    facts["environment"] = {name: value for name, value in environment.items() if value}
    if facts["device"] is None:  # bare traces state the device and nothing else of these
        facts["device"] = ", ".join(sorted({process.device for process in own if process.device})) or None
    if run["kind"] == "recorded":
        facts["recorded_utc"] = max((process.started_utc for process in own if process.started_utc), default=None)
    return facts


def _samples(processes: Iterable[Process]) -> pa.Table:
    """One row an unprofiled forward: run, case, process, rank, index, forward_time_us."""
    rows = (
        Sample(*process.key, process.process, process.rank, index, time)
        for process in processes
        for index, time in enumerate(process.forward_times_us)
    )
    return table_of(rows, schema_of(Sample))


def _with_representatives(tables: Mapping[str, pa.Table], cases: Mapping[Key, CaseFacts]) -> dict[str, pa.Table]:
    """`activities` with the columns of `OfRepresentative`, and only the calls of representative forwards in `calls`."""
    chosen = {place for case in cases.values() if (place := _chosen(case))}
    activities = tables["activities"]
    places = [*zip(*_columns(activities, *FORWARD, "position"), strict=True)]
    operands = _operands(cases)
    ops = {(*place, position): ops for case in cases.values() if (place := _chosen(case))
           for position, ops in source_ops(case).items()}  # fmt: skip
    medians = {(*place, a.position): a.duration_us for case in cases.values() if (place := _chosen(case))
               for a in case.activities}  # fmt: skip
    rows = (
        OfRepresentative(
            place[:-1] in chosen, medians.get(place), *operands.get(place, (None, None)), source_ops=ops.get(place)
        )
        for place in places
    )
    for name, column in zip(ADDED.names, table_of(rows, ADDED).columns, strict=True):
        activities = activities.append_column(name, column)
    calls = tables["calls"]
    kept = (place in chosen for place in zip(*_columns(calls, *FORWARD), strict=True))
    return {**tables, "activities": activities, "calls": rows_where(calls, kept)}


def _chosen(case: CaseFacts) -> tuple[Any, ...] | None:
    """(run, case, process, rank, index) of the representative forward."""
    if case.chosen is None:
        return None
    process, index = case.chosen
    return *case.key, process, case.rank_of(process), index


def _operands(cases: Mapping[Key, CaseFacts]) -> dict[tuple[Any, ...], tuple[tuple[int, ...] | None, str | None]]:
    """(run, case, process, rank, index, position) -> (tensor sizes, converted types), if shapes were recorded."""
    operands = {}
    for case in cases.values():
        place = _chosen(case)
        if place is None:
            continue
        sizes, types = tensor_sizes(case), conversions(case)
        for position in sizes.keys() | types.keys():
            converts = " to ".join(types[position]) if position in types else None
            operands[*place, position] = sizes.get(position), converts
    return operands


def _columns(table: pa.Table, *names: str) -> list[list[Any]]:
    """The columns as lists; of a table without forwards, which lacks some, as None throughout."""
    return [table[n].to_pylist() if n in table.column_names else [None] * table.num_rows for n in names]
