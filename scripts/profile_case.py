#!/usr/bin/env python3
"""Measure one case on this machine and write measurement.json and its traces. Needs only torch.

Example:
  python scripts/profile_case.py --case-file case.json --device auto --output results/mine

Exit status: 0 once measurement.json is written (whatever it says), 2 for bad arguments, 128 + n if signal n stopped it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from workloads.harness.old_python import refuse_old_python

refuse_old_python(sys.argv[1:])  # before the imports that an old Python cannot read

from workloads.harness.attempt import Setting  # noqa: E402
from workloads.harness.case_file import CaseError, load_case  # noqa: E402
from workloads.harness.files import held, restored  # noqa: E402
from workloads.harness.gpu import LOCKS  # noqa: E402
from workloads.harness.supervisor import say, supervise  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    """Parse the arguments, measure, return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case-file", required=True, type=Path, help="JSON file that describes the case")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: a GPU if usable")
    parser.add_argument("--output", required=True, type=Path, help="folder for measurement.json and the traces")
    parser.add_argument("--cache-dir", type=Path, help="folder of torch.compile's and Triton's caches, shared by cases")
    parser.add_argument("--require-container", metavar="IMAGE", help="refuse to measure outside this image (file name)")
    parser.add_argument("--lock-dir", type=Path, default=LOCKS, help="where GPUs are locked, for all of this machine")
    parser.add_argument("--one-gpu", action="store_true", help="use one GPU, any that is free and like the first")
    arguments = parser.parse_args(argv)
    try:
        given, case = load_case(arguments.case_file)
        setting = Setting(
            device=arguments.device,
            output=arguments.output.absolute(),
            cache=arguments.cache_dir,
            image=arguments.require_container,
            locks=arguments.lock_dir,
            one_gpu=arguments.one_gpu,
        )
        with held(setting.output, say), restored(arguments.case_file.absolute()):
            return supervise(given, case, setting)
    except CaseError as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"{arguments.output}: cannot be written ({error.strerror}): free some space or choose another folder")
        return 2


if __name__ == "__main__":
    sys.exit(main())
