"""One rank as torch's elastic launcher starts it: runs the child process, and records whether it ended by itself.

When one rank fails, the others fail too or are ended; these files show which was first. It imports only the standard
library, since it has to outlive the child.
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

CASE = ".case.json"  # in the output folder: the case, on one line
END = ".end.json"  # in the rank's folder: exit status of its child, and when


def folder_of(output: Path, rank: int) -> Path:
    """The folder of a rank's traces and measurement."""
    return output / f"rank-{rank}"


def main(arguments: list[str]) -> int:
    """Run the child of this rank and return 0 if it returned 0, else 1.

    arguments: device, output folder of the job, cache folder or empty, and the identities of the GPUs with commas or
    empty. The launcher sets RANK and LOCAL_RANK.
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
        # The launcher ends this rank since another one failed. If the child has crashed and is still exiting, the kill
        # does not change its exit status.
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
