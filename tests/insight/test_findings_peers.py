"""A case that another case of the same workload is much faster than, on the recorded run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from kernelbook.judge.findings import find_in_run
from kernelbook.text.formatting import duration
from tests.insight.insight_findings import busy, found, one, unprofiled
from tests.insight.insight_recorded import Facts

RULE = "slower-than-peer"


def on_device(recorded: Path, case: str) -> float:
    """Device time of a forward, off the JSON, µs."""
    return median(busy(recorded / case, "sdpa_fwd" if case.startswith("sdpa") else "attn_fwd"))


def test_a_case_is_set_against_the_one_of_least_device_time(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["sdpa-flash-eager"], "slower-than-peer", recorded_facts)
    own, least = (on_device(recorded_h200, case) for case in ("sdpa-flash-eager", "sdpa-auto-eager"))
    mine, theirs = (median(unprofiled(recorded_h200 / case)) for case in ("sdpa-flash-eager", "sdpa-auto-eager"))
    assert finding.text.startswith(
        f"sdpa-auto-eager does the same in {duration(least)} of device time; this case takes {own / least:.2f}× as "
        f"long, and "
        f"an unprofiled forward takes {duration(mine)} against {duration(theirs)}."
    )
    assert finding.time_us == pytest.approx(own - least)
    assert finding.share == pytest.approx(1 - least / own)
    assert (finding.severity, finding.kind, finding.of) == ("high", "recoverable", "device")
    # The backend is stated here once; parts of this finding only point to the peer.
    assert finding.remedy == (
        "Compute it as sdpa-auto-eager does: cuDNN attention (sdpa_kernel with CUDNN_ATTENTION); its longest kernel is "
        "of cuDNN attention."
    )


@pytest.mark.parametrize(
    ("case", "peer", "way"),
    [
        ("sdpa-efficient-eager", "sdpa-auto-eager", "cuDNN attention (sdpa_kernel with CUDNN_ATTENTION)"),
        ("sdpa-efficient-eager", "sdpa-flash-eager", "FlashAttention (sdpa_kernel with FLASH_ATTENTION)"),
        (
            "sdpa-math-eager",
            "sdpa-efficient-eager",
            "memory-efficient attention (sdpa_kernel with EFFICIENT_ATTENTION)",
        ),
        ("sdpa-efficient-eager", "attention-flex-compile", "flex_attention, compiled (torch.compile)"),
    ],
)
def test_the_remedy_states_what_the_faster_case_does(recorded_facts: Facts, case: str, peer: str, way: str) -> None:
    """The kernels of the peer decide, not its name: cuDNN's, FlashAttention's, CUTLASS's, Inductor's template."""
    two = {name: recorded_facts[name] for name in (case, peer)}
    remedy = one(two[case], RULE, two).remedy
    assert remedy.startswith(f"Compute it as {peer} does: {way}; its longest kernel is of ")


def test_the_remedy_never_names_the_backend_that_the_case_has(recorded_facts: Facts) -> None:
    """Both run memory-efficient attention, the faster one by a kernel of another name, in half the time."""
    slow = recorded_facts["sdpa-efficient-eager"]
    forward = next(each for each in slow.forwards if each.activities)
    quick = [replace(a, name=f"{a.name}#2", duration_us=a.duration_us / 2) for a in forward.activities]
    fast = replace(
        slow,
        case="sdpa-other-eager",
        forwards=tuple(replace(each, activities=tuple(quick)) for each in slow.forwards),
        device_time_us=slow.device_time_us / 2,
        forward_time_us=slow.forward_time_us / 2,
        processes=tuple(
            replace(
                each,
                device_time_us=each.device_time_us / 2,
                forward_times_us=(each.forward_time_us / 2,),
                forward_time_us=each.forward_time_us / 2,
            )
            for each in slow.processes
        ),
    )
    remedy = one(slow, RULE, {slow.case: slow, fast.case: fast}).remedy
    assert remedy.startswith("Compute it as sdpa-other-eager does; its longest kernel is of ")


@pytest.mark.parametrize(
    "case",
    [
        "attention-flex-compile",  # 80.7 µs, 1.40× the least
        "sdpa-cudnn-eager",  # the same kernel as the least
        "sdpa-auto-eager",
        "mlp-eager",  # 1.11 x Liger's
        "linear-compile",
        "ceiling-copy",
        "ceiling-matmul",
    ],
)
def test_it_is_silent_where_none_is_much_faster_and_of_ceilings(recorded_facts: Facts, case: str) -> None:
    assert found(recorded_facts[case], RULE, recorded_facts) == []


def test_ceilings_and_bare_traces_have_no_faster_peers(recorded_facts: Facts) -> None:
    flash, least = recorded_facts["sdpa-flash-eager"], recorded_facts["sdpa-auto-eager"]
    for changes, number in (
        ({}, 1),
        ({"workload": "trace"}, 1),  # somebody's own workload of that name
        ({"workload": "trace", "bare": True}, 0),
        ({"workload": "ceiling", "variant": "copy"}, 0),
        ({"workload": None}, 0),
    ):
        others = {facts.case: replace(facts, **changes) for facts in (flash, least)}
        assert len(found(others[flash.case], RULE, others)) == number, changes


def test_it_is_silent_where_settings_differ_or_a_process_is_not_faster(recorded_facts: Facts) -> None:
    flash, least = recorded_facts["sdpa-flash-eager"], recorded_facts["sdpa-auto-eager"]
    first, *others = least.processes
    slow_device, slow_forward = (
        replace(first, device_time_us=70.0),
        replace(first, forward_times_us=(100.0,), forward_time_us=100.0),
    )
    for changed, number in (
        (least, 1),
        (replace(least, driver="1.0"), 0),
        (replace(least, params={**least.params, "seq": 512}), 0),
        (replace(least, dtype="float16"), 0),
        (replace(least, processes=(slow_device, *others)), 0),  # 93.4 µs are 1.33 x that
        (replace(least, processes=(slow_forward, *others)), 0),
    ):
        assert len(found(flash, RULE, {flash.case: flash, least.case: changed})) == number


def test_it_is_silent_of_cases_that_need_not_compute_the_same(recorded_facts: Facts) -> None:
    flash, least = recorded_facts["sdpa-flash-eager"], recorded_facts["sdpa-auto-eager"]
    assert (round(least.relative_error, 4), round(flash.relative_error, 4)) == (0.0020, 0.0020)
    for changed, number in (
        (least, 1),
        (replace(least, relative_error=None), 0),  # as a training step, of which a variant may leave out the optimizer
        (replace(least, relative_error=0.0039), 1),
        (replace(least, relative_error=0.0041), 0),  # as TF32 beside fp32
        (replace(least, output_bytes=flash.output_bytes // 2), 0),
        (replace(least, forwards=flash.forwards, chosen=flash.chosen), 0),  # the same kernel, as behind a cold cache
    ):
        assert len(found(flash, RULE, {flash.case: flash, least.case: changed})) == number


def test_all_that_one_case_is_faster_than_are_one_row(recorded_facts: Facts, recorded_h200: Path) -> None:
    (finding,) = [told for told in find_in_run(recorded_facts) if told.rule == RULE]
    assert finding.case == "sdpa-math-eager"
    assert len(finding.cases) == 7
    least = on_device(recorded_h200, "sdpa-auto-eager")
    worst = on_device(recorded_h200, finding.case)
    assert finding.time_us == pytest.approx(worst - least)
    assert finding.text.startswith(
        f"sdpa-math-eager takes {worst / least:.1f}× the device time of sdpa-auto-eager ({duration(least)}) "
        "for the same result. 6 more cases are slower, too: "
    )
    other = on_device(recorded_h200, "attention-inplace-eager") / least
    assert f"attention-inplace-eager {other:.1f}×" in finding.text
    assert len(finding.text) < 320
