# Kernelbook: profile PyTorch building blocks, read what the GPU really ran, judge it against what was guessed.
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from snakemake.settings.types import DeploymentMethod
from snakemake.utils import min_version

min_version("9.0")


ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "scripts"))


from kernelbook.config.loading import load_config
from kernelbook.config.errors import refuse_bad_yaml
from kernelbook.config.origins import read_sources
from kernelbook.containers.launching import prepare_environment, reaching, start_command, thread_limits
from kernelbook.text.credentials import without_secrets
from kernelbook.plan.folder_owners import enter, wait_for_orphans
from kernelbook.history.nights import finished, for_target
from kernelbook.containers.images import ImageError
from kernelbook.sources.workload_source import Places
from kernelbook.plan.made_tables import forget_incomplete
from kernelbook.plan.planning import digest, host_python, make_plan
from kernelbook.plan.side_by_side import measurements_at_once

refuse_bad_yaml("config.yaml", *workflow.configfiles)


configfile: "config.yaml"


CONTAINERS_ON = DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method
try:
    # targets are not known yet while Snakemake reads this file; the command line is
    config = for_target(config, sys.argv[1:], os.environ, main_process=workflow.is_main_process)
    given = workflow.config_settings
    sources = read_sources(Path("config.yaml"), given.configfiles, given.config, given.config_args or ())
    CONFIG = load_config(config, ROOT / "workflow" / "schemas", sources, Places(Path.cwd(), ROOT))
    PLAN = make_plan(CONFIG, Path.cwd(), ROOT, CONTAINERS_ON)
    IN_CONTAINER = ""
    if any(run.kind == "container" for run in PLAN.runs):
        IN_CONTAINER = start_command(PLAN.start_arguments(), workflow.deployment_settings.apptainer_args)
except (ValueError, ImageError) as error:
    sys.exit(without_secrets(f"{error}\nNothing was run."))
prepare_environment(os.environ, CONFIG.visible_devices)
if workflow.is_main_process:
    print(PLAN.summary(), file=sys.stderr)
    enter()
    forget_incomplete(PLAN.results, PLAN.rows())


include: "workflow/rules/common.smk"
include: "workflow/rules/images.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/extract.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/history.smk"
include: "workflow/rules/publish.smk"


localrules:
    report,


rule report:
    default_target: True
    input:
        f"{MADE_REPORT}/index.html",


onstart:
    wait_for_orphans()


onsuccess:
    sys.exit(exit_status())


onerror:
    print(without_secrets(how_to_go_on(log)), file=sys.stderr)
    sys.exit(1)
