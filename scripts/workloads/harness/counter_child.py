"""The process that Nsight Compute profiles: replays one forward of a case, with its seeds, parameters and warm-up."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import torch

from workloads.harness import building, environment


def main(arguments: list[str]) -> int:
    """Run the case in the file; only the last forward is between cudaProfilerStart and Stop."""
    case = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    device = environment.choose_device("cuda")
    # as many calls as before the first profiled forward of the measurement, without the timed ones
    calls = case["warmup"] + case["schedule"]["wait"] + case["schedule"]["warmup"]
    with torch.no_grad():
        workload = building.build(case, case["params"], device)
        with torch.set_grad_enabled(workload.grad), workload.pinned or contextlib.nullcontext():
            forward = building.in_mode(case, workload, device)
            for _ in range(calls):
                forward(*workload.inputs)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            forward(*workload.inputs)
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
    sys.stdout.flush()
    # An orderly exit can hang in a workload's own threads; ncu has all that matters.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
