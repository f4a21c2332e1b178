"""Figures of a report, counted by hand from what ncu printed on an H200; other units, other pages, damage."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.counters import CountersError, Stall, counters_beside, facts_of, read_counters
from kernelbook.counters.files import parse
from kernelbook.counters.kernel import limiter_of, sentence_of
from tests.counters.made_report import ATTENTION, PEAK, report


def test_figures_of_in_place_attention():
    """masked_fill: 224,424,960 bytes read and 243,772,672 written in 345,056 ns, at 28.20 % of DRAM's peak."""
    qk, mul, mask, softmax, _ = parse(report())
    assert (mask.dram_read_bytes, mask.dram_write_bytes, mask.dram_bytes) == (224_424_960, 243_772_672, 468_197_632)
    assert mask.duration_us == pytest.approx(345.056)
    assert (mask.sm_percent, mask.dram_percent, mask.memory_percent) == (61.54, 28.20, 28.20)
    assert (mask.grid, mask.block) == ((262144, 1, 1), (128, 1, 1))
    assert [limiter_of(kernel) for kernel in (qk, mul, mask, softmax)] == ["memory", "memory", "compute", "compute"]
    assert sentence_of(mul) == "Memory is the limit: DRAM at 86 % of its peak, the SMs at 18 %."
    assert sentence_of(softmax) == "Instructions are the limit: the SMs at 83 % of their peak, DRAM at 38 %."


def test_what_a_report_lacks_is_not_known():
    kernel = parse(report())[0]
    assert (kernel.l2_bytes, kernel.l2_hit_percent, kernel.waves, kernel.local_bytes) == (None, None, None, None)
    assert (kernel.tensor_percent, kernel.occupancy_percent, kernel.registers_per_thread) == (None, None, None)
    assert (kernel.stalls, kernel.occupancy_limits) == ((), ())


def test_units_are_scaled():
    text = report(ATTENTION[:1], units={"gpu__time_duration.sum": "us", "dram__bytes_read.sum": "Mbyte"})
    kernel = parse(text.replace("33,621,248", "33.62").replace("84,832", "84.83"))[0]
    assert kernel.dram_read_bytes == pytest.approx(33.62e6)
    assert kernel.duration_us == pytest.approx(84.83)


STALLS = {"long_scoreboard": 8.60, "wait": 1.52, "gmma": 1.11, "selected": 1.00, "barrier": 0.59, "misc": 0.18}


def test_the_three_largest_stalls():
    """Sum 13.00 with the issuing cycle: 8.60 is 66.15 %, 1.52 is 11.69 %, 1.11 is 8.54 %."""
    more = {
        f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": [value] for name, value in STALLS.items()
    }
    stalls = parse(report(ATTENTION[:1], more))[0].stalls
    assert [stall.reason for stall in stalls] == ["long_scoreboard", "wait", "gmma"]
    assert [stall.percent for stall in stalls] == pytest.approx([66.1538, 11.6923, 8.5385], abs=1e-3)
    assert isinstance(stalls[0], Stall)


def test_occupancy_spills_and_tensor_pipe():
    more = {
        "launch__occupancy_limit_registers": [1],
        "launch__occupancy_limit_shared_mem": [1],
        "launch__occupancy_limit_warps": [5],
        "launch__occupancy_limit_blocks": [32],
        "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": ["1,048,552"],
        "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum": ["24"],
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": [22.94],
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": [0.71],
        "sm__warps_active.avg.pct_of_peak_sustained_active": [14.58],
        "launch__waves_per_multiprocessor": [1],
    }
    kernel = parse(report(ATTENTION[:1], more, {name: "byte" for name in more if "t_bytes" in name}))[0]
    assert kernel.occupancy_limits == ("registers", "shared memory")
    assert kernel.local_bytes == 1_048_576
    assert kernel.tensor_percent == 22.94
    assert (kernel.occupancy_percent, kernel.waves) == (14.58, 1.0)
    assert facts_of(
        replace(kernel, stalls=(Stall("gmma", 40.0), Stall("new", 9.6)), occupancy_bound_percent=18.75)
    ) == [
        "occupancy 15 % of 19 % possible (by registers and shared memory)",
        "warps waited for tensor-core instructions (wgmma) 40 %, new 10 %",
        "1.0 MiB of local memory (spilled registers, local arrays)",
        "1.00 waves",
    ]


@pytest.mark.parametrize(
    ("sm", "memory", "waves", "limiter"),
    [
        (85, 20, 9, "compute"),
        (20, 85, 9, "memory"),
        (81, 84, 9, "memory"),
        (70, 65, 9, "balanced"),
        (70, 60, 9, "compute"),
        (55, 65, 9, "memory"),
        (59.9, 59.9, 9, "latency"),
        (10, 10, 0.5, "grid"),
        (10, 10, 1, "latency"),
    ],
)
def test_the_rule_of_nsight(sm, memory, waves, limiter):
    row = (*ATTENTION[0][:6], sm, memory)
    assert limiter_of(parse(report([row], {"launch__waves_per_multiprocessor": [waves]}))[0]) == limiter


@pytest.mark.parametrize("value", ["n/a", "", "nan", "inf", "(!) not available", "-5", "1e300", "98765432109876543210"])
def test_a_value_that_is_no_number_is_not_known(value):
    more = {"lts__t_sector_hit_rate.pct": [value], "launch__registers_per_thread": [value]}
    kernel = parse(report(ATTENTION[:1], more))[0]
    assert (kernel.l2_hit_percent, kernel.registers_per_thread) == (None, None)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "no table of kernels"),
        ("==ERROR== ERR_NVGPUCTRPERM\n", "no table of kernels"),
        ('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k","a","b","c"\n', "not the raw page"),
        ('"ID","Other"\n"0","k"\n', "not the raw page"),
        (report(()), "holds no kernel"),
    ],
)
def test_what_is_no_raw_page_is_refused(text, fact):
    with pytest.raises(CountersError, match=f"{fact}.*--csv --page raw"):
        parse(text)


@pytest.mark.parametrize("digits", ["84,832", "84832", "84'832", "84\u202f832", "8.4832e4"])
def test_digits_in_groups(digits):
    """84,832 ns, as different locales group them, with a point before decimals."""
    assert parse(report(ATTENTION[:1]).replace("84,832", digits))[0].duration_us == pytest.approx(84.832)


@pytest.mark.parametrize(("point", "comma"), [("21.42", "21,42"), ("84,832", "84.832,0"), ("33,621,248", "33.621.248")])
def test_a_decimal_comma_is_refused(point, comma):
    """`84.832` would be 84,832 ns there: in the whole file no number can be trusted."""
    with pytest.raises(CountersError, match=r"decimal comma.*LC_ALL=C"):
        parse(report().replace(point, comma))


@pytest.mark.parametrize("unit", ["", "min", "MiB", "cycle"])
def test_a_time_or_size_in_an_unknown_unit_is_not_known(unit):
    units = {"gpu__time_duration.sum": unit, "dram__bytes_read.sum": unit}
    kernel = parse(report(ATTENTION[:1], units=units))[0]
    assert (kernel.duration_us, kernel.dram_read_bytes) == (None, None)
    assert (kernel.dram_write_bytes, kernel.sm_percent) == (241_797_120, 21.42)


def test_without_units_only_shares_are_known():
    lines = report(ATTENTION[:1]).splitlines(keepends=True)
    kernel = parse("".join(line for line in lines if not line.startswith('"","')))[0]
    assert (kernel.duration_us, kernel.dram_read_bytes, kernel.sm_percent) == (None, None, 21.42)


def test_sizes_that_are_too_large_and_waits_that_cancel_out():
    """1e300 TB are no size. Waits of 5 and -5 have the sum 0, of which there is no share; -5 is none."""
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    text = report(
        ATTENTION[:1], {stall.format("wait"): [5], stall.format("gmma"): [-5]}, {"dram__bytes_read.sum": "Tbyte"}
    )
    kernel = parse(text.replace("33,621,248", "1e300"))[0]
    assert kernel.dram_read_bytes is None
    assert kernel.stalls == (Stall("wait", 100.0),)


def test_empty_lines_and_output_of_the_program_between_rows():
    """Windows doubles line ends; a program prints while ncu writes. Five kernels stay."""
    assert parse(report().replace("\r\n", "\r\r\n")) == parse(report())
    assert parse(report().replace('"1","1607"', 'step 1, loss 2\n\n"1","1607"')) == parse(report())


@pytest.mark.parametrize("cut", [2, 5, 60])
def test_a_cut_row_is_no_smaller_number(cut):
    """The last field is "76.37": cut behind 76.3 it would be a number as well."""
    with pytest.raises(CountersError, match="ends within a row"):
        parse(report().rstrip()[:-cut])


def test_utf_16_of_powershell(tmp_path: Path):
    (tmp_path / "ncu.csv").write_text(report(), encoding="utf-16")
    assert len(read_counters(tmp_path / "ncu.csv")) == 5


def test_counters_beside_a_trace(tmp_path: Path):
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(b"")
    assert counters_beside(trace) is None
    (tmp_path / "ncu.csv").write_text(report())
    assert counters_beside(trace) == tmp_path / "ncu.csv"
    (tmp_path / "shapes.json.gz").write_bytes(b"")
    assert counters_beside(trace) == tmp_path / "ncu.csv"
    (tmp_path / "other.json").write_bytes(b"")  # now nobody knows whose ncu.csv is
    assert counters_beside(trace) is None
    (tmp_path / "trace.ncu.csv.gz").write_bytes(gzip.compress(report().encode()))
    assert counters_beside(trace) == tmp_path / "trace.ncu.csv.gz"
    assert len(read_counters(tmp_path / "trace.ncu.csv.gz")) == 5


def test_the_only_report_beside_a_lone_trace_is_taken(tmp_path: Path):
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(b"")
    (tmp_path / "forward.ncu-rep").write_bytes(b"NVR")
    assert counters_beside(trace) == tmp_path / "forward.ncu-rep"
    (tmp_path / "second.ncu-rep").write_bytes(b"NVR")
    assert counters_beside(trace) is None
    (tmp_path / "trace.ncu-rep").write_bytes(b"NVR")
    assert counters_beside(trace) == tmp_path / "trace.ncu-rep"


def test_damaged_files_are_refused(tmp_path: Path):
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(report().encode())[:200])
    (tmp_path / "no.csv.gz").write_bytes(b"not packed")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    for name in ("cut.csv.gz", "no.csv.gz", "binary.csv", "missing.csv"):
        with pytest.raises(CountersError, match=name):
            read_counters(tmp_path / name)


def test_a_report_is_converted_by_the_ncu_of_this_machine(tmp_path: Path, monkeypatch):
    file = tmp_path / "own.ncu-rep"
    file.write_bytes(b"NVR")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CountersError, match=r"no ncu here.*ncu --import own\.ncu-rep --csv --page raw"):
        read_counters(file)
    program = tmp_path / "ncu"
    (tmp_path / "page.csv").write_text(report())
    program.write_text(f"#!/bin/sh\ncat '{tmp_path}/page.csv'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"]))
    assert len(read_counters(file)) == 5


def test_the_columns_are_those_of_the_share_of_the_peak():
    assert "sm__throughput" + PEAK in report()
