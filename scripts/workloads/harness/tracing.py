"""torch.profiler around a few forwards: the trace as a file, and torch's own averages as rows."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from workloads.harness.files import write_gzip

Step = Callable[[], Any]


class ProfilerRefused(RuntimeError):  # noqa: N818
    """The profiler ran, but its trace holds no device activities."""


@contextlib.contextmanager
def _no_inductor_import() -> Iterator[None]:
    """Keep the profiler from importing torch._inductor (about a second) if nothing is compiled.

    torch.profiler asks `hasattr(torch, "_inductor")`, which torch answers by importing it; in this context the answer
    is no, unless it was imported before.
    """
    lazy = getattr(torch, "_lazy_modules", None)
    if not isinstance(lazy, set) or "_inductor" not in lazy:
        yield
        return
    lazy.discard("_inductor")
    try:
        yield
    finally:
        lazy.add("_inductor")


def profile_forwards(
    step: Step,
    annotation: str,
    plan: dict[str, int],
    device: torch.device,
    target: Path,
    scrub: Callable[[str], str],
    record_shapes: bool = False,
    before_window: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Profile `plan` = {wait, warmup, active} forwards, each in a `record_function(annotation)`; write a .json.gz.

    before_window: called when the profiler has started to record, before the first forward that is kept; it must leave
    nothing in the trace. Returns `key_averages()` as rows, times in µs.

    Raises ProfilerRefused if the trace of a GPU holds no device activities, OSError if it cannot be written whole.
    """
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    averages: list[dict[str, Any]] = []
    target.unlink(missing_ok=True)

    def ready(profiler: profile) -> None:
        text = _export(profiler, scrub)
        write_gzip(target, text)
        averages.extend(_average_row(row) for row in profiler.key_averages())
        if device.type == "cuda" and not re.search(r'"cat":\s*"(kernel|gpu_memcpy|gpu_memset)"', text):
            raise ProfilerRefused("torch.profiler gave no device activities although the case ran on a GPU")

    with (
        _no_inductor_import(),
        profile(
            activities=activities,
            schedule=schedule(**plan, repeat=1),
            on_trace_ready=ready,
            record_shapes=record_shapes,
        ) as profiler,
    ):
        for number in range(sum(plan.values())):
            if number == plan["wait"] + plan["warmup"]:
                before_window()
            with record_function(annotation):
                step()
            profiler.step()
    return averages


def _export(profiler: profile, scrub: Callable[[str], str]) -> str:
    handle, name = tempfile.mkstemp(suffix=".json", prefix="kernelbook-")
    os.close(handle)
    try:
        profiler.export_chrome_trace(name)
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    finally:
        Path(name).unlink(missing_ok=True)
    # torch writes the name of the machine and of the temporary file.
    text = re.sub(r'^\s*"host_name":.*\n', "", text, flags=re.M)
    text = scrub(text.replace(name, "trace.json"))
    if not text.rstrip().endswith("}"):
        raise OSError(28, "No space left on device: the trace was cut short", tempfile.gettempdir())
    return text


def _average_row(row: Any) -> dict[str, Any]:
    def device_time(name: str) -> float | None:
        # Before torch 2.4 the device was always called cuda.
        return getattr(row, name, getattr(row, name.replace("device", "cuda"), None))

    return {
        "name": row.key,
        "count": row.count,
        "cpu_time_us": round(row.cpu_time_total, 3),
        "self_cpu_time_us": round(row.self_cpu_time_total, 3),
        "device_time_us": device_time("device_time_total"),
        "self_device_time_us": device_time("self_device_time_total"),
    }
