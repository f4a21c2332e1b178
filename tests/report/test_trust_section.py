"""How far to trust the figures, which backends a device takes, and whose figures they are: page, twin and summary."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS, Activity, CaseFacts, ProfiledForward
from kernelbook.cases.records import record_of
from kernelbook.edition.model import ConfiguredCase, Edition, read_edition
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import SCHEMA as ANSWERS
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import SCHEMA, Trust
from kernelbook.report import findings_section, first_screen, trust_section
from kernelbook.report.rendering import render_report
from tests.report import made_edition

GOOD = Trust(
    "h200",
    "attention-inplace-eager",
    processes=3,
    retried_processes=0,
    device_spread=0.002,
    forward_spread=0.001,
    busy_ratio=0.996,
    restless=False,
    gpus=("1f2e3d4c",),
    cpu_spread=0.12,
    bound="gpu",
    bound_processes=3,
    overhead_share=0.016,
    checked_processes=3,
    falling_processes=0,
    rising_processes=0,
    sm_before_mhz=1980.0,
    sm_after_mhz=1980.0,
    clock_reasons=(),
    throttled_processes=0,
    other_gpu_processes=(),
    first_call_us=222e3,
    flush_l2=False,
    forward_timer="cuda_events",
)
SLOW = replace(
    GOOD,
    case="linear-eager",
    processes=2,
    failed_processes=1,
    retried_processes=1,
    device_spread=0.031,
    busy_ratio=18.5,
    restless=True,
    gpus=("1f2e3d4c", "aa00bb11"),
    cpu_spread=0.9,
    bound="launches",
    bound_processes=1,
    falling_processes=2,
    rising_processes=0,
    sm_after_mhz=1515.0,
    clock_reasons=("software power cap",),
    throttled_processes=1,
    other_gpu_processes=("<b>python</b>",),
    first_call_us=None,
    first_call_cold_us=6.83e6,
    first_call_shared_us=1.29e6,
    flush_l2=True,
)
UNREAD = Trust("h200", "sdpa-math-eager", processes=1)
REASON = "Flash attention requires q,k,v to have the same last dimension"
BACKENDS = (
    Answer("h200", "attention", "math", True, None, "bfloat16, seq 1024, head_dim 80, causal", ("a", "b", "c")),
    Answer("h200", "attention", "flash", False, REASON, "bfloat16, seq 1024, head_dim 80, causal", ("a", "b", "c")),
)
RUNS = (
    {**made_edition.RUNS[0], "where": "resources/recorded/h200-torch2.11"},
    {
        "run": "torch-2.12",
        "kind": "container",
        "device": "NVIDIA H200",
        "image": "docker://pytorch/pytorch:2.12",
        "image_digest": "sha256:0123456789abcdef",
    },
)


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    edition = made_edition.build(folder / "edition", runs=RUNS)
    pq.write_table(_table((GOOD, SLOW, UNREAD), SCHEMA), edition / "trust.parquet")
    pq.write_table(_table(BACKENDS, ANSWERS), edition / "sdpa_backends.parquet")
    render_report(edition, folder / "report", "2026-11-29T15:00:00Z")
    return folder / "report"


def _table(rows, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)


def sentences(*rows: Trust) -> list[str]:
    return [statement.sentence for statement in trust_section.statements(rows)]


def test_what_needs_a_word_is_named_and_nothing_else() -> None:
    assert sentences(GOOD, SLOW) == [
        "Pooled over 2 GPUs of one kind (1 of 2 rows): linear-eager.",
        "In 1 of 2 rows an unprofiled forward takes as long as the device is busy under the profiler, within 2 %.",
        "In 1 row the forward takes over 10 % longer, because the device waits for launches: linear-eager.",
        "In 1 row the processes disagree on what limits the forward: linear-eager (launches in 1 of 2).",
        "Device time differs by more than 2 % between processes (1 of 2 rows): linear-eager.",
        "Unprofiled forward time differs by more than 2 % between processes: in none of 2 rows.",
        "CPU time under the profiler differs by more than 20 % between processes (1 of 2 rows): linear-eager.",
        "The GPU was throttled, or far below its highest clock (1 of 2 rows): linear-eager.",
        "Forward times were still falling after the warm-up (1 of 2 rows): linear-eager.",
        "Forward times rose from the first to the last: in none of 2 rows.",
        "Forward times are noisy, their 95th percentile above 5 times their 5th (1 of 2 rows): linear-eager.",
        "Other programs used the GPU (1 of 2 rows): linear-eager.",
        "A process took more than one attempt (1 of 2 rows): linear-eager.",
        "In 1 row a process failed and is excluded from the figures: linear-eager.",
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"busy_ratio": 1.05}, "In 1 row the forward takes 2 to 10 % longer: attention-inplace-eager."),
        ({"busy_ratio": 0.9}, "In 1 row the forward takes over 2 % less: attention-inplace-eager."),
        (
            {"busy_ratio": 1.3, "bound": "unclear"},
            "In 1 row the forward takes over 10 % longer, and it is unclear why: attention-inplace-eager.",
        ),
    ],
)
def test_a_ratio_is_told_in_the_words_of_the_clock(more, sentence) -> None:
    assert sentences(replace(GOOD, **more))[1] == sentence


def test_on_how_many_gpus_the_figures_rest() -> None:
    assert not any("GPUs" in sentence for sentence in sentences(GOOD))
    apart = sentences(GOOD, replace(GOOD, case="linear-eager", gpus=("aa00bb11",)))[0]
    assert apart == "Measured on 2 GPUs of one kind: each row on one of them, not all rows on the same."
    other_run = sentences(GOOD, replace(GOOD, run="torch-2.12", gpus=("aa00bb11",)))
    assert not any("GPUs" in sentence for sentence in other_run)
    untold = sentences(replace(GOOD, gpus=None, device_busy_us=70.0))[0]
    assert untold == "Whether all processes ran on one GPU is unknown (1 of 1 row): attention-inplace-eager."


def test_an_unread_figure_clears_nobody() -> None:
    slow = "The GPU was throttled, or far below its highest clock"
    assert f"{slow}: n/a, it could not be read." in sentences(UNREAD)
    alone = "Device time differs by more than 2 % between processes: n/a, two processes with that time are needed."
    assert alone in sentences(UNREAD)
    assert f"{slow}: in none of 1 row, n/a in 1." in sentences(GOOD, UNREAD)
    assert sentences() == []


def test_with_several_runs_each_case_tells_its_own() -> None:
    rows = [GOOD, SLOW, replace(SLOW, run="torch-2.12"), replace(GOOD, run="torch-2.12")]
    told = sentences(*rows)
    waits = "In 2 rows the forward takes over 10 % longer, because the device waits for launches"
    assert f"{waits}: linear-eager (h200, torch-2.12)." in told
    differ = "linear-eager (h200: launches in 1 of 2, torch-2.12: launches in 1 of 2)"
    assert f"In 2 rows the processes disagree on what limits the forward: {differ}." in told


@pytest.mark.parametrize(
    ("cell", "good", "slow", "unread"),
    [
        (trust_section.processes, "3", "2, 1 failed, 1 retried", "1"),
        (trust_section.bound_by, "gpu", "launches in 1 of 2", "unknown"),
        (trust_section.warm_up, "settled", "still falling in 2 of 3", "n/a"),
        (trust_section.sm_clock, "1,980", "1,980 → 1,515", "n/a"),
        (trust_section.first_call, "222 ms", "6.83 s cold, 1.29 s shared", "n/a"),
        (trust_section.timed_by, "CUDA events", "CUDA events, L2 flushed", "n/a"),
    ],
)
def test_cells(cell, good, slow, unread) -> None:
    assert [cell(row) for row in (GOOD, SLOW, UNREAD)] == [good, slow, unread]


def test_a_first_call_whose_cache_nobody_knows_says_so() -> None:
    row = replace(UNREAD, first_call_cold_us=6.83e6, first_call_unknown_us=1.29e6)
    assert trust_section.first_call(row) == "6.83 s cold, 1.29 s cache state unknown"


def test_overhead_has_its_sign() -> None:
    assert [trust_section.signed(value) for value in (0.016, -0.002, 1.23, None)] == [
        "+1.6 %",
        "-0.2 %",
        "+123 %",
        "n/a",
    ]


def test_twin_tables_and_summary_hold_the_same(told) -> None:
    text = (told / "report.md").read_text()
    assert "## How far to trust these figures" in text
    assert (
        "- In 1 row the forward takes over 10 % longer, because the device waits for launches: `linear-eager`." in text
    )
    assert f"| h200 | flash | **no** | {REASON} |" in text
    assert "&lt;b" in text or r"\<b\>" in text
    summary = json.loads((told / "summary.json").read_text())
    assert [record_of(Trust, row) for row in summary["trust"]] == [GOOD, SLOW, UNREAD]
    assert [record_of(Answer, row) for row in summary["sdpa_backends"]] == list(BACKENDS)
    for name in ("trust", "sdpa_backends"):
        assert (told / "tables" / f"{name}.csv").read_text().splitlines()[0].startswith("run,")
        assert (told / "tables" / f"{name}.parquet").is_file()


def test_runs_say_their_image_and_where_they_were_recorded(told) -> None:
    runs = {run["run"]: run for run in json.loads((told / "summary.json").read_text())["runs"]}
    assert runs["torch-2.12"]["image_digest"] == "sha256:0123456789abcdef"
    assert runs["h200"]["where"] == "resources/recorded/h200-torch2.11"
    text = (told / "report.md").read_text()
    assert "| recorded in | resources/recorded/h200-torch2.11 | n/a |" in text
    assert "| image digest | n/a | sha256:0123456789abcdef |" in text


@pytest.mark.browser
def test_the_section_reads_well_in_a_browser(open_page, told) -> None:
    page = open_page(told, "#trust")
    said = page.locator("#trust li").all_inner_texts()
    assert (
        said[2] == "In 1 row the forward takes over 10 % longer, because the device waits for launches: linear-eager."
    )
    row = page.locator('[data-table="trust"] tbody tr', has_text="linear-eager").locator("td").all_inner_texts()
    assert row[2:4] == ["2, 1 failed, 1 retried", ", ".join(SLOW.gpus)]
    assert row[4:7] == ["3.1 %", "0.1 %, noisy", "90 %"]
    assert row[7:10] == ["18.5×", "launches in 1 of 2", "+1.6 %"]
    assert row[12:14] == ["software power cap", "<b>python</b>"]
    backends = page.locator('[data-table="backends-attention"] tbody tr').all_inner_texts()
    assert "yes" in backends[0]
    assert REASON in backends[1]
    assert page.get_by_role("link", name="Trust").get_attribute("href") == "#trust"
    runs = " ".join(page.locator("#summary .chip").all_text_contents())
    assert "docker://pytorch/pytorch:2.12" in runs
    assert "sha256:0123456789abcdef" in runs
    assert "resources/recorded/h200-torch2.11" in runs


@pytest.mark.browser
def test_the_section_does_not_make_a_phone_scroll_sideways(open_page, told) -> None:
    page = open_page(told, "#trust", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


# --- what the ceilings are for ----------------------------------------------------------------------------------------


def test_ceilings_are_in_no_ranking() -> None:
    specs = (ConfiguredCase("ceiling-matmul", "ceiling"), ConfiguredCase("linear-eager", "linear"))
    act = Activity(0, "kernel", "k", 0.0, 1000.0)
    ceiling = {"workload": "ceiling", "variant": "matmul"}
    rows = (
        CaseFacts("h200", "ceiling-matmul", forwards=(ProfiledForward(1, 0, 1.0, activities=(act,)),), **ceiling),
        CaseFacts(
            "h200", "linear-eager", forwards=(ProfiledForward(1, 0, 1.0, activities=(replace(act, duration_us=2.0),)),)
        ),
    )
    found = tuple(
        Finding("rule", "high", time_us, None, "", "", "text", run="h200", case=case)
        for case, time_us in (("ceiling-matmul", 1000.0), ("linear-eager", 2.0))
    )
    edition = Edition("e", "now", (), (), specs, rows, (), found, ())
    assert [line.subject for line in first_screen.concerns(edition)] == ["linear-eager"]
    assert [finding.case for finding in findings_section.own_findings(edition)] == ["linear-eager"]


def test_first_calls_with_a_cold_cache_and_a_shared_one_make_no_median(tmp_path) -> None:
    folder = made_edition.build(tmp_path / "edition", cases=made_edition.CASES[:1], runs=made_edition.RUNS[:1])
    (row,) = pq.read_table(folder / "cases.parquet").to_pylist()
    rows = [
        row | {"process": process, "inductor_cache": cache, "first_call_us": time}
        for process, cache, time in ((1, "cold", 9e6), (2, "shared", 1e6), (3, "shared", 2e6))
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), folder / "cases.parquet")
    (read,) = read_edition(folder).case_runs
    assert (read.first_call_us, read.inductor_cache) == (9e6, "cold")
