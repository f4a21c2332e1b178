"""Find out whether a run can be measured here, and write what is known about it to run.json.

Example: python scripts/probe_run.py --run-spec '{"run": "host", "kind": "host", "where": ""}' --output run.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.containers.probe import probe
from kernelbook.text.credentials import passwords_in, without_secrets


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-spec", type=json.loads, required=True, help="run, kind, where and description, as JSON")
    parser.add_argument("--output", type=Path, required=True, help="run.json to write")
    args = parser.parse_args(argv)
    status = probe(args.run_spec, Path.cwd())
    args.output.parent.mkdir(parents=True, exist_ok=True)
    text = without_secrets(json.dumps(status, indent=1, sort_keys=True), passwords_in(args.run_spec.get("where") or ""))
    args.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
