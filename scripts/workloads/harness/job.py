"""The job that this process is a rank of: its process group, and the points where all ranks wait for each other."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch

from workloads import Unsupported

PATIENCE_S = 60.0  # beyond the case's own time limit, which ends all ranks first


@dataclass
class JobRank:
    """One of `world_size` ranks; `store` is None in a process that belongs to no job."""

    rank: int = 0
    world_size: int = 1
    store: Any = None
    _meetings: int = field(default=0, repr=False)

    def meet(self) -> None:
        """Wait until every rank has called this as often.

        Uses torch's key-value store, since a barrier of NCCL or gloo would be in the trace.
        """
        if self.store is None:
            return
        self._meetings += 1
        key = f"meeting-{self._meetings}"
        if self.store.add(key, 1) == self.world_size:
            self.store.set(f"{key}-complete", b"1")
        self.store.wait([f"{key}-complete"])


def device_of_rank(device: torch.device) -> torch.device:
    """The GPU of this rank: number LOCAL_RANK of those that torch sees. All ranks share a CPU.

    Raises Unsupported if there are fewer GPUs than ranks.
    """
    if device.type != "cuda":
        return device
    ranks, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if gpus < ranks:
        seen = f"torch sees {gpus} GPU{'s' if gpus != 1 else ''} of one model here"
        raise Unsupported(
            f"the case has {ranks} ranks and {seen}: measure it where there are {ranks}, or lower `ranks`"
        )
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def join(device: torch.device, timeout_s: float) -> JobRank:
    """Make the default process group, NCCL on GPUs and gloo on a CPU, from the variables that the launcher sets.

    timeout_s: time limit of the case. Collectives wait longer than that, so that the limit ends all ranks.
    Raises Unsupported for a torch without torch.distributed.
    """
    from torch import distributed

    if not distributed.is_available():
        raise Unsupported("this torch is built without torch.distributed: use another build, or leave this case out")
    timeout = timedelta(seconds=timeout_s + PATIENCE_S)
    store, rank, world_size = next(distributed.rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=distributed.PrefixStore("ranks", store),
        rank=rank,
        world_size=world_size,
        timeout=timeout,
    )
    own = distributed.PrefixStore("kernelbook", store)
    own.set_timeout(timeout)
    return JobRank(rank, world_size, own)
