"""Why a measurement failed: from an exception's text or an exit status to fact, remedy and whether to try again."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Failure:
    """Why there is no measurement. status: failed | unsupported."""

    status: str
    fact: str
    remedy: str
    retry: bool = False

    @property
    def reason(self) -> str:
        """Fact, then remedy, in one line."""
        return f"{self.fact}: {self.remedy}" if self.remedy else self.fact


@dataclass(frozen=True)
class _Rule:
    pattern: str
    fact: str
    remedy: str
    status: str = "failed"
    retry: bool = False
    quote: bool = True  # whether the exception's own words add something


# What scaled_dot_product_attention says if none of the allowed backends takes the inputs.
REFUSAL = r"No available kernel|No viable backend"

_ON_CPU = "or measure on the CPU (device: cpu in the config)"

# Searched in "ExceptionType: message"; the first match counts.
RULES = (
    _Rule(
        r"OutOfMemoryError|CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation",
        "CUDA ran out of memory",
        "use smaller params, or a GPU with more free memory",
        retry=True,
    ),
    _Rule(
        r"DefaultCPUAllocator: (can't|not enough)|MemoryError|Cannot allocate memory",
        "the machine ran out of memory",
        "use smaller cpu_params, or a machine with more memory",
        retry=True,
    ),
    _Rule(
        r"illegal memory access|misaligned address|unspecified launch failure",
        "a kernel touched memory that is not its own",
        "run the case under compute-sanitizer to find the kernel; the GPU itself is well",
    ),
    _Rule(
        r"device-side assert",
        "an assertion inside a kernel failed",
        "check the indices the workload uses; CUDA_LAUNCH_BLOCKING=1 names the op",
    ),
    _Rule(
        r"driver on your system is too old|CUDA driver version is insufficient|unsupported PTX",
        "the NVIDIA driver is too old for this torch",
        "update the driver, or use a torch built for an older CUDA",
    ),
    _Rule(
        r"Found no NVIDIA driver|libcuda\.so\.1: cannot open|CUDA driver initialization failed|no CUDA-capable device"
        r"|No CUDA GPUs are available|CUDA unknown error",
        "no usable NVIDIA driver or GPU",
        "in a container start it with --nv; check nvidia-smi and CUDA_VISIBLE_DEVICES; " + _ON_CPU,
    ),
    _Rule(
        r"not compiled with CUDA|built without CUDA",
        "this torch is built without CUDA",
        "install a CUDA build of torch; " + _ON_CPU,
    ),
    _Rule(
        r"no kernel image is available",
        "this torch holds no kernels for this GPU's generation",
        "use a torch built for it (see torch.cuda.get_arch_list())",
    ),
    _Rule(
        r"gave no device activities",
        "the profiler gave no device activities (CUPTI refused)",
        "let users profile (NVreg_RestrictProfilingToAdminUsers=0), and end other profilers on this GPU",
        quote=False,
    ),
    _Rule(
        r"No space left on device|Errno 28|Disk quota exceeded|Errno 122",
        "the disk is full",
        "free some space in the output, cache and temporary folders",
    ),
    _Rule(
        r"fatal error: Python\.h: No such file",
        "torch.compile found no headers of this Python",
        "install them (Debian: python3-dev), or use a Python that brings them",
        quote=False,
    ),
    _Rule(
        r"InvalidCxxCompiler|No working C\+\+ compiler|Failed to find C compiler|CppCompileError.*not found",
        "torch.compile found no working compiler",
        "install g++ in this environment, or set CXX and CC",
    ),
    _Rule(
        r"TritonMissing|Cannot find a working triton|No module named 'triton'",
        "torch.compile found no Triton for this GPU",
        "install the triton package that belongs to this torch",
    ),
    _Rule(
        REFUSAL,
        "the pinned SDPA backend refuses these inputs on this device",
        "see sdpa_backends for its reasons; use another variant, dtype or head_dim",
        status="unsupported",
    ),
    _Rule(
        r"ModuleNotFoundError|ImportError",
        "a package cannot be imported",
        "install it in this environment",
    ),
)


def outside_container(wanted: str, actual: str | None) -> Failure | None:
    """The refusal of a measurement that does not run in its container; None if it does."""
    if actual == wanted:
        return None
    where = f"in the container {actual}" if actual else "in no container"
    return Failure("failed", f"refused: this runs {where}, not in {wanted}", "run the workflow with --use-singularity")


def is_refusal(error: BaseException) -> bool:
    """Whether a pinned SDPA backend refused its inputs, after which the device is still usable."""
    return re.search(REFUSAL, str(error)) is not None


def from_exception(kind: str, message: str, stage: str | None) -> Failure:
    """The failure behind an exception of the child; `kind` is the type's qualified name."""
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    where = f" during {stage}" if stage else ""
    if kind.endswith("Unsupported"):
        fact, _, remedy = first.rpartition(": ")
        return Failure("unsupported", fact or first, remedy if fact else "")
    failure = _by_rule(f"{kind}: {message}", first, where)
    return failure or Failure("failed", f"{kind}{where}: {_short(first)}", "")


def _by_rule(text: str, words: str, where: str) -> Failure | None:
    for rule in RULES:
        if re.search(rule.pattern, text, re.S):
            quoted = f" ({_short(words)})" if words and rule.quote else ""
            return Failure(rule.status, f"{rule.fact}{where}{quoted}", rule.remedy, rule.retry)
    return None


def from_signal(number: int, stage: str | None, log: list[str]) -> Failure:
    """The failure of a child that a signal ended; before an abort the log's last lines may say why."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGABRT:
        failure = _by_rule("\n".join(log[-30:]), f"the process aborted, {name}", f" during {stage or 'its start'}")
        if failure:
            return failure
    remedies = {
        int(
            signal.SIGKILL
        ): "the machine may have run out of memory (see dmesg); give the job more, or use smaller params",
        int(signal.SIGSEGV): "the log's last lines show where; report it to the library they name",
    }
    remedy = remedies.get(number, "the log's last lines show where")
    return Failure("failed", f"the process was ended by {name} during {stage or 'its start'}", remedy, retry=True)


def from_time_limit(seconds: float, stage: str | None) -> Failure:
    """The failure of a child that was stopped at its time limit."""
    remedy = "raise timeout_s, or look at the log's last lines for where it hung"
    return Failure("failed", f"stopped at its time limit of {seconds:g} s during {stage or 'its start'}", remedy, True)


def from_removed(names: list[str]) -> Failure:
    """The failure of a case whose output was removed while it ran; names: of the files or the folder."""
    fact = f"the workload removed its own output while it ran ({', '.join(names)})"
    return Failure("failed", fact, "leave the folder given by --output alone")


def of_process(code: int, record: dict[str, Any], log: list[str]) -> Failure | None:
    """The failure of a child that ended with this status; None if it measured to the end.

    record: what the child wrote down; its error takes precedence over its status.
    """
    stage, error = record.get("stage"), record.get("error")
    if error is not None:
        return from_exception(str(error.get("kind")), str(error.get("message")), stage)
    if code < 0:
        return from_signal(-code, stage, log)
    if code != 0 or stage is not None or not record:
        return from_exit(code, stage, log)
    return None


def from_exit(code: int, stage: str | None, log: list[str]) -> Failure:
    """The failure of a child that exited with a status and recorded no reason; its log's last lines may hold one."""
    where = f" during {stage or 'its start'}"
    words = log[-1] if log else ""
    failure = _by_rule("\n".join(log[-10:]), words, where)
    return failure or Failure("failed", f"the process left with status {code}{where}", "the log's last lines show why")


def _short(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
