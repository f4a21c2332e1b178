"""The child process: measures one case in the order that keeps each figure clean, and writes what it has as it goes."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.harness import failures, guard, startup
from workloads.harness.files import Scrubber
from workloads.harness.notebook import Notebook, unheard

LONGEST_MESSAGE = 10_000  # of an exception


def main(arguments: list[str]) -> int:
    """Measure the case given as one line of JSON on stdin.

    arguments: device, output folder, cache folder or empty, identity of the GPU or empty.
    """
    guard.die_with_parent(signal.SIGKILL, os.getppid())
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the supervisor asks where a hung child is
    asked, output, cache, card = arguments
    case = json.loads(sys.stdin.readline())
    notebook = Notebook(Path(output) / ".child.json", case["case"])
    status = 0
    try:
        notebook.stage("import of torch")
        with startup.without_collection():
            import torch  # noqa: F401
        sys.stdin.read()  # until the supervisor, which looks at the GPU, lets this process use it
        _measure(case, asked, Path(output), cache, card or None, notebook)
    except BaseException as error:  # noqa: BLE001 - whatever ends the child must reach the supervisor as a reason
        with unheard():
            traceback.print_exc()
        kind = type(error)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        notebook.record["error"] = {"kind": name, "message": str(error)[:LONGEST_MESSAGE]}
        status = 1
        with contextlib.suppress(OSError):  # on a full disk the log must do
            notebook.save()
    for stream in (sys.stdout, sys.stderr):
        with unheard():
            stream.flush()
    # After a CUDA error, leaving in order can hang or crash; all that matters is on disk.
    os._exit(status)


def _measure(case: dict[str, Any], asked: str, output: Path, cache: str, card: str | None, notebook: Notebook) -> None:
    import torch

    from workloads.harness import building, environment

    record = notebook.record
    with warnings.catch_warnings():
        # is_available() warns where torch.cuda.init() then raises.
        warnings.simplefilter("ignore")
        record["environment"] = environment.describe_environment(None)
        notebook.stage("start of the device")
        device = environment.choose_device(asked)
    record["device"] = environment.describe_device(device)
    record["environment"] = environment.describe_environment(device)
    record["params_used"] = {**case["params"], **(case["cpu_params"] if device.type == "cpu" else {})}
    scrub = Scrubber(output=output, cache=cache or None)
    notebook.stage("making of the inputs")
    with torch.no_grad():
        workload = building.build(case, record["params_used"], device)
        with torch.set_grad_enabled(workload.grad), workload.pinned or contextlib.nullcontext():
            try:
                _run(case, workload, device, card, output, scrub, notebook)
            except RuntimeError as error:
                if failures.is_refusal(error):  # after any other error the device may be past use
                    _add_facts(workload, notebook)
                raise
            notebook.stage("further facts")
            _add_facts(workload, notebook)
    notebook.close()


def _add_facts(workload: Any, notebook: Notebook) -> None:
    if workload.facts is not None:
        notebook.attempt("further facts", lambda: notebook.add_facts(workload.facts()))


def _run(
    case: dict[str, Any],
    workload: Any,
    device: Any,
    card: str | None,
    output: Path,
    scrub: Scrubber,
    notebook: Notebook,
) -> None:
    """The order of measuring: see the stages. A cold case profiles first."""
    from workloads.harness import building, compile_cache, dynamo, judging, output_code, timing

    record = notebook.record
    compiled = case["mode"] == "compile"
    if compiled:
        notebook.stage("import of torch.compile")
    with startup.without_collection() if compiled else contextlib.nullcontext():
        forward = building.in_mode(case, workload, device)
    inputs = workload.inputs

    def step() -> Any:
        return forward(*inputs)

    notebook.stage("copies of the inputs")
    originals = judging.keep_originals(workload, notebook)
    _warn_of_profilers("before the first call", notebook)
    if compiled:
        record["inductor_cache"] = compile_cache.before_compiling()
    with dynamo.listening() as logged:
        timing.synchronize(device)
        if case["warmup"] == 0:
            _profile(case, step, device, output, scrub, notebook)
        else:
            notebook.stage("first call")
            record["first_call_us"] = timing.timed_call_us(step, device)
            notebook.stage("warm-up")
            for _ in range(case["warmup"] - 1):
                step()
            timing.synchronize(device)
        if compiled:
            record["inductor_cache"] = compile_cache.after_compiling(record["inductor_cache"])
        _time(case, step, device, card, notebook)
        if case["warmup"] > 0:
            _profile(case, step, device, output, scrub, notebook)
    if compiled:
        record["dynamo"] = dynamo.describe(record["key_averages"], logged)
        target = output / "output_code.py.gz"
        record["output_code"] = notebook.attempt("output code", lambda: output_code.keep(target, scrub))
        for warning in dynamo.judge(case, record):
            notebook.warn(*warning)
    _shapes(case, step, device, output, scrub, notebook)
    judging.judge(case, workload, forward, device, originals, notebook)


def _warn_of_profilers(when: str, notebook: Notebook) -> None:
    """Warn of a profiler that the workload left running: it slows each call down."""
    import torch

    if any(warning["code"] == "profiler_running" for warning in notebook.record["warnings"]):
        return
    running = ["torch.profiler"] if torch.autograd._profiler_enabled() else []
    running += [name for name in ("getprofile", "gettrace") if getattr(sys, name)() is not None]
    if running:
        names = ", ".join(name.replace("get", "sys.set") for name in running)
        text = f"a profiler of the workload's own was running {when} ({names}): the times include what it costs"
        notebook.warn("profiler_running", len(running), f"{text}; stop it, or profile without Kernelbook")


def _time(case: dict[str, Any], step: Callable[[], Any], device: Any, card: str | None, notebook: Notebook) -> None:
    from workloads.harness import gpu, timing

    record = notebook.record
    notebook.stage("timing without the profiler")
    _warn_of_profilers("while the forwards were timed", notebook)
    record["clocks"] = {"before": gpu.clocks(card), "after": None}
    scratch = timing.l2_scratch(device) if case["flush_l2"] else None
    timing.reset_peak(device)
    record["forward_times_us"] = timing.forward_times_us(step, device, case["samples"], scratch)
    record["clocks"]["after"] = gpu.clocks(card)
    record["forward_timer"] = "cuda_events" if device.type == "cuda" else "wall"
    record["peak_memory_bytes"] = timing.peak_bytes(device, apart=scratch)
    record["warmup_check"] = timing.warmup_check(record["forward_times_us"])


def _profile(
    case: dict[str, Any], step: Callable[[], Any], device: Any, output: Path, scrub: Scrubber, notebook: Notebook
) -> None:
    from workloads.harness import timing, tracing

    notebook.stage("profile")
    record = notebook.record
    cold = case["warmup"] == 0 and case["schedule"]["wait"] > 0

    def profiled_step() -> Any:
        nonlocal cold
        if cold:  # the profiler still waits in this step, so waiting for the device disturbs nothing
            cold = False
            record["first_call_us"] = timing.timed_call_us(step, device)
            return None
        return step()

    target = output / "trace.json.gz"
    record["key_averages"] = tracing.profile_forwards(
        profiled_step, case["annotation"], case["schedule"], device, target, scrub.trace
    )
    record["profiled_forwards"] = case["schedule"]["active"]
    record["trace"] = target.name


def _shapes(
    case: dict[str, Any], step: Callable[[], Any], device: Any, output: Path, scrub: Scrubber, notebook: Notebook
) -> None:
    from workloads.harness import tracing

    notebook.stage("profile with shapes")
    target = output / "shapes.json.gz"
    plan = {"wait": 0, "warmup": 1, "active": 1}
    tracing.profile_forwards(step, case["annotation"], plan, device, target, scrub.trace, record_shapes=True)
    notebook.record["shapes_trace"] = target.name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
