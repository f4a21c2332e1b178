"""The roofline: where dots stand, by hand; what is left out; where a dot leads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kernelbook.edition.model import read_edition
from kernelbook.judge.cost_model import Ceiling, KernelCost
from kernelbook.report import page, roofline
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
NAIVE, LINEAR = made_edition.CASES[0], made_edition.CASES[3]
COMPUTE = Ceiling("h200", "compute", 8e14, "matmul", compute_type="16-bit", data_sheet_per_s=1e15)
MEMORY = Ceiling("h200", "memory", 4e12, "copy")


def cost(position: int, time_us: float, bytes_: int, flops: int | None, **more) -> KernelCost:
    empty = dict.fromkeys(("op", "gb_per_s", "share_of_memory", "tflops", "compute_type", "share_of_roof", "roof"))
    known = {
        "position": position,
        "label": "<b>k",
        "time_us": time_us,
        "bytes": bytes_,
        "flops": flops,
        "least_us": None,
    }
    return KernelCost(**(empty | known | more))


@pytest.fixture
def edition(tmp_path):
    """One product of naive: 10 MFLOP in 1 µs over 1 MB; one of linear of a tenth of the rate; one without FLOPs."""
    made = read_edition(made_edition.build(tmp_path / "edition", (NAIVE, LINEAR), made_edition.RUNS[:1]))
    costs = {
        ("h200", NAIVE.case): {1: cost(1, 1.0, 10**6, 10**7), 2: cost(2, 9.0, 10**6, None)},
        ("h200", LINEAR.case): {0: cost(0, 4.0, 10**6, 4 * 10**6)},
    }
    return replace(made, kernel_costs=costs, ceilings=(COMPUTE, MEMORY))


def test_a_dot_is_flops_per_byte_and_per_second(edition):
    dots = roofline.dots_of(edition, "h200")
    assert [(dot.row.case, dot.intensity, dot.rate) for dot in dots] == [
        (NAIVE.case, 10.0, pytest.approx(1e13)),
        (LINEAR.case, 4.0, pytest.approx(1e12)),
    ]
    measured = {("h200", NAIVE.case): {1: cost(1, 1.0, 10**6, 10**7, measured_intensity=20.0)}}
    (dot,) = roofline.dots_of(replace(edition, kernel_costs=measured), "h200")
    assert (dot.intensity, dot.measured, dot.best_intensity) == (10.0, 20.0, 20.0)


def test_measured_intensity_is_a_filled_circle_joined_to_the_hollow_one_of_the_model(edition):
    """By hand: the least is 1e-5 (10 FLOP, 1 MB), so the axis has nine decades from 1e-6; 10 is seven up, 100 eight."""
    made = {("h200", NAIVE.case): {1: cost(1, 1.0, 10**6, 10**7, measured_intensity=100.0), 2: cost(2, 2.0, 10**6, 10)}}
    chart = roofline.chart(replace(edition, kernel_costs=made), "h200", {})
    drawing = str(chart.panels[0].drawing)
    (line,) = re.findall(r'class="to-measured" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', drawing)
    assert [float(part) for part in line[::2]] == pytest.approx([1000 * 7 / 9, 1000 * 8 / 9], abs=0.5)
    assert line[1] == line[3]
    assert re.findall(r'class="kernel measured" d="M([\d.]+) ([\d.]+)z"', drawing) == [line[2:]]
    assert re.findall(r'class="hole"[^>]* d="M([\d.]+) ([\d.]+)z"', drawing)[0] == line[:2]
    assert drawing.count('class="hole"') == 2  # the other kernel has only a modelled circle
    assert "10.0 FLOP per modelled byte, 100 per measured byte" in drawing


def test_both_axes_are_powers_of_ten():
    plane = roofline.Plane((0, 2), (12, 15))
    assert plane.at(10.0, 1e15) == (500.0, 0.0)
    assert plane.at(100.0, 1e12) == (1000.0, 100.0)


def test_without_flops_or_a_memory_ceiling_there_is_no_roofline(edition):
    assert roofline.chart(edition, "h200", {}) is not None
    assert roofline.chart(edition, "other", {}) is None
    assert roofline.chart(replace(edition, ceilings=(COMPUTE,)), "h200", {}) is None
    assert roofline.chart(replace(edition, kernel_costs={}), "h200", {}) is None


def test_ceilings_are_solid_where_measured_and_dashed_where_of_the_data_sheet(edition):
    chart = roofline.chart(edition, "h200", {})
    drawing = str(chart.panels[0].drawing)
    assert drawing.count('class="roof"') == 2
    assert drawing.count('class="roof dashed"') == 1
    assert [label.text for label in chart.panels[0].labels] == [
        "16-bit 800 TFLOP/s (measured)",
        "memory 4,000 GB/s (measured)",
    ]


@pytest.mark.browser
def test_a_dot_leads_to_its_kernel(open_page, edition, tmp_path):
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    opened = open_page(tmp_path)
    dots = opened.locator("#roofline .kernel")
    assert dots.count() == 2
    widths = dots.evaluate_all("all => all.map(one => parseFloat(getComputedStyle(one).strokeWidth))")
    assert widths == [14.5, 24.0]  # by hand: 5 + 19 * sqrt(1 / 4), and 5 + 19
    opened.locator("#roofline svg a").first.dispatch_event("click")
    assert opened.evaluate("location.hash") == f"#case-{NAIVE.case}~h200~k1"
    assert opened.locator("tr.target").count() == 1


@pytest.mark.browser
def test_a_part_of_the_roofline_is_looked_at_from_closer_by(open_page, edition, tmp_path):
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    opened = open_page(tmp_path)
    chart = opened.locator("figure.roofline").first
    plot, ticks = chart.locator(".plot"), chart.locator(".axis-line span")
    before = ticks.evaluate_all("all => all.map(each => parseFloat(each.style.left))")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"])
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"], box["y"] + box["height"] / 2, steps=3)
    opened.mouse.up()
    # the right upper quarter
    view = [float(number) for number in plot.get_attribute("viewBox").split()]
    assert view == pytest.approx([500, 0, 500, 50], abs=3)
    assert ticks.first.is_hidden()  # it was at the left end
    chart.get_by_role("button", name="Whole").click()
    assert plot.get_attribute("viewBox") == "0 0 1000 100"
    assert ticks.evaluate_all("all => all.map(each => parseFloat(each.style.left))") == pytest.approx(before)
    chart.get_by_role("button", name="Zoom in").click()
    assert plot.get_attribute("viewBox") == "250 25 500 50"
