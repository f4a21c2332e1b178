"""What a year of nights costs: seconds and CPU seconds of each command, and the files that publishing writes.

Makes the history in a temporary folder (a night is every case on every run, five processes each). The commands are
processes of their own, so their figures include Python's start and imports.

Examples:
  python benchmarks/nights.py
  python benchmarks/nights.py --nights 365 --cases 40 --runs 8
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from tests.nights.made_nights import editions, fill  # noqa: E402  # found by the path above


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds and CPU seconds of a call, with those of its child processes."""
    start, cpu_start = time.perf_counter(), sum(os.times()[:4])
    act()
    return time.perf_counter() - start, sum(os.times()[:4]) - cpu_start


def files_written(site: Path) -> int:
    """Files of the published version that are not links to the version before."""
    return sum(path.is_file() and path.stat().st_nlink == 1 for path in site.resolve().rglob("*"))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--runs", type=int, default=8, help="such as versions of torch")
    args = parser.parse_args(argv)
    runs = [f"run-{number}" for number in range(args.runs)]
    cases = [f"case-{number}" for number in range(args.cases)]
    *year, tonight = editions(args.nights + 1)

    with tempfile.TemporaryDirectory() as name:
        history, site = Path(name) / "history", Path(name) / "site"

        def command(script: str, *arguments: str) -> None:
            words = [sys.executable, ROOT / "scripts" / script, "--history", history, *arguments]
            subprocess.run(words, cwd=name, check=True, stdout=subprocess.DEVNULL)

        def judge() -> None:
            command("detect_changes.py")

        def publish() -> None:
            command("publish_site.py", "--publish", json.dumps({"folder": str(site)}))

        fill(history, year, runs, cases)
        print("| step | seconds | CPU seconds | files written |\n| --- | ---: | ---: | ---: |")
        steps: tuple[tuple[str, Callable[[], object]], ...] = (
            ("judge the last night", judge),
            ("publish all nights", publish),
            ("publish again", publish),
            ("record one more night", lambda: fill(history, [tonight], runs, cases)),
            ("judge it", judge),
            ("publish it", publish),
        )
        for step, act in steps:
            seconds, cpu_seconds = timed(act)
            written = files_written(site) if act is publish else ""
            print(f"| {step} | {seconds:.1f} | {cpu_seconds:.1f} | {written} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
