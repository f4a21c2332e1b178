"""One measurement in a process of its own: what one reader does with one trace. Prints one JSON object.

seconds, cpu_seconds: from the file to the result, after imports. process_seconds: with Python's start and all imports.
peak_mb: the most memory that the process ever held.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def kernelbook() -> Callable[[str], object]:
    """Load, all tables, kernel breakdown, launch statistics (the delay of every activity), figures per annotation."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import pyarrow  # noqa: F401 (loaded with the first table otherwise, which would count as reading)

    from kernelbook.summarize.summary import summarize
    from kernelbook.trace import read_trace

    def work(path: str) -> object:
        reading = read_trace(path)
        return reading.activities, summarize(reading)

    return work


def hta() -> Callable[[str], object]:
    """Load, kernel breakdown, launch statistics."""
    logging.disable(logging.CRITICAL)
    from hta.trace_analysis import TraceAnalysis

    def work(path: str) -> object:
        analysis = TraceAnalysis(trace_files={0: path})
        found = []
        for each in (analysis.get_gpu_kernel_breakdown, analysis.get_cuda_kernel_launch_stats):
            try:
                found.append(each(visualize=False))
            except (ValueError, KeyError, TypeError, IndexError, AttributeError):
                found.append(None)  # HTA has no answer if there is no GPU work; what it did until then counts
        return analysis, found

    return work


def json_load() -> Callable[[str], object]:
    def work(path: str) -> object:
        with open(path, "rb") as stream:
            return json.load(stream)

    return work


def orjson() -> Callable[[str], object]:
    import orjson

    return lambda path: orjson.loads(Path(path).read_bytes())


def simdjson() -> Callable[[str], object]:
    """Parse alone: no Python object is made of the content."""
    import simdjson

    parser = simdjson.Parser()
    return lambda path: parser.parse(Path(path).read_bytes())


def isal_simdjson() -> Callable[[str], object]:
    """Decompress with isal, then parse as `simdjson`: the least that a reader of gzip files has to do."""
    import simdjson
    from isal import igzip

    parser = simdjson.Parser()
    return lambda path: parser.parse(igzip.decompress(Path(path).read_bytes()))


READERS = {
    "kernelbook": kernelbook,
    "HTA": hta,
    "json.load": json_load,
    "orjson": orjson,
    "simdjson": simdjson,
    "isal + simdjson": isal_simdjson,
}


def peak_mb() -> float:
    """The kernel's high-water mark of this process alone; ru_maxrss also remembers the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(reader: str, path: str, began: str) -> int:
    work = READERS[reader]()
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work(path)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    assert result is not None
    found = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "process_seconds": time.time() - float(began),
        "peak_mb": peak_mb(),
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
