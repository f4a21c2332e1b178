# The configuration of this edition, checked, and its plan: what is measured where.
import os
import sys
from pathlib import Path

from snakemake.settings.types import DeploymentMethod

from kernelbook.config.loading import load_config
from kernelbook.config.errors import refuse_bad_yaml
from kernelbook.config.origins import read_sources
from kernelbook.containers.launching import prepare_environment, reaching, start_command, thread_limits
from kernelbook.text.credentials import without_secrets
from kernelbook.plan.folder_owners import enter, wait_for_orphans
from kernelbook.history.nights import DEADLINE_VARIABLE, finished, for_target
from kernelbook.containers.images import ImageError
from kernelbook.sources.workload_source import Places
from kernelbook.plan.earlier import forget_incomplete
from kernelbook.plan.plan_texts import digest, inputs_json, plan_json, summary
from kernelbook.plan.planning import host_python, make_plan
from kernelbook.plan.surroundings import measurements_at_once

if MAIN:
    refuse_bad_yaml("config.yaml", *workflow.configfiles)

if MAIN or not config:

    configfile: "config.yaml"


def config_sources():
    """Where each key of the configuration is written, for messages; unknown in a module."""
    given = workflow.config_settings
    return read_sources(Path("config.yaml"), given.configfiles, given.config, given.config_args or ()) if MAIN else ()


CONTAINERS_ON = DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method
try:
    # targets are not known yet while Snakemake reads this file; the command line is
    words = sys.argv[1:] if MAIN else ()
    raw = for_target(
        config.get("kernelbook", config), words, os.environ, main_process=MAIN and workflow.is_main_process
    )
    CONFIG = load_config(raw, ROOT / "workflow" / "schemas", config_sources(), Places(Path.cwd(), ROOT))
    PLAN = make_plan(CONFIG, Path.cwd(), ROOT, CONTAINERS_ON, PREFIX)
    IN_CONTAINER = ""
    if any(run.kind == "container" for run in PLAN.runs):
        IN_CONTAINER = start_command(PLAN.start_arguments(), workflow.deployment_settings.apptainer_args)
except (ValueError, ImageError) as error:
    sys.exit(without_secrets(f"{error}\nNothing was run."))
prepare_environment(os.environ, CONFIG.visible_devices)
if workflow.is_main_process:
    print(summary(PLAN), file=sys.stderr)
    if MAIN:
        enter()
    forget_incomplete(PLAN.results, PLAN.rows())
