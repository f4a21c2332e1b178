"""Starts the ranks of a case, one process for each GPU, with torch's elastic launcher, as `torchrun` does.

It imports torch while the supervisor inspects the GPUs, and starts no rank before that is done. When one rank fails,
torch ends the others.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from workloads.harness import rank, startup

HERE = "127.0.0.1"  # all ranks are on this machine, which may not be able to resolve its own name


def main(arguments: list[str]) -> int:
    """Run the ranks to their end; returns 1 if one of them failed.

    arguments: number of ranks, then the arguments of `rank`. The case is one line of JSON on stdin.
    """
    ranks, *places = arguments
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # the ranks are asked where they hang, not this process
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does: the ranks share the cores
    (Path(places[1]) / rank.CASE).write_text(sys.stdin.readline(), encoding="utf-8")
    with startup.without_collection():
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    sys.stdin.read()  # until the supervisor, which looks at the GPUs, lets the ranks use them
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(ranks),
        run_id=f"kernelbook-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint=f"{HERE}:0",  # any free port
        local_addr=HERE,
        max_restarts=0,
        monitor_interval=0.1,
    )
    command = [sys.executable, "-m", "workloads.harness.rank", *places]
    try:
        elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError:  # the ranks' own records hold the reasons
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
