"""One rank as torch's elastic launcher starts it: runs the child process, and writes down whether it ended by itself.

A rank that fails makes the others fail or be ended; which one was first is told by these files. Of the standard library
alone: it has to outlive whatever the child does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from workloads.harness import guard

CASE = ".case.json"  # in the output folder: the case, one line
END = ".end.json"  # in the rank's folder: exit status of its child, and when


def folder_of(output: Path, rank: int) -> Path:
    """The folder of a rank's traces and measurement."""
    return output / f"rank-{rank}"


def main(arguments: list[str]) -> int:
    """Run the child of this rank and return 0 if it returned 0, else 1.

    arguments: device, output folder of the job, cache folder or empty, and the identities of the GPUs with commas or
    empty. Of the rank tell RANK and LOCAL_RANK, which the launcher sets.
    """
    asked, output, cache, gpus = arguments
    folder = folder_of(Path(output), int(os.environ["RANK"]))
    own = dict(enumerate(filter(None, gpus.split(",")))).get(int(os.environ["LOCAL_RANK"]), "")
    guard.die_with_parent(signal.SIGKILL, os.getppid())
    command = [sys.executable, "-m", "workloads.harness.child", asked, str(folder), cache, own]
    stopped = False
    with (Path(output) / CASE).open("rb") as case:
        child = subprocess.Popen(command, stdin=case)

    def stop(*_: object) -> None:
        # The launcher ends this rank since another one failed. A child that crashed may still be busy leaving: the
        # kill does not change its exit status.
        nonlocal stopped
        stopped = True
        child.kill()

    signal.signal(signal.SIGTERM, stop)
    status = child.wait()
    if not (stopped and status in (-signal.SIGKILL, -signal.SIGTERM)):
        (folder / END).write_text(json.dumps({"status": status, "at": time.monotonic()}), encoding="utf-8")
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
