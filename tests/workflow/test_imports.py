"""What makes a result stale: the files behind a script, found by reading its imports."""

import json
from dataclasses import replace

import pytest

from kernelbook.config.loading import load_config
from kernelbook.plan.planning import make_plan
from kernelbook.sources.imports import workload_files


def write(folder, **files):
    for name, text in files.items():
        file = folder / f"{name.replace('__in__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def files_behind(start, *folders):
    return workload_files([start], (start.parent, *folders), own=start.parent, texts=())


def names(folder, start, *folders):
    return [file.relative_to(folder).as_posix() for file in files_behind(folder / start, *folders)]


def test_imports_are_followed_through_modules_packages_and_circles(tmp_path):
    write(tmp_path / "near", start="import json, torch\nimport beside\ndef f():\n    from far.deep import thing\n")
    write(tmp_path / "near", beside="import start\nfrom far import sibling as other\n")
    write(tmp_path / "lib/far", __init__="", deep="", sibling="import far.deep", unused="")
    assert names(tmp_path, "near/start.py", tmp_path / "lib") == [
        "lib/far/__init__.py", "lib/far/deep.py", "lib/far/sibling.py", "near/beside.py", "near/start.py",
    ]  # fmt: skip


def test_what_only_type_checkers_import_is_left_out(tmp_path):
    write(tmp_path, start="if TYPE_CHECKING:\n    import never\nelse:\n    import always\n", never="", always="")
    assert names(tmp_path, "start.py") == ["always.py", "start.py"]


def test_the_nearest_module_of_a_name_is_the_one(tmp_path):
    write(tmp_path, start="import common", common="")
    write(tmp_path / "lib", common="")
    assert names(tmp_path, "start.py", tmp_path / "lib") == ["common.py", "start.py"]


def test_a_file_that_is_no_python_stands_for_itself(tmp_path):
    write(tmp_path, start="def (", other="")
    assert names(tmp_path, "start.py") == ["start.py"]


def plan_with(root, tmp_path, workload):
    raw = {"runs": {"host": {"host": True}}, "cases": {"a": {"workload": workload}, "b": {"workload": "linear"}},
           "report": {"headline": ["a", "b"]}}  # fmt: skip
    return make_plan(load_config(raw, root / "workflow" / "schemas"), tmp_path, root, containers_on=False)


def test_a_measurement_is_stale_when_anything_that_its_workload_imports_changes(root, tmp_path):
    code = [file.relative_to(root).as_posix() for file in plan_with(root, root, "attention").code_of("a")]
    assert {f"scripts/workloads/{file}.py" for file in ("attention", "__init__")} < set(code)
    assert {"scripts/workloads/harness/child.py", "scripts/workloads/harness/timing.py"} < set(code)
    assert "scripts/workloads/mlp.py" not in code
    assert len(code) == len(set(code))


def test_a_workload_of_ones_own_takes_its_neighbours_along(root, tmp_path):
    write(tmp_path / "mine", train="import torch\nfrom workloads import Workload\nfrom toy import Toy\n", toy="")
    code = plan_with(root, tmp_path, "mine/train.py:step").code_of("a")
    mine = {tmp_path / "mine/train.py", tmp_path / "mine/toy.py"}
    assert mine | {root / "scripts/workloads/__init__.py"} < set(code)


UNREAD = ("api", "cli", "compare", "diffs", "edition", "history", "judge", "reference", "report", "summarize")


def test_the_code_that_extracting_leaves_out_is_none_of_its_own(root):
    packages = {
        file.relative_to(root / "scripts/kernelbook").parts[0]
        for file in files_behind(root / "scripts/extract_run.py", root / "scripts")
        if file.is_relative_to(root / "scripts/kernelbook")
    }
    assert {"extraction", "trace", "cases", "plan", "config", "text"} <= packages
    assert not packages & set(UNREAD)
    rules = "".join((root / "workflow/rules/common.smk").read_text(encoding="utf-8").split())
    assert "".join(f"READING_CODE=PLAN.digest_of_code(without={UNREAD})".replace("'", '"').split()) in rules


@pytest.mark.parametrize(
    ("changed", "tables", "report"),
    [
        ("trace/reader.py", True, True),
        ("judge/ratio.py", False, True),
        ("report/templates/page.html.j2", False, True),
        ("__pycache__/old.pyc", False, False),
    ],
)
def test_tables_and_report_are_stale_when_code_or_templates_change(root, tmp_path, changed, tables, report):
    package = tmp_path / "home/scripts/kernelbook"
    for name in ("trace/reader.py", "judge/ratio.py", "report/templates/page.html.j2"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    plan = replace(plan_with(root, tmp_path, "linear"), home=tmp_path / "home")
    before = plan.digest_of_code(UNREAD), plan.digest_of_code()
    assert before == (plan.digest_of_code(UNREAD), plan.digest_of_code())
    (package / changed).parent.mkdir(exist_ok=True)
    (package / changed).write_text("2")
    assert (plan.digest_of_code(UNREAD) != before[0], plan.digest_of_code() != before[1]) == (tables, report)


def test_a_case_without_a_variant_is_the_same_in_config_schema_and_case_file(root, tmp_path):
    from workloads.harness.case_file import DEFAULTS

    plan = plan_with(root, tmp_path, "linear")
    schema = (root / "workflow/schemas/config.schema.yaml").read_text()
    assert json.loads(plan.case_json("host", "b", 1))["variant"] == DEFAULTS["variant"] == "plain"
    assert "variant: {type: string, default: plain," in schema
