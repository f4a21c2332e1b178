"""Print what the image of each container run holds and how to pin it; exit status 1 if one cannot be used.

Example: python scripts/pull_images.py results/latest/*/run.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelbook.command import run
from kernelbook.containers.images import with_digest


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN_JSON", help="run.json of the container runs")
    args = parser.parse_args(argv)
    statuses = [json.loads(file.read_text(encoding="utf-8")) for file in args.runs]
    if not statuses:
        print("no run of the configuration names a container")
    for status in statuses:
        print(f"{status['run']}: {status['where']}")
        for line in _lines_about(status):
            print(f"  {line}")
    return int(any(status["status"] == "lost" for status in statuses))


def _lines_about(status: Mapping[str, Any]) -> Iterator[str]:
    if status["status"] == "lost":
        yield f"lost: {status['reason']}"
        return
    cuda = f"CUDA {status['cuda']}, cuDNN {status['cudnn']}" if status["cuda"] else "no CUDA"
    yield f"torch {status['torch']}, {cuda}, Python {status['python']}"
    yield f"{status['image_name']}, {status['file_digest'] or 'a folder, which has no digest'}"
    if status["registry_digest"]:
        yield f"to pin it: container: {with_digest(status['where'], status['registry_digest'])}"


if __name__ == "__main__":
    sys.exit(run(main))
