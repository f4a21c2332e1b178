"""Joins the kernels of a forward to those of an ncu report, n-th to n-th; no pair is joined that does not match."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Protocol

from kernelbook.counters.kernel import (
    APART_FROM,
    JOINED,
    NOT_JOINED,
    REFUSED,
    Figures,
    KernelCounters,
    Profiled,
    limiter_of,
    sentence_of,
)

# --- names of one kernel, which torch and Nsight Compute demangle differently ----------------------------------------
# ncu omits inline namespaces, and writes `T2` for a type that occurred in the template before, `[lambda() (instance
# 1)]` for `{lambda()#1}`, and 0 for false.


LONGEST = 8192
UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>")
INSTANCE = re.compile(r"\s*\(instance (\d+)\)")
LAMBDA = re.compile(r"lambda\(([^()]*)\)")
CALL = re.compile(r"operator\s*\(\)")
CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
ARGUMENTS = re.compile(r"\([^()]*\)")
WORD = re.compile(r"([A-Za-z_]\w*)(\s*::)?|(\d+)(?:u?l*\b)?")
#: Words that only one of the two writes, and ncu's names for template parameters.
SILENT = re.compile(r"void|const|enum|struct|class|typename|T\d+")
VALUES = {"true": "1", "false": "0"}


def same_kernel(one: str, other: str) -> bool:
    """Whether a name in a trace and one of ncu can be of the same kernel."""
    return one == other or words(one) == words(other)


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Names, types and numbers of a demangled name in order, without namespaces and the arguments of functions.

    Arguments of lambdas stay, since overloads of one op differ in nothing else.
    """
    text = UNNAMED.sub("", name[:LONGEST].removesuffix(".kd"))
    text = INSTANCE.sub(r"#\1", text)
    text = LAMBDA.sub(r"lambda<\1>", CALL.sub("operator_call", CAST.sub("", text)))
    while (shorter := ARGUMENTS.sub("~", text)) != text:
        text = shorter
    parts = []
    for match in WORD.finditer(text):
        word, namespace, number = match.groups()
        if number is not None:
            parts.append(number)
        elif namespace is None and not SILENT.fullmatch(word):
            parts.append(VALUES.get(word, word))
    return tuple(parts)


def function_name(kernel: str) -> str:
    """The name by which ncu filters: without namespaces, template, return type and arguments."""
    depth, kept = 0, []
    for sign in UNNAMED.sub("", kernel):
        if sign == "(" and depth == 0:
            break
        depth += (sign == "<") - (sign == ">")
        if depth == 0 and sign != ">":
            kept.append(sign)
    return "".join(kept).split("::")[-1].split(" ")[-1]


# --- kernels ---------------------------------------------------------------------------------------------------------


MEASURE_AGAIN = "measure the case again with counters"


class Kernel(Protocol):
    """The properties of a kernel of the trace that joining needs."""

    @property
    def position(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def duration_us(self) -> float: ...
    @property
    def start_us(self) -> float | None: ...
    @property
    def correlation(self) -> int | None: ...
    @property
    def grid(self) -> tuple[int, ...] | None: ...
    @property
    def block(self) -> tuple[int, ...] | None: ...


def join(run: str, case: str, kernels: Sequence[Kernel], report: Sequence[Profiled]) -> list[KernelCounters]:
    """A row for each kernel of the forward in the order of launches, or one refused row if the report has a reason.

    kernels: those of the representative forward, without memcpys and memsets, which ncu does not profile. Names and
    launch shapes must agree. If ncu saw more or fewer kernels than the trace, no row is joined, since a shift among
    equal kernels would go unnoticed.
    """
    if not report:
        return []
    reason = next((row.reason for row in report if row.number is None), None)
    if reason is None and not kernels:
        reason = "the trace has no kernels to join the counters with: record it on the GPU with ProfilerActivity.CUDA"
    seconds = report[0].seconds
    if reason is not None:
        return [KernelCounters(run=run, case=case, status=REFUSED, reason=reason, seconds=seconds)]
    profiled = sorted(report, key=lambda row: row.number or 0)
    only = set(profiled[0].functions)
    ordered = sorted(kernels, key=_order)
    chosen = [kernel for kernel in ordered if not only or function_name(kernel.name) in only]
    wrong = None
    if len(chosen) != len(profiled):
        wrong = f"ncu saw {len(profiled)} kernels in the forward and the trace {len(chosen)}: {MEASURE_AGAIN}"
    names = {words(kernel.name) for kernel in ordered}
    partners = iter(profiled)
    rows = []
    for kernel in ordered:
        if only and function_name(kernel.name) not in only:
            rows.append(_row(run, case, kernel, None, "not profiled, since the forward has too many kernels"))
            continue
        partner = next(partners, None)
        reason = wrong or (_difference(kernel, partner, names) if partner else MEASURE_AGAIN)
        rows.append(_row(run, case, kernel, None if reason else partner, reason))
    return [replace(row, seconds=seconds) for row in rows]


def _order(kernel: Kernel) -> tuple[int, float, int]:
    """Sort key: the order of launches; kernels of one graph share a launch and are ordered by start."""
    return (
        -1 if kernel.correlation is None else kernel.correlation,
        0.0 if kernel.start_us is None else kernel.start_us,
        kernel.position,
    )


def _difference(kernel: Kernel, partner: Profiled, names: Container[tuple[str, ...]]) -> str | None:
    """Why the two are different kernels; None if they are one. names: the words of all kernel names in the trace."""
    if not same_kernel(kernel.name, partner.name):
        elsewhere = words(partner.name) in names
        what = "kernels ran in another order" if elsewhere else "another kernel was chosen, as autotuning may"
        name = function_name(partner.name) or partner.name
        return f"under ncu {what}: {name[:120]} stands in this place: {MEASURE_AGAIN}"
    for what, mine, theirs in (("grid", kernel.grid, partner.grid), ("block", kernel.block, partner.block)):
        if not mine or not theirs:
            return f"the {what} of the kernel is not known in both: {MEASURE_AGAIN}"
        if tuple(mine) != tuple(theirs):
            return f"its {what} was {theirs} under ncu and {tuple(mine)} in the trace: {MEASURE_AGAIN}"
    return None


def _row(run: str, case: str, kernel: Kernel, partner: Profiled | None, reason: str | None) -> KernelCounters:
    figures = {field.name: getattr(partner, field.name) for field in fields(Figures)} if partner else {}
    return KernelCounters(
        run=run,
        case=case,
        position=kernel.position,
        name=kernel.name,
        status=JOINED if partner else NOT_JOINED,
        reason=reason,
        trace_duration_us=kernel.duration_us,
        duration_note=_duration_note(kernel.duration_us, partner.duration_us) if partner else None,
        limiter=limiter_of(partner) if partner else None,
        sentence=sentence_of(partner) if partner else None,
        **figures,
    )


def _duration_note(trace_us: float, ncu_us: float | None) -> str | None:
    if not ncu_us or not trace_us or abs(ncu_us / trace_us - 1) <= APART_FROM:
        return None
    way = "longer" if ncu_us > trace_us else "shorter"
    return f"{abs(ncu_us / trace_us - 1) * 100:.0f} % {way} under ncu, which flushes the caches; clocks differ too"
