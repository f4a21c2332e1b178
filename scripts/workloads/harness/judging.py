"""The last stages of a case, after all timing: the FLOPs and bytes of its forward, its error, and its side effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from workloads import Workload
from workloads.harness import accuracy, needs, repeats, values
from workloads.harness.notebook import Notebook
from workloads.harness.originals import Originals


def keep_originals(workload: Workload, notebook: Notebook) -> Originals | None:
    """Copies of the inputs before the first call; None, and a note, if they cannot be copied."""
    return notebook.attempt("copies of the inputs", lambda: Originals(workload.forward, workload.inputs))


def judge(
    case: dict[str, Any],
    workload: Workload,
    forward: Callable[..., Any],
    device: torch.device,
    originals: Originals | None,
    notebook: Notebook,
) -> None:
    """Fill in FLOPs, least bytes and relative error, and warn of whatever makes the measurement misleading.

    forward: in the case's mode. Each call starts from the inputs as they were made, if there are copies of them.
    """
    record = notebook.record

    def inputs() -> tuple[Any, ...]:
        return workload.inputs if originals is None else originals.fresh()

    if originals is not None:
        notebook.attempt("check of the inputs", lambda: _warn_of_changes(workload, originals, notebook))
    notebook.stage("counting of operations")
    counted = notebook.attempt("FLOPs", lambda: needs.flops(workload, inputs()))
    record["flops"], record["flops_source"] = counted or (None, None)
    record["useful_flops"] = workload.useful_flops
    notebook.stage("comparison with float64")
    record["error_bound"] = accuracy.error_bound(case["dtype"], device)
    record["relative_error"] = _compare(workload, forward, inputs, originals, notebook)
    notebook.stage("repeated calls")
    notebook.attempt("check by repeated calls", lambda: _repeat(case, workload, lambda: forward(*inputs()), notebook))


def _warn_of_changes(workload: Workload, originals: Originals, notebook: Notebook) -> None:
    changed = originals.changed_inputs()
    if changed:
        which = ", ".join(map(str, changed))
        text = f"the forward changes its inputs (argument {which} of {len(workload.inputs)}): each timed call started"
        text += " from what the call before it had left; the relative error is that of a call with fresh copies"
        notebook.warn("changes_inputs", len(changed), text)
    state = [] if workload.grad else originals.changed_state()
    if state:
        listed = ", ".join(state[:3]) + (", ..." if len(state) > 3 else "")
        text = f"the forward changes the state of its model ({listed}): call .eval() on it unless that is meant"
        notebook.warn("keeps_state", len(state), text)


def _compare(
    workload: Workload,
    forward: Callable[..., Any],
    inputs: Callable[[], tuple[Any, ...]],
    originals: Originals | None,
    notebook: Notebook,
) -> float | None:
    """The relative error of one more call; also counts bytes, and warns of a result that is missing or not computed."""
    what, wanted = "relative error", None
    comparable = workload.reference is not None or not workload.grad
    if originals is not None and originals.lost:
        notebook.note(f"no {what}: {originals.lost}")
    elif comparable:  # before the forward, which may change what the reference is made of
        wanted = notebook.attempt(what, lambda: (accuracy.reference_result(workload, inputs()),))
    result = forward(*inputs())
    notebook.record.update(notebook.attempt("least bytes", lambda: needs.least_bytes(workload, result)) or {})
    _warn_of_result(result, workload, notebook)
    return wanted and notebook.attempt(what, lambda: accuracy.relative_error(result, *wanted))


def _warn_of_result(result: Any, workload: Workload, notebook: Notebook) -> None:
    unrun = notebook.attempt("look into the result", lambda: values.lazy(result))
    bad, total = notebook.attempt("check of the result", lambda: accuracy.not_finite(result)) or (0, 0)
    if unrun:
        text = f"the forward returns a {unrun[0]}, which has not computed its values: that work is in no figure"
        notebook.warn("result_not_computed", len(unrun), f"{text}; return what it computes")
    elif result is None and not workload.grad:
        text = "the forward returns nothing: its result cannot be checked, and a compiler may leave out its work"
        notebook.warn("no_result", 1, f"{text}; return what it computes")
    if bad:
        text = f"the result is not finite: {bad} of its {total} values are NaN or infinite"
        notebook.warn("not_finite", bad, f"{text}: check the inputs' scale and the dtype's range")


def _repeat(case: dict[str, Any], workload: Workload, call: Callable[[], Any], notebook: Notebook) -> None:
    record = notebook.record
    warnings = list(repeats.judge(call, accuracy.BOUNDS[case["dtype"]], compare_results=not workload.grad))
    if not warnings:
        warnings = list(repeats.uneven_ops(record["key_averages"], record["profiled_forwards"]))
    for code, count, message in warnings:
        notebook.warn(code, count, message)
    unlike = [message for code, _, message in warnings if code in ("random", "varying_result")]
    if unlike and workload.reference is None and record["relative_error"] is not None:
        record["relative_error"] = None
        notebook.note(f"no relative error: {unlike[0]}")
