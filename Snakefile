# Kernelbook: profile PyTorch building blocks, read what the GPU really ran, and judge the guesses about it.
import atexit
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")


ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
if not ROOT.is_dir():
    sys.exit(f"{ROOT}: is not a folder of this machine: clone Kernelbook, and name the Snakefile of the clone")
sys.path.insert(0, str(ROOT / "scripts"))
MAIN = len(workflow.included_stack) == 1  # else another workflow uses or includes this file
PREFIX = workflow.modifier.modify_path("x").removesuffix("x")  # of a module, before the paths of its files


include: "workflow/rules/plan.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/images.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/extract.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/history.smk"
include: "workflow/rules/publish.smk"
include: "workflow/rules/compare.smk"


rule report:
    default_target: MAIN
    input:
        f"{MADE_REPORT}/index.html",
    localrule: True


if MAIN:

    onstart:
        wait_for_orphans()
        atexit.register(say_how_to_go_on, log)

    onsuccess:
        atexit.unregister(say_how_to_go_on)
        sys.exit(exit_status())

    onerror:
        sys.exit(1)
