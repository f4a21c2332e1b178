"""The child process: measures one case in an order that keeps each figure undisturbed, and saves as it goes."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.harness import failures, guard, startup
from workloads.harness.files import MachineScrubber
from workloads.harness.notebook import Notebook, unheard

if TYPE_CHECKING:
    from workloads.harness.job import JobRank

LONGEST_MESSAGE = 10_000  # of an exception
Step = Callable[[], Any]


@dataclass(frozen=True)
class Task:
    """What is measured, where, and what is known so far. card: identity of the GPU, None if unknown."""

    case: dict[str, Any]
    device: Any
    card: str | None
    output: Path
    scrub: MachineScrubber
    notebook: Notebook
    job: JobRank


def main(arguments: list[str]) -> int:
    """Measure the case given as one line of JSON on stdin.

    arguments: device, output folder, cache folder or empty, identity of the GPU or empty. A rank of a job also reads
    the variables that torch's elastic launcher sets.
    """
    guard.die_with_parent(signal.SIGKILL, os.getppid())
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the supervisor asks where a hung child is
    asked, output, cache, card = arguments
    case = json.loads(sys.stdin.readline())
    name = case["case"] if case["ranks"] is None else f"{case['case']} rank {os.environ['RANK']}"
    notebook = Notebook(Path(output) / ".child.json", name)
    status = 0
    try:
        notebook.stage("import of torch")
        with startup.without_collection():
            import torch  # noqa: F401
        sys.stdin.read()  # until the supervisor, which looks at the GPU, lets this process use it
        _measure(case, asked, Path(output), cache, card or None, notebook)
    except BaseException as error:  # noqa: BLE001 - the supervisor needs every reason
        with unheard():
            traceback.print_exc()
        kind = type(error)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        notebook.record["error"] = {"kind": name, "message": str(error)[:LONGEST_MESSAGE], "at": time.monotonic()}
        status = 1
        with contextlib.suppress(OSError):  # on a full disk the log must do
            notebook.save()
    for stream in (sys.stdout, sys.stderr):
        with unheard():
            stream.flush()
    # After a CUDA error, an orderly exit can hang or crash; all that matters is on disk.
    os._exit(status)


def _measure(case: dict[str, Any], asked: str, output: Path, cache: str, card: str | None, notebook: Notebook) -> None:
    import torch

    from workloads.harness import building, environment

    record = notebook.record
    with warnings.catch_warnings():
        # is_available() warns before torch.cuda.init() raises.
        warnings.simplefilter("ignore")
        record["environment"] = environment.describe_environment(None)
        notebook.stage("start of the device")
        device = environment.choose_device(asked)
        device, job = _join_job(case, device, notebook)
    record["device"] = environment.describe_device(device)
    record["environment"] = environment.describe_environment(device)
    record["params_used"] = {**case["params"], **(case["cpu_params"] if device.type == "cpu" else {})}
    task = Task(case, device, card, output, MachineScrubber(output=output, cache=cache or None), notebook, job)
    notebook.stage("making of the inputs")
    with torch.no_grad():
        function = building.find_workload(case["workload"])
        record["params_used"] = building.in_order(function, record["params_used"])
        workload = building.call(function, case, record["params_used"], device, job.rank, job.world_size)
        with torch.set_grad_enabled(workload.grad), workload.pinned or contextlib.nullcontext():
            try:
                _run(task, workload)
            except RuntimeError as error:
                if failures.is_refusal(error):  # after any other error the device may be unusable
                    _add_facts(workload, notebook)
                raise
            notebook.stage("further facts")
            _add_facts(workload, notebook)
    job.meet()  # a rank that leaves early would take its connections from the others
    notebook.close()


def _join_job(case: dict[str, Any], device: Any, notebook: Notebook) -> tuple[Any, JobRank]:
    """The device of this process, and the job that it is a rank of."""
    from workloads.harness import job

    if case["ranks"] is None:
        return device, job.JobRank()
    notebook.stage("start of the process group")
    device = job.device_of_rank(device)
    return device, job.join(device, case["timeout_s"])


def _add_facts(workload: Any, notebook: Notebook) -> None:
    if workload.facts is not None:
        notebook.attempt("further facts", lambda: notebook.add_facts(workload.facts()))


def _run(task: Task, workload: Any) -> None:
    """Measure in the order of the stages. A cold case profiles first."""
    from workloads.harness import building, dynamo, inductor, judging, timing

    case, device, notebook = task.case, task.device, task.notebook
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
        record["inductor_cache"] = inductor.before_compiling()
    with dynamo.listening() as logged, inductor.listening() as unfused:
        timing.synchronize(device)
        if case["warmup"] == 0:
            _profile(task, step)
        else:
            notebook.stage("first call")
            task.job.meet()
            record["first_call_us"] = timing.timed_call_us(step, device)
            notebook.stage("warm-up")
            for _ in range(case["warmup"] - 1):
                step()
            timing.synchronize(device)
        if compiled:
            record["inductor_cache"] = inductor.after_compiling(record["inductor_cache"])
        _time(task, step)
        if case["warmup"] > 0:
            _profile(task, step)
    if compiled:
        record["dynamo"] = dynamo.describe(record["key_averages"], logged)
        target = task.output / "output_code.py.gz"
        record["output_code"] = notebook.attempt(
            "output code", lambda: inductor.keep_output_code(target, task.scrub, unfused)
        )
        for warning in dynamo.judge(case, record):
            notebook.warn(*warning)
    _shapes(task, step)
    judging.judge(case, workload, forward, device, originals, notebook)


def _warn_of_profilers(when: str, notebook: Notebook) -> None:
    """Warn of a profiler that the workload left running, which slows down each call."""
    import torch

    if any(warning["code"] == "profiler_running" for warning in notebook.record["warnings"]):
        return
    running = ["torch.profiler"] if torch.autograd._profiler_enabled() else []
    running += [name for name in ("getprofile", "gettrace") if getattr(sys, name)() is not None]
    if running:
        names = ", ".join(name.replace("get", "sys.set") for name in running)
        text = f"a profiler of the workload's own was running {when} ({names}): the times include what it costs"
        notebook.warn("profiler_running", len(running), f"{text}; stop it, or profile without Kernelbook")


def _time(task: Task, step: Step) -> None:
    from workloads.harness import gpu, timing

    case, device, notebook = task.case, task.device, task.notebook
    record = notebook.record
    notebook.stage("timing without the profiler")
    _warn_of_profilers("while the forwards were timed", notebook)
    record["clocks"] = {"before": gpu.clocks(task.card), "after": None}
    scratch = timing.l2_scratch(device) if case["flush_l2"] else None
    timing.reset_peak(device)
    task.job.meet()
    record["forward_times_us"] = timing.forward_times_us(step, device, case["samples"], scratch)
    task.job.meet()  # so that no other rank still works when the clocks are read
    record["clocks"]["after"] = gpu.clocks(task.card)
    record["forward_timer"] = "cuda_events" if device.type == "cuda" else "wall"
    record["peak_memory_bytes"] = timing.peak_bytes(device, apart=scratch)
    record["warmup_check"] = timing.warmup_check(record["forward_times_us"])


def _profile(task: Task, step: Step) -> None:
    from workloads.harness import timing

    task.notebook.stage("profile")
    record, case = task.notebook.record, task.case
    cold = case["warmup"] == 0 and case["schedule"]["wait"] > 0

    def profiled_step() -> Any:
        nonlocal cold
        if cold:  # the profiler does not record this step yet, so synchronizing disturbs nothing
            cold = False
            record["first_call_us"] = timing.timed_call_us(step, task.device)
            return None
        return step()

    record["key_averages"] = _traced(task, profiled_step, case["schedule"], "trace.json.gz")
    record["profiled_forwards"] = case["schedule"]["active"]
    record["trace"] = "trace.json.gz"


def _shapes(task: Task, step: Step) -> None:
    task.notebook.stage("profile with shapes")
    _traced(task, step, {"wait": 0, "warmup": 1, "active": 1}, "shapes.json.gz", record_shapes=True)
    task.notebook.record["shapes_trace"] = "shapes.json.gz"


def _traced(
    task: Task, step: Step, plan: dict[str, int], name: str, record_shapes: bool = False
) -> list[dict[str, Any]]:
    """Profile these steps into a file of this name, and return torch's averages."""
    from workloads.harness import tracing

    target, annotation = task.output / name, task.case["annotation"]
    task.job.meet()
    averages = tracing.profile_forwards(
        step, annotation, plan, task.device, target, task.scrub.trace, record_shapes, before_window=task.job.meet
    )
    task.job.meet()
    return averages


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
