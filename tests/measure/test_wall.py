"""The wall: what runs in a container imports the standard library and torch alone, and what runs outside no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

SCRIPTS = ROOT / "scripts"
INSIDE = [SCRIPTS / "profile_case.py", *sorted((SCRIPTS / "workloads").rglob("*.py"))]
#: `kernelbook.expect` profiles its caller's own block, so it imports torch when it is called.
EXPECT = SCRIPTS / "kernelbook" / "api" / "expectation.py"
OUTSIDE = sorted(path for path in (SCRIPTS / "kernelbook").rglob("*.py") if path != EXPECT)


def imports(path: Path) -> set[str]:
    """First names of all modules imported anywhere in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_the_lists_are_not_empty():
    assert len(INSIDE) > 10
    assert len(OUTSIDE) > 5


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.name)
def test_inside_imports_only_the_standard_library_and_torch(path: Path):
    assert imports(path) <= sys.stdlib_module_names | {"torch", "workloads"}


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.name)
def test_inside_is_python_3_9(path: Path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.name)
def test_inside_uses_nothing_newer_than_python_3_9_at_run_time(path: Path):
    text = path.read_text(encoding="utf-8")
    if len(text) > 200:
        assert "from __future__ import annotations" in text
    for newer in ("datetime.UTC", "import UTC", "strict=True", "ExceptionGroup", "tomllib", "itertools.pairwise"):
        assert newer not in text


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.name)
def test_outside_imports_neither_workloads_nor_torch(path: Path):
    assert not imports(path) & {"workloads", "torch"}


def test_the_package_is_imported_without_torch():
    code = "import sys, kernelbook; kernelbook.expect; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SCRIPTS)}, check=True)


def test_the_supervisor_runs_without_torch():
    """Only the child may need torch: everything the supervisor imports is in the standard library."""
    harness = SCRIPTS / "workloads" / "harness"
    seen, todo = set(), [SCRIPTS / "profile_case.py", harness / "child.py"]
    while todo:
        path = todo.pop()
        seen.add(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:  # module level alone: the child imports torch inside its functions
            if isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] != "torch", path
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                files = [SCRIPTS / f"{name.replace('.', '/')}.py" for name in names]
                todo += [file for file in files if file.is_file() and file not in seen]
            elif isinstance(node, ast.Import):
                assert all(alias.name.split(".")[0] != "torch" for alias in node.names), path
    assert {harness / "supervisor.py", harness / "notebook.py"} <= seen
