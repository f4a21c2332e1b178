"""Who came last to collectives, who waited, how long the transfer took, and why: against counts by hand."""

import json
from itertools import permutations
from statistics import median

import pytest

from kernelbook.collectives.job import medians_of_others
from tests.collectives.made_job import ALL_REDUCE, collective, compute, late_pair, message, read, write_rank
from tests.trace.made_trace import annotation, kernel, op


def write_pair(folder, events):
    return {rank: write_rank(folder, rank, own, 2) for rank, own in enumerate(events)}


def rows_of(report, rank):
    return [row for row in report.job.collectives if row.rank == rank]


def rules(report):
    return [remark.rule for remark in report.remarks]


def test_the_wait_is_the_time_from_entering_to_the_last_rank_entering(tmp_path):
    report = read(write_pair(tmp_path, late_pair()))
    first, second = rows_of(report, 0)[0], rows_of(report, 1)[0]
    assert (first.last_rank, first.wait_us, first.late_us) == (1, 200, -200)
    assert (second.last_rank, second.wait_us, second.late_us) == (1, 0, 200)
    assert (first.transfer_us, second.transfer_us) == (100, 100)
    assert [row.sequence for row in rows_of(report, 0)] == [0, 1, 2]
    assert [row.index for row in rows_of(report, 1)] == [0, 1, 2]
    assert report.job.clock_error_us == 0


def test_the_first_sentence_names_the_straggler_its_cause_and_who_waits(tmp_path):
    report = read(write_pair(tmp_path, late_pair()))
    # rank 0 waits 3 x 200 of 3 x (100 + 300) of device time
    assert report.lead == (
        "rank 1 comes last to 3 of 3 all-reduces, by 200 µs in the median, because its CPU queues work too late; "
        "rank 0 spends 50 % of its device time waiting."
    )
    assert rows_of(report, 1)[0].unqueued_us == 190


def test_a_rank_whose_device_is_busy_is_late_because_of_its_kernel(tmp_path):
    report = read(write_pair(tmp_path, late_pair(busy=True)))
    assert rows_of(report, 1)[0].unqueued_us == 0
    # its gemm takes 3 x 380 longer than that of rank 0
    assert "because gemm takes 1.14 ms longer there" in report.lead


@pytest.mark.parametrize("shift", [0.0, 5_000_000.0])
def test_clocks_that_differ_are_aligned_on_collectives(tmp_path, shift):
    report = read(write_pair(tmp_path, late_pair(shift)))
    assert rows_of(report, 0)[1].wait_us == 200
    starts = [row.start_us for row in report.job.collectives]
    assert starts == [280, 1280, 2280, 480, 1480, 2480]  # from the first activity of the job


def test_the_order_of_the_files_and_their_names_do_not_matter(tmp_path):
    events = late_pair()
    expected = read(write_pair(tmp_path, events)).job
    for place, order in enumerate(permutations((0, 1))):
        folder = tmp_path / str(place)
        folder.mkdir()
        files = {rank: write_rank(folder, rank, events[rank], 2, file=f"{1 - rank}.json") for rank in order}
        assert read(files).job == expected


def test_one_rank_alone_is_refused(tmp_path):
    report = read({1: write_rank(tmp_path, 1, late_pair()[1], 2)})
    assert report.job.incomplete
    assert "who came last" in report.lead
    assert all(row.wait_us is None and row.last_rank is None for row in report.job.collectives)
    assert report.job.of_rank(1).waiting_us is None
    assert report.job.of_rank(1).communication_us == 300  # of its own it knows


def test_with_a_missing_rank_last_is_among_those_here_and_transfers_are_not_known(tmp_path):
    args = message("allreduce", 1024, (0, 1, 2))
    files = {
        rank: write_rank(tmp_path, rank, collective(10, 100 + 50 * rank, 300 - 50 * rank, 1, args), 3)
        for rank in (0, 2)
    }
    report = read(files)
    assert {warning.code for warning in report.job.warnings} == {"missing_rank"}
    assert [(row.last_rank, row.wait_us, row.transfer_us, row.bus_gb_s) for row in report.job.collectives] == [
        (2, 100, None, None),
        (2, 0, None, None),
    ]
    assert "comes last of the 2 that have a trace here" in report.lead


def test_a_cut_file_leaves_its_missing_collectives_out(tmp_path):
    rank0, rank1 = late_pair()
    files = {0: write_rank(tmp_path, 0, rank0, 2), 1: write_rank(tmp_path, 1, rank1, 2)}
    text = files[1].read_text(encoding="utf-8")
    files[1].write_text(text[: text.rindex('{"ph": "X", "cat": "user_annotation"') + 20], encoding="utf-8")
    report = read(files)
    assert [row.wait_us for row in rows_of(report, 0)] == [200, 200, None]
    assert [row.sequence for row in rows_of(report, 1)] == [0, 1]
    assert "the file of rank 1 ends too early" in report.job.warnings[0].message


def test_a_file_that_begins_one_step_later_is_matched_by_its_clock(tmp_path):
    rank0, rank1 = late_pair()
    later = [event for event in rank1 if event["ts"] >= 2000]
    report = read(write_pair(tmp_path, (rank0, later)))
    assert [row.wait_us for row in rows_of(report, 0)] == [None, 200, 200]


def test_traces_of_different_runs_are_refused(tmp_path):
    args = message("allreduce", 1024, (0, 1))
    rank0 = [event for number in range(6) for event in collective(100 * number, 100 * number, 20, number, args)]
    rank1 = [event for number in range(6) for event in collective(9**number, 9**number, 1, number, args)]
    report = read(write_pair(tmp_path, (rank0, rank1)))
    assert "traces of different steps or of different jobs" in report.job.refused
    assert all(row.wait_us is None for row in report.job.collectives)


def test_without_arguments_kernels_are_matched_by_name_and_order(tmp_path):
    gather = "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    events = []
    for rank in range(2):
        events.append(
            collective(10, 100 + 40 * rank, 100 - 40 * rank, 1, name=gather)
            + collective(20, 300, 50, 2, name=ALL_REDUCE, stream=21 + rank)
        )
    report = read(write_pair(tmp_path, events))
    assert [(row.operation, row.group, row.last_rank, row.wait_us, row.bytes) for row in rows_of(report, 0)] == [
        ("all_gather", "stream 1", 1, 40, None),
        ("all_reduce", "stream 2", None, 0, None),
    ]


def test_torch_s_record_is_taken_from_the_op_where_the_kernel_has_none(tmp_path):
    args = message("_allgather_base", 256, (0, 1), out=512)
    events = [
        op("record_param_comms", 5, 20, **args),
        *collective(10, 100, 50, 1, name="ncclDevKernel_AllGather_RING_LL"),
    ]
    report = read(write_pair(tmp_path, (events, events)))
    assert (report.job.collectives[0].operation, report.job.collectives[0].bytes) == ("all_gather", 1024)


def test_collectives_in_another_order_are_reported(tmp_path):
    big, small = message("allreduce", 2**20, (0, 1)), message("allreduce", 2**10, (0, 1))
    rank0 = collective(1, 100, 50, 1, big) + collective(2, 200, 50, 2, small)
    rank1 = collective(1, 100, 50, 1, small) + collective(2, 200, 50, 2, big)
    report = read(write_pair(tmp_path, (rank0, rank1)))
    assert len(report.job.disorders) == 1
    assert any(
        remark.rule == "collective-order"
        and "number 1 is all_reduce of 2.00 KiB, and all_reduce of 2.00 MiB" in remark.text
        for remark in report.remarks
    )


def test_a_job_of_equal_ranks_has_no_straggler(tmp_path):
    events = [
        event
        for step in range(4)
        for event in [
            annotation("train_step", 1000 * step, 500),
            *compute(1000 * step + 10, 1000 * step + 20, 300, 10 * step + 1),
            *collective(1000 * step + 50, 1000 * step + 100, 100, 10 * step + 2, message("allreduce", 2**22, (0, 1))),
        ]
    ]
    report = read(write_pair(tmp_path, (events, events)))
    assert report.job.straggler is None
    assert rules(report) == []
    assert report.lead == "2 ranks: no rank comes last to collectives clearly more often than the others."


def test_a_rank_with_an_extra_kernel_has_unequal_work(tmp_path):
    rank0, rank1 = late_pair()
    extra = [
        event
        for step in range(3)
        for event in compute(1000 * (step + 1) + 130, 1000 * (step + 1) + 150, 90, 500 + step, "extra")
    ]
    report = read(write_pair(tmp_path, (rank0, rank1 + extra)))
    remark = next(remark for remark in report.remarks if remark.rule == "unequal-work")
    assert remark.text == "rank 1 runs 3 kernels more than the others, most of all extra: 270 µs in its file."
    assert (remark.rank, remark.time_us) == (1, 90)


def test_small_collectives_are_reported(tmp_path):
    events = [annotation("train_step", 0, 900)]
    for number in range(5):
        events += collective(10 + number, 100 + 100 * number, 20, number, message("allreduce", 1024, (0, 1)))
    report = read(write_pair(tmp_path, (events, events)))
    remark = next(remark for remark in report.remarks if remark.rule == "small-collectives")
    assert remark.text.startswith("5 of 5 collectives carry less than 1 MiB, 2.00 KiB in the median, at 0.102 GB/s")
    assert remark.time_us == 100


def test_collectives_that_stand_in_line_on_one_stream_are_reported(tmp_path):
    events = [annotation("train_step", 0, 900), *compute(1, 100, 50, 99)]
    for number, group in enumerate(("0", "1", "0", "1")):
        events += collective(
            10 + number, 100 + 200 * number, 200, number, message("allreduce", 2**24, (0, 1), group=group)
        )
    report = read(write_pair(tmp_path, (events, events)))
    remark = next(remark for remark in report.remarks if remark.rule == "collectives-serialised")
    # three collectives stand behind a transfer of 200 each, of a span of 800
    assert "of 2 process groups" in remark.text
    assert "600 µs (75 % of the time)" in remark.text


def test_a_queue_of_collectives_is_not_judged_without_the_other_ranks(tmp_path):
    """The one ahead may only have waited for the rank that is not here."""
    args = message("allreduce", 2**24, (0, 1))
    events = [event for n in range(4) for event in collective(10 + n, 100 + 200 * n, 200, n, args)]
    events += compute(1, 100, 50, 99)
    both = {rank: write_rank(tmp_path, rank, events, 2) for rank in (0, 1)}
    assert "collectives-serialised" in rules(read(both))
    assert "collectives-serialised" not in rules(read({0: both[0]}))


def test_forwards_of_collectives_alone_are_judged_by_their_bus_bandwidth(tmp_path):
    """Communication is all there is, so that neither its share nor its queue tells anything."""
    events = [annotation("train_step", 0, 900)]
    for number in range(4):
        events += collective(10 + number, 100 + 200 * number, 200, number, message("allreduce", 2**24, (0, 1)))
    head = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    report = read({rank: write_rank(tmp_path, rank, events, 2, **head) for rank in (0, 1)})
    assert rules(report) == ["bus-bandwidth"]
    # by hand: 32 MiB in 200 µs is 168 GB/s, of two ranks that is the bus bandwidth too, of 450 GB/s of NVLink 37 %
    assert report.remarks[0].text == (
        "the forwards run collectives and nothing else: all-reduce of 32.0 MiB at 168 GB/s of bus bandwidth, 37 % of "
        "the 450 GB/s of NVLink in one direction."
    )


def test_communication_on_the_stream_of_compute_cannot_overlap(tmp_path):
    events = compute(1, 10, 100, 1) + collective(2, 110, 100, 2, message("allreduce", 2**24, (0, 1)), stream=7)
    report = read(write_pair(tmp_path, (events, events)))
    assert "collectives-serialised" in rules(report)


def test_a_collective_of_a_graph_without_launches_has_no_cpu_side(tmp_path):
    args = message("allreduce", 2**20, (0, 1))
    events = [
        [kernel(ALL_REDUCE, 100 + 40 * rank + 200 * n, 100 - 40 * rank, None, stream=20, **args) for n in range(3)]
        for rank in range(2)
    ]
    report = read(write_pair(tmp_path, events))
    assert report.job.straggler.side == "unknown"
    assert "no launches" in report.lead


def test_ranks_of_the_recorded_ddp_job(shared_dir):
    """Counted by hand from the two files: 45 of 48 last, 0.938 ms in the median, 49 % waiting, transfers from 43 µs."""
    files = {rank: shared_dir / "round2" / "ranks" / f"ddp_rank{rank}.json.gz" for rank in (0, 1)}
    if not files[0].is_file():
        pytest.skip("no shared traces beside this checkout")
    report = read(files)
    assert report.lead == (
        "rank 1 comes last to 45 of 48 all-reduces, by 938 µs in the median, because its CPU queues work too late; "
        "rank 0 spends 49 % of its device time waiting."
    )
    # the extra product: four kernels, of which the longest takes 176.6 µs
    (extra,) = [remark.text for remark in report.remarks if remark.rule == "unequal-work"]
    assert "runs 4 kernels more than the others" in extra
    assert "at most 706 µs in its file: only 1 % of the time by which it is late" in extra
    assert report.job.clock_error_us <= 16
    whole = report.job.of_rank(0)
    assert whole.communication_time_us / whole.device_time_us == pytest.approx(0.52, abs=0.005)
    assert sum(row.wait_us for row in rows_of(report, 0)) == pytest.approx(53685.1, abs=0.1)
    assert min(row.transfer_us for row in rows_of(report, 0)) == pytest.approx(42.56)
    # a plain count over all borders of intervals, of the whole file
    assert (whole.compute_us, whole.hidden_us, whole.exposed_us, whole.copies_us, whole.idle_us) == (
        51580.766, 32006.254, 25054.003, 186.746, 10315.338,
    )  # fmt: skip


def test_rows_are_plain_values(tmp_path):
    from dataclasses import asdict

    report = read(write_pair(tmp_path, late_pair()))
    json.dumps([asdict(row) for row in (*report.job.collectives, *report.job.forwards)], allow_nan=False)


def test_ranks_on_a_cpu_have_no_device_figures(tmp_path):
    events = [annotation("train_step", 0, 100), op("c10d::allreduce_", 10, 20), annotation("gloo:all_reduce", 12, 15)]
    report = read(write_pair(tmp_path, (events, events)))
    assert report.job.forwards == report.job.collectives == ()
    assert "no communication kernel" in report.lead


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_medians_of_others_against_the_plain_way(count):
    values = {key: (key * 37 % 11) / 2 for key in range(count)}
    plain = {key: median(value for other, value in values.items() if other != key) for key in values}
    assert medians_of_others(values) == plain


def test_ranks_that_share_no_collective_are_aligned_through_others(tmp_path):
    """Rank 1 is in a group with 0 and in one with 2; the clock of 2 is a second ahead of both."""
    left, right = message("allreduce", 1024, (0, 1), group="a"), message("allreduce", 1024, (1, 2), group="b")
    events = [
        collective(10, 100, 50, 1, left),
        collective(10, 100, 50, 1, left) + collective(20, 300, 80, 2, right, stream=21),
        collective(1_000_020, 1_000_330, 50, 1, right),
    ]
    report = read({rank: write_rank(tmp_path, rank, own, 3) for rank, own in enumerate(events)})
    assert [(row.start_us, row.wait_us) for row in report.job.collectives] == [(0, 0), (0, 0), (200, 30), (230, 0)]


def test_a_file_cut_before_its_first_collective_is_refused_and_blames_no_rank(tmp_path):
    rank0, rank1 = late_pair()
    files = write_pair(tmp_path, (rank0, rank1))
    text = files[0].read_text(encoding="utf-8")
    files[0].write_text(text[: text.index("nccl") - 60], encoding="utf-8")
    report = read(files)
    assert "rank 0 has no communication kernel in its trace: its file ends too early" in report.lead
    assert not {"unequal-work", "straggler"} & set(rules(report))


def test_extra_work_that_explains_little_of_the_lateness_is_reported_as_that(tmp_path):
    """Both run 300 kernels of 1 µs, rank 1 another one of 7 µs, and it is late by 3 x 200."""
    rank0, rank1 = late_pair()
    small = [each for n in range(300) for each in compute(5000 + 9 * n, 5001 + 9 * n, 1, 100 + n, name="small")]
    extra = compute(4000, 4001, 7, 99, name="small")
    report = read(write_pair(tmp_path, ([*rank0, *small], [*rank1, *extra, *small])))
    (remark,) = [remark for remark in report.remarks if remark.rule == "unequal-work"]
    assert remark.text == (
        "rank 1 runs 1 kernel more than the others (small), of at most 7.00 µs in its file: only 1 % of the time by "
        "which it is late."
    )
    assert (remark.rank, remark.time_us) == (1, None)
    assert report.remarks[0].rule == "straggler"
