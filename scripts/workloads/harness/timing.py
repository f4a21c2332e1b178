"""Forward times without a profiler, the peak of memory, and whether the warm-up was long enough."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[], Any]
LEAD = 3  # untimed forwards queued just before the timed ones, so that the first of these also starts on a busy GPU


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed_call_us(step: Step, device: torch.device) -> float:
    """Wall time of one forward from the call to its last kernel's end, µs."""
    synchronize(device)
    start = time.perf_counter_ns()
    step()
    synchronize(device)
    return (time.perf_counter_ns() - start) / 1e3


def l2_scratch(device: torch.device) -> torch.Tensor | None:
    """A tensor of twice the size of the GPU's L2 cache; None on a CPU."""
    if device.type != "cuda":
        return None
    size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 * 2**20)
    return torch.empty(2 * size, dtype=torch.int8, device=device)


def forward_times_us(
    step: Step, device: torch.device, samples: int, scratch: torch.Tensor | None = None
) -> list[float]:
    """Raw times of `samples` forwards, µs.

    On a GPU: CUDA events around each forward, queued without waiting in between. GPU-bound work is then timed back to
    back, and launch-bound work shows how fast it can be launched. On a CPU: the wall clock.
    scratch: overwritten before each forward, outside the timed span, so that no forward finds its data in the L2 cache.
    """
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return _cuda_times(step, device, samples, scratch) if device.type == "cuda" else _wall_times(step, samples)
    finally:
        if collecting:
            gc.enable()


def _cuda_times(step: Step, device: torch.device, samples: int, scratch: torch.Tensor | None) -> list[float]:
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(samples)]
    synchronize(device)
    for _ in range(LEAD):
        step()
    for start, end in events:
        if scratch is not None:
            scratch.zero_()
        start.record()
        step()
        end.record()
    synchronize(device)
    return [start.elapsed_time(end) * 1e3 for start, end in events]


def _wall_times(step: Step, samples: int) -> list[float]:
    for _ in range(LEAD):
        step()
    times = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        step()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times


def warmup_check(times: list[float]) -> dict[str, Any] | None:
    """Whether forwards get faster or slower: the median of the first fifth against that of the second half.

    None for fewer than 20 times. Medians of 10 and 25 forwards that are more than 10 % apart show a trend: on a quiet
    machine they agree far better.
    """
    if len(times) < 20:
        return None
    first = statistics.median(times[: len(times) // 5])
    rest = statistics.median(times[len(times) // 2 :])
    falling, rising = first > 1.1 * rest, rest > 1.1 * first
    message = None
    if falling:
        message = f"the first forwards took {first / rest:.2f} times as long as the later ones: raise warmup"
    if rising and first:
        message = (
            f"the later forwards took {rest / first:.2f} times as long as the first ones: the forward keeps something "
            "from call to call, or the machine became slower"
        )
    return {
        "first_median_us": first,
        "rest_median_us": rest,
        "still_falling": falling,
        "rising": rising,
        "message": message,
    }


def reset_peak(device: torch.device) -> None:
    """Forget the peak of device memory so far."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device, apart: torch.Tensor | None = None) -> int | None:
    """The highest device memory of torch's tensors since `reset_peak`, in bytes, inputs included; None on a CPU.

    apart: a tensor of the measurement itself, which is subtracted.
    """
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) - (0 if apart is None else apart.numel() * apart.element_size())
