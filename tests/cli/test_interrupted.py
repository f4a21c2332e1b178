"""Ctrl-C at any moment of a command: one line that says how to go on, status 130, no traceback."""

import os
import signal
import subprocess
import sys

import pytest

from kernelbook.command import run
from tests.helpers import ROOT
from tests.helpers.patience import LONG

SAYS = "kernelbook: stopped before the end; the same command starts again\n"
#: Runs the command, and sends this process SIGINT as soon as the module {0} is looked for.
AT_IMPORT = """
import importlib.abc, os, runpy, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {0!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["kernelbook", *sys.argv[1:]]
runpy.run_module("kernelbook", run_name="__main__", alter_sys=True)
"""


def interrupted(code, *words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "KERNELBOOK_TRACEBACK": ""}
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "module", ["kernelbook.cli", "kernelbook.command", "argparse", "kernelbook.cli.top", "numpy", "kernelbook.trace"]
)
def test_ctrl_c_while_a_module_is_imported(folder, module):
    assert interrupted(AT_IMPORT.format(module), "top", folder) == (130, "", SAYS)


def test_nothing_is_imported_before_ctrl_c_is_caught():
    """Of what Python itself has not imported when it starts: the package and the command."""
    code = "import sys, importlib; before = {*sys.modules}; import kernelbook.__main__; print(*{*sys.modules} - before)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=LONG, check=True
    )
    assert {*done.stdout.split()} <= {"kernelbook", "kernelbook.__main__", "__future__", "gc"}


def test_ctrl_c_while_processes_read(folder):
    """As a terminal sends it, to the whole group: the reading processes print nothing either."""
    code = """
import os, signal, sys
from kernelbook.summarize import batch
from kernelbook import __main__
def stop(job, annotation):
    os.killpg(0, signal.SIGINT)
    signal.pause()
batch.run_job = stop
os.cpu_count = lambda: 2
os.setsid()
sys.argv = ["kernelbook", *sys.argv[1:]]
sys.exit(__main__.entry())
"""
    assert interrupted(code, "top", folder) == (130, "", SAYS)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(130)])
def test_other_commands_end_with_130_too(monkeypatch, stop):
    def main():
        raise stop

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert run(main) == 128 + signal.SIGINT
