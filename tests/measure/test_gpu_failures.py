"""What failed on a real GPU, recorded once on an H200: each is told apart and comes with a remedy.

The driver's absence, its age and CUPTI's refusal were played by small libraries loaded in front of the real ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workloads.harness import failures

FIXTURES = Path(__file__).parent / "fixtures" / "gpu_failures"

EXPECTED = {
    "out-of-memory": ("failed", 2, "CUDA ran out of memory during making of the inputs", "use smaller params"),
    "illegal-access": (
        "failed",
        1,
        "a kernel touched memory that is not its own during first call",
        "compute-sanitizer",
    ),
    "device-assert": ("failed", 1, "an assertion inside a kernel failed during first call", "CUDA_LAUNCH_BLOCKING=1"),
    "cupti-refused": ("failed", 1, "the profiler gave no device activities (CUPTI refused)", "let users profile"),
    "no-visible-gpu": ("failed", 1, "no usable NVIDIA driver or GPU during start of the device", "--nv"),
    "no-driver": ("failed", 1, "no usable NVIDIA driver or GPU during start of the device", "--device cpu"),
    "old-driver": ("failed", 1, "the NVIDIA driver is too old for this torch", "update the driver"),
    "flash-refuses-float32": ("unsupported", 1, "the pinned SDPA backend refuses these inputs", "use another variant"),
}


def recorded(name: str) -> dict:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def test_all_are_here():
    assert {path.stem for path in FIXTURES.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_recorded(name):
    found = recorded(name)
    status, attempts, fact, remedy = EXPECTED[name]
    assert found["status"] == status
    assert found["attempts"] == attempts
    assert found["reason"].startswith(fact)
    assert remedy in found["reason"]
    assert found["environment"]["torch"] == "2.11.0+cu130"
    assert found["environment"]["driver"] == "580.159.04"
    assert found["log_tail"]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_exceptions_words_lead_to_the_same_reason(name):
    """The log's traceback ends with the exception: its text alone must be enough."""
    found = recorded(name)
    line = next(line for line in found["log_tail"] if "Error: " in line or "ProfilerRefused: " in line)
    kind, _, message = line.partition(": ")
    again = failures.from_exception(kind, message, None)
    assert again.status == found["status"]
    assert found["reason"].startswith(again.fact.split(" (")[0])
    assert again.retry is (EXPECTED[name][1] == 2)


def test_what_was_measured_before_the_profiler_was_refused_is_kept():
    found = recorded("cupti-refused")
    assert len(found["forward_times_us"]) == 50
    assert found["trace"] is None
    assert found["clocks"]["after"]["sm_mhz"] > 0


def test_no_device_is_named_where_none_was_reached():
    assert recorded("no-driver")["device"] is None
    assert recorded("out-of-memory")["device"]["name"] == "NVIDIA H200"


@pytest.mark.parametrize(
    ("kind", "message", "fact", "retry"),
    [
        ("torch._inductor.exc.InductorError", "CppCompileError: C++ compile error\nCommand:\ng++ main.cpp -o main.o\n"
         "Output:\nmain.cpp:95:10: fatal error: Python.h: No such file or directory\n   95 | #include <Python.h>",
         "torch.compile found no headers of this Python", False),
        ("torch._inductor.exc.InductorError", "RuntimeError: Failed to find C compiler. Please specify via CC",
         "torch.compile found no working compiler", False),
        ("torch._inductor.exc.TritonMissing", "Cannot find a working triton installation.",
         "torch.compile found no Triton", False),
        ("RuntimeError", "CUDA error: no kernel image is available for execution on the device",
         "this torch holds no kernels for this GPU's generation", False),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
         "CUDA ran out of memory", True),
        ("AssertionError", "Torch not compiled with CUDA enabled", "this torch is built without CUDA", False),
        ("OSError", "[Errno 122] Disk quota exceeded: 'x'", "the disk is full", False),
        ("ValueError", "", "ValueError", False),
    ],
)  # fmt: skip
def test_other_words_that_torch_is_known_to_use(kind, message, fact, retry):
    found = failures.from_exception(kind, message, "first call")
    assert found.fact.startswith(fact)
    assert found.retry is retry
    assert found.status == "failed"


def test_an_abort_is_explained_by_its_log():
    log = ["terminate called after throwing an instance of 'c10::AcceleratorError'",
           "  what():  CUDA error: an illegal memory access was encountered"]  # fmt: skip
    assert failures.from_signal(6, "profile", log).fact.startswith("a kernel touched memory that is not its own")
    assert failures.from_signal(6, "profile", []).fact == "the process was ended by SIGABRT during profile"


def test_a_backends_own_reasons_are_told_from_the_others():
    pytest.importorskip("torch")
    from workloads.attention import own_reasons

    warned = recorded("flash-refuses-float32")["sdpa_backends"]
    dtype = (
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. "
        "Got Query dtype: float, Key dtype: float, and Value dtype: float instead."
    )
    assert len(warned["flash"]["reasons"]) == 6  # as torch gives them: for all three fused kernels
    assert own_reasons("FLASH_ATTENTION", warned["flash"]["reasons"]) == [dtype]
    assert own_reasons("CUDNN_ATTENTION", warned["cudnn"]["reasons"]) == [dtype]
    assert warned["efficient"]["usable"] is True
