"""Ranks of a job of our own making: collectives as torch and NCCL record them, and the reading of the files."""

from kernelbook.collectives.rank import rank_trace
from kernelbook.collectives.remarks import report_job
from kernelbook.trace import read_trace
from tests.trace.made_trace import annotation, kernel, launch, op, write

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def message(name, elements, ranks, out=None, group="0", dtype="BFloat16", **more):
    """The arguments that torch adds to the kernel of a collective."""
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements if out is None else out,
        "dtype": dtype,
        "Group size": len(ranks),
        "Process Group Name": group,
        "Process Group Ranks": str(list(ranks)),
        **more,
    }


def collective(launched, start, dur, correlation, args=None, name=ALL_REDUCE, stream=20, device=0):
    """A communication kernel and its launch."""
    return [
        launch(correlation, launched, 2),
        kernel(name, start, dur, correlation, stream=stream, device=device, **(args or {})),
    ]


def compute(launched, start, dur, correlation, name="gemm", device=0):
    return [
        op("aten::mm", launched - 1, 5),
        launch(correlation, launched, 2),
        kernel(name, start, dur, correlation, device=device),
    ]


def write_rank(folder, rank, events, size, file=None, **head):
    """One file of a job, as torch names and heads it."""
    job = {"backend": "nccl", "rank": rank, "world_size": size}
    job |= {"pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": size, "ranks": list(range(size))}]}
    return write(folder / (file or f"job_rank{rank}.json"), events, distributedInfo=job, **head)


def read(files):
    """The report of these files, {rank: path}."""
    return report_job([rank_trace(read_trace(file), rank) for rank, file in files.items()])


def late_pair(shift=0.0, busy=False):
    """(events of rank 0, events of rank 1): three steps with one all-reduce of 1 MiB of bf16 each.

    By hand: rank 0 enters at 300, rank 1 at 500, both leave at 600: rank 0 waits 200, the transfer takes 100.
    Rank 1 launches its all-reduce at 490 of the step: its CPU is late for 190 of the 200. busy: it launches at 60 and
    computes until 500 instead. shift: of the clock of rank 1.
    """
    rank0, rank1 = [], []
    args = message("allreduce", 2**19, (0, 1))
    for step in range(3):
        base = 1000.0 * (step + 1)
        rank0 += [annotation("train_step", base, 700)]
        rank0 += compute(base + 10, base + 20, 100, 10 * step + 1)
        rank0 += collective(base + 50, base + 300, 300, 10 * step + 2, args)
        own = base + shift
        rank1 += [annotation("train_step", own, 700)]
        if busy:
            rank1 += compute(own + 10, own + 20, 480, 10 * step + 1)
            rank1 += collective(own + 60, own + 500, 100, 10 * step + 2, args)
        else:
            rank1 += compute(own + 10, own + 20, 100, 10 * step + 1)
            rank1 += collective(own + 490, own + 500, 100, 10 * step + 2, args)
    return rank0, rank1


def folder_of_pair(folder):
    """A new folder with the two files of `late_pair`."""
    folder.mkdir()
    for rank, events in enumerate(late_pair()):
        write_rank(folder, rank, events, 2)
    return folder
