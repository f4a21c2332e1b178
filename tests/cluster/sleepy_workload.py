"""A workload that takes its time, so that a test can catch its job while it runs."""

import time

from workloads import Workload


def sleepy(context, seconds=6):
    time.sleep(seconds)
    return Workload(lambda x: x + 1, (context.random(8, 8),))
