"""Kernelbook inside another workflow: as a module, with other names and a prefix, and included."""

import json

import pytest
import yaml

from tests.helpers.snakemake import WorkingFolder

pytestmark = pytest.mark.slow

STEP = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
SETTINGS = {"runs": {"old": {"recorded": "traces"}}}
MODULE = """
EDITION = "mine"
PLAN = "mine"

configfile: "settings.yaml"

module kernelbook:
    snakefile:
        {snakefile!r}
    config:
        config["profiles"]
{prefix}

use rule * from kernelbook as kb_*

rule count:
    default_target: True
    input:
        "{folder}reports/latest.txt",

rule use_report:
    input:
        "{folder}results/latest/report/summary.json",
    output:
        "{folder}reports/latest.txt",
    shell:
        "cp {{input}} {{output}}"
"""
INCLUDING = """
configfile: "settings.yaml"

rule all:
    default_target: True
    input:
        "wanted/step.txt",

include: {snakefile!r}

rule use_report:
    input:
        "results/latest/report/summary.json",
    output:
        "wanted/{{case}}.txt",
    shell:
        "cp {{input}} {{output}}"

EDITION = PLAN_OF_MINE = "mine"
onsuccess:
    print("the end of my own")
"""


@pytest.fixture
def snakemake(root, tmp_path):
    """Run another workflow in its own folder; returns what it printed."""

    def run(text, settings, *arguments, **names):
        (tmp_path / "traces").mkdir(exist_ok=True)
        (tmp_path / "traces/one.json").write_text(json.dumps({"traceEvents": [STEP]}))
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
        (tmp_path / "Snakefile").write_text(text.format(snakefile=str(root / "Snakefile"), **names))
        return WorkingFolder(tmp_path, root=tmp_path).snakemake(*arguments)

    return run


@pytest.mark.parametrize("folder", ["", "kb/"])
def test_another_workflow_uses_it_as_a_module_and_goes_on_with_its_report(snakemake, tmp_path, folder):
    prefix = f"    prefix:\n        {folder!r}\n" if folder else ""
    settings = {"profiles": SETTINGS, "a key of its own": 1}
    said = snakemake(MODULE, settings, folder=folder, prefix=prefix)
    assert "rule use_report" in said
    assert f"Writing {folder}reports/latest/index.html" in said
    summary = json.loads((tmp_path / folder / "reports/latest.txt").read_text())
    assert [case["case"] for case in summary["cases"]] == ["one"]
    assert (tmp_path / folder / "reports/latest/index.html").is_file()
    made = {path.name for path in tmp_path.iterdir()} - {"traces", "settings.yaml", "Snakefile", ".snakemake"}
    assert made == ({"kb"} if folder else {"results", "reports", "logs"})
    assert "Nothing to be done" in snakemake(MODULE, settings, "-n", folder=folder, prefix=prefix)


def test_another_workflow_includes_it_and_keeps_its_own_target_and_handlers(snakemake, tmp_path):
    said = snakemake(INCLUDING, {"kernelbook": SETTINGS, "a key of its own": 1})
    assert "the end of my own" in said
    assert json.loads((tmp_path / "wanted/step.txt").read_text())["cases"][0]["case"] == "one"


def test_a_mistake_in_the_section_of_a_module_is_reported(root, snakemake):
    with pytest.raises(AssertionError, match=r"Nothing was run\."):
        snakemake(MODULE, {"profiles": {"runs": {"old": {"recorded": 1}}}}, folder="", prefix="")
