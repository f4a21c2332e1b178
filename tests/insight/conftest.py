"""Facts of recorded cases: of the run that ships with the project, and of the further traces beside a checkout."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelbook.cases import CaseFacts
from tests.helpers import default_cases
from tests.insight.insight_recorded import facts_read_once

#: The further traces: name of the file -> (case, annotation, mode). The parameters are those of the cases.
SHARED = {
    "linear_eager": ("linear-eager", "linear_fwd", "eager"),
    "linear_compile": ("linear-compile", "linear_fwd", "compile"),
    "mlp_eager": ("mlp-eager", "mlp_fwd", "eager"),
    "mlp_compile": ("mlp-compile", "mlp_fwd", "compile"),
    "mlp_liger": ("mlp-liger", "kernels_mlp_fwd", "eager"),
    "attn_naive_eager": ("attention-naive-eager", "attn_fwd", "eager"),
    "attn_inplace_eager": ("attention-inplace-eager", "attn_fwd", "eager"),
    "sdpa_math": ("sdpa-math-eager", "sdpa_fwd", "eager"),
    "sdpa_efficient": ("sdpa-efficient-eager", "sdpa_fwd", "eager"),
    "sdpa_flash": ("sdpa-flash-eager", "sdpa_fwd", "eager"),
    "sdpa_cudnn": ("sdpa-cudnn-eager", "sdpa_fwd", "eager"),
    "matmul_add_64_eager": ("matmul-add-64-eager", "matmul_add", "eager"),
    "matmul_add_4096_compile": ("matmul-add-4096-compile", "matmul_add", "compile"),
}
SIZES = {
    "linear": {"batch": 1024, "in_features": 32, "out_features": 64},
    "mlp": {"batch": 64, "seq": 128, "dim": 768, "hidden": 3072},
    "attention": {"batch": 8, "heads": 16, "seq": 1024, "head_dim": 64},
    "sdpa": {"batch": 8, "heads": 16, "seq": 1024, "head_dim": 64},
}


@pytest.fixture(scope="session")
def shared_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a name to a file that all workers of pytest-xdist share for one session."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder).joinpath


@pytest.fixture(scope="session")
def shared_facts(
    shared_dir: Path, tmp_path_factory: pytest.TempPathFactory, shared_path: Callable[[str], Path]
) -> dict[str, CaseFacts]:
    """The further H200 traces as cases; their unprofiled times are the least, the median and the largest recorded."""
    top = tmp_path_factory.mktemp("h200")
    for name, (case, annotation, mode) in SHARED.items():
        source = shared_dir / "traces" / "h200-torch2.11"
        folder = top / case / "1"
        folder.mkdir(parents=True)
        shutil.copy(source / f"{name}.json.gz", folder / "trace.json.gz")
        event_ms = json.loads((source / f"{name}.meta.json").read_text())["event_ms"]
        workload = case.split("-")[0]
        written = {
            "schema": 1,
            "case": {"case": case, "workload": workload, "annotation": annotation, "mode": mode, "dtype": "bfloat16"},
            "status": "ok",
            "params_used": SIZES.get(workload, {"size": 64 if "64" in case else 4096}),
            "device": {"type": "cuda", "name": "NVIDIA H200", "capability": "9.0"},
            "forward_times_us": [1000 * event_ms[key] for key in ("min", "median", "max")],
            "forward_timer": "cuda_events",
            "trace": "trace.json.gz",
        }
        (folder / "measurement.json").write_text(json.dumps(written))
    return facts_read_once("h200", top, shared_path("shared_facts"))


@pytest.fixture(scope="session")
def all_recorded_facts(recorded_h200: Path, shared_path: Callable[[str], Path]) -> dict[str, CaseFacts]:
    """The recorded run that ships with the project: all of its cases."""
    if not any(recorded_h200.glob("*/*/measurement.json")):
        pytest.skip("no recorded run in this checkout")
    return facts_read_once("h200-torch2.11", recorded_h200, shared_path("recorded_facts"))


@pytest.fixture(scope="session")
def recorded_facts(all_recorded_facts: dict[str, CaseFacts]) -> dict[str, CaseFacts]:
    """Those of its cases that are on by default."""
    default = default_cases()
    return {case: facts for case, facts in all_recorded_facts.items() if case in default}


@pytest.fixture(scope="session")
def planted_facts(shared_dir: Path, shared_path: Callable[[str], Path]) -> dict[str, CaseFacts]:
    """Cases of the further traces in which a cause of lost time was planted."""
    return facts_read_once("planted", shared_dir / "round2" / "insight", shared_path("planted_facts"))


@pytest.fixture(scope="session")
def facts_of(request: pytest.FixtureRequest) -> Callable[[str], CaseFacts]:
    """A function from case to facts: of the shipped run, else of the further traces, else the test is skipped."""

    def look(case: str) -> CaseFacts:
        for fixture in ("recorded_facts", "shared_facts"):
            try:
                found = request.getfixturevalue(fixture)
            except pytest.skip.Exception:
                continue
            if case in found:
                return found[case]
        pytest.skip(f"no recorded trace of {case}")

    return look
