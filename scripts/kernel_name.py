"""`kernelbook name`, from a checkout in which nothing is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernelbook.cli import run_command
from kernelbook.command import run


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    return run_command("name", words, prog="python scripts/kernel_name.py")


if __name__ == "__main__":
    sys.exit(run(main))
