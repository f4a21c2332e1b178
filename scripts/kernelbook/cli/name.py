"""Print what kernel names state: family, element type, tensor cores, architecture, tile and layout.

NAME is a kernel's name, mangled or demangled, as a trace or Nsight shows it; - reads one name per line from standard
input. Each name gives one sentence, with --json one object on a line (schema: cli/name.schema.json in the package),
null if the name does not state a field:
  name          unchanged
  family        GEMM, attention, softmax, elementwise, copy/cast, fill/mask, reduction, communication, other or unknown
  dtype         fp64, fp32, tf32, fp16, bf16, fp8, int8 ..., or 16-bit if it may be fp16 or bf16
  tensor_cores  yes or no
  arch          the architecture that it was built for: sm90, gfx942
  tile          the tile of one block, rows x columns x depth; for attention, queries x keys
  layout        letters of the two operands, then of the result: t transposed, n not

Examples:
  %(prog)s nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT
  jq -r '.traceEvents[] | select(.cat == "kernel").name' trace.json | sort -u | %(prog)s --json -

Exit status: 0 whatever the names are; 2 bad arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelbook.cli.json_types import StatedName
    from kernelbook.kernel_names import KernelName


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME", help="a kernel's name; - reads names from standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each name")


def run(args: argparse.Namespace) -> int:
    """Print what each name states; always returns 0."""
    from kernelbook.kernel_names import decode
    from kernelbook.text.formatting import visible

    names = [line.rstrip("\n") for name in args.name for line in (sys.stdin if name == "-" else [name])]
    for kernel in map(decode, names):
        print(json.dumps(_stated(kernel)) if args.json else visible(kernel.sentence))
    return 0


def _stated(kernel: KernelName) -> StatedName:
    from kernelbook.kernel_names import UNKNOWN

    def stated(value: str | None) -> str | None:
        return None if value == UNKNOWN else value

    return {
        "name": kernel.name,
        "family": kernel.family,
        "dtype": stated(kernel.element_type),
        "tensor_cores": stated(kernel.tensor_cores),
        "arch": stated(kernel.architecture),
        "tile": stated(kernel.tile),
        "layout": stated(kernel.layout),
    }
