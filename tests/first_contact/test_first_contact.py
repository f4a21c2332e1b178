"""What a new user meets first: no Python, no network, a folder that is only read, an empty or broken configuration.

A real `make setup` into an empty folder is what CI does before it runs any test.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.files import link_or_copy
from tests.helpers.snakemake import WorkingFolder, run

PROJECT = (
    *("Snakefile", "config.yaml", "Makefile", "requirements.txt", "constraints.txt"),
    *("workflow", "scripts", "resources", "profiles"),
)
VERSIONS = [f"3.{minor}" for minor in range(9, 15)]


@pytest.fixture
def install(tmp_path):
    """A copy of what a user installs, in a path with spaces."""
    folder = tmp_path / "my programs" / "kernel book"
    folder.mkdir(parents=True)
    for name in PROJECT:
        source = ROOT / name
        if source.is_dir():
            copy = link_or_copy if name == "resources" else shutil.copy2  # which nobody writes to
            shutil.copytree(source, folder / name, copy_function=copy)
        else:
            shutil.copy2(source, folder / name)
    return folder


def state(folder):
    """Every file below a folder with its size and time; Python's own caches are left aside."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def no_network():
    """The command that runs another one without a network, or nothing where that cannot be done."""
    command = ["unshare", "--net", "--map-root-user"]
    able = (
        shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    )
    return command if able else []


@pytest.mark.slow
def test_a_user_without_home_network_or_write_access_gets_a_report(install, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy2(install / "config.yaml", work)
    before = state(install)
    command = [*no_network(), *WorkingFolder(work, install).command]
    for folder in (install, *(path for path in install.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    try:
        chosen = ("--config", "only_runs=h200,a100-series", "only_cases=linear-eager")
        told = run([*command, *chosen], work, HOME="/nonexistent", XDG_CACHE_HOME="")
    finally:
        for folder in (install, *(path for path in install.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
    assert "report: reports/latest/index.html" in told
    assert "Traceback" not in told
    assert (work / "reports/latest/index.html").is_file()
    assert state(install) == before


def test_without_a_python_make_says_which_one_it_needs(install):
    told = run(["make", "setup", "PYTHON="], install, status=2)
    assert "no Python >= 3.11 found: install one, or name it: make setup PYTHON=/path/to/python3.11" in told


def test_make_finds_no_python_where_none_is_new_enough(install, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "env", "touch", "mkdir"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "python3").write_text("#!/bin/sh\nexit 1\n")  # as one that is too old answers
    (programs / "python3").chmod(0o755)
    told = run([shutil.which("make"), "setup"], install, status=2, PATH=str(programs))
    assert "no Python >= 3.11 found" in told


def test_without_a_network_make_says_so_and_names_the_remedy(install):
    """Nobody listens on port 9 of this machine, which is what pip meets first."""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}
    told = run(["make", "report", f"PYTHON={sys.executable}"], install, status=2, **nowhere)
    assert "make: the packages of requirements.txt could not be found: is there a network?" in told
    assert "PIP_INDEX_URL=URL" in told
    assert "Retrying" not in told
    assert "conflicting dependencies" not in told


def test_make_setup_gives_the_command_of_this_checkout(install):
    """In a path with spaces, and from any folder."""
    programs = install / "stand-in/bin"
    programs.mkdir(parents=True)
    (programs / "python").write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    (programs / "python").chmod(0o755)
    for name in ("requirements.txt", "constraints.txt", "requirements-torch.txt"):
        (install / name).touch()
    for name in (".workflow", ".torch"):
        (install / "stand-in" / name).touch()
    assert run(["make", "--no-print-directory", "setup", "VENV=stand-in"], install) == ""
    (install.parent / "argparse.py").write_text("raise SystemExit('a module of the user')\n")
    assert run([str(programs / "kernelbook"), "name", "Memset"], install.parent).strip() == "memset."
    failed = run([str(programs / "kernelbook"), "report", "absent"], install.parent, status=2)
    assert failed.strip() == "kernelbook report: absent: no such folder"


@pytest.mark.parametrize(
    ("arguments", "says", "ends_with", "told"),
    [
        ("", "report: reports/latest/index.html", 0, ["report: reports/latest/index.html"]),
        ("", "Nothing to be done", 0, ["Nothing to be done", "report: reports/latest/index.html"]),
        ("--config edition=mine", "", 0, ["", "report: reports/mine/index.html"]),
        ("--config edition=never-made", "", 0, [""]),
        ("-n", "This was a dry-run", 0, ["This was a dry-run"]),
        ("", "report: reports/latest/index.html", 4, ["report: reports/latest/index.html"]),
    ],
)
def test_make_report_ends_by_naming_the_report_once(install, arguments, says, ends_with, told):
    python = install / "stand-in/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{says}'\nexit {ends_with}\n")
    python.chmod(0o755)
    for name in ("requirements.txt", "constraints.txt", "requirements-torch.txt"):
        (install / name).touch()
    for name in (".workflow", ".torch"):
        (install / "stand-in" / name).touch()
    for name in ("latest", "mine"):
        (install / "reports" / name).mkdir(parents=True)
        (install / "reports" / name / "index.html").touch()
    command = ["make", "--no-print-directory", "report", "VENV=stand-in", f"ARGS={arguments}"]
    lines = run(command, install, status=2 if ends_with else 0).splitlines()
    assert [line for line in lines if not re.match(r"make(\[\d+\])?: ", line)] == told


def test_a_folder_without_configuration_is_told_so(install, tmp_path):
    told = WorkingFolder(tmp_path, install).snakemake(status=1)
    assert "config.yaml but it is not present" in told
    assert "Traceback" not in told


def test_a_configuration_that_is_no_yaml_is_told_where(install, tmp_path):
    (tmp_path / "config.yaml").write_text("runs:\n  mine: [1\ncases: x\n")
    told = WorkingFolder(tmp_path, install).snakemake(status=1)
    assert "config.yaml: line 3, column 6: no YAML:" in told
    assert "Traceback" not in told


def test_a_mistake_in_a_file_of_its_own_is_told_with_its_name(install, tmp_path):
    (tmp_path / "config.yaml").write_text("runs: {host: {host: true}}\ncases: {a: {workload: linear}}\n")
    (tmp_path / "mine.yaml").write_text("cases: {b: {workload: linear, samples: many}}\n")
    told = WorkingFolder(tmp_path, install).snakemake(
        "--configfile", "mine.yaml", "--config", "only_runs=hots", status=1
    )
    assert 'mine.yaml: cases.b.samples: must be a whole number, got "many"' in told
    assert "--config: only_runs: names no run: 'hots'" in told
    assert "Traceback" not in told


def python_of(version):
    """A Python of this version that starts, on the PATH or among pyenv's."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for program in filter(None, [shutil.which(f"python{version}"), *kept]):
        if subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            return program
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_sources_are_read_by_every_python_that_is_here(version, tmp_path):
    program = python_of(version)
    if program is None:
        pytest.skip(f"no Python {version} is installed")
    inside = ["scripts/workloads", "scripts/profile_case.py"]  # a container's Python may be 3.9
    sources = inside if version in ("3.9", "3.10") else ["scripts"]
    run([program, "-m", "compileall", "-q", *sources], ROOT, PYTHONPYCACHEPREFIX=str(tmp_path))


@pytest.mark.parametrize("name", ["collect_edition", "render_report", "edition_status"])
def test_an_error_is_one_line_unless_a_traceback_is_asked_for(name, tmp_path):
    arguments = {
        "collect_edition": ["--plan", "absent.json", "--results", ".", "--output", "out"],
        "render_report": ["--edition-dir", "absent", "--output", "out"],
        "edition_status": ["--edition-dir", "broken", "--report", "x"],
    }
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/edition.json").write_text("{")
    command = [sys.executable, ROOT / "scripts" / f"{name}.py", *arguments[name]]
    told = run(command, tmp_path, status=1, KERNELBOOK_TRACEBACK="")
    assert len(told.splitlines()) == 1
    assert told.startswith(f"{name}: ")


def test_a_traceback_is_there_when_asked_for(tmp_path):
    command = [
        sys.executable,
        ROOT / "scripts/collect_edition.py",
        "--plan",
        "absent.json",
        "--results",
        ".",
        "--output",
        "x",
    ]
    told = run(command, tmp_path, status=1, KERNELBOOK_TRACEBACK="1")
    assert "Traceback" in told
    assert told.splitlines()[-1] == "collect_edition: absent.json: No such file or directory"


def test_no_colours_where_the_output_is_no_terminal(tmp_path):
    trace = ROOT / "resources/recorded/h200-torch2.11/linear-eager/1/trace.json.gz"
    told = run([sys.executable, ROOT / "scripts/summarize_trace.py", trace], tmp_path, FORCE_COLOR="")
    assert "linear_fwd" in told
    assert "\x1b" not in told
