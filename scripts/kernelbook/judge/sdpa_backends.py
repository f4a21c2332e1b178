"""Which SDPA backends accept the inputs of the attention cases, and torch's reasons against the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

#: Order of the inputs in a text; others follow by name.
ORDER = ("batch", "heads", "seq", "head_dim")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "workload", "backend")),
        ("usable", pa.bool_()),
        *((name, pa.string()) for name in ("reason", "inputs", "cases")),
    ]
)
Inputs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Answer:
    """Whether one backend of one run accepts inputs; ``inputs`` and ``cases`` list all with the same answer.

    ``reason``: torch's message; None if there is none.
    """

    run: str
    workload: str | None
    backend: str
    usable: bool
    reason: str | None = None
    inputs: str = ""
    cases: str = ""


def backends_table(cases: pa.Table) -> pa.Table:
    """One row for each distinct answer of a backend in a run.

    cases: the table ``cases``, whose column ``sdpa_backends`` holds {backend: {usable, reasons}} as JSON. Each backend
    was tried on the q, k and v of the case, causal and without a mask.
    """
    cases_of: dict[Answer, dict[str, Inputs]] = {}
    for row in cases.to_pylist():
        for backend, answer in json.loads(row.get("sdpa_backends") or "{}").items():
            reason = " ".join(answer.get("reasons") or ()) or None
            key = Answer(row["run"], row.get("workload"), backend, bool(answer.get("usable")), reason)
            cases_of.setdefault(key, {}).setdefault(row["case"], _inputs(row))
    order = {key: number for number, key in enumerate(dict.fromkeys((a.run, a.workload) for a in cases_of))}
    answers = sorted(cases_of, key=lambda answer: (order[answer.run, answer.workload], not answer.usable))
    rows = [
        asdict(replace(answer, inputs=describe(cases_of[answer].values()), cases=", ".join(cases_of[answer])))
        for answer in answers
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def describe(inputs: Iterable[Inputs]) -> str:
    """Inputs in words; inputs that differ in one dimension only are joined: `seq 512 or 1024`."""
    distinct = list(dict.fromkeys(inputs))
    if not distinct:
        return ""
    names = [name for name, _ in distinct[0]]
    alike = all([name for name, _ in each] == names for each in distinct)
    values = [list(dict.fromkeys(dict(each)[name] for each in distinct)) for name in names] if alike else []
    if alike and sum(len(each) > 1 for each in values) <= 1:
        return _inputs_text(zip(names, (" or ".join(each) for each in values), strict=True))
    return "; ".join(_inputs_text(each) for each in distinct)


def _inputs_text(pairs: Iterable[Sequence[str]]) -> str:
    return ", ".join(value if name == "dtype" else f"{name} {value}" for name, value in pairs) + ", causal"


def _inputs(row: Mapping[str, Any]) -> Inputs:
    params = json.loads(row.get("params") or "{}")
    names = sorted(params, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return (("dtype", str(row.get("dtype"))), *((name, str(params[name])) for name in names))
