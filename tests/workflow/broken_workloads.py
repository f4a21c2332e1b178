"""Workloads that go wrong on purpose, for the tests of the workflow."""

import os
import shutil
import signal
import time
from pathlib import Path

import psutil
import torch

from workloads import Unsupported, Workload


def fine(context, rows=8):
    return Workload(lambda x: torch.softmax(x, dim=-1), (context.random(rows, rows),))


def crashing(context):
    os.kill(os.getpid(), signal.SIGSEGV)


def hanging(context):
    time.sleep(600)


def unwilling(context):
    raise Unsupported("this machine has no flux capacitor: install one")


def _supervisor_and_shell():
    """profile_case.py, which writes measurement.json, and the shell of the rule that started it."""
    above = reversed(psutil.Process().parents())
    supervisor = next(each for each in above if any(word.endswith("/profile_case.py") for word in each.cmdline()))
    return supervisor.pid, supervisor.ppid()


def _end(*processes, by=signal.SIGKILL):
    for process in processes:
        os.kill(process, by)
    time.sleep(1)
    os._exit(3)


def killing_supervisor(context):
    _end(_supervisor_and_shell()[0])


def stopping_supervisor(context):
    _end(_supervisor_and_shell()[0], by=signal.SIGTERM)


def killing_job(context):
    supervisor, shell = _supervisor_and_shell()
    _end(shell, supervisor)


def removing_output(context, folder):
    shutil.rmtree(folder)
    return fine(context)


def obstructing_output(context, folder):
    (Path(folder) / "measurement.json").mkdir()
    _end(_supervisor_and_shell()[0])
