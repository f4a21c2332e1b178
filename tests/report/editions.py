"""Reports of the kinds that a page must show well, made of the recorded runs: python tests/report/editions.py FOLDER

Each edition is collected and judged by the project's own code. What is not recorded is derived from what is: other
runs are copies of the recorded one, with what the copy is about changed in measurement.json or in its traces.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # these two where it is run as a script
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import detect_changes
import publish_site
from kernelbook.config.loading import load_config
from kernelbook.history.store import Store
from kernelbook.report.rendering import render_report
from render_example import ROOT, collect_example, collect_runs
from render_example import configuration as parsed_configuration
from tests.nights.made_nights import editions, night
from workloads.harness import failures

CREATED = "2026-11-30T15:00:00Z"
RECORDED = ROOT / "resources" / "recorded" / "h200-torch2.11"
DEVICE_EVENTS = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_runtime", "cuda_driver", "ac2g"}
VERSIONS = ("2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.0")
REASONS = (
    failures.from_time_limit(300, "the first forward").reason,
    failures.from_exception("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 40.00 GiB", None).reason,
    failures.from_exception("ModuleNotFoundError", "No module named 'liger_kernel'", None).reason,
)

NO_REGISTRY = "FATAL: Unable to handle docker URI: registry answered 503, service unavailable"

# --- runs ---


configuration = cache(parsed_configuration)  # shared: a caller changes a copy of it


@cache
def default_cases() -> tuple[str, ...]:
    return tuple(name for name, case in configuration()["cases"].items() if case.get("enabled", True))


def copied_run(folder: Path, change: Callable[[str, dict[str, Any], Path], None]) -> Path:
    """A recorded folder of the first process of each default case; change(case, measurement, folder of the process)."""
    for case in default_cases():
        made = folder / case / "1"
        shutil.copytree(RECORDED / case / "1", made)
        measurement = json.loads((made / "measurement.json").read_text(encoding="utf-8"))
        change(case, measurement, made)
        (made / "measurement.json").write_text(json.dumps(measurement), encoding="utf-8")
    return folder


def on_cpu(case: str, measurement: dict[str, Any], folder: Path) -> None:
    """As if the case had run on a CPU: the small sizes, no device activity, eight times the forward time."""
    own = configuration()["cases"][case].get("cpu_params", {})
    measurement["device"] = {"type": "cpu", "name": "Intel(R) Xeon(R) Platinum 8480+"}
    measurement["params_used"] |= own
    measurement["forward_times_us"] = [8 * time for time in measurement["forward_times_us"]]
    measurement |= dict.fromkeys(("counters", "counter_pass", "clocks", "sdpa_backends", "peak_memory_bytes"))
    measurement["forward_timer"] = "perf_counter"
    trace = folder / "trace.json.gz"
    whole = json.loads(gzip.decompress(trace.read_bytes()))
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") not in DEVICE_EVENTS]
    whole.pop("deviceProperties", None)
    trace.write_bytes(gzip.compress(json.dumps(whole).encode(), 1, mtime=0))


def of_version(version: str) -> Callable[[str, dict[str, Any], Path], None]:
    """As if measured with that torch; before 2.12, in-place attention still copies as the naive one does."""

    def change(case: str, measurement: dict[str, Any], folder: Path) -> None:
        measurement["environment"]["torch"] = version
        if case == "attention-inplace-eager" and VERSIONS.index(version) < 3:
            trace = RECORDED / "attention-naive-eager" / folder.name / "trace.json.gz"
            shutil.copyfile(trace, folder / "trace.json.gz")

    return change


def fails(cases: Iterable[str]) -> Callable[[str, dict[str, Any], Path], None]:
    """As if all processes of these cases had failed, for one of three reasons."""
    reasons = {case: REASONS[place % len(REASONS)] for place, case in enumerate(cases)}

    def change(case: str, measurement: dict[str, Any], folder: Path) -> None:
        if case in reasons:
            lines = ["Traceback (most recent call last):", f"  in {case}", reasons[case]]
            measurement |= {"status": "failed", "reason": reasons[case], "trace": None, "log_tail": lines}
            measurement |= {"forward_times_us": [], "counters": None, "counter_pass": None}

    return change


# --- editions ---


def collected(scratch: Path, runs: dict[str, Any], guesses: Callable[[dict[str, Any]], None] | None = None,
              **more: Any) -> Path:  # fmt: skip
    """The edition of these runs of config.yaml's cases; guesses: changes the cases; more: further keys."""
    raw = copy.deepcopy(configuration() | {"runs": runs, "edition": scratch.name} | more)
    if guesses:
        guesses(raw["cases"])
    return collect_runs(load_config(raw, ROOT / "workflow" / "schemas"), scratch, containers_on=True)


def recorded(folder: Path, description: str) -> dict[str, str]:
    return {"recorded": str(folder), "description": description}


def shipped(*names: str) -> dict[str, Any]:
    return {name: configuration()["runs"][name] | {"enabled": True} for name in names}


def cpu_and_h200(scratch: Path) -> Path:
    host = recorded(copied_run(scratch / "cpu", on_cpu), "The torch of this machine, on its CPU.")
    h200 = recorded(copied_run(scratch / "h200", fails(())), "NVIDIA H200, torch 2.11")
    return collected(scratch, {"host": host, "h200": h200} | shipped("a100-series"))


def six_runs(scratch: Path) -> Path:
    runs = {
        f"torch-{version}": recorded(copied_run(scratch / version, of_version(version)), f"torch {version}")
        for version in VERSIONS
    }
    return collected(scratch, runs, only_cases="attention-*,mlp-*,linear-*")


def twelve_broken(scratch: Path) -> Path:
    def wrong(cases: dict[str, Any]) -> None:
        guessed = [case for case in default_cases() if isinstance(cases[case]["expect"].get("kernels"), int)]
        for case in guessed[:12]:
            cases[case] = copy.deepcopy(cases[case])
            expect = cases[case]["expect"]
            expect["kernels"] += 1
            if "kernel_families" in expect:
                expect["kernel_families"]["reduction"] = 1

    return collected(scratch, shipped("h200", "a100-series"), wrong)


def many_failures(scratch: Path) -> Path:
    run = recorded(copied_run(scratch / "failing", fails(default_cases()[3:15])), "A machine on which much fails.")
    return collected(scratch, {"h200": run} | shipped("a100-series"))


def lost_run(scratch: Path) -> Path:
    """A run whose image cannot be pulled, beside one of which six cases failed."""
    run = recorded(copied_run(scratch / "failing", fails(default_cases()[-6:])), "NVIDIA H200, torch 2.11")
    program = scratch / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{NO_REGISTRY}' >&2\nexit 255\n", encoding="utf-8")
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{program.parent}:{before}"
    try:
        return collected(scratch, {"h200": run} | shipped("ngc-26.09", "a100-series"))
    finally:
        os.environ["PATH"] = before


def job_of_ranks(scratch: Path) -> Path:
    return collected(scratch, shipped("two-h200"), only_runs="two-h200", only_cases="fsdp2-step,all-reduce")


EDITIONS: dict[str, Callable[[Path], Path]] = {
    "example": collect_example,
    "cpu-and-h200": cpu_and_h200,
    "six-runs": six_runs,
    "twelve-broken": twelve_broken,
    "many-failures": many_failures,
    "lost-run": lost_run,
    "job-of-ranks": job_of_ranks,
}


def render(name: str, output: Path, scratch: Path) -> Path:
    """The report of one edition in the folder `output`; `scratch` keeps what it is made of."""
    folder = scratch / name
    folder.mkdir()
    render_report(EDITIONS[name](folder), output, CREATED)
    return output


# --- nights ---

STEPS = {
    60: ("mlp-eager", 1.08),
    150: ("sdpa-flash-eager", 0.9),
    240: ("attention-naive-eager", 1.15),
    362: ("linear-eager", 1.2),
}
TORCHES = {0: "2.12.1", 120: "2.13.0", 300: "2.14.0"}


def year_of_nights(output: Path, scratch: Path, nights: int = 365) -> Path:
    """The site of a year of nights, in which four cases change and torch changes twice; judged when something did."""
    store, rng = Store(scratch / "history"), np.random.default_rng(7)
    judged = {place + later for place in (*STEPS, *TORCHES) for later in range(3)} | set(range(nights - 5, nights))
    for at, edition in enumerate(editions(nights, "2025-12-01")):

        def change(run: str, case: str, at: int = at) -> dict[str, Any]:
            factors = [factor for place, (name, factor) in STEPS.items() if name == case and at >= place]
            torch = max((place, version) for place, version in TORCHES.items() if at >= place)[1]
            return {"factor": float(np.prod(factors)), "torch": torch}

        store.add_night(edition, night(edition, ("host", "nightly"), default_cases(), rng, processes=3, change=change))
        if at in judged:
            detect_changes.main(["--history", str(store.folder)])
    publish = json.dumps({"folder": str(output), "title": "Kernelbook nights"})
    assert publish_site.main(["--history", str(store.folder), "--publish", publish]) == 0
    return output


def main(output: str, *names: str) -> int:
    for name in names or (*EDITIONS, "year-of-nights"):
        target = Path(output) / name
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch:
            make = year_of_nights if name == "year-of-nights" else partial(render, name)
            print(make(target, Path(scratch)) / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
