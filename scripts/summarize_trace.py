"""`kernelbook summarize`, from a checkout in which nothing is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernelbook.cli import run_command
from kernelbook.command import run


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    return run_command("summarize", words, prog="python scripts/summarize_trace.py")


if __name__ == "__main__":
    sys.exit(run(main))
