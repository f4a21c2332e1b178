"""Jobs of several kinds, made by hand: figures and bandwidths against plain counts, by NCCL's convention."""

import json

import pytest

from kernelbook.cli import main
from tests.collectives.made_job import collective, compute, message, read, write_rank
from tests.trace.made_trace import annotation, kernel, launch, op

NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)"


def rows_of(report, operation):
    return [row for row in report.job.collectives if row.operation == operation]


def rank_rows(report, **wanted):
    return {row.rank: {name: getattr(row, name) for name in wanted} for row in report.job.forwards if row.index is None}


FSDP = {
    # torch's name of the collective -> (kernel, operation, elements in, elements out)
    "_allgather_base": ("AllGather_RING_LL", "all_gather", 2**18, 2**19),
    "_reduce_scatter_base": ("ReduceScatter_Sum_f32_RING_LL", "reduce_scatter", 2**19, 2**18),
    "all_gather_into_tensor_coalesced": ("AllGather_RING_LL", "all_gather", 2**18, 2**19),
    "allgather_into_tensor_coalesced": ("AllGather_RING_LL", "all_gather", 2**18, 2**19),
    "reduce_scatter_tensor_coalesced": ("ReduceScatter_Sum_f32_RING_LL", "reduce_scatter", 2**19, 2**18),
    "allreduce_coalesced": ("AllReduce_Sum_f32_RING_LL", "all_reduce", 2**19, 2**19),
}


@pytest.mark.parametrize("name", FSDP)
def test_collectives_of_fsdp_by_torch_s_names(tmp_path, name):
    """Rank 1 enters 30 µs after rank 0; the transfer of 2 MiB of fp32 takes 40 µs, half of which compute hides."""
    suffix, operation, elements, out = FSDP[name]
    args = message(name, elements, (0, 1), out=out, dtype="Float")
    files = {}
    for rank in (0, 1):
        start = 100 + 30 * rank
        events = [*compute(1, 10, 140, 1), *collective(5, start, 170 - start, 2, args, NCCL.format(suffix))]
        files[rank] = write_rank(tmp_path, rank, events, 2)
    report = read(files)
    first, second = rows_of(report, operation)
    assert (first.wait_us, second.wait_us, first.transfer_us, first.bytes) == (30, 0, 40, 2**21)
    factor = 1 if operation == "all_reduce" else 1 / 2
    assert first.bus_gb_s == pytest.approx(factor * 2**21 / 40e-6 / 1e9)
    expected = {
        0: {"span_us": 160, "compute_us": 140, "communication_us": 70, "hidden_us": 50, "exposed_us": 20, "idle_us": 0},
        1: {"span_us": 160, "compute_us": 140, "communication_us": 40, "hidden_us": 20, "exposed_us": 20, "idle_us": 0},
    }
    assert rank_rows(report, **expected[0]) == expected


def test_a_mixture_of_experts_waits_in_its_all_to_all_for_the_rank_with_most_tokens(tmp_path):
    """Sizes differ by rank, so that order alone matches the calls; rank 2 computes longest and comes last to both."""
    files = {}
    for rank in range(4):
        args = message("all_to_allv", 1000 * (rank + 1), range(4), out=500 * (rank + 1))
        work = 300 if rank == 2 else 100
        events = [annotation("moe", 0, 900)]
        for turn, base in enumerate((0, 400)):
            number = 10 * turn
            events += compute(base + 1, base + 10, work, number + 1, "expert")
            events += collective(base + 2, base + 10 + work, 380 - 10 - work, number + 2, args, NCCL.format("SendRecv"))
        files[rank] = write_rank(tmp_path, rank, events, 4)
    report = read(files)
    rows = rows_of(report, "all_to_all")
    assert [(row.rank, row.last_rank, row.wait_us, row.transfer_us) for row in rows if row.sequence == 0] == [
        (rank, 2, 0 if rank == 2 else 200, 70) for rank in range(4)
    ]
    assert [row.bytes for row in rows if row.sequence == 0] == [2000, 4000, 6000, 8000]
    assert rows[0].bus_gb_s == pytest.approx(3 / 4 * 2000 / 70e-6 / 1e9)
    assert report.job.straggler.rank == 2
    assert "because expert takes 400 µs longer there" in report.lead


def test_tensor_parallel_pairs_beside_a_data_parallel_group(tmp_path):
    """Four ranks, pairs (0, 1) and (2, 3) for tensors and (0, 2) and (1, 3) for data, each on a stream of its own."""
    files = {}
    for rank in range(4):
        tensor, data = ((0, 1) if rank < 2 else (2, 3)), ((0, 2) if rank % 2 == 0 else (1, 3))
        late = 50 if rank == 3 else 0
        events = [*compute(1, 10, 90 + late, 1)]
        args = message("allreduce", 1024, tensor, group="tp")
        events += collective(2, 100 + late, 100 - late, 2, args, stream=20)
        args = message("_reduce_scatter_base", 4096, data, out=2048, group="dp")
        events += collective(3, 200, 40, 3, args, NCCL.format("ReduceScatter_Sum_bf16_RING_LL"), stream=24)
        files[rank] = write_rank(tmp_path, rank, events, 4)
    report = read(files)
    waits = {row.rank: (row.group, row.wait_us, row.transfer_us) for row in rows_of(report, "all_reduce")}
    assert waits == {
        0: ("tp (ranks 0, 1)", 0, 100), 1: ("tp (ranks 0, 1)", 0, 100),
        2: ("tp (ranks 2, 3)", 50, 50), 3: ("tp (ranks 2, 3)", 0, 50),
    }  # fmt: skip
    scattered = rows_of(report, "reduce_scatter")
    assert [(row.ranks, row.bytes, row.wait_us) for row in scattered] == [(2, 8192, 0)] * 4
    expected = {"span_us": 230, "compute_us": 90, "communication_us": 140, "exposed_us": 140, "idle_us": 0}
    assert rank_rows(report, **expected)[0] == expected


def test_stages_of_a_pipeline_have_bubbles_and_a_job_of_their_own(tmp_path):
    """Three stages pass 100 µs of work on: stage n begins at 100 n, and the last one ends at 300."""
    files = {}
    for rank in range(3):
        events = []
        if rank:
            args = message("recv", 512, range(3), **{"Src Rank": rank - 1, "Dst Rank": rank})
            events += collective(1, 10, 100 * rank, 1, args, NCCL.format("SendRecv"))
        events += compute(2, 10 + 100 * rank, 100, 2)
        if rank < 2:
            args = message("send", 512, range(3), **{"Src Rank": rank, "Dst Rank": rank + 1})
            events += collective(3, 110 + 100 * rank, 8, 3, args, NCCL.format("SendRecv"), stream=21)
        files[rank] = write_rank(tmp_path, rank, events, 3)
    report = read(files)
    # a stage is idle, or only sends and receives, for its span less 100 µs of compute
    assert [report.job.of_rank(rank).bubble_us for rank in range(3)] == [8, 108, 200]
    assert [report.job.of_rank(rank).exposed_us for rank in range(3)] == [8, 108, 200]
    pairs = [(row.rank, row.operation, row.ranks, row.sequence is None) for row in report.job.collectives]
    assert pairs == [(0, "send", 2, False), (1, "recv", 2, False), (1, "send", 2, False), (2, "recv", 2, False)]


OLD = {
    "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)": "all_reduce",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_gather",
    "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "reduce_scatter",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)": "broadcast",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "all_reduce",
    "void ncclDevKernel_Generic<4096>(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "msccl_kernel_allreduce_ll": "all_reduce",
    "void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*)": "all_reduce",
}


@pytest.mark.parametrize("name", OLD)
def test_kernels_of_old_torch_and_of_amd_without_a_record_are_matched_by_order(tmp_path, name):
    """Three calls a rank, 100 µs apart; rank 1 enters 20 later and leaves with rank 0."""
    files = {}
    for rank in (0, 1):
        events = []
        for turn in range(3):
            start = 50 + 100 * turn + 20 * rank
            events += compute(100 * turn + 1, 100 * turn + 5, 10, 10 * turn + 1)
            events += collective(100 * turn + 2, start, 100 * turn + 90 - start, 10 * turn + 2, name=name)
        files[rank] = write_rank(tmp_path, rank, events, 2)
    report = read(files)
    assert [row.operation for row in report.job.collectives] == [OLD[name]] * 6
    assert [row.sequence for row in report.job.collectives] == [0, 1, 2] * 2
    assert [row.last_rank for row in report.job.collectives] == [1] * 6
    assert {row.bytes for row in report.job.collectives} == {None}
    assert [report.job.of_rank(rank).communication_us for rank in (0, 1)] == [120, 60]
    if OLD[name] in ("all_reduce", "all_gather", "reduce_scatter"):
        assert [row.wait_us for row in report.job.collectives if row.rank == 0] == [20, 20, 20]


def test_launches_of_a_step_in_backward_count_in_its_collectives(tmp_path, capsys):
    """FSDP2 on the thread of autograd: its ranges of torch's own hold the all-gather and the reduce-scatter."""
    for rank in (0, 1):
        events = [annotation("train_step", 0, 900), annotation("forward", 10, 300), *compute(20, 30, 100, 1)]
        events += collective(25, 140, 60, 2, message("_allgather_base", 2**18, (0, 1), out=2**19),
                             NCCL.format("AllGather_RING_LL"))  # fmt: skip
        for number, (what, kernel_name, sizes) in enumerate(
            (("_allgather_base", "AllGather_RING_LL", (2**18, 2**19)),
             ("_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL", (2**19, 2**18)))
        ):  # fmt: skip
            at, correlation = 400 + 200 * number, 10 + number
            args = message(what, sizes[0], (0, 1), out=sizes[1])
            events += [
                annotation("FSDP::post_backward_reduce (1)", at, 100, tid=2),
                annotation(f"nccl:{what}", at + 5, 50, tid=2),
                op("record_param_comms", at + 6, 40, tid=2), launch(correlation, at + 10, tid=2),
                kernel(NCCL.format(kernel_name), at + 60, 80, correlation, stream=24, **args),
            ]  # fmt: skip
        write_rank(tmp_path, rank, events, 2)
    assert main(["summarize", str(tmp_path), "--json"]) == 0
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        (step,) = (row for row in line["ranges"] if row["annotation"] == "train_step")
        assert (step["kernels"], step["launches"], step["inferred"]) == (4, 4, True)
        assert [row["operation"] for row in line["collectives"] if row["index"] == 0] == [
            "all_gather", "all_gather", "reduce_scatter"
        ]  # fmt: skip
        assert [row["communication_kernels"] for row in line["ranks"]] == [3, 3]


@pytest.mark.parametrize(
    ("around", "kernel_name", "operation"),
    [
        ("nccl:all_to_all", NCCL.format("SendRecv"), "all_to_all"),
        (
            "nccl:_reduce_scatter_base",
            "void ncclDevKernel_Generic<4096>(ncclDevKernelArgsStorage<4096ul>)",
            "reduce_scatter",
        ),
        ("nccl:all_reduce", "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("my all_reduce", "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ],
)
def test_without_a_record_the_range_that_torch_opens_says_what_a_kernel_does(tmp_path, around, kernel_name, operation):
    files = {}
    for rank in (0, 1):
        events = [annotation(around, 0, 20), *collective(5, 30 + 10 * rank, 50 - 10 * rank, 1, name=kernel_name)]
        files[rank] = write_rank(tmp_path, rank, events, 2)
    report = read(files)
    assert {row.operation for row in report.job.collectives} == {operation}
    assert report.job.of_rank(0).bubble_us is None  # nothing of a pipeline
