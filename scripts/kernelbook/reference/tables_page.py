"""docs/reference/tables.md: the columns of an edition's tables, with the types that a real edition has."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from kernelbook.cases import Process
from kernelbook.cases.records import meanings
from kernelbook.collectives.model import Collective, RankForward
from kernelbook.config.loading import load_config
from kernelbook.counters import KernelCounters
from kernelbook.edition.collect import collect
from kernelbook.extraction.process_tables import Origin, tables_of, write_tables
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.time_split import Cause
from kernelbook.judge.trust import Trust
from kernelbook.plan.plan_texts import plan_json
from kernelbook.plan.planning import make_plan
from kernelbook.reference.markdown import table

RUNS = ("h200", "two-h200", "a100-series")
CASES = ("mlp-eager", "mlp-compile", "attention-inplace-eager", "sdpa-math-eager", "ceiling-*", "ddp-step")
#: Tables whose columns are fields of these dataclasses, which say what they mean.
ROWS: Mapping[str, tuple[type, ...]] = {
    "cases": (Process,),
    "ranks": (RankForward,),
    "collectives": (Collective,),
    "expectations": (Judgement,),
    "findings": (Finding,),
    "costs": (ForwardCost, KernelCost, GemmCost),
    "ceilings": (Ceiling,),
    "time_split": (Cause,),
    "clock": (Clock,),
    "counters": (KernelCounters,),
    "trust": (Trust,),
    "sdpa_backends": (Answer,),
}
TYPES = {"string": "text", "int64": "whole number", "double": "number", "bool": "true or false"}
INTRO = """# Tables

What lies in `reports/<edition>/tables/`, each as Parquet and as CSV. The unit is part of a column's name: `_us` is
microseconds. A value that is not known is null (in the CSV an empty cell), never 0. In the CSV lists, structs and maps
are JSON. The first columns of most tables are its keys:

"""


def tables_page(home: Path) -> str:
    """Every table and column that an edition of the recorded run has.

    Raises ValueError that names every column whose meaning is written nowhere.
    """
    texts, tables = described(), edition_tables(home)
    keys = texts["keys"]
    unknown = [
        f"{name}.{column}"
        for name, each in tables.items()
        for column in each.column_names
        if column not in keys and column not in texts["tables"].get(name, {}).get("columns", {})
    ]
    if unknown:
        raise ValueError(
            f"no meaning of {', '.join(unknown)}: write it in columns.yaml or at the field of the dataclass"
        )
    parts = [INTRO, table(("column", "meaning"), [(f"`{name}`", text) for name, text in keys.items()])]
    for name, each in tables.items():
        about = texts["tables"][name]
        own = [field for field in each.schema if field.name not in keys]
        rows = [(f"`{field.name}`", _type(field.type), about["columns"][field.name]) for field in own]
        parts.append(f"\n## {name}\n\n{about['about']}\n\n" + table(("column", "type", "meaning"), rows))
    return "".join(parts)


def described() -> Mapping[str, Any]:
    """What is written about each table and column: in columns.yaml, and at the fields of the dataclasses in `ROWS`."""
    texts: Mapping[str, Any] = yaml.safe_load((Path(__file__).parent / "columns.yaml").read_text(encoding="utf-8"))
    for name, kinds in ROWS.items():
        for kind in kinds:
            texts["tables"][name].setdefault("columns", {}).update(meanings(kind))
    return texts


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
    order = list(described()["tables"])
    names = [name for name in order if name in collected] + sorted(set(collected) - set(order))
    return {name: collected[name] for name in names if collected[name].num_columns}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}s"
    if pa.types.is_map(kind):
        return f"map from text to {_type(kind.item_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return TYPES.get(str(kind), str(kind))
