"""Where the time of a forward goes: by hand on small forwards, against raw events, and on recorded faults."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward
from kernelbook.judge.cost_model import ceilings_of, kernel_costs
from kernelbook.judge.insight import judge_edition
from kernelbook.judge.time_line import DEVICE_KINDS, UNEXPLAINED
from kernelbook.judge.time_split import TimeSplit, time_split
from tests.insight.insight_recorded import Facts
from tests.insight.recorded_faults import FAULTS, fault_facts, recorded_faults


def kernel(position: int, start: float, length: float, launch: float, **more: object) -> Activity:
    """A kernel whose launch takes 4 µs; start and launch on the trace's clock."""
    values = {"category": "kernel", "name": "k", "launch_start_us": launch, "launch_duration_us": 4.0, "op": "aten::mm"}
    return Activity(**{"position": position, "start_us": start, "duration_us": length, **values, **more})


def call(position: int, name: str, start: float, length: float, parent: int | None = None, **more: object) -> Call:
    """A CPU event; ATen names are ops, others runtime calls."""
    category = "op" if "::" in name else "runtime"
    return Call(position, 0 if parent is None else 1, parent, category, name, start, length, length, **more)


def facts_of(activities: list[Activity], calls: list[Call], cpu_us: float, whole_us: float | None = None) -> CaseFacts:
    """A case of one forward that starts at 1000 µs."""
    forward = ProfiledForward(1, 0, cpu_us, start_us=1000.0, activities=tuple(activities))
    return CaseFacts(
        "r", "c", kernels=len(activities), forwards=(forward,), calls=tuple(calls), chosen=(1, 0),
        forward_time_us=whole_us,
    )  # fmt: skip


def parts(made: TimeSplit | None) -> dict[tuple[str, str], float]:
    """(kind, name) -> time."""
    assert made is not None
    sums: dict[tuple[str, str], float] = {}
    for cause in made.causes:
        sums[cause.kind, cause.name] = sums.get((cause.kind, cause.name), 0.0) + cause.time_us
    return {key: round(value, 6) for key, value in sums.items()}


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_idle_time_belongs_to_what_the_cpu_does_until_the_launch_returns() -> None:
    """0 to 10 Python, 10 to 20 the op, 20 to 24 its launch, 24 to 30 the device starts it, 30 to 80 the kernel."""
    calls = [call(0, "aten::mm", 10.0, 20.0), call(1, "cudaLaunchKernel", 20.0, 4.0, 0, correlation=7)]
    made = time_split(facts_of([kernel(0, 1030.0, 50.0, 1020.0, correlation=7)], calls, 40.0))
    assert made is not None
    assert (made.source, made.time_us) == ("trace", 80.0)
    assert parts(made) == {
        ("device work", "k"): 50.0,
        ("Python", "Python between ops"): 10.0,
        ("op on the CPU", "aten::mm"): 10.0,
        ("launch", "cudaLaunchKernel"): 4.0,
        ("launch latency", "k"): 6.0,
    }


def test_a_wait_explains_the_idle_time_after_it_as_long_as_the_cpu_was_blocked() -> None:
    """The CPU waits from 24 to 54 for a kernel that ends at 50; the next kernel starts at 90, launched from 80 to 84.

    Of the 34 µs before that launch has returned, the 30 that the CPU was blocked belong to the wait, the last 4 to
    the launch; then the device takes 6 to start.
    """
    calls = [
        call(0, "aten::mm", 0.0, 24.0),
        call(1, "cudaLaunchKernel", 20.0, 4.0, 0, correlation=7),
        call(2, "aten::item", 24.0, 30.0),
        call(3, "cudaStreamSynchronize", 24.0, 30.0, 2),
        call(4, "aten::mm", 60.0, 26.0),
        call(5, "cudaLaunchKernel", 80.0, 4.0, 4, correlation=8),
    ]
    kernels = [kernel(0, 1030.0, 20.0, 1020.0, correlation=7), kernel(1, 1090.0, 20.0, 1080.0, correlation=8)]
    made = time_split(facts_of(kernels, calls, 90.0))
    assert parts(made) == {
        ("op on the CPU", "aten::mm"): 20.0,
        ("launch", "cudaLaunchKernel"): 8.0,
        ("launch latency", "k"): 12.0,
        ("device work", "k"): 40.0,
        ("synchronization", "cudaStreamSynchronize"): 30.0,
    }
    assert made is not None
    wait = made.waits[0]
    assert (wait.name, wait.op, wait.time_us, wait.count) == ("cudaStreamSynchronize", "aten::item", 30.0, 1)


def test_overlapping_kernels_count_once() -> None:
    """Two streams: 10 to 60 and 40 to 70 are 60 µs together; the part that both cover belongs to the first."""
    kernels = [kernel(0, 1010.0, 50.0, 1000.0), kernel(1, 1040.0, 30.0, 1004.0, stream=8, name="other")]
    made = time_split(facts_of(kernels, [], 12.0))
    assert made is not None
    assert parts(made)["device work", "k"] == 50.0
    assert parts(made)["device work", "other"] == 10.0
    assert made.time_us == 70.0


def test_the_device_works_on_earlier_forwards() -> None:
    """Until 1025 the device runs a kernel of the forward before; the idle rest is the start of the launched kernel."""
    facts = facts_of([kernel(0, 1030.0, 20.0, 1001.0)], [call(0, "cudaLaunchKernel", 1.0, 4.0)], 10.0)
    before = ProfiledForward(1, 1, 5.0, start_us=900.0, activities=(kernel(0, 900.0, 125.0, 890.0),))
    made = time_split(replace(facts, forwards=(*facts.forwards, before)))
    assert parts(made) == {
        ("earlier forwards", "kernels of other forwards"): 25.0,
        ("launch latency", "k"): 5.0,
        ("device work", "k"): 20.0,
    }


def test_idle_time_is_scaled_to_the_unprofiled_forward_and_device_time_is_not() -> None:
    """80 µs in the trace, 30 of them idle; unprofiled 65 µs, so the idle 15 µs are half of what the trace has."""
    calls = [call(0, "aten::mm", 10.0, 20.0), call(1, "cudaLaunchKernel", 20.0, 4.0, 0, correlation=7)]
    made = time_split(facts_of([kernel(0, 1030.0, 50.0, 1020.0, correlation=7)], calls, 40.0, 65.0))
    assert made is not None
    assert (made.source, made.time_us) == ("unprofiled forward", 65.0)
    assert parts(made)["device work", "k"] == 50.0
    assert parts(made)["Python", "Python between ops"] == 5.0


def test_time_that_nothing_in_the_trace_explains_is_in_sight() -> None:
    made = time_split(facts_of([kernel(0, 1000.0, 50.0, 990.0)], [], 50.0, 80.0))
    assert parts(made) == {
        ("device work", "k"): 50.0,
        ("unexplained", "idle in unprofiled forwards, not in the trace"): 30.0,
    }


def test_a_copy_that_returns_early_is_a_launch_and_one_that_blocks_is_a_wait() -> None:
    copy = kernel(0, 1020.0, 50.0, 1010.0, category="memcpy", name="Memcpy HtoD (Pageable -> Device)", correlation=7)
    early = call(0, "cudaMemcpyAsync", 10.0, 5.0, correlation=7)
    assert parts(time_split(facts_of([copy], [early], 20.0)))["launch", "cudaMemcpyAsync"] == 4.0
    blocking = call(0, "cudaMemcpyAsync", 10.0, 61.0, correlation=7)
    made = time_split(facts_of([copy], [blocking], 80.0))
    assert made is not None
    assert [(wait.kind, wait.time_us) for wait in made.waits] == [("blocking copy", 61.0)]


def test_without_device_activities_or_times_there_is_no_split() -> None:
    assert time_split(facts_of([], [], 10.0)) is None
    assert time_split(facts_of([replace(kernel(0, 0.0, 1.0, 0.0), start_us=None)], [], 10.0)) is None


# --- recorded --------------------------------------------------------------------------------------------------------


def plain_busy_us(name: str, facts: CaseFacts) -> float:
    """By the raw events: how long the device is busy with what starts in the representative forward's place."""
    with gzip.open(FAULTS / f"{name}.json.gz") as file:
        events = json.load(file)["traceEvents"]
    ranges = [e for e in events if e.get("cat") == "user_annotation" and e["name"] == "fwd"]
    forward = facts.representative
    assert forward is not None
    start = float(sorted(ranges, key=lambda e: float(e["ts"]))[forward.index]["ts"])
    launches = {
        e["args"]["correlation"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and start <= float(e["ts"]) < start + forward.cpu_time_us
    }
    busy, reached = 0.0, float("-inf")
    for event in sorted(events, key=lambda e: float(e.get("ts", 0))):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event["args"]["correlation"] in launches:
            end = float(event["ts"]) + float(event["dur"])
            busy += max(0.0, end - max(reached, float(event["ts"])))
            reached = max(reached, end)
    return busy


@pytest.mark.parametrize(("name", "median_us"), recorded_faults())
def test_the_split_adds_up_on_recorded_faults(name: str, median_us: float | None) -> None:
    facts = fault_facts(name, None)
    in_trace = time_split(facts)
    assert in_trace is not None
    assert sum(cause.time_us for cause in in_trace.causes) == pytest.approx(in_trace.time_us, rel=0.001)
    assert in_trace.of_kind(*DEVICE_KINDS) == pytest.approx(plain_busy_us(name, facts), abs=0.05)
    assert in_trace.of_kind(UNEXPLAINED) == 0
    if median_us is not None:
        unprofiled = time_split(replace(facts, forward_time_us=median_us))
        assert unprofiled is not None
        assert sum(cause.time_us for cause in unprofiled.causes) == pytest.approx(median_us, rel=0.001)


#: Fault -> (kind, part of the name of what costs most, least share of the forward), read off the recorded events.
COSTS_MOST = {
    "gemm_vocab_odd": ("device work", "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1", 0.95),
    "gemm_fp16_k_odd": ("device work", "cutlass_75_tensorop_f16_s1688gemm_f16_256x128_tn_align1", 0.8),
    "gemm_fp32_no_tf32": ("device work", "f32f32_f32f32_f32", 0.9),
    "gemm_fp64_by_accident": ("device work", "f64f64_f64f64", 0.7),
    "casts_up_and_down": ("device work", "[copy]", 0.4),
    "autocast_fp32_weights": ("device work", "[copy]", 0.25),
    "conv_nchw": ("device work", "fprop_implicit_gemm", 0.5),
    "contiguous_copies": ("device work", "[copy]", 0.7),
    "gelu_by_hand": ("device work", "[mul]", 0.6),
    "loss_by_hand": ("device work", "[exp]", 0.45),
    "cpu_in_forward": ("op on the CPU", "aten::sum", 0.4),
    "copy_pinned_blocking": ("copy", "Memcpy HtoD", 0.75),
    "recompiles": ("torch.compile", "async_compile.wait", 0.7),
    "sdpa_fp32": ("device work", "fmha_cutlassF_f32", 0.9),
    "python_between_launches": ("Python", "Python", 0.9),
    "slow_data_loader": ("data loading", "DataLoader", 0.8),
    "adam_loop": ("optimizer", "Optimizer.step", 0.15),
}


@pytest.mark.parametrize("name", COSTS_MOST)
def test_what_costs_most_comes_first(name: str) -> None:
    kind, part, least = COSTS_MOST[name]
    made = time_split(fault_facts(name, dict(recorded_faults())[name]))
    assert made is not None
    first = made.causes[0]
    assert first.kind == kind
    assert part in first.name
    assert first.time_us >= least * made.time_us


def test_the_split_of_the_recorded_run_adds_up_and_is_explained(all_recorded_facts: Facts) -> None:
    cases = all_recorded_facts
    ceilings = ceilings_of(cases)
    made = {name: time_split(facts, kernel_costs(facts, ceilings)) for name, facts in cases.items()}
    assert len(made) == 46
    for facts, of_case in zip(cases.values(), made.values(), strict=True):
        assert of_case is not None
        assert of_case.source == "unprofiled forward"
        assert sum(cause.time_us for cause in of_case.causes) == pytest.approx(facts.forward_time_us, rel=0.001)
        assert of_case.of_kind(UNEXPLAINED) <= 0.1 * of_case.time_us
    mlp = made["mlp-eager"]
    assert mlp is not None
    assert [cause.kind for cause in mlp.causes[:4]] == ["compute", "compute", "memory", "memory"]


#: Planted case -> (kinds of its cause, its time in µs by the events of one forward).
PLANTED = {
    "p06-h2d-pageable": (("copy",), 9500.0),
    "p13-cudamalloc": (("allocation",), 2500.0),
    "p02-fp32-no-tf32": (("device work", "compute"), 2681.0),
    "p01-gemm-unaligned": (("device work", "compute"), 1450.0),
    "p11-layernorm-unfused": (("device work", "memory"), 792.0),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_holds_its_time(name: str, planted_facts: Facts) -> None:
    kinds, time_us = PLANTED[name]
    made = time_split(planted_facts[name], kernel_costs(planted_facts[name], ceilings_of(planted_facts)))
    assert made is not None
    assert made.of_kind(*kinds) == pytest.approx(time_us, rel=0.1)


def test_the_shares_of_the_table_add_up(all_recorded_facts: Facts) -> None:
    table = judge_edition({facts.key: facts for facts in all_recorded_facts.values()}, {}).tables()["time_split"]
    shares: dict[str, float] = {}
    for row in table.to_pylist():
        shares[row["case"]] = shares.get(row["case"], 0.0) + row["share"]
    assert len(shares) == 46
    assert list(shares.values()) == pytest.approx([1.0] * 46, rel=0.001)
