"""Compute, communication, overlap, copies and idle time of each rank, against a count of every microsecond."""

import random

import pytest

from tests.collectives.made_job import ALL_REDUCE, collective, compute, message, read, write_rank
from tests.trace.made_trace import annotation, kernel, launch, memcpy, memset

RANKS, LENGTH = 8, 3000


def made_rank(rank):
    """Kernels on two streams and copies, by chance; the collectives of all ranks end together."""
    chance = random.Random(rank)
    events, correlation = [annotation("train_step", 0, LENGTH)], 1
    time = 10
    while time < LENGTH - 200:
        length = chance.randrange(5, 60)
        if chance.random() < 0.2:
            make = chance.choice((memcpy, memset))
            events += [launch(correlation, time - 5), make(time, length, correlation)]
        else:
            events += compute(time - 5, time, length, correlation)
        time += length + chance.choice((0, 0, 3, 20))
        correlation += 1
    for number in range(12):
        end = 240 * (number + 1)
        start = end - chance.randrange(20, 150)
        args = message("allreduce", 2**20, range(RANKS))
        events += collective(start - 3, start, end - start, 1000 + number, args)
    return events


def plain_count(events):
    """Microseconds of each kind, one by one."""
    kinds = [set() for _ in range(LENGTH + 200)]
    for event in events:
        if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind = "copy" if event["cat"] != "kernel" else "comm" if "nccl" in event["name"] else "compute"
            for time in range(event["ts"], event["ts"] + event["dur"]):
                kinds[time].add(kind)
    busy = [time for time, kind in enumerate(kinds) if kind]
    span = kinds[busy[0] : busy[-1] + 1]
    return {
        "span_us": len(span),
        "compute_us": sum("compute" in kind for kind in span),
        "communication_us": sum("comm" in kind for kind in span),
        "hidden_us": sum({"comm", "compute"} <= kind for kind in span),
        "exposed_us": sum("comm" in kind and "compute" not in kind for kind in span),
        "copies_us": sum(kind == {"copy"} for kind in span),
        "idle_us": sum(not kind for kind in span),
    }


def test_eight_ranks_on_two_streams_against_a_plain_count(tmp_path):
    events = {rank: made_rank(rank) for rank in range(RANKS)}
    report = read({rank: write_rank(tmp_path, rank, own, RANKS) for rank, own in events.items()})
    for rank, own in events.items():
        expected = plain_count(own)
        assert 0 < expected["hidden_us"] < expected["communication_us"]
        for row in (row for row in report.job.forwards if row.rank == rank):  # the file, and its only forward
            assert {name: getattr(row, name) for name in expected} == expected
        assert expected["span_us"] == sum(
            expected[name] for name in ("compute_us", "exposed_us", "copies_us", "idle_us")
        )
    waits = {}
    for row in report.job.collectives:
        waits.setdefault(row.sequence, []).append((row.start_us, row.wait_us, row.last_rank, row.rank))
    assert len(waits) == 12
    for members in waits.values():
        last = max(start for start, *_ in members)
        assert all(wait == last - start for start, wait, *_ in members)
        assert all(start == last for start, _, last_rank, rank in members if rank == last_rank)


def test_kernels_of_another_thread_count_in_the_forward_that_is_open(tmp_path):
    """In backward, torch opens a range of its own around each collective, on the thread of autograd."""
    events = [annotation("train_step", 0, 500), *compute(10, 20, 100, 1)]
    events += [annotation("nccl:all_reduce", 40, 20, tid=2), launch(2, 45, 2, tid=2)]
    events += [kernel(ALL_REDUCE, 60, 100, 2, stream=20, **message("allreduce", 64, (0, 1)))]
    report = read({rank: write_rank(tmp_path, rank, events, 2) for rank in (0, 1)})
    row = next(row for row in report.job.forwards if row.index == 0)
    assert (row.compute_us, row.communication_us, row.hidden_us, row.exposed_us) == (100, 100, 60, 40)
    assert row.cpu_time_us == 500
    assert [each.index for each in report.job.collectives] == [0, 0]


def test_a_host_bound_rank_is_reported(tmp_path):
    events = [annotation("train_step", 0, 1000)]
    for number in range(5):
        events += compute(10 + 200 * number, 20 + 200 * number, 50, number)
    events += collective(900, 910, 5, 99, message("allreduce", 2**20, (0, 1)))
    report = read({rank: write_rank(tmp_path, rank, events, 2) for rank in (0, 1)})
    remark = next(remark for remark in report.remarks if remark.rule == "host-bound-rank")
    # five kernels of 50 and a collective of 5 in a span of 895, each 10 after its launch
    assert remark.time_us == 640
    assert "start 10.0 µs after their launch" in remark.text


def test_exposed_communication_is_reported_for_the_slowest_rank(tmp_path):
    args = message("allreduce", 2**24, (0, 1))
    events = [
        [
            annotation("train_step", 0, 600),
            *compute(1, 10, 300, 1),
            *collective(2, 310 - 50 * rank, 200 + 50 * rank, 2, args),
        ]
        for rank in range(2)
    ]
    report = read({rank: write_rank(tmp_path, rank, own, 2) for rank, own in enumerate(events)})
    remark = next(remark for remark in report.remarks if remark.rule == "exposed-communication")
    assert (remark.rank, remark.time_us, remark.share) == (0, 200, pytest.approx(0.4))


def test_the_bubble_of_a_pipeline_stage_is_what_only_waits_for_its_neighbour(tmp_path):
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    send = message("send", 1024, (0, 1), **{"Src Rank": 0, "Dst Rank": 1})
    receive = message("recv", 1024, (0, 1), **{"Src Rank": 0, "Dst Rank": 1})
    stage0 = [*compute(1, 10, 100, 1), *collective(5, 110, 10, 2, send, name=name), *compute(20, 120, 80, 3)]
    stage1 = [*collective(2, 20, 100, 1, receive, name=name), *compute(20, 120, 80, 2)]
    report = read({0: write_rank(tmp_path, 0, stage0, 2), 1: write_rank(tmp_path, 1, stage1, 2)})
    assert report.job.of_rank(0).bubble_us == 10  # of its 190, 180 are compute
    assert report.job.of_rank(1).bubble_us == 100  # of its 180, 80 are compute
    remark = next(remark for remark in report.remarks if remark.rule == "pipeline-bubble")
    assert (remark.rank, remark.time_us) == (1, 100)
