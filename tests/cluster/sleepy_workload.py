"""A workload that hangs until its job is taken away, the first time; later ones find its mark and go on."""

import time
from pathlib import Path

from workloads import Workload


def sleepy(context, mark="sleepy.began"):
    if not Path(mark).exists():
        Path(mark).touch()
        while True:
            time.sleep(1)
    return Workload(lambda x: x + 1, (context.random(8, 8),))
