"""What the report shows of own traces and sweeps: ranges by name, the whole file, the chart over a parameter."""

import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pyarrow as pa
import pytest

from kernelbook.cases import CaseFacts
from kernelbook.charts.svg_file import svg_file
from kernelbook.edition.model import ConfiguredCase, Run
from kernelbook.report.ranges import KERNELS, range_lines, whole_files
from kernelbook.report.styles import file_style
from kernelbook.report.sweeps import chart, sweeps


def range_row(case, name, kernels, device, cpu=10.0, **more):
    row = {"run": "r", "case": case, "annotation": name, "kernels": kernels, "memcpys": 0, "memsets": 0}
    row |= {"cpu_time_us": cpu, "device_time_us": device, "device_busy_us": device, "inferred": False, "forward": False}
    return row | more


def tables(ranges=(), cases=(), kernels=()):
    names = {"ranges": ranges, "cases": cases, "kernels": kernels}
    return {name: pa.Table.from_pylist(list(rows)) for name, rows in names.items()}


def test_nested_ranges_are_reported_each_with_usual_counts_and_median_times():
    ranges = [range_row("toy", "step", 9, t, forward=True) for t in (5.0, 7.0, 100.0)]
    ranges += [range_row("toy", "backward", n, 2.0, inferred=True) for n in (6, 6, 5)]
    step, backward = range_lines(tables(ranges, [{"run": "r", "case": "toy", "workload": "toy"}]))
    assert (step.annotation, step.count, step.kernels, step.device_time_us, step.forward) == ("step", 3, 9, 7.0, True)
    assert (backward.annotation, backward.kernels, backward.inferred) == ("backward", 6, True)


def test_ranges_that_did_different_work_have_a_line_each():
    """Prefills and decodes of two processes, which number their kinds each for itself; and an inner range."""
    taken = {"group": "step_*", "level": 0, "forward": True}
    ranges = [
        range_row("toy", "step_1", 7, 300.0, kind=1, label="1", process=1, **taken),
        range_row("toy", "step_2", 4, 20.0, kind=0, label="2", process=1, **taken),
        range_row("toy", "step_3", 4, 30.0, kind=0, label="3", process=1, **taken),
        range_row("toy", "step_1", 7, 320.0, kind=0, label="1", process=2, **taken),
        range_row("toy", "step_2", 2, 9.0, kind=0, label="2", process=2, **taken | {"level": 1, "forward": False}),
    ]
    lines = range_lines(tables(ranges, [{"run": "r", "case": "toy", "workload": "toy"}]))
    assert [(x.annotation, x.labels, x.level, x.count, x.kernels, x.device_time_us, x.forward) for x in lines] == [
        ("step_*", ("1",), 0, 1, 7, 300.0, True),
        ("step_*", ("2", "3"), 0, 2, 4, 25.0, True),
        ("step_*", ("1",), 0, 1, 7, 320.0, True),
        ("step_*", ("2",), 1, 1, 2, 9.0, False),
    ]


def test_a_case_whose_forwards_did_different_work_gets_a_list_though_it_has_no_other_range():
    ranges = [range_row("toy", "step", n, 1.0, forward=True, kind=kind) for n, kind in ((4, 0), (7, 1))]
    lines = range_lines(tables(ranges, [{"run": "r", "case": "toy", "workload": "linear"}]))
    assert [(line.kernels, line.kind, line.kinds) for line in lines] == [(4, 0, 2), (7, 1, 2)]


def test_a_case_that_has_its_forwards_alone_gets_no_list_of_ranges():
    ranges = [range_row("plain", "step", 1, 1.0, forward=True)]
    assert range_lines(tables(ranges, [{"run": "r", "case": "plain", "workload": "linear"}])) == ()


def test_a_bare_trace_has_its_longest_kernels_and_says_how_many_more():
    totals = {"kernels": 40, "memcpys": 1, "memsets": 0, "launches": 41, "unattributed": 2}
    totals |= {"device_time_us": 400.0, "device_busy_us": 390.0}
    case = {"run": "r", "case": "t", "process": 1, "bare": True, "totals": totals}
    one = {"run": "r", "case": "t", "process": 1, "category": "kernel", "count": 2}
    kernels = [one | {"name": f"k{i}", "total_us": float(i), "median_us": i / 2} for i in range(KERNELS + 3)]
    (file,) = whole_files(tables(cases=[case], kernels=kernels))
    assert (file.kernels, file.unattributed, file.more) == (40, 2, 3)
    assert [line.name for line in file.longest[:2]] == ["k17", "k16"]
    assert file.longest[0].share == 17 / 400


@pytest.fixture
def swept():
    def made(times, kernels, parameter="batch"):
        specs = [
            ConfiguredCase(f"mlp-{n}", "mlp", sweep={"of": "mlp", "parameter": parameter, "value": n})
            for n in range(len(times))
        ]
        rows = {
            ("h200", spec.case): CaseFacts("h200", spec.case, kernels=count, device_time_us=t, forward_time_us=t)
            for spec, t, count in zip(specs, times, kernels, strict=True)
            if t is not None
        }
        edition = SimpleNamespace(cases=specs, runs=[Run("h200", "recorded")], by_key=lambda: rows)
        return sweeps(edition, "mlp")

    return made


def test_a_sweep_has_one_point_a_value_and_a_gap_where_nothing_was_measured(swept):
    (found,) = swept([10.0, None, 30.0], [5, 5, 5])
    assert (found.of, found.parameter, found.values) == ("mlp", "batch", ("0", "1", "2"))
    assert found.runs[0].times("device_time_us") == [10.0, None, 30.0]


def dots(tree) -> list[float]:
    """Distances of the first line's dots from the top."""
    path = next(node for node in tree.iter() if node.get("class") == "dots run-0")
    return [float(point.split()[1]) for point in path.get("d").strip("Mz").split("zM")]


def test_the_chart_is_sound_svg_that_says_times_and_counts(swept):
    (found,) = swept([10.0, 20.0, 30.0], [5, 5, 7], parameter="<b>&")
    tree = ElementTree.fromstring(svg_file(chart(found), file_style()))
    words = [node.text for node in tree.iter() if node.text]
    assert [word for word in words if word in ("5", "7")] == ["5", "5", "7"]
    assert any("over <b>&: device time solid" in word for word in words)
    heights = dots(tree)
    assert len(heights) == 3
    assert heights == sorted(heights, reverse=True)  # a longer time lies higher


def test_each_point_stands_over_the_label_of_its_value(swept):
    (found,) = swept([10.0, 20.0, 30.0, 40.0], [5, 5, 7, 7])
    drawn = chart(found)
    assert [tick.place for tick in drawn.x_ticks] == [0.125, 0.375, 0.625, 0.875]  # the middles of four equal parts
    line = ElementTree.fromstring(drawn.panels[0].drawing).find("path[@class='dots run-0']")
    assert [float(point.split()[0]) for point in line.get("d").strip("Mz").split("zM")] == [125, 375, 625, 875]


def test_times_over_more_than_a_decade_are_drawn_by_powers_of_ten(swept):
    (found,) = swept([10.0, 100.0, 1000.0], [1, 1, 1])
    heights = dots(ElementTree.fromstring(svg_file(chart(found), file_style())))
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)


def test_a_sweep_without_a_single_time_draws_nothing(swept):
    assert swept([None, None], [None, None]) == ()


def test_ranges_of_a_job_are_those_of_its_slowest_rank():
    """A collective of 1,000 µs on the rank that waits and of 70 µs on the late one: no median over both."""
    ranges = [range_row("job", "nccl:all_reduce", 1, 1000.0, process=1, rank=0)] * 2
    ranges += [range_row("job", "nccl:all_reduce", 1, 70.0, process=2, rank=1)] * 2
    made = tables(ranges, [{"run": "r", "case": "job", "workload": "trace"}])
    (line,) = range_lines(made, left_out={("r", "job", 1, 0)})
    assert (line.count, line.device_time_us) == (2, 70.0)
