"""The first screen: what its figures refer to, and the price of speed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kernelbook.cases import Activity
from kernelbook.edition.model import read_edition
from kernelbook.judge.cost_model.forward import computed_in
from kernelbook.report import first_screen
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"


def ran(name: str, duration: float = 1.0) -> Activity:
    return Activity(0, "kernel", name, 0.0, duration)


@pytest.mark.parametrize(
    ("dtype", "kernels", "expected"),
    [
        ("bfloat16", [ran(made_edition.GEMM)], None),
        ("bfloat16", [ran(made_edition.GEMM_FP32)], "fp32"),
        ("float32", [ran(made_edition.GEMM_FP32)], None),
        ("bfloat16", [ran(made_edition.GEMM, 9.0), ran(made_edition.GEMM_FP32, 8.0)], None),
        ("bfloat16", [ran(made_edition.GEMM, 8.0), ran(made_edition.GEMM_FP32, 9.0)], "fp32"),
        ("bfloat16", [ran(made_edition.SOFTMAX)], None),  # no product
        ("bfloat16", [], None),
        (None, [ran(made_edition.GEMM_FP32)], None),  # what the inputs are is not known
    ],
)
def test_the_precision_inside_is_that_of_most_of_the_products_time(dtype, kernels, expected):
    assert computed_in(dtype, kernels) == expected


def test_the_headline_says_what_the_slower_case_computes_in_and_what_it_buys(report):
    written = (report / "report.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    line = next(line for line in written.splitlines() if line.startswith("- **NVIDIA H200**"))
    # made_edition: the products of sdpa-math are fp32 kernels on bf16 inputs; every case has the error 0.0021
    assert "SDPA’s math backend (fp32 inside) 2.36 ms" in line
    assert "In-place attention takes" in line
    published = next(line for line in written.splitlines() if line.startswith("- **NVIDIA A100"))
    assert "inside" not in published  # no kernel's name was published
    assert "1.955 ms" in published  # every digit of what was published
    assert "7.239 ms" in published
    name, times = "`sdpa-math-eager` bf16, 8 × 1024 (fp32 inside)", "2.36 ms | 2.38 ms (2.38 ms – 2.39 ms)"
    assert f"| {name} | 12 | {times} | 0.0021 | 1.25 GiB | n/a | **1 of 2** | 20 ≠ · 7.239 ms |" in written


@pytest.mark.browser
def test_the_first_screen_says_which_gpu_which_torch_and_when(open_page, report):
    page = open_page(report)
    assert page.locator(".subject").inner_text() == "NVIDIA H200 · torch 2.11.0+cu130 · 2026-10-01"
    assert "NVIDIA H200 · torch 2.11.0+cu130" in page.title()
    assert "(fp32 inside)" in page.locator(".hero h2").first.inner_text()
    duel = page.locator(".duel").inner_text()
    assert duel == (
        "Published, on NVIDIA A100-SXM4-80GB: In-place attention 1.955 ms, SDPA’s math backend 7.239 ms, 3.70×"
    )
    strips = [text.replace("\u00a0", " ") for text in page.locator(".hero .strip-total").all_inner_texts()]
    # the shortest first; beside each what was published
    assert [text.split(" · ")[1:] for text in strips] == [["published 1.955 ms"], [], ["published 7.239 ms"]]


@pytest.mark.browser
def test_of_several_runs_the_first_alone_is_drawn(open_page, two_runs):
    page = open_page(two_runs)
    assert page.locator(".hero .strip-bar").count() == 3
    assert page.locator(".duel").count() == 2


@pytest.mark.browser
def test_accuracy_and_memory_stand_beside_the_time_of_every_case(open_page, report):
    page = open_page(report)
    row = " ".join(page.locator("#case-sdpa-math-eager\\~h200").inner_text().split())
    # made_edition: device time and 20 µs more, its samples 20 to 32 µs more
    assert "2.36 ms 2.38 ms (2.38 ms – 2.39 ms)" in row
    assert "0.0021 1.25 GiB" in row
    phone = open_page(report, width=390, height=844)
    row = " ".join(phone.locator("#case-sdpa-math-eager\\~h200").inner_text().split())
    assert "2.36 ms" in row
    assert "1.25 GiB" in row


def test_the_subject_names_each_gpu_and_torch_once_and_no_published_run(edition_dir):
    edition = read_edition(edition_dir)
    first = edition.runs[0]
    more = [replace(first, run=f"r{i}", torch=f"2.{i}", device="GPU B") for i in range(4)]
    found = first_screen.subject(replace(edition, runs=(*edition.runs, *more)), CREATED)
    assert found == "NVIDIA H200, GPU B · torch 2.11.0+cu130, 2.0, 2.1 and 2 more · 2026-10-01"
    host = replace(first, kind="host", recorded_utc=None)  # measured in this edition, then
    assert first_screen.subject(replace(edition, runs=(first, host)), CREATED).endswith("2026-10-01 to 2026-11-29")
    assert first_screen.subject(replace(edition, runs=edition.runs[1:]), CREATED) == ""


def test_a_report_of_published_runs_alone_has_no_subject(tmp_path):
    folder = made_edition.build(tmp_path / "edition", runs=made_edition.RUNS[1:])
    about = json.loads((folder / "edition.json").read_text())
    assert [run["kind"] for run in about["runs"]] == ["published"]
    render_report(folder, tmp_path / "report", CREATED)
    assert 'class="subject"' not in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
