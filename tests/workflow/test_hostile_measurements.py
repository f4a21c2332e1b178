"""Hostile or damaged measurement.json files of a recorded folder: each costs its own case and no other."""

import gzip
import itertools
import json
import os
import shutil

import pytest

from kernelbook.edition.collect import collect
from kernelbook.extraction.arrow_files import write_tables
from kernelbook.extraction.measurement import MAX_BYTES, MeasurementError, load_measurement
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.report.case_views import environment_rows
from kernelbook.report.rendering import render_report
from kernelbook.trace.recorded import recorded_cases
from tests.trace.made_trace import annotation, document, forward

RECORDED = "resources/recorded/h200-torch2.11/sdpa-auto-eager/1"
HUGE = "1" + "0" * 400
HOSTILE = (
    *("1e999", "-1e999", "NaN", "Infinity", "1e308", "-1e308", "1e18", "1e-320", "0.5", "-1", "0", HUGE, f"-{HUGE}"),
    *("9223372036854775807", "-9223372036854775808", "true", "null", '""', '"x"', '"2.5"', '"\\ud800"', '"\\u0000"'),
    *('"../../x"', '"' + "y" * 10_000 + '"', "[]", "[[]]", "[1e999]", '["x", 1, null]', "{}", '{"a": {"a": 1}}'),
    "[" * 100 + "]" * 100,
    '{"a":' * 3000 + "1" + "}" * 3000,
)
MARK = "@@here@@"
#: What no table holds: these fields are skipped whatever they are.
UNUSED = {"duration_s", "profiled_forwards", "seconds", "shapes_trace"}
UNUSED |= {"index", "total_memory_bytes", "multi_processors"}  # of the device
UNUSED |= {"status", "kernels"}  # of the pass under Nsight Compute


def places(value, here=()):
    """The path of every value of a JSON text, of lists the first item's only."""
    yield here
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*here, key))


def with_values(text, *hostile):
    """The JSON text with the value at each place replaced by another text, whether that is JSON or not."""
    changed = [json.loads(text)]
    for number, (place, _) in enumerate(hostile):
        parent, *keys = changed, 0, *place
        for key in keys[:-1]:
            parent = parent[key]
        parent[keys[-1]] = f"{MARK}{number}{MARK}"
    written = json.dumps(changed[0])
    for number, (_, value) in enumerate(hostile):
        written = written.replace(f'"{MARK}{number}{MARK}"', value)
    return written


@pytest.fixture(scope="module")
def measured(root):
    """The text of a recorded measurement in which no part is empty."""
    found = json.loads((root / RECORDED / "measurement.json").read_text(encoding="utf-8"))
    found["other_gpu_processes"] = [{"pid": 1, "name": "x", "used_memory_mib": 2.0}]
    found["warnings"] = [{"code": "a", "count": 1, "message": "m"}]
    return json.dumps(found | {"notes": ["n"], "log_tail": ["line"]})


@pytest.fixture(scope="module")
def accepted(measured, tmp_path_factory):
    """Every hostile value, with its place, that can be read all the same; whatever else is raised fails the test."""
    file = tmp_path_factory.mktemp("recorded") / "case/1/measurement.json"
    file.parent.mkdir(parents=True)
    kept = []
    for each in itertools.product(places(json.loads(measured)), HOSTILE):
        file.write_text(with_values(measured, each), encoding="utf-8")
        try:
            load_measurement(file)
        except MeasurementError:
            continue
        kept.append(each)
    return kept


def test_no_number_beyond_any_bound_is_accepted(accepted):
    read_fields = {place[0] for place, _ in accepted if place}
    assert "forward_times_us" in read_fields  # a time of 0.5 µs is a time
    for place, hostile in accepted:
        if place[0] not in UNUSED and place[-1] not in UNUSED:
            assert "Infinity" not in hostile
            assert HUGE not in hostile
            assert "1e999" not in hostile


@pytest.mark.slow
def test_what_is_accepted_can_be_collected_and_rendered(measured, accepted, tmp_path):
    """Of each place two hostile values at most, all in one edition, with a trace of a forward.

    A case has one of each part of measurement.json, since parts are read apart.
    """
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(gzip.compress(json.dumps(document([annotation("sdpa_fwd", 1000, 100), *forward()])).encode()))
    cases = []
    chosen = [each for _, found in itertools.groupby(accepted, lambda each: each[0]) for each in list(found)[:2]]
    parts = [list(found) for _, found in itertools.groupby(chosen, lambda each: each[0][0])]
    for hostile in itertools.zip_longest(*parts):
        name = f"c{len(cases)}"
        file = tmp_path / "recorded" / name / "1" / "measurement.json"
        file.parent.mkdir(parents=True)
        file.write_text(with_values(measured, *filter(None, hostile)), encoding="utf-8")
        os.link(trace, file.with_name("trace.json.gz"))
        load_measurement(file)
        spec = {"case": name, "workload": "attention", "variant": "sdpa-auto", "annotation": "sdpa_fwd"}
        tables = tables_of(Origin("rec", name, 1, {"kind": "recorded"}), spec, file)
        write_tables(tables, tmp_path / "results/rec" / name / "1")
        cases.append({**spec, "mode": "eager", "dtype": None, "expect": {}, "note": ""})
    (tmp_path / "results/rec/run.json").write_text('{"status": "ok"}')
    run = {"name": "rec", "kind": "recorded", "description": "", "where": "recorded", "source": "recorded"}
    plan = {"edition": "latest", "runs": [run], "left_out": [], "cases": cases}
    plan["report"] = {"title": "t", "headline": [cases[0]["case"], cases[1]["case"]], "baseline_run": None}
    plan["rows"] = [["rec", case["case"], 1] for case in cases]
    collect(plan, tmp_path / "results").write(tmp_path / "edition")
    render_report(tmp_path / "edition", tmp_path / "report")
    listed = json.loads((tmp_path / "report/summary.json").read_text(encoding="utf-8"))["cases"]
    assert {case["case"] for case in listed} == {case["case"] for case in cases}


def reason_of(file):
    with pytest.raises(MeasurementError) as caught:
        load_measurement(file)
    return str(caught.value)


@pytest.fixture
def recorded(root, tmp_path):
    """A recorded folder of the cases good and bad; bad is without measurement.json. With the path of that file."""
    for case in ("good", "bad"):
        shutil.copytree(root / RECORDED, tmp_path / "recorded" / case / "1")
    file = tmp_path / "recorded/bad/1/measurement.json"
    file.rename(tmp_path / "elsewhere.json")
    return file


def pipe(file):
    os.mkfifo(file)


def folder(file):
    file.mkdir()


def link_to_itself(file):
    file.symlink_to(file.name)


def link_to_nowhere(file):
    file.symlink_to("absent.json")


def link_outside(file):
    file.symlink_to("../../../elsewhere.json")


def too_large(file):
    with file.open("wb") as opened:
        opened.truncate(2 << 30)


def process_link_to_itself(file):
    shutil.rmtree(file.parent)
    file.parent.symlink_to("1")


def process_link_outside(file):
    shutil.rmtree(file.parent)
    outside = file.parents[3] / "outside"
    outside.mkdir()
    (file.parents[3] / "elsewhere.json").rename(outside / "measurement.json")
    file.parent.symlink_to("../../outside")


ODD_FILES = {
    pipe: "is not a regular file: delete it",
    folder: "is not a regular file: delete it",
    link_to_itself: "cannot be read (Too many levels of symbolic links)",
    link_to_nowhere: "cannot be read (No such file or directory)",
    link_outside: "is a link to a file outside of the recorded folder: copy the file there",
    too_large: f"has 2048 MiB, more than the {MAX_BYTES >> 20} MiB of a measurement",
    process_link_to_itself: "cannot be read (Too many levels of symbolic links)",
    process_link_outside: "is a link to a file outside of the recorded folder: copy the file there",
}


@pytest.mark.parametrize("make", ODD_FILES)
def test_what_is_no_file_of_the_folder_is_a_failed_row_of_its_case_alone(recorded, make):
    make(recorded)
    found = recorded_cases(recorded.parents[2])
    assert {case: list(files) for case, files in found.items()} == {"bad": [1], "good": [1]}
    assert ODD_FILES[make] in reason_of(recorded)
    tables = tables_of(Origin("rec", "bad", 1, {"kind": "recorded"}), {"case": "bad"}, recorded)
    assert tables["case"]["status"].to_pylist() == ["failed"]
    assert load_measurement(recorded.parents[2] / "good/1/measurement.json").status == "ok"


def test_a_link_inside_the_recorded_folder_is_followed(recorded):
    recorded.symlink_to("../../good/1/measurement.json")
    assert load_measurement(recorded).status == "ok"


@pytest.mark.parametrize(("make", "words"), [(pipe, "is not a regular"), (link_outside, "outside of the recorded")])
def test_the_trace_of_a_measurement_must_be_a_file_of_the_folder_too(recorded, make, words):
    recorded.symlink_to("../../good/1/measurement.json")
    trace = recorded.with_name("trace.json.gz")
    trace.unlink()
    make(trace)
    assert words in reason_of(recorded)


def test_runs_whose_environments_differ_in_shape_are_shown_side_by_side():
    class Run:
        environment: object

        def __getattr__(self, name):
            return None

    runs = [Run(), Run()]
    runs[0].environment, runs[1].environment = {"extra": {"a": 1}}, {"extra": "text"}
    assert ("a", ("1", ""), False) in environment_rows(runs)
