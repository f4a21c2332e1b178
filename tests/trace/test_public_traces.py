"""Public traces of many versions and vendors: the engine, an independent plain count, and the table beside this file.

The traces themselves are not part of the project; the tests are skipped where they are not there. `public_counts.csv`
was written from the plain count (`python tests/trace/test_public_traces.py FOLDER`), not from the engine.
"""

import csv
import sys
from pathlib import Path

import pytest

from kernelbook.trace import read_trace
from tests.trace import plain_count

TABLE = Path(__file__).with_name("public_counts.csv")
COLUMNS = (
    "activities", "kernels", "memcpys", "memsets", "attributed", "unattributed", "launches", "before_window",
    "device_time_us", "device_busy_us", "ranges", "ops", "warnings",
)  # fmt: skip
with TABLE.open(encoding="utf-8") as _stream:
    EXPECTED = {row["file"]: row for row in csv.DictReader(_stream)}


@pytest.fixture(scope="module")
def public(shared_dir):
    return shared_dir / "traces" / "public"


@pytest.fixture(scope="module", params=sorted(EXPECTED))
def trace(request, public):
    path = public / request.param
    return read_trace(path), plain_count.count(path), EXPECTED[request.param]


def test_the_table_holds_every_file(public):
    assert sorted(EXPECTED) == sorted(path.name for path in public.iterdir())


def test_the_table_is_what_a_plain_count_finds(trace):
    _, plain, expected = trace
    assert {name: str(plain[name]) for name in COLUMNS} == {name: expected[name] for name in COLUMNS}


def test_totals(trace):
    reading, plain, expected = trace
    totals = reading.totals
    codes = {warning.code: warning.count for warning in reading.warnings}
    assert " ".join(sorted(codes)) == expected["warnings"]
    assert codes.get("before_window", 0) == plain["before_window"]
    assert codes.get("unattributed", 0) == plain["unattributed"]
    assert reading.truncated is False
    assert reading.activities.num_rows == plain["activities"]
    if not plain["activities"]:
        assert set(vars(totals).values()) == {None}
        return
    counts = ("kernels", "memcpys", "memsets", "attributed", "unattributed", "launches")
    assert {name: getattr(totals, name) for name in counts} == {name: plain[name] for name in counts}
    assert totals.device_time_us == pytest.approx(plain["device_time_us"], abs=1e-3)
    assert totals.device_busy_us == pytest.approx(plain["device_busy_us"], abs=1e-3)
    assert totals.attributed + totals.unattributed == plain["activities"]


def test_ranges(trace):
    reading, plain, _ = trace
    rows = [row for row in reading.ranges.to_pylist() if not row["inferred"]]
    found = sorted((row["annotation"], row["kernels"] or 0, _activities(row)) for row in rows)
    own = sorted(plain["per_range"])
    if len(rows) == len(own):
        assert found == own
    else:  # a range with work of another thread has more than the plain count, which looks at one thread only
        assert len(reading.ranges) == len(own)
        assert set(found) <= set(own)


def _activities(row):
    return sum(row[name] or 0 for name in ("kernels", "memcpys", "memsets"))


def test_ops(trace):
    reading, plain, _ = trace
    ops = reading.ops.to_pylist()
    found = {row["name"]: row["self_device_time_us"] for row in ops if row["self_device_time_us"]}
    assert found == pytest.approx(plain["self_device_us"], abs=1e-3)
    assert len(ops) == plain["ops"]


def _write_table(folder):
    rows = []
    for path in sorted(folder.iterdir()):
        plain = plain_count.count(path)
        rows.append([path.name, *(plain[name] for name in COLUMNS)])
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["file", *COLUMNS])
        writer.writerows(rows)


if __name__ == "__main__":
    _write_table(Path(sys.argv[1]))
