"""Minimal traces, made event by event."""

import json
import os
from pathlib import Path

from kernelbook.trace import read_trace

_IN_MEMORY = Path(f"/proc/self/fd/{os.memfd_create('made.json')}")


def row(category, name, ts, dur, tid=1, pid=100, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def op(name, ts, dur, **more):
    return row("cpu_op", name, ts, dur, **more)


def annotation(name, ts, dur, **more):
    return row("user_annotation", name, ts, dur, **more)


def launch(correlation, ts, dur=2, name="cudaLaunchKernel", category="cuda_runtime", **more):
    return row(category, name, ts, dur, correlation=correlation, **more)


def activity(category, name, ts, dur, correlation, device=0, stream=7, **args):
    args |= {"device": device, "stream": stream} | ({} if correlation is None else {"correlation": correlation})
    return row(category, name, ts, dur, tid=stream, pid=device, **args)


def kernel(name, ts, dur, correlation, **more):
    return activity("kernel", name, ts, dur, correlation, **more)


def memcpy(ts, dur, correlation, **more):
    return activity("gpu_memcpy", "Memcpy DtoD (Device -> Device)", ts, dur, correlation, bytes=64, **more)


def memset(ts, dur, correlation, **more):
    return activity("gpu_memset", "Memset (Device)", ts, dur, correlation, bytes=64, **more)


def forward(start=1000.0, first=1):
    """An annotated step with two ops that launch a kernel each, and a memset; times in µs from `start`."""
    return [
        annotation("step", start, 100),
        op("aten::linear", start + 5, 40),
        op("aten::addmm", start + 10, 30),
        launch(first, start + 12, 3, "cudaMemsetAsync"),
        launch(first + 1, start + 20, 5),
        op("aten::relu", start + 60, 20),
        launch(first + 2, start + 62, 6),
        memset(start + 30, 1, first),
        kernel("gemm", start + 32, 20, first + 1),
        kernel("relu", start + 70, 10, first + 2),
    ]


def document(events, **head):
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Made GPU"}]} | head | {"traceEvents": events}


def write(path, events, **head):
    path.write_text(json.dumps(document(events, **head)), encoding="utf-8")
    return path


def in_a_file(use, data):
    """Call with the path of a file that holds the data; on a disk, thousands of them would take most of the time."""
    _IN_MEMORY.write_bytes(data)
    return use(_IN_MEMORY)


def read_in_memory(events):
    """The reading of these events."""
    return in_a_file(read_trace, json.dumps(document(events)).encode())


def kineto(events, **head):
    """The text as torch writes it: one key a line for the head, an event over several lines."""
    spelled = ",\n".join("  " + json.dumps(event, indent=2).replace("\n", "\n  ") for event in events)
    lines = "".join(
        f'  "{key}": {json.dumps(value)},\n' for key, value in (document([]) | head).items() if key != "traceEvents"
    )
    return "{\n" + lines + '  "traceEvents": [\n' + spelled + '\n  ],\n  "traceName": "made.json"\n}\n'


def warned(reading):
    return {warning.code: warning.count for warning in reading.warnings}


def facts(reading):
    """All that a reading says of a trace, for comparing two readings."""
    tables = {name: getattr(reading, name).to_pylist() for name in ("ranges", "kernels", "ops", "activities")}
    return tables | {"totals": vars(reading.totals), "truncated": reading.truncated, "warnings": warned(reading)}
