"""Several processes of one case together: which are merged, what is said about the others, figures of all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

from kernelbook.cases import CASE_COLUMNS, CaseFacts, Process, case_facts, merge_processes
from kernelbook.cases.records import record_of, table_of
from kernelbook.edition import collect


def row(process: int, times: tuple[float, ...] = (100.0, 101.0, 102.0), **more: Any) -> Process:
    base = {"run": "r", "case": "c", "process": process, "status": "ok", "reason": None, "workload": "w"}
    base |= {"device": "NVIDIA H200", "device_type": "cuda", "driver": "580", "dtype": "bfloat16"}
    base |= {"kernels": 5, "device_time_us": 50.0, "inductor_cache": None, "first_call_us": 9.0}
    middle = sorted(times)[len(times) // 2] if times else None
    return record_of(Process, base | {"forward_times_us": times, "forward_time_us": middle} | more)


def failed(process: int, reason: str, status: str = "failed") -> Process:
    return row(process, (), status=status, reason=reason, device=None, driver=None, kernels=None, device_time_us=None)


def merged(case: CaseFacts) -> set[int]:
    return {process.process for process in case.processes if process.merged}


def codes(case) -> dict[str, str]:
    return {note.code: note.message for note in case.notes}


def test_a_failed_process_is_told_with_its_reason_and_the_others_speak() -> None:
    case = merge_processes([row(1), failed(2, "killed by signal 9"), row(3)])
    assert (case.status, case.kernels) == ("ok", 5)
    assert codes(case) == {"failed_processes": "1 of 3 processes failed: process 2: killed by signal 9"}
    assert merged(case) == {1, 3}
    two = merge_processes([failed(1, "killed"), row(2), failed(3, "out of memory")])
    assert codes(two)["failed_processes"] == (
        "2 of 3 processes failed: process 1: killed; process 3: out of memory"
    )  # fmt: skip
    same = merge_processes([failed(1, "killed"), row(2), failed(3, "killed")])
    assert codes(same)["failed_processes"] == "2 of 3 processes failed: processes 1, 3: killed"


def test_a_case_of_failed_processes_alone_gives_every_reason() -> None:
    one = merge_processes([failed(1, "killed"), failed(2, "killed")])
    assert (one.status, one.reason, one.notes) == ("failed", "killed", ())
    two = merge_processes([failed(1, "needs sm100", "unsupported"), failed(2, "killed"), failed(3, "exceeded 300 s")])
    assert two.status == "failed"
    assert two.reason == "process 2: killed; process 3: exceeded 300 s"


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"device": "NVIDIA A100"}, "NVIDIA A100 with 580"),
        ({"driver": "550"}, "NVIDIA H200 with 550"),
        ({"driver": None}, "NVIDIA H200 with unknown"),
    ],
)
def test_a_process_of_another_machine_is_in_no_figure_and_is_named(other: dict[str, Any], named: str) -> None:
    case = merge_processes([row(1, (100.0,)), row(2, (300.0,), device_time_us=900.0, **other), row(3, (102.0,))])
    assert merged(case) == {1, 3}
    assert (case.forward_time_us, case.device_time_us) == (101.0, 50.0)
    assert codes(case)["other_machine"].startswith(f"process 2 ran on {named}, the first on NVIDIA H200 with 580")


def test_cpu_processes_are_of_one_machine_by_name_and_threads() -> None:
    def cpu(process: int, threads: int) -> Process:
        return row(process, device="EPYC", device_type="cpu", driver=None, environment={"threads": threads})

    assert merged(merge_processes([cpu(1, 8), cpu(2, 8)])) == {1, 2}
    assert merged(merge_processes([cpu(1, 8), cpu(2, 4)])) == {1}


def test_quantiles_are_those_of_all_forwards_and_far_medians_are_warned_of() -> None:
    case = merge_processes([row(1, tuple(map(float, range(100, 110)))), row(2, tuple(map(float, range(120, 131))))])
    # 21 values: 5 % of 20 intervals is the second smallest, 95 % the second largest.
    assert (case.forward_p05_us, case.forward_p95_us) == (101.0, 129.0)
    # 125 over 104.5
    assert codes(case)["processes_apart"].startswith("the medians of 2 processes lie 20 % apart, 104 µs to 125 µs")
    near = merge_processes([row(1, (100.0, 101.0)), row(2, (109.0, 110.0))])
    assert "processes_apart" not in codes(near)


def test_processes_of_several_gpus_are_merged_and_where_they_differ_it_is_said() -> None:
    rows = [row(1, gpu_id="1f"), row(2, gpu_id="1f"), row(3, (150.0,), gpu_id="2e")]
    case = merge_processes(rows)
    assert merged(case) == {1, 2, 3}
    assert codes(case)["processes_apart"].endswith("; processes 1, 2 ran on GPU 1f, process 3 ran on GPU 2e")
    assert "GPU" not in codes(merge_processes([row(1, gpu_id="1f"), row(2, (150.0,))]))["processes_apart"]


def test_no_gpu_is_blamed_for_what_another_spans_alone() -> None:
    rows = [row(1, (150.0,), gpu_id="1f"), row(2, (80.0,), gpu_id="1f"), row(3, (110.0,), gpu_id="2e")]
    assert codes(merge_processes(rows))["processes_apart"].endswith(
        "spans them all; GPU 1f alone spans 80.0 µs to 150 µs"
    )


def on_gpus(medians_us: tuple[float, ...], gpus: str) -> CaseFacts:
    """A case whose processes have these median times and ran on these GPUs, a letter each."""
    rows = [row(n, (us,), gpu_id=gpu) for n, (us, gpu) in enumerate(zip(medians_us, gpus, strict=True), start=1)]
    return merge_processes(rows)


LINEAR = (95.73, 74.82, 63.06)  # linear-compile, matmul-add-64-eager and its cold case, as once measured on one H200
SMALL = (31.90, 37.82, 28.46)
COLD = (56.86, 63.47, 35.12)


@pytest.mark.parametrize(
    ("medians_us", "apart"),
    [
        (LINEAR, "52 % apart, 63.1 µs to 95.7 µs"),
        (SMALL, "33 % apart, 28.5 µs to 37.8 µs"),
        (COLD, "81 % apart, 35.1 µs to 63.5 µs"),
    ],
)
def test_processes_of_one_gpu_that_differ_have_a_note_without_the_gpu(medians_us, apart: str) -> None:
    note = on_gpus(medians_us, "aaa").note("processes_apart")
    assert note.message == f"the medians of 3 processes lie {apart}: the 5 to 95 % interval spans them all"


def test_recorded_processes_have_a_note_where_their_medians_differ(recorded_facts, recorded_h200: Path) -> None:
    """By the times of the measurements themselves."""
    for case, facts in recorded_facts.items():
        measured = [json.loads(file.read_text()) for file in (recorded_h200 / case).glob("*/measurement.json")]
        medians_us = [median(each["forward_times_us"]) for each in measured]
        apart = max(medians_us) / min(medians_us) - 1
        note = facts.note("processes_apart")
        assert (note is not None) == (apart > 0.1), (case, apart)
        assert note is None or f"lie {apart:.0%} apart".replace("%", " %") in note.message


@pytest.mark.parametrize(
    ("medians_us", "gpus", "sentence"),
    [  # within GPU a, and between the medians of a and b
        (LINEAR, "aba", "GPU a alone spans 63.1 µs to 95.7 µs"),  # 1.52 within, 1.06 between
        (LINEAR, "aab", "processes 1, 2 ran on GPU a, process 3 ran on GPU b"),  # 1.28, 1.35
        (SMALL, "baa", "GPU a alone spans 28.5 µs to 37.8 µs"),  # 1.33, 1.04
        (SMALL, "aba", "processes 1, 3 ran on GPU a, process 2 ran on GPU b"),  # 1.12, 1.25
        (COLD, "aab", "processes 1, 2 ran on GPU a, process 3 ran on GPU b"),  # 1.12, 1.71
    ],
)
def test_the_note_names_the_gpus_if_they_explain_the_difference(medians_us, gpus: str, sentence: str) -> None:
    note = on_gpus(medians_us, gpus).note("processes_apart")
    assert note.message.endswith(f": the 5 to 95 % interval spans them all; {sentence}")


def test_a_slow_gpu_is_named_where_the_processes_on_another_agree() -> None:
    note = on_gpus((221.63, 222.59, 312.48), "aab").note("processes_apart")
    assert note.message == (
        "the medians of 3 processes lie 41 % apart, 222 µs to 312 µs: the 5 to 95 % interval spans them all; "
        "processes 1, 2 ran on GPU a, process 3 ran on GPU b"
    )


def test_which_gpus_a_case_ran_on(recorded_facts) -> None:
    # As resources/recorded/README.md says: all of the run was measured on one GPU.
    assert len(recorded_facts) == 21
    assert len({facts.gpus for facts in recorded_facts.values()}) == 1
    assert on_gpus((1.0, 1.0, 1.0), "aab").gpus == ("a", "b")
    assert on_gpus((1.0, 1.0, 1.0), "bab").gpus == ("b", "a")
    three = on_gpus((1.0, 1.0, 1.0), "abc")
    first, second, third = three.processes
    elsewhere = (first, replace(second, merged=False), replace(third, gpu_id=None))
    assert replace(three, processes=elsewhere).gpus == ("a",)


def test_a_run_names_the_gpus_of_all_its_processes(tmp_path) -> None:
    """The other facts of its environment are those of its first process."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text('{"status": "ok"}')
    run = {"name": "r", "kind": "host", "description": "", "where": ""}

    def environment(*gpus: str, visible: str) -> dict[str, object]:
        variables = {"CUDA_VISIBLE_DEVICES": visible, "NCCL_NVLS_ENABLE": "0"}
        each = {"cpu": "x", "variables": variables}
        processes = [
            row(at, torch="2.11", gpu_id=gpu, environment=each | {"gpu_id": gpu}) for at, gpu in enumerate(gpus, 1)
        ]
        return collect._run_facts(run, tmp_path, processes, None)["environment"]

    two = environment("1f", "aa", "1f", visible="GPU 1f")  # the variable of one process is no fact of the run
    assert two == {"cpu": "x", "gpu_id": "1f, aa", "variables": {"NCCL_NVLS_ENABLE": "0"}}
    chosen = environment("1f", "1f", visible="0")
    assert (chosen["gpu_id"], chosen["variables"]["CUDA_VISIBLE_DEVICES"]) == ("1f", "0")


def test_warnings_of_all_processes_are_there_once() -> None:
    def warned(process: int, *notes: tuple[str, str]) -> Process:
        listed = [{"code": code, "count": 1, "message": text} for code, text in notes]
        return row(process, warnings=listed)

    case = merge_processes([warned(1, ("a", "same")), warned(2, ("a", "same"), ("b", "own"))])
    assert [(note.code, note.message) for note in case.notes] == [("a", "same"), ("b", "own (process 2 of 2)")]


def test_a_first_call_that_compiled_is_not_put_with_one_that_did_not() -> None:
    rows = [row(1, inductor_cache="cold", first_call_us=900.0), row(2, inductor_cache="shared", first_call_us=10.0)]
    assert merge_processes(rows).first_call_us == 900.0


def test_nan_is_missing_and_a_case_without_times_has_none() -> None:
    case = merge_processes([row(1, (), forward_time_us=float("nan"))])
    assert (case.forward_time_us, case.forward_p05_us) == (None, None)


def test_facts_leave_the_forwards_of_unmerged_processes_out() -> None:
    ranges = [
        {"run": "r", "case": "c", "process": p, "index": 0, "forward": True, "cpu_time_us": t, "device_time_us": t}
        | {"device_busy_us": t, "start_us": 0.0}
        for p, t in ((1, 10.0), (2, 90.0))
    ]
    cases = [row(1), row(2, device="NVIDIA A100")]
    (facts,) = case_facts({"cases": table_of(cases, CASE_COLUMNS), "ranges": pa.Table.from_pylist(ranges)}).values()
    assert [forward.process for forward in facts.forwards] == [1]
    assert [process.merged for process in facts.processes] == [True, False]
