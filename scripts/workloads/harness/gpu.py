"""The GPU as `nvidia-smi` sees it, and a lock so that two measurements never share one. No torch, no NVML package."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

LOCKS = Path("/tmp")  # not TMPDIR: one folder for all users, jobs and containers (Apptainer binds the host's /tmp)
SMI_S = 20.0  # time limit of nvidia-smi, in seconds
SAY_AGAIN_S = 30.0  # seconds between two lines about waiting for a GPU
# Bits of nvidia-smi's clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons).
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
UUID = re.compile(r"(?:GPU-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
CLOCK_FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "max_sm_mhz": "clocks.max.sm",
    "temperature_c": "temperature.gpu",
    "power_w": "power.draw",
}


def query(what: str, gpu: str | None = None) -> list[list[str]] | None:
    """Rows of `nvidia-smi --query-...`; None if nvidia-smi is absent, refuses or hangs."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", what, "--format=csv,noheader,nounits"] + (["-i", gpu] if gpu else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SMI_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def visible_gpu() -> str | None:
    """An identity of the first GPU that a process started now would see (its UUID if readable), or None."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    first = None if wanted is None else wanted.split(",")[0].strip()
    if first in ("", "-1"):
        return None
    if first is not None and not first.isdigit():
        return first
    rows = query("--query-gpu=uuid")
    index = int(first or 0)
    if rows is not None:
        return rows[index][0] if index < len(rows) else None
    # No nvidia-smi in this container: look at the device files.
    return f"index-{index}" if os.path.exists(f"/dev/nvidia{index}") else None


def gpus_of_one_model() -> list[str]:
    """UUIDs of the GPUs that a process started now would see and that have the model of the first one.

    Only the first one if the others are not known from nvidia-smi and CUDA_VISIBLE_DEVICES (numbers or whole UUIDs).
    """
    rows = query("--query-gpu=uuid,name") or []
    models = {row[0]: row[1] for row in rows if len(row) == 2}
    order = list(models)
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = order if wanted is None else [_by_number(word.strip(), order) for word in wanted.split(",")]
    seen = list(itertools.takewhile(models.__contains__, visible))  # CUDA too stops at the first invalid one
    if not seen:
        first = visible_gpu()
        return [first] if first else []
    return [gpu for gpu in dict.fromkeys(seen) if models[gpu] == models[seen[0]]]


def _by_number(word: str, order: list[str]) -> str:
    """The UUID behind a number of CUDA_VISIBLE_DEVICES; anything else as it is."""
    return order[int(word)] if word.isdigit() and int(word) < len(order) else word


def is_uuid(gpu: str | None) -> bool:
    """Whether this is a UUID for CUDA_VISIBLE_DEVICES, of a GPU or a MIG slice, and not a bare device file."""
    return gpu is not None and gpu.startswith(("GPU-", "MIG-"))


def gpu_id(uuid: str | None) -> str | None:
    """An id that distinguishes GPUs without revealing the UUID: 8 hex digits of its SHA-256. None if unknown.

    uuid: whole, as nvidia-smi (`GPU-` and 36 characters) or torch (without `GPU-`) writes it.
    """
    uuid_match = UUID.fullmatch(uuid or "")
    return hashlib.sha256(f"GPU-{uuid_match[1].lower()}".encode()).hexdigest()[:8] if uuid_match else None


def without_uuids(text: str) -> str:
    """The text with the `gpu_id` of each GPU in place of its UUID, such as `GPU e9f48345`."""
    return UUID.sub(lambda match: f"GPU {gpu_id(match[0])}", text)


def driver_version() -> str | None:
    """Version of the kernel driver, e.g. "580.159.04", from /proc or nvidia-smi."""
    with contextlib.suppress(OSError):
        version = re.search(
            r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", Path("/proc/driver/nvidia/version").read_text()
        )
        if version:
            return version[1]
    rows = query("--query-gpu=driver_version")
    return rows[0][0] if rows else None


def clocks(gpu: str | None) -> dict[str, Any] | None:
    """Clocks (MHz), temperature (°C), power (W) and throttling reasons now; None if they cannot be read."""
    if not _is_whole(gpu):
        return None
    fields = list(CLOCK_FIELDS.values())
    for reasons in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):  # new and old name
        rows = query("--query-gpu=" + ",".join([*fields, reasons]), gpu)
        if rows and len(rows[0]) == len(fields) + 1:
            break
    else:
        return None
    seen: dict[str, Any] = {key: _number(cell) for key, cell in zip(CLOCK_FIELDS, rows[0])}  # noqa: B905
    try:
        mask = int(rows[0][-1], 16)
        seen["throttle_reasons"] = [name for bit, name in THROTTLE_BITS.items() if mask & bit]
    except ValueError:
        seen["throttle_reasons"] = None
    return seen


def _is_whole(gpu: str | None) -> bool:
    """Whether nvidia-smi can be asked about it: the UUID of a GPU, not of a MIG slice, and not a bare device file."""
    return gpu is not None and gpu.startswith("GPU-")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def other_processes(gpu: str | None) -> list[dict[str, Any]] | None:
    """Compute processes on the GPU: pid, name (no folder), used_memory_mib. None if they cannot be read."""
    if not _is_whole(gpu):
        return None
    rows = query("--query-compute-apps=pid,process_name,used_memory", gpu)
    if rows is None:
        return None
    return [
        {"pid": int(row[0]), "name": os.path.basename(row[1].split(" ")[0]), "used_memory_mib": _number(row[2])}
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    ]


def seen_together(looks: Iterable[list[dict[str, Any]] | None]) -> list[dict[str, Any]] | None:
    """The processes of several calls of `other_processes`, each once, by pid; None if nvidia-smi never answered."""
    had = [look for look in looks if look is not None]
    if not had:
        return None
    by_pid = {process["pid"]: process for look in reversed(had) for process in look}
    return sorted(by_pid.values(), key=lambda process: process["pid"])


def container() -> str | None:
    """File name of the Apptainer image this runs in, or None outside one."""
    path = os.environ.get("APPTAINER_CONTAINER") or os.environ.get("SINGULARITY_CONTAINER")
    return os.path.basename(path) if path else None


@contextlib.contextmanager
def lock(
    gpus: Sequence[str], say: Callable[[str], None], folder: Path = LOCKS, count: int = 1
) -> Iterator[tuple[str, ...]]:
    """Lock the first `count` of these GPUs that are free against other measurements on this machine; yields them.

    Waits while too few are free, and holds none meanwhile. Yields fewer if there are fewer, or if the file of a lock
    can be neither made nor opened. The lock is flock: it ends with its holder. All users and containers use one file
    for each GPU.
    """
    handles = _first_free(gpus, say, folder, count)
    try:
        yield tuple(handles)
    finally:
        _release(handles)


def _release(handles: dict[str, int]) -> None:
    for handle in handles.values():
        os.close(handle)


def _first_free(gpus: Sequence[str], say: Callable[[str], None], folder: Path, count: int) -> dict[str, int]:
    """GPU -> the handle that holds its lock; a GPU whose file can be neither made nor opened is left out."""
    last_message = -SAY_AGAIN_S
    while True:
        handles: dict[str, int] = {}
        held_by_others = False
        for gpu in gpus:
            if len(handles) == count:
                break
            try:
                handle = _locked(folder / f"kernelbook-{re.sub(r'[^A-Za-z0-9-]', '_', gpu)}.lock")
            except BlockingIOError:
                held_by_others = True
                continue
            if handle is not None:
                handles[gpu] = handle
        if len(handles) == count or not held_by_others:
            return handles
        _release(handles)
        if time.monotonic() - last_message >= SAY_AGAIN_S:
            last_message = time.monotonic()
            say(_waiting(len(gpus), count))
        time.sleep(0.1)


def _waiting(gpus: int, count: int) -> str:
    if count > 1:
        return f"another measurement holds one of the {min(gpus, count)} GPUs that this one needs; waiting for it"
    return "another measurement holds " + ("this GPU; waiting for it" if gpus == 1 else "each GPU; waiting for one")


def _locked(path: Path) -> int | None:
    """A handle that holds the lock; None if the file can be neither made nor opened.

    Raises BlockingIOError if somebody else holds it.
    """
    handle = _open_lock(path)
    if handle is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed meanwhile, by a clean-up of the folder: then the lock is void.
        if not _is_still(path, handle):
            raise BlockingIOError
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _open_lock(path: Path) -> int | None:
    # Another user's file may be opened but not with O_CREAT (fs.protected_regular), and reading is enough to lock it.
    with contextlib.suppress(OSError):
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(made, 0o666)  # whatever the umask, so that others can open it
        return made
    with contextlib.suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    return None
