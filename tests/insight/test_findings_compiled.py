"""Rules about torch.compile, each on a recorded trace that shows the thing, or on a small one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from kernelbook.cases import Activity, Call, CallTotal, CaseFacts, Process, ProfiledForward
from kernelbook.cases.process import Dynamo
from kernelbook.judge.findings import find, find_in_run
from kernelbook.judge.findings.overhead import wrapper_remedy
from kernelbook.judge.findings.rules import Scene
from kernelbook.text.formatting import duration
from kernelbook.trace import TraceWarning
from tests.insight.insight_findings import busy, ends, found, one, small, unprofiled
from tests.insight.insight_raw import by_process, cpu_time, usual, wrapper_time
from tests.insight.insight_recorded import Facts, Look
from tests.insight.insight_traces import Trace
from tests.insight.test_inductor_code import UNFUSED, written

SGEMM = "ampere_sgemm_128x64_nn"


def test_compile_costs_a_wrapper_on_the_cpu_and_fuses_nothing_of_a_linear(request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue("shared_facts")
    overhead = one(replace(facts["linear-compile"], forward_time_us=None), "compile-overhead")
    assert overhead.text.startswith("torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, ")
    nothing = one(facts["linear-compile"], "compile-fused-nothing", facts)
    assert "the same kernel as linear-eager" in nothing.text
    assert found(facts["mlp-compile"], "compile-fused-nothing", facts) == []
    assert found(facts["linear-eager"], "compile-overhead", facts) == []


def test_fusing_nothing_costs_what_an_unprofiled_forward_takes_longer(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["linear-compile"], "compile-fused-nothing", recorded_facts)
    compiled, eager = (unprofiled(recorded_h200 / case) for case in ("linear-compile", "linear-eager"))
    assert f"an unprofiled forward takes {ends(compiled)} (over 3 processes) against {ends(eager)}" in finding.text
    assert finding.time_us == pytest.approx(median(compiled) - median(eager))
    assert finding.time_low_us == pytest.approx(min(compiled) - max(eager))
    assert (finding.of, finding.kind) == ("forward", "recoverable")


def test_what_eager_would_save_is_the_one_finding_about_the_time_that_the_device_waits(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    linear = recorded_facts["linear-compile"]
    timed = [f.rule for f in find(linear, recorded_facts) if f.time_us and f.severity != "info"]
    assert timed == ["compile-fused-nothing"]
    text = one(linear, "compile-fused-nothing", recorded_facts).text
    works = duration(median(busy(recorded_h200 / "linear-compile", "linear_fwd")))
    assert f"Overhead-bound (launch-bound): the device is busy for {works} of it and waits for the CPU" in text
    assert "% torch.compile's wrapper" in text
    # Without its twin one finding reports the wait, with the wrapper as a part of it.
    assert "% torch.compile's wrapper" in one(linear, "overhead-bound").text
    assert found(linear, "compile-overhead") == []


def test_against_the_wrapper_a_cuda_graph_comes_first_and_eager_only_where_it_is_faster(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    remedy = one(recorded_facts["attention-flex-compile"], "overhead-bound", recorded_facts).remedy
    assert remedy.startswith("Replay the forward as a CUDA graph: torch.cuda.graph")
    assert "reduce-overhead" in remedy
    assert "leave it eager" not in remedy  # there is none, and eager flex attention makes the scores
    eager = ends(unprofiled(recorded_h200 / "linear-eager"))
    assert f"leave it eager: linear-eager takes {eager} unprofiled." in wrapper_remedy(
        Scene(recorded_facts["linear-compile"], recorded_facts)
    )
    assert "leave it eager" not in wrapper_remedy(Scene(recorded_facts["mlp-compile"], recorded_facts))


def test_forwards_that_overlap_with_those_of_eager_give_no_cost(recorded_facts: Facts) -> None:
    case, eager = recorded_facts["linear-compile"], recorded_facts["linear-eager"]
    slow = tuple(replace(p, forward_time_us=90.0 if p.process == 1 else p.forward_time_us) for p in eager.processes)
    others = recorded_facts | {"linear-eager": replace(eager, processes=slow)}  # one at 90 µs, above 63.1 of compile
    finding = one(case, "compile-fused-nothing", others)
    assert (finding.time_us, finding.kind) == (None, "note")


def test_the_code_that_inductor_wrote_is_no_overhead_of_its_wrapper(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["mlp-compile"], "compile-overhead", recorded_facts)
    assert "Torch-Compiled Region" in finding.evidence
    assert "CompiledFxGraph" not in finding.evidence


def test_the_wrapper_is_a_part_of_the_time_that_the_device_waits(recorded_facts: Facts, recorded_h200: Path) -> None:
    """One finding, of the time that the device is idle; the wrapper's share is that of the CPU time."""
    facts = recorded_facts["attention-flex-compile"]
    assert found(facts, "compile-overhead", recorded_facts) == []
    finding = one(facts, "overhead-bound", recorded_facts)
    folder = recorded_h200 / "attention-flex-compile"
    both = list(zip(unprofiled(folder), busy(folder, "attn_fwd"), strict=True))
    idle = [whole - own for whole, own in both if whole > 1.1 * own]
    assert idle
    assert f"For the other {ends(idle)} it waits for the CPU" in finding.text
    share = usual(folder, "attn_fwd", wrapper_time) / usual(folder, "attn_fwd", cpu_time)
    assert f"{share:.0%} torch.compile's wrapper".replace("%", " %") in finding.text


def test_where_the_device_sets_the_pace_the_wrapper_costs_no_forward_time(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["sdpa-math-compile"], "compile-overhead", recorded_facts)
    assert finding.severity == "info"
    assert "this costs no forward time" in finding.text
    for case, annotation in (("sdpa-math", "sdpa_fwd"), ("attention-naive", "attn_fwd")):
        text = one(recorded_facts[f"{case}-compile"], "compile-overhead", recorded_facts).text
        compiled, eager = (
            by_process(recorded_h200 / f"{case}-{mode}", annotation, cpu_time) for mode in ("compile", "eager")
        )
        apart = max(compiled) < min(eager) or max(eager) < min(compiled)
        assert f" A whole forward takes {ends(compiled)} of CPU time, eager {ends(eager)}" in text
        assert text.endswith("the processes overlap.") is not apart
    rows = [f for f in find_in_run(recorded_facts) if f.rule == "compile-overhead" and f.severity == "info"]
    assert [len(finding.cases) for finding in rows] == [4]


def test_without_an_unprofiled_time_nothing_is_said_of_the_pace(recorded_facts: Facts) -> None:
    facts = recorded_facts["sdpa-math-compile"]
    processes = tuple(replace(process, forward_time_us=None) for process in facts.processes)
    bare = replace(facts, forward_time_us=None, processes=processes)
    finding = one(bare, "compile-overhead")
    assert "bound by the device" not in finding.text
    assert (finding.severity, finding.theme) == ("info", None)
    assert "None needed" not in finding.remedy


def test_graph_breaks_name_the_waits_between_and_stand_for_the_wrapper() -> None:
    """Two regions with an item() between, which waits for 12 µs; the wrapper of each region is a part of the break."""
    calls = (
        Call(0, 0, None, "op", "Torch-Compiled Region: 0/0", 0.0, 10.0, 10.0),
        Call(1, 0, None, "op", "aten::item", 12.0, 15.0, 1.0),
        Call(2, 1, 1, "op", "aten::_local_scalar_dense", 12.0, 14.0, 2.0),
        Call(3, 2, 2, "runtime", "cudaStreamSynchronize", 13.0, 12.0, 12.0),
        Call(4, 0, None, "op", "Torch-Compiled Region: 1/0", 30.0, 10.0, 10.0),
    )
    kernel = Activity(0, "kernel", "k", 5.0, 19.0, launch_start_us=2.0, launch_duration_us=1.0)
    forward = ProfiledForward(1, 0, 40.0, start_us=0.0, activities=(kernel,))
    totals = tuple(CallTotal(1, 0, c.category, c.name, 1, c.duration_us, c.self_us) for c in calls)
    facts = CaseFacts(
        "r", "c", kernels=1, forwards=(forward,), calls=calls, call_totals=totals, chosen=(1, 0), cpu_time_us=40.0
    )
    finding = one(facts, "graph-breaks")
    assert finding.text == (
        "The forward enters 2 compiled regions: 1 graph break, with aten::item between. Values are read between them: "
        "1 wait for the device, 12.0 µs in all."
    )
    assert found(facts, "compile-overhead") == []


def test_a_second_compilation_of_a_frame_is_a_recompilation(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)], op="Torch-Compiled Region: 0/1")
    assert "was recompiled" in one(small(tmp_path, trace), "recompiled").text


def test_a_first_compilation_is_none(facts_of: Look) -> None:
    assert found(facts_of("mlp-compile"), "recompiled") == []


def test_times_of_a_twin_on_another_machine_are_not_set_beside_ones_own(recorded_facts: Facts) -> None:
    twin = replace(recorded_facts["linear-eager"], driver="1.0")
    others = recorded_facts | {"linear-eager": twin}
    case = recorded_facts["linear-compile"]
    mlp = recorded_facts["mlp-compile"]
    assert "eager " in one(mlp, "compile-overhead", recorded_facts).text
    elsewhere = recorded_facts | {"mlp-eager": replace(recorded_facts["mlp-eager"], driver="1.0")}
    assert "eager " not in one(mlp, "compile-overhead", elsewhere).text
    assert " against " in one(case, "compile-fused-nothing", recorded_facts).text
    alone = one(case, "compile-fused-nothing", others)
    assert (alone.time_us, alone.kind) == (None, "note")
    assert twin not in Scene(case, others).peers()
    assert recorded_facts["linear-eager"] in Scene(case, recorded_facts).peers()


def compiled(tmp_path: Path, **measured: object) -> CaseFacts:
    """Three forwards of one compiled region that spends 10, 20 and 26 µs in itself; the first stands for the case."""
    trace = Trace()
    for kernel in (11.0, 10.0, 12.0):
        trace.forward([(SGEMM, kernel)], op="Torch-Compiled Region: 0/0")
    ops = [event for event in trace.events if event["cat"] == "cpu_op"]
    for op, length in zip(ops, (15.0, 25.0, 31.0), strict=True):
        op["dur"] = length  # 5 µs of it are the launch
    return small(tmp_path, trace, **measured)


def test_a_cost_on_the_cpu_is_the_median_over_all_forwards(tmp_path: Path) -> None:
    facts = compiled(tmp_path, forward_times_us=[])
    assert facts.chosen == (1, 0)
    finding = one(facts, "compile-overhead")
    assert (finding.time_us, finding.share) == (20.0, 0.2)  # of 100 µs
    assert "takes 20.0 µs of CPU time in each call under the profiler" in finding.text
    assert finding.evidence == "Torch-Compiled Region: 0/0 20.0 µs"


@pytest.mark.parametrize(("whole", "reported"), [(100.0, False), (11.5, True), (None, True)])
def test_a_cost_on_the_cpu_is_its_own_finding_only_where_the_device_does_not_wait_for_it(
    tmp_path: Path, whole: float | None, reported: bool
) -> None:
    facts = compiled(tmp_path, forward_times_us=[whole] * 3 if whole else [])
    assert [finding.severity for finding in found(facts, "compile-overhead")] == ["info"] * reported
    assert bool(found(facts, "overhead-bound")) != reported


def test_a_case_that_runs_eagerly_under_the_name_compile_is_reported() -> None:
    breaks = {"Dynamo does not support print": 2, "call to item": 1}
    process = Process("r", "c", process=1, dynamo=Dynamo(graphs=0, graph_breaks=breaks))
    note = TraceWarning("not_compiled", 10, "the forward ran eagerly: no compiled region is in the profiled forwards")
    facts = CaseFacts("r", "c", mode="compile", notes=(note,), processes=(process,))
    finding = one(facts, "not-compiled")
    assert finding.severity == "high"
    assert finding.text == (
        "The forward ran eagerly: no compiled region is in the profiled forwards. torch logged: Dynamo does not "
        "support print; call to item."
    )
    assert found(replace(facts, notes=()), "not-compiled") == []


@pytest.mark.parametrize(
    ("options", "graph", "reported"),
    [
        ({"mode": "reduce-overhead"}, False, True),
        ({"mode": "reduce-overhead"}, True, False),
        ({"mode": "max-autotune-no-cudagraphs"}, False, False),
        ({"options": {"triton.cudagraphs": True}}, False, True),
        ({}, False, False),
    ],
)
def test_cuda_graphs_that_were_asked_for_and_are_not_there(
    options: dict[str, object], graph: bool, reported: bool
) -> None:
    kernels = tuple(
        Activity(n, "kernel", "k", 5.0 * n, 4.0, launch_api="cudaLaunchKernel", graph=graph) for n in (0, 1)
    )
    process = Process("r", "c", process=1, dynamo=Dynamo(log=("skipping cudagraphs due to mutated inputs",)))
    facts = CaseFacts(
        "r", "c", mode="compile", compile_options=options, processes=(process,), kernels=2, launches=2,
        forwards=(ProfiledForward(1, 0, 20.0, start_us=0.0, activities=kernels),), chosen=(1, 0),
    )  # fmt: skip
    asked = "mode reduce-overhead" if "mode" in options else "option triton.cudagraphs"
    assert [finding.text for finding in found(facts, "no-cuda-graph")] == reported * [
        f"CUDA graphs were asked for ({asked}), and the forward replays none: 2 launches. torch logged: skipping "
        "cudagraphs due to mutated inputs."
    ]


def test_a_finding_quotes_why_neighbours_were_not_fused(tmp_path: Path) -> None:
    names = ("triton_poi_fused_add_0", "nvjet_tst_64x8", "triton_per_fused_softmax_1", "triton_red_fused_sum_2")
    kernels = tuple(Activity(place, "kernel", name, 10.0 * place, 4.0) for place, name in enumerate(names))
    code = written(tmp_path / "output_code.py.gz", UNFUSED)
    forward = ProfiledForward(1, 0, 50.0, 16.0, 16.0, 0.0, activities=kernels)
    facts = CaseFacts("r", "c", output_code=code, forwards=(forward,), chosen=(1, 0), kernels=4)
    (finding,) = [f for f in find(facts) if f.rule == "not-fused"]
    assert finding.text == (
        "triton_per_fused_softmax_1 and triton_red_fused_sum_2 run one after the other, 8.00 µs together, and were not "
        "fused. Inductor logged: invalid tiling for reduction."
    )
    assert (finding.time_us, finding.severity, finding.positions) == (8.0, "low", (2, 3))
    assert "not-fused" not in {f.rule for f in find(replace(facts, output_code=None))}
