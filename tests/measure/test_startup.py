"""Imports leave the garbage collector alone, and bytecode is kept where the environment keeps none."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.harness import startup

FORBIDDEN = {"PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def packages(monkeypatch, tmp_path: Path) -> Path:
    """A folder of packages with a torch that has no bytecode; the temporary folder lies beside it."""
    folder = tmp_path / "packages"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("answer = 42\n")
    (folder / "torch" / "version.py").write_text("git_version = 'a'\n")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(startup, "packages_of_torch", lambda: folder)
    monkeypatch.setattr(startup.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    return folder


def imported(packages: Path, variables: dict[str, str]) -> None:
    environment = {**os.environ, **FORBIDDEN, **variables, "PYTHONPATH": str(packages)}
    subprocess.run([sys.executable, "-c", "import torch; assert torch.answer == 42"], env=environment, check=True)


def test_bytecode_is_kept_in_a_folder_of_its_own_where_it_may_not_lie_beside(packages):
    variables = startup.bytecode_variables(FORBIDDEN)
    folder = Path(variables["PYTHONPYCACHEPREFIX"])
    imported(packages, variables)
    kept = folder.joinpath(*packages.parts[1:], "torch", f"__init__.{sys.implementation.cache_tag}.pyc")
    assert kept.is_file()
    assert not list(packages.rglob("*.pyc"))
    assert folder.stat().st_mode & 0o077 == 0
    assert startup.bytecode_variables(FORBIDDEN) == variables  # the next process takes the same folder


def test_bytecode_that_is_there_is_used_where_it_is(packages):
    imported(packages, {"PYTHONDONTWRITEBYTECODE": ""})
    assert list(packages.rglob("*.pyc"))
    assert startup.bytecode_variables(FORBIDDEN) == {}


@pytest.mark.parametrize("environ", [{}, {"PYTHONDONTWRITEBYTECODE": ""}, {**FORBIDDEN, "PYTHONPYCACHEPREFIX": "/x"}])
def test_nothing_is_set_where_python_keeps_bytecode_itself_or_the_user_has_chosen(packages, environ):
    assert startup.bytecode_variables(environ) == {}


def test_a_read_only_folder_is_as_one_that_may_not_be_written(packages, monkeypatch):
    monkeypatch.setattr(startup.os, "access", lambda path, mode: not (mode == os.W_OK and Path(path).name == "torch"))
    assert startup.bytecode_variables({})["PYTHONPYCACHEPREFIX"]


def test_other_packages_take_another_folder(packages):
    """Python tells a changed file by its size and time, which an image that is built again may not change."""
    seen = {startup.bytecode_variables(FORBIDDEN)["PYTHONPYCACHEPREFIX"]}
    (packages / "torch" / "version.py").write_text("git_version = 'b'\n")
    seen.add(startup.bytecode_variables(FORBIDDEN)["PYTHONPYCACHEPREFIX"])
    (packages / "sympy-1.14.0.dist-info").mkdir()
    seen.add(startup.bytecode_variables(FORBIDDEN)["PYTHONPYCACHEPREFIX"])
    assert len(seen) == 3


@pytest.mark.parametrize("prepare", [lambda folder: folder.mkdir(mode=0o700) or folder.chmod(0o770),
                                     lambda folder: folder.symlink_to(folder.parent),
                                     lambda folder: folder.touch()])  # fmt: skip
def test_a_folder_that_others_could_write_to_is_not_used(packages, prepare):
    folder = Path(startup.bytecode_variables(FORBIDDEN)["PYTHONPYCACHEPREFIX"])
    folder.rmdir()
    prepare(folder)
    assert startup.bytecode_variables(FORBIDDEN) == {}


def test_no_torch_no_bytecode(monkeypatch):
    monkeypatch.setattr(startup, "packages_of_torch", lambda: None)
    assert startup.bytecode_variables(FORBIDDEN) == {}


def test_imports_are_not_collected_and_not_looked_at_again():
    gc.unfreeze()
    try:
        with startup.without_collection():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
