"""A measurement.json that says something odd, from a later version or a damaged disk, is a failed row with a reason."""

import json
import shutil

import pyarrow as pa
import pytest

from kernelbook.edition.collect import collect
from kernelbook.extraction.arrow_files import read_table, write_tables
from kernelbook.extraction.measurement import MeasurementError, load_measurement
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.plan.earlier import table_file

RECORDED = "resources/recorded/h200-torch2.11/linear-eager/1"
SPEC = {"case": "linear-eager", "workload": "linear", "variant": "plain", "mode": "eager", "annotation": "linear_fwd"}


@pytest.fixture
def measured(root, tmp_path):
    """Write the recorded measurement of a case, changed at one place, beside its trace."""
    shutil.copy(root / RECORDED / "trace.json.gz", tmp_path)
    found = json.loads((root / RECORDED / "measurement.json").read_text(encoding="utf-8"))

    def changed(place=(), value=None):
        here = found
        for key in place[:-1]:
            here = here[key]
        if place:
            here[place[-1]] = value
        file = tmp_path / "measurement.json"
        file.write_text(json.dumps(found), encoding="utf-8")
        return file

    return changed


def row_of(file):
    (row,) = tables_of(Origin("h200", "linear-eager", 1, {"kind": "recorded"}), SPEC, file)["case"].to_pylist()
    return row["status"], row["reason"]


ODD = [
    (("status",), "splendid"),
    (("case", "workload"), 5),
    (("case", "annotation"), ["a", "b"]),
    (("device", "name"), {"a": 1}),
    (("environment", "torch"), 2.1),
    (("attempts",), 2**70),
    (("peak_memory_bytes",), -(2**70)),
    (("other_gpu_processes",), ["python"]),
    (("forward_times_us",), [1.0, "fast"]),
    (("trace",), "../../elsewhere/trace.json.gz"),
    (("trace",), "a\0b"),
]


@pytest.mark.parametrize(("place", "value"), ODD)
def test_a_value_of_an_odd_type_or_size_is_a_failed_row_that_names_it(measured, place, value):
    status, reason = row_of(measured(place, value))
    assert status == "failed"
    assert "is no measurement (" in reason
    assert "delete it and measure the case again" in reason


def test_the_measurement_as_recorded_is_a_good_row(measured):
    assert row_of(measured()) == ("ok", None)


def test_a_later_schema_is_told_whatever_else_it_changed(measured):
    measured(("schema",), 2)
    with pytest.raises(MeasurementError, match=r"has schema 2, this reads up to 1: update Kernelbook"):
        load_measurement(measured(("attempts",), "two"))


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"\xff\xfe", b'{"schema": 1', b"[" * 200_000])
def test_what_is_no_measurement_at_all_is_a_failed_row(measured, text):
    file = measured()
    file.write_bytes(text)
    assert row_of(file)[0] == "failed"


def test_a_damaged_table_is_named_with_the_remedy(tmp_path):
    table = tmp_path / "host/linear-eager/1/case.arrow"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"ARROW1 and no more")
    plan = {"rows": [["host", "linear-eager", 1]], "runs": [], "cases": [], "left_out": []}
    with pytest.raises(ValueError, match=r"linear-eager/1/[a-z]+\.arrow: is no table .*: delete it, and it is made"):
        collect(plan, tmp_path)


@pytest.mark.parametrize("rows", [3, 30_000])
def test_a_changed_byte_of_a_table_is_an_error_and_no_crash(tmp_path, rows):
    write_tables({"ops": pa.table({"name": ["aten::add"] * rows})}, tmp_path)
    file = table_file(tmp_path, "ops")
    content = bytearray(file.read_bytes())
    if rows == 3:  # stored as it is: the second offset of the names
        place = content.index((9).to_bytes(4, "little") + (18).to_bytes(4, "little"))
        content[place : place + 4] = (1 << 30).to_bytes(4, "little")
    else:  # compressed: the header of a frame of LZ4
        place = content.index(0x184D2204.to_bytes(4, "little"))
        content[place] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"ops\.arrow: is no table .*: delete it, and it is made"):
        read_table(file)
