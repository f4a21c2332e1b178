"""Starts containers as measurements do: their arguments, their environment, and a check for torch in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from kernelbook.containers.images import ImageError, runtime
from kernelbook.text.credentials import without_secrets
from kernelbook.text.formatting import last_words

START_LIMIT_S = 900  # the first import of torch from a network file system takes minutes
MARK = "kernelbook: "
LOCKED_IN = "/tmp:/tmp"
# --use-singularity alone gives a container no GPU; without a GPU these are harmless.
GPU_SWITCHES = ("APPTAINER_NV", "SINGULARITY_NV")
INTO_CONTAINER = ("SINGULARITYENV_", "APPTAINERENV_")  # the latter wins where both are set
HOST_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX")
THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Variables by which a machine configures communication between ranks, such as its network or a feature that it forbids:
# those of NCCL, of torch for NCCL and symmetric memory, of NVSHMEM and gloo, and of UCX and libfabric below them.
BETWEEN_RANKS = re.compile(r"(NCCL|RCCL|TORCH_NCCL|TORCH_SYMM_MEM|TORCH_GLOO|NVSHMEM|GLOO|UCX|FI)_\w+")
OLDEST_PYTHON = (3, 9)  # what scripts/workloads/ is written for
# Runs in the image with its Python, of any version, and prints that version. If it is new enough, it also prints the
# versions of torch and whether torch is the image's own. The first of its two lines shows that the container started.
LOOK = f"""
import json, os, sys
found = dict.fromkeys(("torch", "cuda", "cudnn", "error", "foreign"), None)
found["python"] = "%d.%d.%d" % sys.version_info[:3]
def say(answer):
    os.write(1, ("\\n{MARK}" + json.dumps(answer) + "\\n").encode())
say(found)
if sys.version_info < {OLDEST_PYTHON}:
    sys.exit()
try:
    import torch
    found["torch"] = str(torch.__version__)
    found["cuda"] = torch.version.cuda or getattr(torch.version, "hip", None)
    found["cudnn"] = torch.backends.cudnn.version() if hasattr(torch, "backends") else None
    file = os.path.realpath(torch.__file__)
    bound = (os.environ.get("APPTAINER_BIND") or os.environ.get("SINGULARITY_BIND") or "").split(",")
    outside = [os.environ.get("HOME", ""), "/tmp", "/var/tmp"] + [one.split(":")[-1] for one in bound]
    for folder in outside:
        if folder.strip("/") and file.startswith(os.path.realpath(folder) + "/"):
            found["foreign"] = file
except BaseException as error:
    found["error"] = "%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0])
say(found)
"""
# Message of the runtime when a container does not start -> fact and remedy; the first match is reported.
START_FAILURES = (
    (
        r'"[^"]*": executable file not found|python[0-9.]*: (not found|No such file)|no such file or directory.*python',
        "it has no {python}",
        "name its Python in {run}.python",
    ),
    (
        r"image format not recognized|could not open image|not a valid SIF|invalid.*SIF",
        "it is no image, or a damaged one",
        "delete it and run again, or correct {run}.container",
    ),
    (r"exec format error", "it was built for another kind of processor", "choose an image for this machine's"),
    (
        r"Requesting capability set",
        "this machine's root lacks a capability that Apptainer asks for",
        "see `root default capabilities` in apptainer.conf",
    ),
    (
        r"user namespace|Operation not permitted|permission denied|fusermount",
        "this account may not start containers here",
        "try apptainer exec by hand, and ask who runs the machine",
    ),
)


def start_arguments(bound: Iterable[Path]) -> list[str]:
    """Arguments of `apptainer exec`: a clean environment, and these folders bound read-only.

    The machine's /tmp is always bound: measurements inside and outside containers lock a GPU by files there.
    """
    folders = sorted({os.fspath(path) for path in bound})
    binds = [LOCKED_IN, *(f"{folder}:{folder}:ro" for folder in folders)]
    return ["--cleanenv", *(word for bind in binds for word in ("--bind", bind))]


def prepare_environment(environ: MutableMapping[str, str], visible_devices: str) -> None:
    """Set in `environ` what the containers started from it get: the GPU, its number, and no Python of this machine.

    Variables of `BETWEEN_RANKS` reach the container too, unless the user has set others for it. Repeated calls change
    nothing. visible_devices: CUDA_VISIBLE_DEVICES for the measurement; empty keeps that of the job, which on a cluster
    is Slurm's choice.
    """
    if visible_devices:
        environ["CUDA_VISIBLE_DEVICES"] = visible_devices
    environ.pop("PYTHONSAFEPATH", None)  # the scripts find each other by their own folder
    for switch in GPU_SWITCHES:
        environ.setdefault(switch, "1")
    between_ranks = {name: value for name, value in environ.items() if BETWEEN_RANKS.fullmatch(name)}
    chosen = {name.removeprefix(prefix) for prefix in INTO_CONTAINER for name in environ if name.startswith(prefix)}
    for prefix in INTO_CONTAINER:
        environ.update({prefix + name: value for name, value in between_ranks.items() if name not in chosen})
        for name in HOST_PYTHON:
            environ.pop(prefix + name, None)
        environ[f"{prefix}PYTHONNOUSERSITE"] = "1"
        if "CUDA_VISIBLE_DEVICES" in environ:
            environ[f"{prefix}CUDA_VISIBLE_DEVICES"] = environ["CUDA_VISIBLE_DEVICES"]


def reaching(environ: Mapping[str, str], container: bool) -> dict[str, str]:
    """Environment variables that reach a measurement.

    container: a container gets only those with the prefixes APPTAINERENV_ and SINGULARITYENV_.
    """
    if not container:
        return dict(environ)
    return {
        name.removeprefix(prefix): value
        for prefix in INTO_CONTAINER
        for name, value in environ.items()
        if name.startswith(prefix)
    }


def thread_limits(threads: int, reaching: Mapping[str, str] | None = None) -> str:
    """The command that sets the CPU threads of the command after it.

    threads: as configured; 0 keeps the user's limits. reaching: the user's variables that reach the measurement.
    Snakemake's own limits are removed in any case.
    """
    limits = {name: str(threads) if threads else (reaching or {}).get(name) for name in THREAD_LIMITS}
    unset = [word for name, value in limits.items() if value is None for word in ("-u", name)]
    return shlex.join(["env", *unset, *(f"{name}={value}" for name, value in limits.items() if value is not None)])


def start_command(ours: Sequence[str], users: str) -> str:
    """The shell command that starts a container, up to the image.

    ours: see `start_arguments`. users: the words of --apptainer-args, for the shell of the node that runs the job.
    Raises ImageError if no program is installed that starts containers.
    """
    return f'{runtime()} exec --home "$PWD" {shlex.join(ours)} {users}'.rstrip()


def look_inside(image: Path, python: str, arguments: Sequence[str], where: str, run: str) -> Mapping[str, Any]:
    """Start `image` as a measurement does, and return the versions of python, torch, cuda and cudnn in it.

    where: the image as configured, and run: runs.<name>, for messages. Raises ImageError if it does not start, or if
    its torch is missing, broken or not the image's own.
    """
    command = [runtime(), "exec", "--home", os.getcwd(), *arguments, os.fspath(image), python, "-c", LOOK]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=START_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"{where} did not import torch within {START_LIMIT_S} s: look at the file system") from error
    print(without_secrets(done.stdout + done.stderr), file=sys.stderr, flush=True)
    answers = [line for line in done.stdout.split("\n") if line.startswith(MARK)]
    if not answers:
        raise ImageError(_why_not(done.stderr, where, python, run))
    report = json.loads(answers[-1].removeprefix(MARK))
    if _version(report["python"]) < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        raise ImageError(
            f"{where}: {python} in it is Python {report['python']}, and measuring needs {needed} or later: "
            f"name a newer Python of the image in {run}.python, or choose another image"
        )
    if len(answers) == 1:
        ended = f"status {done.returncode}, {last_words(_lines(done.stderr))}"
        raise ImageError(f"{where}: the import of its torch ended Python ({ended}): rebuild it")
    if report["error"]:
        missing = "No module named 'torch'" in report["error"]
        remedy = f"install torch in it, or name the Python that has it in {run}.python" if missing else "rebuild it"
        fact = f"{python} in it has no torch" if missing else f"its torch cannot be imported ({report['error']})"
        raise ImageError(f"{where}: {fact}: {remedy}")
    if report["foreign"]:
        raise ImageError(
            f"{where}: its torch is not the image's own but {report['foreign']} of this machine: "
            "bind no Python environment into the container (APPTAINER_BIND)"
        )
    return {key: report[key] for key in ("python", "torch", "cuda", "cudnn")}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _lines(output: str) -> list[str]:
    return [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines() if line.strip()]


def _why_not(output: str, where: str, python: str, run: str) -> str:
    lines = _lines(output)
    last = last_words(lines)
    for pattern, fact, remedy in START_FAILURES:
        if re.search(pattern, "\n".join(lines), re.IGNORECASE):
            return f"{where} does not start: {fact.format(python=python)} ({last}): {remedy.format(run=run)}"
    return f"{where} does not start ({last}): try it by hand: {runtime()} exec IMAGE {python} -c 'import torch'"
