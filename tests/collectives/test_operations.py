"""Operations, process groups, sizes and bandwidths; figures by the formulas of nccl-tests' doc/PERFORMANCE.md."""

import pytest

from kernelbook.collectives.operations import bus_factor, element_bytes, operation
from tests.collectives.made_job import collective, message, read, write_rank

H200 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("torch_name", "kernel", "expected"),
    [
        ("allreduce", NCCL.format("AllReduce_Sum_bf16_RING_LL"), "all_reduce"),
        ("allreduce_coalesced", NCCL.format("AllReduce_Sum_bf16_RING_LL"), "all_reduce"),
        ("_allgather_base", NCCL.format("AllGather_RING_LL"), "all_gather"),
        ("all_gather_into_tensor_coalesced", NCCL.format("AllGather_RING_LL"), "all_gather"),
        ("_reduce_scatter_base", NCCL.format("ReduceScatter_Sum_f32_RING_LL"), "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", NCCL.format("ReduceScatter_Sum_f32_RING_LL"), "reduce_scatter"),
        ("all_to_allv", NCCL.format("SendRecv"), "all_to_all"),
        ("alltoall_base", NCCL.format("SendRecv"), "all_to_all"),
        ("broadcast", NCCL.format("Broadcast_RING_LL"), "broadcast"),
        ("send", NCCL.format("SendRecv"), "send"),
        ("recv", NCCL.format("SendRecv"), "recv"),
        ("coalesced", NCCL.format("AllGather_RING_LL"), "all_gather"),
        ("end_coalescing", NCCL.format("SendRecv"), "send_recv"),
        (None, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        (None, "ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        (None, "ncclDevKernel_Generic", "communication"),
        ("barrier", NCCL.format("AllReduce_Sum_u8_RING_LL"), "barrier"),
    ],
)
def test_torch_s_word_comes_before_the_kernel_s(torch_name, kernel, expected):
    assert operation(torch_name, kernel) == expected


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("BFloat16", 2), ("Half", 2), ("Float", 4), ("Double", 8), ("Long", 8), ("Int", 4), ("Short", 2), ("Byte", 1),
     ("Char", 1), ("Bool", 1), ("Float8_e4m3fn", 1), ("ComplexFloat", 8), ("ComplexDouble", 16), (None, None),
     ("", None)],
)  # fmt: skip
def test_sizes_of_element_types(dtype, size):
    assert element_bytes(dtype) == size


def test_bus_factors_are_those_of_nccl_tests():
    assert [bus_factor(word, 4) for word in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")] == [
        1.5, 0.75, 0.75, 0.75,
    ]  # fmt: skip
    assert [bus_factor(word, 4) for word in ("broadcast", "reduce", "send_recv")] == [1, 1, 1]
    assert bus_factor("barrier", 4) is None
    assert bus_factor("all_reduce", 1) is None


@pytest.mark.parametrize(
    ("name", "elements", "out", "size", "bus"),
    [
        ("allreduce", 2**20, 2**20, 2**21, 2 * 3 / 4),
        ("_allgather_base", 2**18, 2**20, 2**21, 3 / 4),  # a rank has 2**20 elements afterwards
        ("_reduce_scatter_base", 2**20, 2**18, 2**21, 3 / 4),
        ("all_to_all", 2**20, 2**20, 2**21, 3 / 4),
        ("broadcast", 2**20, 2**20, 2**21, 1),
    ],
)
def test_bandwidths_follow_nccl(tmp_path, name, elements, out, size, bus):
    args = message(name, elements, range(4), out=out)
    files = {
        rank: write_rank(tmp_path, rank, collective(1, 100 - rank, 50 + rank, 1, args), 4, **H200) for rank in range(4)
    }
    row = read(files).job.collectives[0]
    assert (row.bytes, row.ranks, row.transfer_us) == (size, 4, 50)
    assert row.algorithm_gb_s == pytest.approx(size / 50e-6 / 1e9)
    assert row.bus_gb_s == pytest.approx(bus * size / 50e-6 / 1e9)
    assert row.link_gb_s == 450  # half of the 900 GB/s that the data sheet gives for both directions


def test_process_groups_are_matched_apart(tmp_path):
    """Four ranks, two tensor-parallel pairs of one name and a group of all; the second pair is late."""
    files = {}
    for rank in range(4):
        pair = (0, 1) if rank < 2 else (2, 3)
        late = 40 * (rank == 3)
        events = collective(1, 100 + late, 100 - late, 1, message("allreduce", 1024, pair, group="tp"), stream=20)
        events += collective(2, 300, 50, 2, message("_allgather_base", 256, range(4), out=1024, group="dp"), stream=24)
        files[rank] = write_rank(tmp_path, rank, events, 4)
    rows = read(files).job.collectives
    pairs = [(row.rank, row.group, row.last_rank, row.wait_us, row.ranks) for row in rows if "tp" in row.group]
    assert pairs == [
        (0, "tp (ranks 0, 1)", None, 0, 2),
        (1, "tp (ranks 0, 1)", None, 0, 2),
        (2, "tp (ranks 2, 3)", 3, 40, 2),
        (3, "tp (ranks 2, 3)", 3, 0, 2),
    ]
    assert {row.group for row in rows if row.operation == "all_gather"} == {"dp (ranks 0 to 3)"}


def test_a_list_of_ranks_that_torch_cut_is_taken_from_the_head_of_the_file(tmp_path):
    args = message("allreduce", 1024, (0, 1)) | {"Process Group Ranks": "[0, ..., 1]"}
    files = {rank: write_rank(tmp_path, rank, collective(1, 100, 50, 1, args), 2) for rank in (0, 1)}
    assert read(files).job.collectives[0].group == "0 (ranks 0, 1)"


def test_sends_are_matched_with_their_receives(tmp_path):
    """A ring of three: each rank sends to the next; the receive of rank 1 waits for rank 0."""
    files = {}
    for rank in range(3):
        to, of = (rank + 1) % 3, (rank - 1) % 3
        send = message("send", 512, (0, 1, 2), **{"Src Rank": rank, "Dst Rank": to})
        receive = message("recv", 512, (0, 1, 2), **{"Src Rank": of, "Dst Rank": rank})
        events = collective(1, 100 + 30 * (rank == 0), 20, 1, send, name=NCCL.format("SendRecv"), stream=20)
        start = 90 + 40 * (rank != 1)
        events += collective(2, start, 150 - start, 2, receive, name=NCCL.format("SendRecv"), stream=21)
        files[rank] = write_rank(tmp_path, rank, events, 3)
    rows = read(files).job.collectives
    assert all(row.sequence is not None and row.ranks == 2 for row in rows)
    receive = next(row for row in rows if row.rank == 1 and row.operation == "recv")
    # it takes 60, the send of rank 0 takes 20 from 130 on: 40 of the 60 are the wait
    assert (receive.duration_us, receive.last_rank, receive.wait_us, receive.transfer_us) == (60, 0, 40, 20)


def two_groups(swapped, groups=("tp", "dp")):
    """Two steps with an all-reduce of each group, on a stream a group, launched 5 µs apart; swapped: the second first.

    By hand, in a step that begins at 0: what is launched first starts at 100, what is launched second at 200, and
    neither ends before both ranks have entered it.
    """
    events = []
    for step in range(2):
        base = 1000 * (step + 1)
        for number, group in enumerate(groups):
            second = (number == 1) != swapped
            args = message("allreduce", 2**19, (0, 1), group=group)
            start = base + (200 if second else 100)
            events += collective(
                base + 5 * second, start, base + 260 - start, 10 * step + number, args, stream=20 + number
            )
    return events


@pytest.mark.parametrize("swapped", [False, True])
def test_groups_whose_collectives_are_launched_in_opposite_order_are_reported(tmp_path, swapped):
    files = {rank: write_rank(tmp_path, rank, two_groups(swapped and rank == 1), 2) for rank in (0, 1)}
    report = read(files)
    texts = [remark.text for remark in report.remarks if remark.rule == "collective-order"]
    expected = (
        "rank 1 launches collectives of two groups in another order than rank 0: all_reduce 1 of group dp (ranks 0, 1) "
        "before all_reduce 1 of group tp (ranks 0, 1)."
    )
    assert texts == ([expected] if swapped else [])
    assert report.job.refused is None


def test_the_order_of_groups_that_share_one_rank_alone_is_free(tmp_path):
    """Rank 1 is in both pairs; nobody else is, so that nobody can have them in another order."""
    files = {}
    for rank in range(3):
        events = []
        for number, pair in enumerate([(0, 1), (1, 2)]):
            if rank in pair:
                args = message("allreduce", 1024, pair, group=f"pair {number}")
                events += collective(1 + number, 100 + 100 * number, 50, 1 + number, args, stream=20 + number)
        files[rank] = write_rank(tmp_path, rank, events, 3)
    assert [remark for remark in read(files).remarks if remark.rule == "collective-order"] == []
