"""Measure A and B in turns and say for each case whether B is slower, faster or not different: make compare A=... B=...

A and B are each one of
  host                     this Python, with its torch
  a Python                 an executable, or the folder of a virtual environment: another version of torch
  an image                 an address (docker://), a .sif or a .def: Python in that container
  file.py:function         a workload of your own
  a commit                 of the repository in this folder, or . for the files as they are: your own code
If a text could mean two things, a prefix says which: python:, image:, workload:, commit:.

Two environments or two commits are compared by the cases of the configuration (--cases chooses some), commits by those
whose workload is a file or module of your own. Two workloads are compared as one case.

A round is one process of A and one of B for each case, in random order. Rounds go on until the interval of the ratio is
narrow (--width) or the next round would end after --budget seconds. Kernels, memcpys, peak memory and ops are compared
as `kernelbook diff` does.

Results: OUTPUT/compare.json, OUTPUT/compare.md, and the measurements in OUTPUT/A and OUTPUT/B.

Examples:
  python scripts/compare.py old.py:block new.py:block --budget 120
  python scripts/compare.py .venv ../torch-2.14/.venv --cases 'mlp-*'
  python scripts/compare.py main . --cases my-block --fail-on slower

Exit status: 0 no change was shown; 3 a change of --fail-on; 4 a case failed; 5 both; 2 A or B cannot be measured, a
mistake in the configuration, or bad arguments.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelbook.command import run
from kernelbook.compare.measuring import Place
from kernelbook.compare.output import REPORT, RESULT, text, write
from kernelbook.compare.result import CHANGES, DEFAULT_CHANGES, Request, compare
from kernelbook.compare.subjects import SubjectError, Wish
from kernelbook.config.errors import ConfigError
from kernelbook.config.yaml_text import YamlError
from kernelbook.containers.images import ImageError
from kernelbook.home import home
from kernelbook.judge.paired import Precision

DEFAULT_OUTPUT = Path("results/compare")


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    here = Path.cwd()
    output = (here / args.output).resolve()
    for side in ("A", "B"):
        shutil.rmtree(output / side, ignore_errors=True)
    for name in (RESULT, REPORT):  # of the last comparison
        (output / name).unlink(missing_ok=True)
    request = Request(
        a=args.a,
        b=args.b,
        place=Place(here, here if (here / "scripts" / "profile_case.py").is_file() else home(), output),
        config=args.config or next((file for file in (here / "config.yaml",) if file.is_file()), None),
        wish=Wish(tuple(args.cases), args.mode, args.variant, dict(args.param), dict(args.measure)),
        precision=Precision(args.confidence, args.width, args.min_change),
        fail_on=tuple(args.fail_on),
        budget_s=args.budget,
        seed=args.seed,
        device=args.device,
        apptainer_args=args.apptainer_args,
        image_python=args.image_python,
    )
    try:
        result = compare(request, report=lambda line: print(line, file=sys.stderr, flush=True))
    except (ConfigError, ImageError, SubjectError, YamlError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    write(result, output)
    print(text(result))
    print(f"report: {args.output / 'compare.md'}")
    return 0 if args.no_exit_status else result.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A", help="what B is compared with")
    parser.add_argument("b", metavar="B", help="what is compared")
    parser.add_argument("--config", type=Path, help="configuration of the cases (default: config.yaml here)")
    parser.add_argument("--cases", type=_names, default=[], metavar="A,B", help="names or globs of cases")
    parser.add_argument("--mode", default="eager", help="of two workloads: eager, compile or graph")
    parser.add_argument("--variant", default="plain", help="of two workloads")
    parser.add_argument("--param", type=_pair, action="append", default=[], metavar="K=V", help="of two workloads")
    parser.add_argument(
        "--measure", type=_pair, action="append", default=[], metavar="K=V", help="as measure: in config"
    )
    parser.add_argument("--budget", type=float, default=600, metavar="S", help="seconds for all rounds (600)")
    parser.add_argument("--width", type=_share, default=0.03, help="relative width of a narrow interval (0.03)")
    parser.add_argument("--min-change", type=_share, default=0.03, help="smallest change of time that counts (0.03)")
    parser.add_argument("--confidence", type=_confidence, default=0.99, help="of the intervals (0.99)")
    parser.add_argument(
        "--fail-on", type=_changes, default=list(DEFAULT_CHANGES), metavar="A,B", help=f"of {', '.join(CHANGES)}"
    )
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), help="default: as configured, else auto")
    parser.add_argument("--seed", type=int, default=0, help="of the random orders")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help=f"folder ({DEFAULT_OUTPUT})")
    parser.add_argument("--apptainer-args", default="", help="more arguments for apptainer exec, for the shell")
    parser.add_argument("--image-python", default="python3", metavar="PYTHON", help="Python in images (python3)")
    parser.add_argument("--no-exit-status", action="store_true", help="end with 0 whatever the verdict")
    return parser


def _names(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _changes(words: str) -> list[str]:
    names = _names(words)
    unknown = [name for name in names if name not in CHANGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(CHANGES)}")
    return names


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 10:
        raise argparse.ArgumentTypeError(f"{text} must be above 0, as a share: 0.03 is 3 %")
    return value


def _confidence(text: str) -> float:
    value = float(text)
    if not 0.5 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be from 0.5 to below 1")
    return value


if __name__ == "__main__":
    sys.exit(run(main))
