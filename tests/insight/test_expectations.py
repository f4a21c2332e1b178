"""Expectations: every word judged on facts made by hand, so that the verdict follows from what is written here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kernelbook.cases import Activity, Call, CallTotal, CaseFacts, Environment, ProfiledForward
from kernelbook.judge.expectations import expect_schema, judge, vocabulary

NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
OTHER_GEMM = "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT"
SIMT = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute"
MUL = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, "
    "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)"
)
COPY = "Memcpy DtoD (Device -> Device)"


def facts(
    case: str = "attention-inplace-eager",
    activities: tuple[tuple[str, str, str], ...] = (("kernel", NVJET, "aten::matmul > aten::bmm"),),
    ops: tuple[tuple[int, str], ...] = ((0, "aten::matmul"), (1, "aten::bmm"), (0, "aten::mul")),
    **more: Any,
) -> CaseFacts:
    """A case with these activities (category, name, op path) and these ops (depth, name) in start order."""
    rows = tuple(
        Activity(
            i,
            category,
            name,
            float(i),
            10.0,
            op_path=tuple(path.split(" > ")) if path else (),
            launch_api="cudaLaunchKernel",
        )
        for i, (category, name, path) in enumerate(activities)
    )
    calls, above = [], {}
    for i, (depth, name) in enumerate(ops):
        above[depth] = i
        calls.append(Call(i, depth, above.get(depth - 1) if depth else None, "op", name, float(i), 1.0, 1.0))
    counts = {f"{kind}s": sum(a.category == kind for a in rows) for kind in ("kernel", "memcpy", "memset")}
    base = CaseFacts(
        run="h200",
        case=case,
        device_type="cuda",
        capability="9.0",
        **counts,
        launches=len(rows),
        device_time_us=10.0 * len(rows),
        device_busy_us=10.0 * len(rows),
        cpu_time_us=50.0,
        forward_time_us=100.0,
        forwards=(ProfiledForward(1, 0, 50.0, 10.0, 10.0, 0.0, rows),),
        calls=tuple(calls),
    )
    return replace(base, **more)


def verdict(word: str, value: Any, case: CaseFacts, *others: CaseFacts) -> tuple[str, str, str]:
    (found,) = judge(case.case, {word: value}, case, {other.case: other for other in others})
    return found.verdict, found.observed, found.evidence


FIVE = facts(
    activities=(
        ("kernel", NVJET, "aten::matmul > aten::bmm"),
        ("kernel", MUL, "aten::mul"),
        ("kernel", MUL, "aten::mul"),
        ("kernel", MUL, "aten::mul"),
        ("kernel", OTHER_GEMM, "aten::matmul > aten::bmm"),
        ("memset", "Memset (Device)", "aten::matmul > aten::bmm"),
    )
)


def test_six_guessed_and_five_found_is_broken_and_the_five_are_named() -> None:
    (found,) = judge("attention-inplace-eager", {"kernels": 6}, FIVE, {})
    assert (found.expected, found.observed, found.verdict) == ("6", "5", "broken")
    assert found.evidence.startswith("5 kernels in a forward: ")
    assert NVJET in found.evidence
    assert "3 × vectorized_elementwise_kernel [mul]" in found.evidence


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(5, "confirmed"), ("5", "confirmed"), ("4-6", "confirmed"), ({"min": 5}, "confirmed"), ({"max": 4}, "broken"),
     ("6-7", "broken"), (0, "broken")],
)  # fmt: skip
def test_counts_take_numbers_and_ranges(value: Any, wanted: str) -> None:
    assert verdict("kernels", value, FIVE)[0] == wanted


def test_memcpys_and_memsets_are_counted_apart() -> None:
    assert verdict("memcpys", 0, FIVE)[:2] == ("confirmed", "0")
    assert verdict("memsets", 1, FIVE)[:2] == ("confirmed", "1")
    assert verdict("launches", 6, FIVE)[0] == "confirmed"


def test_families_tensor_cores_and_types_come_from_the_names() -> None:
    assert verdict("kernel_families", {"GEMM": 2, "elementwise": 3}, FIVE)[:2] == (
        "confirmed",
        "GEMM: 2, elementwise: 3",
    )
    assert verdict("kernel_families", {"softmax": 1}, FIVE)[0] == "broken"
    assert verdict("tensor_cores", "yes", FIVE)[0] == "confirmed"
    assert verdict("gemm_type", "bf16", FIVE)[0] == "confirmed"
    assert verdict("different_gemms", 2, FIVE)[0] == "confirmed"
    fp32 = facts(activities=(("kernel", SIMT, "aten::bmm"),))
    assert verdict("tensor_cores", False, fp32)[0] == "confirmed"
    assert verdict("tensor_cores", "yes", fp32)[:2] == ("broken", "no")
    assert verdict("gemm_type", "bf16", fp32)[:2] == ("broken", "fp32")
    assert verdict("tensor_cores", "yes", facts(activities=(("kernel", "my_kernel", "x"),)))[0] == "not applicable"


def test_names_match_patterns_over_all_activities() -> None:
    naive = facts(activities=(("kernel", NVJET, "aten::bmm"), ("memcpy", COPY, "aten::copy_")))
    assert verdict("activity_names", ["Memcpy DtoD*", "nvjet_*"], naive)[0] == "confirmed"
    assert verdict("activity_names", "triton_*", naive)[:2] == ("broken", "nothing matches triton_*")
    assert verdict("activity_names_absent", "Memcpy*", naive)[0] == "broken"
    assert verdict("launch_api", "cuLaunchKernelEx", naive)[:2] == ("broken", "cudaLaunchKernel")


LINEAR = facts(
    case="linear-eager",
    activities=(("kernel", NVJET, "aten::linear > aten::addmm"),),
    ops=((0, "aten::linear"), (1, "aten::t"), (2, "aten::transpose"), (1, "aten::addmm"), (0, "aten::relu")),
)


def test_ops_are_judged_by_presence_order_nesting_and_launches() -> None:
    assert verdict("ops_present", ["aten::t", "aten::addmm"], LINEAR)[0] == "confirmed"
    assert verdict("ops_present", "aten::bmm", LINEAR)[:2] == ("broken", "missing: aten::bmm")
    assert verdict("ops_absent", "aten::add", LINEAR)[0] == "confirmed"
    assert verdict("ops_absent", "aten::trans*", LINEAR)[:2] == ("broken", "aten::transpose")
    assert verdict("ops_in_order", ["aten::linear > aten::t", "aten::addmm", "aten::relu"], LINEAR)[0] == "confirmed"
    assert verdict("ops_in_order", ["aten::linear > aten::transpose"], LINEAR)[0] == "confirmed"
    assert verdict("ops_in_order", ["aten::addmm", "aten::t"], LINEAR)[0] == "broken"
    assert verdict("ops_in_order", ["aten::t > aten::addmm"], LINEAR)[0] == "broken"
    assert verdict("op_counts", {"aten::linear": 1, "aten::t*": 2}, LINEAR)[0] == "confirmed"
    assert verdict("ops_without_kernels", ["aten::t", "aten::transpose"], LINEAR)[0] == "confirmed"
    assert verdict("ops_without_kernels", ["aten::addmm"], LINEAR)[:2] == ("broken", "launches: aten::addmm")
    assert verdict("ops_without_kernels", ["aten::view"], LINEAR)[:2] == ("broken", "not called: aten::view")


def test_evidence_shows_what_matched_and_nothing_else() -> None:
    long = "## Call CompiledFxGraph fyyn57jqdh6rzwcrtb623yojqn4wwm2f4utilknawfpkactdpzr5 ##"
    compiled = facts(ops=((0, "Torch-Compiled Region: 0/0"), (1, long), (2, "aten::addmm"), (2, "aten::addmm")))
    assert verdict("op_counts", {"aten::addmm": 2}, compiled)[2] == "2 × aten::addmm"
    assert verdict("ops_present", "aten::addmm", compiled)[2] == "2 × aten::addmm"
    assert verdict("ops_absent", "aten::t", compiled)[2] == "none of 4 ops"
    evidence = verdict("ops_present", "aten::addm", compiled)[2]
    assert evidence == "none of 4 ops; no aten::addm (did you mean aten::addmm?)"
    assert verdict("ops_without_kernels", "aten::t*", LINEAR)[2] == "aten::t, aten::transpose"
    assert verdict("ops_without_kernels", "aten::addmm", LINEAR)[2] == f"aten::addmm; 1 × {NVJET} inside aten::addmm"
    assert verdict("ops_in_order", ["aten::linear > aten::t", "aten::relu"], LINEAR)[2] == (
        "aten::linear > aten::t, then aten::relu"
    )
    assert verdict("ops_in_order", ["aten::addmm", "aten::t"], LINEAR)[1:] == (
        *("aten::t not found after what comes before it", "aten::addmm; aten::t only before"),
    )  # fmt: skip
    assert verdict("activity_names", "*MulFunctor*", FIVE)[2] == "*MulFunctor*: 3 × vectorized_elementwise_kernel [mul]"
    assert verdict("activity_names_absent", "triton_*", FIVE)[2] == "none of 6 device activities"
    assert (
        verdict("kernel_families", {"elementwise": 3}, FIVE)[2]
        == "elementwise: 3 × vectorized_elementwise_kernel [mul]"
    )


def test_a_kernel_of_an_older_architecture_is_told_where_cores_and_types_are() -> None:
    older = facts(activities=(("kernel", SIMT, "aten::bmm"),))
    for word, value in (("tensor_cores", "no"), ("gemm_type", "fp32")):
        assert verdict(word, value, older)[2].endswith(", built for sm80 (Ampere), runs on sm90 (Hopper)")
        assert "built for" not in verdict(word, value, replace(older, capability="8.0"))[2]


def test_same_kernels_is_by_name_and_number_and_a_list_means_one_of_them() -> None:
    compiled = replace(LINEAR, case="linear-compile")
    other = facts(case="other", activities=(("kernel", OTHER_GEMM, "aten::bmm"),))
    assert verdict("same_kernels_as", "linear-eager", compiled, LINEAR)[0] == "confirmed"
    broken = verdict("same_kernels_as", "other", compiled, other)
    assert broken[0] == "broken"
    assert NVJET in broken[2]
    assert OTHER_GEMM in broken[2]
    assert verdict("same_kernels_as", ["other", "linear-eager"], compiled, other, LINEAR)[0] == "confirmed"
    assert verdict("same_kernels_as", "absent", compiled)[0] == "not applicable"
    assert verdict("same_gemms_as", "h", FIVE, replace(FIVE, case="h"))[0] == "confirmed"


def test_comparisons_of_number_and_time() -> None:
    slow = facts(case="slow", device_time_us=300.0, cpu_time_us=80.0)
    fast = facts(case="fast", device_time_us=100.0, cpu_time_us=40.0, ops=((0, "aten::mul"),))
    assert verdict("slower_than", "fast", slow, fast)[:2] == ("confirmed", "3.00× the device time")
    assert verdict("slower_than", {"fast": "2.5-3.5"}, slow, fast)[0] == "confirmed"
    assert verdict("slower_than", {"fast": 4}, slow, fast)[0] == "broken"
    assert verdict("faster_than", {"slow": {"max": 2}}, fast, slow)[0] == "broken"
    assert verdict("faster_than", "fast", slow, fast)[:2] == ("broken", "0.33× as fast")
    assert verdict("faster_than", "slow", fast, slow) == (
        *("confirmed", "3.00× as fast", "3.00× as fast: device time 100 µs here, 300 µs in slow"),
    )  # fmt: skip
    assert verdict("more_cpu_time_than", "fast", slow, fast)[2] == (
        "2.00× the CPU time: CPU time under the profiler 80.0 µs here, 40.0 µs in fast"
    )
    assert verdict("more_cpu_time_than", "fast", slow, fast)[:2] == ("confirmed", "2.00× the CPU time")
    assert verdict("fewer_cpu_ops_than", "slow", fast, slow)[0] == "confirmed"
    assert verdict("more_cpu_ops_than", "slow", fast, slow)[0] == "broken"
    assert verdict("fewer_kernels_than", "h", slow, replace(FIVE, case="h"))[0] == "confirmed"


def test_balance_and_error() -> None:
    idle = replace(LINEAR, device_busy_us=30.0)
    assert verdict("bound_by", "launches", idle)[0] == "confirmed"
    assert verdict("bound_by", "launches", replace(LINEAR, device_busy_us=98.0))[:2] == ("broken", "gpu")
    assert verdict("bound_by", "gpu", replace(idle, cpu_time_us=20.0))[:2] == ("not applicable", "unclear")
    assert verdict("bound_by", "gpu", replace(idle, forward_time_us=None))[:2] == ("not applicable", "unknown")
    assert verdict("error_below", 0.01, replace(LINEAR, relative_error=0.004))[0] == "confirmed"
    assert verdict("error_below", 0.001, replace(LINEAR, relative_error=0.004))[0] == "broken"
    assert verdict("error_below", 0.001, LINEAR) == (
        *("not applicable", "not measured", "no relative error was measured"),
    )  # fmt: skip


SILENT = "triton_tem_fused_addmm_0"  # a GEMM that says neither its cores nor its element type


def test_a_name_that_does_not_say_leaves_a_guess_open_and_one_that_says_otherwise_breaks_it() -> None:
    def case(*kernels: str) -> CaseFacts:
        return facts(activities=tuple(("kernel", name, "aten::mm") for name in kernels))

    assert case(SILENT).activities[0].family == "GEMM"
    assert case(SILENT).activities[0].decoded.tensor_cores == "unknown"
    assert verdict("tensor_cores", "yes", case(NVJET, SILENT))[:2] == ("not applicable", "unknown, yes")
    assert verdict("tensor_cores", "no", case(SIMT, SILENT))[0] == "not applicable"
    assert verdict("tensor_cores", "yes", case(NVJET, SIMT, SILENT))[0] == "broken"
    assert verdict("tensor_cores", "no", case(NVJET, SILENT))[0] == "broken"
    assert verdict("gemm_type", "bf16", case(NVJET, SILENT))[:2] == ("not applicable", "bf16, unknown")
    assert verdict("gemm_type", "fp32", case(NVJET, SILENT))[0] == "broken"


def uneven(*numbers: int) -> CaseFacts:
    """A case whose forwards run so many kernels, and call aten::mul as often."""
    forwards = tuple(
        ProfiledForward(
            1, i, 50.0, 10.0, 10.0, 0.0, tuple(Activity(p, "kernel", MUL, 9.0 * p, 1.0) for p in range(n)), n
        )
        for i, n in enumerate(numbers)
    )
    totals = tuple(CallTotal(1, i, "op", "aten::mul", n, 9.0, 9.0, n) for i, n in enumerate(numbers))
    return facts(kernels=numbers[0], launches=numbers[0], forwards=forwards, call_totals=totals)


@pytest.mark.parametrize(
    ("word", "value"),
    [("kernels", 5), ("launches", 5), ("kernel_families", {"elementwise": 5}), ("op_counts", {"aten::mul": 5})],
)
def test_a_count_must_hold_for_all_forwards(word: str, value: Any) -> None:
    ranged = dict.fromkeys(value, "5-6") if isinstance(value, dict) else "5-6"
    assert verdict(word, value, uneven(5, 5))[0] == "confirmed"
    assert verdict(word, value, uneven(5, 6, 5))[:2] == ("not applicable", "forwards differ")
    assert verdict(word, value, uneven(6, 7))[0] == "broken"  # no forward is as guessed
    assert verdict(word, ranged, uneven(5, 6))[0] == "confirmed"


def test_a_count_against_another_case_must_hold_for_all_forwards() -> None:
    four = replace(uneven(4, 4), case="four")
    assert verdict("more_kernels_than", "four", uneven(5, 6), four)[0] == "confirmed"
    assert verdict("more_kernels_than", "four", uneven(4, 6), four)[:2] == ("not applicable", "forwards differ")
    assert verdict("more_cpu_ops_than", "four", uneven(4, 6), four)[:2] == ("not applicable", "forwards differ")
    assert verdict("more_kernels_than", "four", uneven(3, 4), four)[0] == "broken"


@pytest.mark.parametrize("word", ["slower_than", "faster_than", "more_cpu_time_than"])
def test_times_of_another_machine_or_of_other_inputs_are_not_judged(word: str) -> None:
    here = facts(case="here", device="NVIDIA H200", workload="mlp", dtype="bfloat16")
    for other in ({"device": "NVIDIA A100"}, {"driver": "550"}, {"dtype": "float16"}, {"params": {"batch": 2}}):
        there = replace(here, case="there", device_time_us=1.0, cpu_time_us=1.0, **other)
        found = verdict(word, "there", here, there)
        assert found[:2] == ("not applicable", "not comparable")
        assert "differ" in found[2]
    cpu = replace(here, device_type="cpu", device="EPYC", environment=Environment(threads=8))
    other = replace(cpu, case="there", environment=Environment(threads=4), cpu_time_us=1.0, device_time_us=1.0)
    assert "number of threads" in verdict(word, "there", cpu, other)[2]


def test_one_kernel_is_one_kernel() -> None:
    assert verdict("kernels", 2, LINEAR)[2].startswith("1 kernel in a forward: ")


def test_on_a_cpu_run_device_words_do_not_apply_and_ops_are_judged() -> None:
    cpu = replace(LINEAR, device_type="cpu", capability=None, kernels=None, memcpys=None, memsets=None, launches=None)
    expect = {"kernels": 1, "ops_present": "aten::addmm", "tensor_cores": True, "cuda": {"memsets": 0}}
    found = {j.word: j.verdict for j in judge("linear-eager", expect, cpu, {})}
    assert found == {"kernels": "not applicable", "ops_present": "confirmed", "tensor_cores": "not applicable"}


def test_a_device_may_replace_a_guess_or_take_it_back() -> None:
    expect = {"kernels": 2, "ops_absent": "aten::addmm", "sm90": {"kernels": 1}, "cuda": {"ops_absent": None}}
    assert [(j.word, j.verdict) for j in judge("linear-eager", expect, LINEAR, {})] == [("kernels", "confirmed")]
    ampere = replace(LINEAR, capability="8.0")
    assert [(j.word, j.verdict) for j in judge("linear-eager", expect, ampere, {})] == [("kernels", "broken")]


def test_a_failed_case_breaks_no_guess() -> None:
    failed = CaseFacts("h200", "linear-eager", status="failed", reason="out of memory")
    (found,) = judge("linear-eager", {"kernels": 1}, failed, {})
    assert (found.verdict, found.evidence) == ("not applicable", "the case failed: out of memory")


def test_unknown_words_and_bad_values_are_refused_with_where_and_remedy() -> None:
    with pytest.raises(ValueError, match=r"cases\.linear-eager\.expect: unknown word 'kernel': did you mean 'kernels'"):
        judge("linear-eager", {"kernel": 1}, LINEAR, {})
    with pytest.raises(ValueError, match=r"cases\.linear-eager\.expect\.kernels: must be a whole number, .* got .one."):
        judge("linear-eager", {"kernels": "one"}, LINEAR, {})


def test_the_schema_file_is_the_vocabulary(root: Path) -> None:
    stored = json.loads((root / "workflow/schemas/expect.schema.json").read_text(encoding="utf-8"))
    assert stored == expect_schema()
    assert all(word.means.endswith(".") for word in vocabulary().values())


@pytest.mark.parametrize(
    ("expect", "fine"),
    [({"kernels": 5, "memcpys": "0-1", "sm90": {"memsets": {"max": 2}}, "cpu": {"kernels": None}}, True),
     ({"slower_than": {"a-case": "2-4"}, "faster_than": "b", "same_kernels_as": ["a", "b"]}, True),
     ({"tensor_cores": True, "kernel_families": {"GEMM": 3, "fill/mask": "1-2"}}, True),
     ({"kernels": "one"}, False), ({"kernels": -1}, False), ({"kernel": 1}, False), ({"kernels": 1.5}, False),
     ({"kernel_families": {"gemm": 1}}, False), ({"tensor_cores": "maybe"}, False), ({"sm90": {"kernel": 1}}, False),
     ({"sm90": {"cuda": {}}}, False), ({"error_below": 0}, False), ({"bound_by": "cpu"}, False)],
)  # fmt: skip
def test_the_schema_takes_what_the_judge_takes(expect: dict[str, Any], fine: bool) -> None:
    validator = jsonschema.Draft202012Validator(expect_schema())
    assert (not list(validator.iter_errors(expect))) is fine
