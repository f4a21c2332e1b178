"""Rules about the ranks of a job, each on a job that shows the thing, and all silent on a job of equal ranks."""

from dataclasses import replace

import pytest

from kernelbook.cases import CaseFacts, ProfiledForward
from kernelbook.judge.findings import find
from tests.collectives.made_job import collective, compute, late_pair, message, read, write_rank
from tests.trace.made_trace import annotation

BIG = message("allreduce", 2**24, (0, 1))


def step(*events):
    return [annotation("train_step", 0, 900), *(event for part in events for event in part)]


def equal():
    return [step(compute(1, 10, 800, 1), collective(2, 100, 50, 2, BIG))] * 2


def other_order():
    small = message("allreduce", 2**20, (0, 1))
    return [step(collective(1, 100, 50, 1, first), collective(2, 200, 50, 2, second))
            for first, second in ((BIG, small), (small, BIG))]  # fmt: skip


def exposed():
    return [step(compute(1, 10, 300, 1), collective(2, 310, 200, 2, BIG))] * 2


def starved():
    return [step(compute(10, 20, 50, 1), compute(400, 410, 50, 2), collective(800, 810, 50, 3, BIG))] * 2


def extra():
    shared = [compute(1, 10, 400, 1), collective(2, 500, 50, 2, BIG)]
    return [step(*shared), step(*shared, compute(3, 410, 90, 3, "extra"))]


def pipeline():
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    ends = {"Src Rank": 0, "Dst Rank": 1}
    stage0 = step(compute(1, 10, 100, 1), collective(5, 110, 10, 2, message("send", 1024, (0, 1), **ends), name=name))
    stage1 = step(collective(2, 20, 100, 1, message("recv", 1024, (0, 1), **ends), name=name), compute(20, 120, 80, 2))
    return [stage0, stage1]


def queued():
    transfers = (collective(10 + n, 100 + 200 * n, 200, n, BIG) for n in range(4))
    return [step(compute(1, 100, 50, 99), *transfers)] * 2


def benchmark():
    return [step(*(collective(10 + n, 100 + 200 * n, 200, n, BIG) for n in range(4)))] * 2


def small():
    return [step(*(collective(10 + n, 100 + 90 * n, 20, n, message("allreduce", 512, (0, 1))) for n in range(5)))] * 2


SHOWN = {
    "straggler": (late_pair, 200),
    "collective-order": (other_order, None),
    "exposed-communication": (exposed, 200),  # 200 of 500 run without compute
    "host-bound-rank": (starved, 690),  # 840 from the first to the last, of which 150 are busy
    "unequal-work": (extra, 90),
    "pipeline-bubble": (pipeline, 100),
    "collectives-serialised": (queued, None),
    "bus-bandwidth": (benchmark, None),
    "small-collectives": (small, 100),  # 5 transfers of 20
}


def findings_of(folder, events):
    report = read({rank: write_rank(folder, rank, own, 2) for rank, own in enumerate(events)})
    facts = replace(
        CaseFacts("r", "c", kernels=1, forwards=(ProfiledForward(1, 0, 900.0),), chosen=(1, 0)), jobs=(report,)
    )
    return {finding.rule: finding for finding in find(facts) if finding.rule in SHOWN}


@pytest.mark.parametrize("rule", SHOWN)
def test_a_job_that_shows_it(tmp_path, rule):
    make, time_us = SHOWN[rule]
    finding = findings_of(tmp_path, make())[rule]
    assert finding.time_us == time_us
    assert not finding.text[0].islower()
    assert finding.remedy


def test_a_benchmark_of_collectives_is_no_exposed_communication(tmp_path):
    assert findings_of(tmp_path, benchmark()).keys() == {"bus-bandwidth"}


def test_a_job_of_equal_ranks_shows_none(tmp_path):
    assert findings_of(tmp_path, equal()) == {}


def test_a_case_without_ranks_shows_none():
    assert not {finding.rule for finding in find(CaseFacts("r", "c"))} & SHOWN.keys()
