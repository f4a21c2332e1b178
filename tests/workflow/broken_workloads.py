"""Workloads that go wrong on purpose, for the tests of the workflow."""

import os
import signal
import time

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
