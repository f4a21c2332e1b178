"""Small traces made by hand, for what no recorded trace shows; times in µs, one forward after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "computeMajor": 9,
    "computeMinor": 0,
    "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 233472,
    "numSms": 132,
}


@dataclass
class Trace:
    """A trace under way; ``forward`` adds one annotated step, whose launches run on the device 20 µs later."""

    events: list[dict[str, Any]] = field(default_factory=list)
    clock: float = 0.0
    correlation: int = 100

    def event(self, cat: str, name: str, start: float, length: float, **args: Any) -> None:
        """One complete event of the one CPU thread."""
        shared = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1}
        self.events.append({**shared, "ts": start, "dur": length, "args": args})

    def forward(
        self,
        kernels: Sequence[tuple[str, float]],
        op: str = "aten::mm",
        inside: Sequence[tuple[str, str]] = (),
        device: bool = True,
        **args: Any,
    ) -> None:
        """A forward of one op an activity; ``inside``: further (category, name) calls before the first launch."""
        start = self.clock
        at = start + 5.0
        self.event("user_annotation", "test_fwd", start, 100.0)
        for name, length in kernels:
            self.event("cpu_op", op, at, 30.0)
            for category, call in inside:
                self.event(category, call, at + 1.0, 4.0)
            self.correlation += 1
            self.event("cuda_runtime", "cudaLaunchKernel", at + 10.0, 5.0, correlation=self.correlation)
            if device:
                given = {"stream": 7, "device": 0, "correlation": self.correlation, "block": [128, 1, 1], **args}
                shared = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7}
                self.events.append({**shared, "ts": at + 30.0, "dur": length, "args": given})
            at += 32.0
        self.clock += 200.0

    def write(self, folder: Path, case: str, **measured: Any) -> None:
        """<folder>/<case>/1/{trace.json.gz, measurement.json}; ``measured`` replaces fields of the measurement."""
        target = folder / case / "1"
        target.mkdir(parents=True)
        trace = {"schemaVersion": 1, "deviceProperties": [H200], "traceEvents": self.events}
        (target / "trace.json.gz").write_text(json.dumps(trace))
        about = {"case": case, "workload": "test", "variant": "v", "mode": "eager", "annotation": "test_fwd"}
        given = {
            "schema": 1,
            "case": about | measured.pop("about", {}),
            "status": "ok",
            "params_used": {},
            "device": {"type": "cuda", "name": "NVIDIA H200", "capability": "9.0"},
            "forward_times_us": [100.0, 100.0, 100.0],
            "trace": "trace.json.gz",
        }
        (target / "measurement.json").write_text(json.dumps(given | measured))
