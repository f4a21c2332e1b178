"""Read a job of many ranks with large traces: seconds, CPU time, memory of all processes, and the size of the page.

The traces of a pair of ranks are repeated until each has so many MB, and rank N gets the trace of rank N modulo 2. The
job lies in a temporary folder, which is deleted: 64 ranks of 100 MB take about 0.6 GB there. Memory is the proportional
set size of the command and its workers together, asked twice a second.

Examples:
  python benchmarks/ranks.py
  python benchmarks/ranks.py --ranks 8 --megabytes 20 --commands summarize
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAIR = ROOT / "resources/recorded/h200-x2-torch2.11/ddp-step/1"
IDS = ("correlation", "External id", "Record function id", "Ev Idx")
POLL_S = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=100, help="of JSON for each rank")
    parser.add_argument("--pair", type=Path, default=PAIR, help="folder with rank-0/trace.json.gz and rank-1/...")
    parser.add_argument("--commands", nargs="+", default=["summarize", "report"], choices=["summarize", "report"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelbook-ranks-") as scratch:
        job = Path(scratch) / "job"
        size = write_job(job, args.ranks, args.megabytes * 10**6, args.pair)
        packed = sum(file.stat().st_size for file in job.iterdir())
        print(f"{args.ranks} ranks of {size / 1e6:.0f} MB, {packed / 1e6:.0f} MB packed, {os.cpu_count()} cores")
        for command in args.commands:
            output = Path(scratch) / "report"
            more = ["-o", str(output)] if command == "report" else []
            measured = run([sys.executable, "-m", "kernelbook", command, str(job), *more])
            page = f", page {(output / 'index.html').stat().st_size / 1e6:.2f} MB" if more else ""
            print(f"{command}: {measured}{page}", flush=True)
    return 0


def write_job(folder: Path, ranks: int, size: int, pair: Path) -> int:
    """Write the job, and return the size of the JSON of its first rank. size: the least in bytes."""
    folder.mkdir()
    files = [pair / f"rank-{rank}" / "trace.json.gz" for rank in (0, 1)]
    traces = [json.loads(gzip.decompress(file.read_bytes())) for file in files]
    events = [[event for event in trace.pop("traceEvents") if event.get("ph") == "X"] for trace in traces]
    length = max(max(e["ts"] + e["dur"] for e in own) - min(e["ts"] for e in own) for own in events) + 1000
    bodies, sizes = [], []
    for trace, own in zip(traces, events, strict=True):
        body = ",\n".join(repeated(own, size, ranks, length))
        trace.pop("traceName", None)
        sizes.append(len(body))
        bodies.append((trace, gzip.compress(f"{body}\n]}}\n".encode(), 1)))
    everyone = list(range(ranks))
    for rank in everyone:
        head, body_packed = bodies[rank % 2]
        groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": ranks, "ranks": everyone}]
        job = {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_config": groups}
        start = json.dumps(head | {"distributedInfo": job})[:-1] + ', "traceEvents": [\n'
        packed = gzip.compress(start.encode(), 1) + body_packed
        (folder / f"job_rank{rank}.json.gz").write_bytes(packed)
    return sizes[0]


def repeated(events: list[dict[str, Any]], size: int, ranks: int, length: float) -> Iterator[str]:
    """The events as text, one after the other, until there are `size` bytes; each time `length` µs later."""
    most = 1 + max(int(event.get("args", {}).get(name, 0)) for event in events for name in IDS)
    written = turn = 0
    while written < size:
        for event in events:
            args = event.get("args", {})
            moved = {name: args[name] + turn * most for name in IDS if isinstance(args.get(name), int)}
            if "Group size" in args:
                moved |= {"Group size": ranks, "Process Group Ranks": f"[0, 1, ..., {ranks - 1}]"}
            text = json.dumps(event | {"ts": round(event["ts"] + turn * length, 3), "args": args | moved})
            written += len(text) + 2
            yield text
        turn += 1


def run(command: list[str]) -> str:
    """Run a command; the wall and CPU seconds and the most memory of it and its children, in words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, most = time.monotonic(), 0
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    with tempfile.TemporaryFile("w+") as printed:
        with subprocess.Popen(command, env=environment, stdout=printed) as process:
            while process.poll() is None:
                most = max(most, sum(map(proportional_kb, tree(process.pid))))
                time.sleep(POLL_S)
        printed.seek(0)
        first = printed.readline().strip()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall = time.monotonic() - began
    return f"exit {process.returncode}, {wall:.0f} s, CPU {cpu:.0f} s, memory {most / 1024:.0f} MB; {first}"


def tree(pid: int) -> Iterator[int]:
    """The process and all below it."""
    yield pid
    try:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from tree(int(child))
    except OSError:
        return


def proportional_kb(pid: int) -> int:
    """Memory of a process in kB, of which shared pages count in part; 0 for one that has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
