"""Which SDPA backends accept the inputs of the attention cases, and torch's reasons against the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import pyarrow as pa

from kernelbook.cases import CaseFacts, Process
from kernelbook.cases.records import schema_of, table_of
from kernelbook.text.meaning import doc

#: Order of the inputs in a text; others follow by name.
ORDER = ("batch", "heads", "seq", "head_dim")
Inputs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Answer:
    """Whether one backend of one run accepts inputs; ``inputs`` and ``cases`` list all with the same answer."""

    run: str
    workload: Annotated[str | None, doc("The workload of the cases.")]
    backend: Annotated[str, doc("math, efficient, flash or cudnn.")]
    usable: Annotated[bool, doc("Whether it takes these inputs.")]
    reason: Annotated[str | None, doc("torch's reason against it.")] = None
    inputs: Annotated[str, doc("The inputs, in words.")] = ""
    cases: Annotated[tuple[str, ...], doc("The cases that have these inputs.")] = ()


SCHEMA = schema_of(Answer)


def backends_table(cases: Iterable[CaseFacts]) -> pa.Table:
    """One row for each distinct answer of a backend in a run.

    Each backend was tried on the q, k and v of each process of the case, causal and without a mask.
    """
    cases_of: dict[Answer, dict[str, Inputs]] = {}
    for process in (process for case in cases for process in case.processes):
        for name, backend in sorted((process.sdpa_backends or {}).items()):
            reason = " ".join(backend.reasons or ()) or None
            key = Answer(process.run, process.workload, name, bool(backend.usable), reason)
            cases_of.setdefault(key, {}).setdefault(process.case, _inputs(process))
    order = {key: number for number, key in enumerate(dict.fromkeys((a.run, a.workload) for a in cases_of))}
    answers = sorted(cases_of, key=lambda answer: (order[answer.run, answer.workload], not answer.usable))
    rows = (
        replace(answer, inputs=describe(cases_of[answer].values()), cases=tuple(cases_of[answer])) for answer in answers
    )
    return table_of(rows, SCHEMA)


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


def _inputs(process: Process) -> Inputs:
    params = process.params
    names = sorted(params, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return (("dtype", str(process.dtype)), *((name, str(params[name])) for name in names))
