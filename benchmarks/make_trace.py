"""Record a trace of a training loop: small transformer blocks, with_stack, record_shapes and profile_memory.

Runs on the GPU where torch sees one, else on the CPU. The trace has at least --megabytes MB of JSON: the loop records
what one profile can hold well, and that recording is repeated, shifted in time, to the size asked for.

Example:
  python benchmarks/make_trace.py --megabytes 100 .cache/bench/trace-100.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from repeating import repeat
from torch.profiler import ProfilerActivity, profile, record_function

_STEPS = 10
_MOST_RECORDED_MB = 120  # a longer profile would need more memory than it is worth


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.before_mlp = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.before_attention(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


class Training:
    """A model, its optimizer and one batch; `step` is one annotated training step."""

    def __init__(self, device: torch.device, width: int = 32) -> None:
        torch.manual_seed(0)
        blocks = [Block(width) for _ in range(8)]
        self.model = torch.nn.Sequential(*blocks, torch.nn.Linear(width, 10)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=False)
        self.x = torch.randn(4, 8, width, device=device)
        self.y = torch.randint(0, 10, (32,), device=device)

    def step(self) -> None:
        with record_function("forward"):
            out = self.model(self.x)
            loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), self.y)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()


def record(path: Path, steps: int, device: torch.device) -> None:
    """Profile `steps` training steps into `path`."""
    torch.set_num_threads(1)
    training = Training(device)
    for _ in range(3):
        training.step()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    with profile(activities=activities, with_stack=True, record_shapes=True, profile_memory=True) as profiler:
        # HTA reads a trace only when it says which rank it is of.
        profiler.add_metadata_json("distributedInfo", json.dumps({"backend": "gloo", "rank": 0, "world_size": 1}))
        for _ in range(steps):
            training.step()
            profiler.step()
    profiler.export_chrome_trace(str(path))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the trace to write (plain JSON)")
    parser.add_argument("--megabytes", type=int, default=100, help="least size of the JSON (default: 100)")
    args = parser.parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.path.parent.mkdir(parents=True, exist_ok=True)
    part = args.path.with_suffix(".part")
    record(part, _STEPS, device)
    wanted = min(args.megabytes, _MOST_RECORDED_MB) * 10**6
    if (size := part.stat().st_size) < wanted:
        record(part, -(-_STEPS * wanted * 11 // (size * 10)), device)
    if part.stat().st_size < args.megabytes * 10**6:
        repeat(part, args.path, args.megabytes)
        part.unlink()
    else:
        part.replace(args.path)
    print(f"{args.path}: {args.path.stat().st_size / 1e6:.0f} MB, {device.type}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
