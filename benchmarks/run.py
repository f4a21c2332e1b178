"""Compare the trace engine with its peers, side by side: seconds, peak memory, ratios.

Makes what it needs first: .venv-bench/ with the peers of benchmarks/requirements.txt, and traces of a training loop in
.cache/bench/. Each measurement is a process of its own; the readers take turns, and the fastest of --rounds is shown.
Ratios are those of CPU time, which other work on the machine disturbs least.

Examples:
  python benchmarks/run.py
  python benchmarks/run.py --megabytes 100 300 1000 --gzip
  python benchmarks/run.py --trace my_trace.json.gz --readers kernelbook HTA
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
BENCH_ENVIRONMENT = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
GZIP_READERS = ("kernelbook", "HTA", "isal + simdjson")
PLAIN_READERS = ("kernelbook", "HTA", "json.load", "orjson", "simdjson")
READERS = tuple(dict.fromkeys((*PLAIN_READERS, *GZIP_READERS)))
_HEADINGS = (
    "reader", "seconds", "CPU seconds", "with start and imports",
    "peak MB", "peak / JSON", "CPU time / ours", "peak / ours",
)  # fmt: skip
_LARGE_MB = 400  # above it the other readers would need more memory than most machines have


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu_seconds: float
    process_seconds: float
    peak_mb: float


def bench_python() -> Path:
    """The Python that has the peers, made on the first call. Where they cannot be installed, it has none."""
    python = BENCH_ENVIRONMENT / "bin" / "python"
    done = BENCH_ENVIRONMENT / ".done"
    if not done.exists() or done.read_text() != REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", str(BENCH_ENVIRONMENT)], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS]
        if subprocess.run(install).returncode:
            print(f"the peers of {REQUIREMENTS.name} cannot be installed: their rows are n/a", file=sys.stderr)
            return python
        done.write_text(REQUIREMENTS.read_text())
    return python


def made_trace(megabytes: int) -> Path:
    """A trace of that size, made once."""
    path = CACHE / f"training-{megabytes}.json"
    if not path.exists():
        maker = Path(__file__).with_name("make_trace.py")
        subprocess.run(
            [sys.executable, maker, "--megabytes", str(megabytes), path], check=True, stderr=subprocess.DEVNULL
        )
    return path


def zipped(path: Path) -> Path:
    """The same trace as a gzip file, made once."""
    target = path.with_name(path.name + ".gz")
    if not target.exists():
        with path.open("rb") as plain, gzip.open(target, "wb", compresslevel=6) as stream:
            shutil.copyfileobj(plain, stream)
    return target


def measure(reader: str, path: Path) -> Result | None:
    """One measurement; None if the reader failed."""
    python = sys.executable if reader == "kernelbook" else bench_python()
    script = Path(__file__).with_name("measure.py")
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [python, script, reader, path, str(time.time())], capture_output=True, text=True, env=os.environ | one_core
    )
    if found.returncode:
        print(f"{reader} failed: {found.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return Result(**json.loads(found.stdout.splitlines()[-1]))


def json_size(path: Path) -> int:
    """Bytes of JSON, unpacked where the file is a gzip file."""
    with path.open("rb") as stream:
        if stream.read(2) != b"\x1f\x8b":
            return path.stat().st_size
    with gzip.open(path, "rb") as stream:
        return sum(len(block) for block in iter(lambda: stream.read(1 << 20), b""))


def compare(path: Path, readers: Sequence[str], rounds: int) -> dict[str, Result | None]:
    """The fastest run of each reader; its peak is the largest of its runs."""
    found: dict[str, list[Result]] = {reader: [] for reader in readers}
    for _ in range(rounds):
        for reader in readers:
            result = measure(reader, path)
            if result is not None:
                found[reader].append(result)
    return {
        reader: Result(
            min(result.seconds for result in results),
            min(result.cpu_seconds for result in results),
            min(result.process_seconds for result in results),
            max(result.peak_mb for result in results),
        )
        if results
        else None
        for reader, results in found.items()
    }


def show(path: Path, results: dict[str, Result | None]) -> None:
    """Print a table in Markdown; ratios are the peer's figure over ours."""
    size = json_size(path) / 1e6
    ours = results.get("kernelbook")
    print(f"\n{path.name}: {size:,.0f} MB of JSON\n")
    print("| " + " | ".join(_HEADINGS) + " |")
    print("| ---" + " | ---:" * (len(_HEADINGS) - 1) + " |")
    for reader, result in results.items():
        if result is None:
            print(f"| {reader}" + " | n/a" * (len(_HEADINGS) - 1) + " |")
            continue
        ratios = ("n/a", "n/a")
        if ours is not None:
            ratios = (f"{result.cpu_seconds / ours.cpu_seconds:.1f}", f"{result.peak_mb / ours.peak_mb:.1f}")
        times = (f"{seconds:.2f}" for seconds in (result.seconds, result.cpu_seconds, result.process_seconds))
        memory = (f"{result.peak_mb:,.0f}", f"{result.peak_mb / size:.2f}")
        print("| " + " | ".join((reader, *times, *memory, *ratios)) + " |")


def machine() -> str:
    """CPU, cores and Python, for the record."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return (
        f"{cpu}, {os.cpu_count()} cores (each reader on one), {platform.system()}, Python {platform.python_version()}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100, 300, 1000], help="sizes of the made traces")
    parser.add_argument("--trace", type=Path, nargs="+", help="measure these traces instead of made ones")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--gzip", action="store_true", help="the same traces as .gz too")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each reader (default: 3)")
    args = parser.parse_args(argv)
    print(machine())
    traces = [path.resolve() for path in args.trace or ()] or [made_trace(size) for size in args.megabytes]
    for path in traces:
        large = path.stat().st_size > _LARGE_MB * 1e6
        zip_only = [reader for reader in args.readers if reader in GZIP_READERS]
        plain = [reader for reader in args.readers if reader in (("kernelbook",) if large else PLAIN_READERS)]
        show(path, compare(path, zip_only if path.suffix == ".gz" else plain, args.rounds))
        if args.gzip and not large and path.suffix != ".gz":
            show(zipped(path), compare(zipped(path), zip_only, args.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
