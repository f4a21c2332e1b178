"""All runs and cases of an edition in one folder of tables, with what identifies each run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelbook.case_facts import CaseFacts, call_totals, case_facts
from kernelbook.case_tables import CASE_SCHEMA
from kernelbook.insight import Insight, judge_edition
from kernelbook.plan import TABLES
from kernelbook.probe import utc_now
from kernelbook.published import Published, case_rows, figure_rows, load_published
from kernelbook.sdpa_backends import backends_table
from kernelbook.tensor_sizes import conversions, tensor_sizes
from kernelbook.trust import trust_table

SCHEMA = 1
FIGURE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "case", "figure")),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("source", pa.string()),
    ]
)
RUN_COLUMNS = ("device", "device_type", "capability", "driver", "torch", "cuda", "cudnn", "image")


@dataclass(frozen=True)
class Edition:
    """edition.json and the tables beside it."""

    facts: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    def write(self, folder: Path) -> None:
        """Write edition.json and <table>.parquet into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        text = json.dumps(self.facts, indent=1, sort_keys=True, allow_nan=False)
        (folder / "edition.json").write_text(text + "\n", encoding="utf-8")


def collect(plan: Mapping[str, Any], results: Path) -> Edition:
    """Bring together what the processes of an edition left in `results`, after the plan that made them.

    plan: plan.json. Raises FileNotFoundError where a table that the plan names is missing.
    """
    tables = {name: _concatenated(plan["rows"], results, name) for name in TABLES}
    cases = tables.pop("case")
    published = {run["name"]: load_published(Path(run["source"])) for run in plan["runs"] if run["kind"] == "published"}
    rows = [row for run, figures in published.items() for row in case_rows(run, figures)]
    cases = pa.concat_tables([cases, _rows_table(_of_plan(rows, plan), CASE_SCHEMA)])
    figures = [row for run, found in published.items() for row in figure_rows(run, found)]
    tables = _with_representatives(tables) | {"call_totals": call_totals(tables["calls"])}
    facts = {
        "schema": SCHEMA,
        "edition": plan["edition"],
        "created_utc": utc_now(),
        "report": plan["report"],
        "runs": [_run_facts(run, results, cases, published.get(run["name"])) for run in plan["runs"]],
        "left_out": plan["left_out"],
        "cases": plan["cases"],
    }
    tables |= {"cases": cases, "published": _rows_table(figures, FIGURE_SCHEMA), "samples": _samples(cases)}
    known = case_facts(tables)
    tables["activities"] = _with_operands(_with_medians(tables["activities"], known), known)
    insight = _insight(plan, known)
    clocks = {key: cost.clock for key, cost in insight.costs.items()}
    tables |= {"trust": trust_table(cases, known, clocks), "sdpa_backends": backends_table(cases)}
    return Edition(facts | {"words": list(insight.words)}, tables | insight.tables())


def _insight(plan: Mapping[str, Any], known: Mapping[tuple[str, str], CaseFacts]) -> Insight:
    """What is said of the edition beyond its figures."""
    return judge_edition(
        known,
        {case["case"]: case["expect"] for case in plan["cases"]},
        headline=plan["report"]["headline"],
        baseline_run=plan["report"]["baseline_run"],
        published=[run["name"] for run in plan["runs"] if run["kind"] == "published"],
    )


def _rows_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def _of_plan(rows: Iterable[dict[str, Any]], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Published rows of the cases that this edition takes, with what the configuration says of each case."""
    known = {case["case"]: case for case in plan["cases"]}
    told = ("workload", "variant", "mode", "dtype", "annotation")
    return [row | {name: known[row["case"]][name] for name in told} for row in rows if row["case"] in known]


def _concatenated(rows: Sequence[Sequence[Any]], results: Path, name: str) -> pa.Table:
    parts = [_read(results / run / case / str(process) / f"{name}.parquet") for run, case, process in rows]
    if not parts:
        return CASE_SCHEMA.empty_table() if name == "case" else pa.table({"run": pa.array([], pa.string())})
    return pa.concat_tables(parts, promote_options="default")


def _read(file: Path) -> pa.Table:
    try:
        return pq.read_table(file)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file}: is no table ({error}): delete it, and it is made again") from error


def _run_facts(run: Mapping[str, Any], results: Path, cases: pa.Table, published: Published | None) -> dict[str, Any]:
    """What identifies one run: its kind, its build and its machine, read off its first good row."""
    facts = {"run": run["name"], "kind": run["kind"], "description": run["description"], "status": "ok", "reason": None}
    facts |= {"source": None, "recorded_utc": None, "image_digest": None, "where": run["where"] or None}
    if published is not None:
        return facts | dict.fromkeys(RUN_COLUMNS) | dict(published.device) | {"source": published.source}
    status = json.loads((results / run["name"] / "run.json").read_text(encoding="utf-8"))
    facts |= {name: status.get(name) for name in ("status", "reason", "image_digest")}
    rows = cases.filter(pc.equal(cases["run"], run["name"])).to_pylist()
    good = next((row for row in rows if row["torch"] is not None), None)
    facts |= {name: good[name] if good else None for name in RUN_COLUMNS}
    facts["environment"] = environment = json.loads(good["environment"] or "{}") if good else {}
    environment.pop("gpu_id", None)  # of a process, and those of one run may differ
    if facts["device"] is None:  # bare traces tell the device and nothing else of these
        facts["device"] = ", ".join(sorted({row["device"] for row in rows if row["device"]})) or None
    if run["kind"] == "recorded":
        facts["recorded_utc"] = max((row["started_utc"] for row in rows if row["started_utc"]), default=None)
    return facts


def _samples(cases: pa.Table) -> pa.Table:
    """One row an unprofiled forward: run, case, process, index, forward_time_us."""
    rows = [
        {**{key: row[key] for key in ("run", "case", "process")}, "index": index, "forward_time_us": time}
        for row in cases.select(["run", "case", "process", "forward_times_us"]).to_pylist()
        for index, time in enumerate(row["forward_times_us"] or [])
    ]
    types = [("run", pa.string()), ("case", pa.string()), ("process", pa.int64()), ("index", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*types, ("forward_time_us", pa.float64())]))


def _with_representatives(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Mark in `activities` the forward that stands for its case, and keep only its rows in `calls`.

    That is, of the first process, the forward of median device time (CPU time where no device was used).
    """
    chosen = _representatives(tables["ranges"])
    marked = _marks(tables["activities"], chosen)
    activities = tables["activities"].append_column("representative", marked)
    calls = tables["calls"].filter(_marks(tables["calls"], chosen))
    return {**tables, "activities": activities, "calls": calls}


def _with_medians(activities: pa.Table, known: Mapping[tuple[str, str], CaseFacts]) -> pa.Table:
    """`activities` with median_duration_us, filled in the forward that stands for its case and in no other."""
    medians = {key: {a.position: a.duration_us for a in facts.activities} for key, facts in known.items()}
    return _filled(activities, known, pa.field("median_duration_us", pa.float64()), medians)


def _with_operands(activities: pa.Table, known: Mapping[tuple[str, str], CaseFacts]) -> pa.Table:
    """`activities` with tensor_sizes and converts, filled likewise where shapes and types were recorded."""
    sizes = {key: tensor_sizes(facts) for key, facts in known.items()}
    types = {key: {at: " to ".join(pair) for at, pair in conversions(facts).items()} for key, facts in known.items()}
    activities = _filled(activities, known, pa.field("tensor_sizes", pa.list_(pa.int64())), sizes)
    return _filled(activities, known, pa.field("converts", pa.string()), types)


def _filled(
    activities: pa.Table,
    known: Mapping[tuple[str, str], CaseFacts],
    field: pa.Field,
    values: Mapping[tuple[str, str], Mapping[int, Any]],
) -> pa.Table:
    """`activities` with a column more: (run, case) -> position in the representative forward -> value."""
    if "index" not in activities.column_names:
        return activities.append_column(field, pa.nulls(activities.num_rows, field.type))
    chosen = {key: facts.representative for key, facts in known.items() if facts.representative}
    of_place = {
        (*key, forward.process, forward.index, position): value
        for key, forward in chosen.items()
        for position, value in values[key].items()
    }
    columns = (activities[name].to_pylist() for name in ("run", "case", "process", "index", "position"))
    found = [of_place.get(place) for place in zip(*columns, strict=True)]
    return activities.append_column(field, pa.array(found, field.type))


def _marks(table: pa.Table, chosen: Mapping[tuple[str, str], tuple[int, int]]) -> pa.Array:
    if "index" not in table.column_names:
        return pa.array([False] * table.num_rows, pa.bool_())
    columns = (table[name].to_pylist() for name in ("run", "case", "process", "index"))
    marks = [chosen.get((run, case)) == (process, index) for run, case, process, index in zip(*columns, strict=True)]
    return pa.array(marks, pa.bool_())  # the type is said, since there may be no rows to tell it from


def _representatives(ranges: pa.Table) -> dict[tuple[str, str], tuple[int, int]]:
    """(run, case) -> (process, index) of the forward that stands for it."""
    if "forward" not in ranges.column_names:
        return {}
    forwards: dict[tuple[str, str], list[tuple[int, float, int]]] = {}
    for row in ranges.filter(pc.equal(ranges["forward"], True)).to_pylist():
        time = row["device_time_us"] if row["device_time_us"] is not None else row["cpu_time_us"]
        forwards.setdefault((row["run"], row["case"]), []).append((row["process"], time, row["index"]))
    chosen = {}
    for key, found in forwards.items():
        first = min(process for process, _, _ in found)
        ordered = sorted((time, index) for process, time, index in found if process == first)
        chosen[key] = (first, ordered[(len(ordered) - 1) // 2][1])
    return chosen
