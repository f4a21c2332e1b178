"""A case over versions of torch: which runs are put together, and the bands between their strips, by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from kernelbook.edition.model import read_edition
from kernelbook.report import page, versions
from tests.report import made_edition
from tests.report.made_edition import COPY, GEMM, GEMM_B, SOFTMAX, Made, Step, kernel

CREATED = "2026-11-29T15:00:00Z"
RUNS = tuple(
    {"run": f"run-{torch}", "kind": "container", "device": device, "torch": torch}
    for torch, device in (("2.14.0", "NVIDIA H200"), ("2.9.1", "NVIDIA H200"), ("2.10.0", "NVIDIA A100"))
)


def made(*kernels: tuple[str, str, str, float]) -> Made:
    return Made("mlp", "mlp", "mlp", "eager", tuple(Step(f"aten::op{i}", None, (k,)) for i, k in enumerate(kernels)))


OLD = made(kernel(GEMM, "GEMM", 60.0), kernel(COPY, "copy", 20.0), kernel(SOFTMAX, "softmax", 20.0))
NEW = made(kernel(GEMM_B, "GEMM", 30.0), kernel(SOFTMAX, "softmax", 20.0))


@pytest.fixture
def edition(tmp_path):
    """2.14 with a new product and no copy, 2.9 as before, and another GPU."""
    read = read_edition(made_edition.build(tmp_path / "edition", (OLD,), RUNS))
    newer = read_edition(made_edition.build(tmp_path / "newer", (NEW,), RUNS))
    rows = [newer.case_runs[0], *read.case_runs[1:]]
    return replace(read, case_runs=type(read.case_runs)(rows))


def test_versions_are_in_order_of_their_numbers_and_of_one_device(edition):
    (lineage,) = versions.lineages(edition)
    assert [run.torch for _, run, _ in lineage.rows] == ["2.9.1", "2.14.0"]
    assert lineage.changed


def test_bands_join_what_stays_and_meet_in_a_point_where_a_kernel_is_replaced(edition):
    """100 µs above, 50 below, 10 units a µs: the softmax stays, from 800-1000 to 300-500.

    The product goes from 0-600 to 0-300: both end in the point (0 + 600 + 0 + 300) / 4. The copy ends at 700.
    """
    (lineage,) = versions.lineages(edition)
    above, bands, below = versions.chart(lineage, {}).panels
    assert (above.name, above.part, below.name, below.part) == ("torch 2.9.1", 1.0, "torch 2.14.0", 0.5)
    shapes = dict(re.findall(r'class="(\w+)"[^>]* d="([^"]+)"', str(bands.drawing)))
    assert shapes == {
        "replaced": "M0 0H600L225 50zM0 100H300L225 50z",
        "gone": "M600 0H800L700 50z",
        "stays": "M800 0H1000L500 100H300z",
    }
    assert bands.end == "1 replaced, 1 removed"


def test_a_case_whose_kernels_stay_is_named_and_not_drawn(edition, tmp_path):
    same = read_edition(made_edition.build(tmp_path / "same", (OLD,), RUNS))
    text = page.render(same, CREATED, {})
    assert "The same kernels on each version: mlp." in text
    assert 'class="chart strips versions"' not in text
    assert 'class="chart strips versions"' in page.render(edition, CREATED, {})
    one = read_edition(made_edition.build(tmp_path / "one", (OLD,), RUNS[:1]))
    assert 'id="versions"' not in page.render(one, CREATED, {})


@pytest.mark.browser
def test_strips_touch_their_bands(open_page, edition, tmp_path):
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    opened = open_page(tmp_path)
    boxes = [each.bounding_box() for each in opened.locator(".versions .drawing").all()]
    for one, other in pairwise(boxes):
        assert other["y"] - one["y"] - one["height"] < 8
    assert opened.locator(".versions button", has_text="own width").count() == 0
    assert opened.locator(".versions button", has_text="CSV").count() == 1
