"""No file is ever held whole: padding, huge values and garbage, anywhere in a file, also in a small gzip file."""

import functools
import gzip
import json
import os
import random
import subprocess
import sys
import tracemalloc
from itertools import pairwise

import pytest

from kernelbook.trace import TraceError, metadata, read_trace, reader, reading, salvage, source
from tests.helpers.patience import LONG
from tests.trace.made_trace import forward, kernel, write

HEAD = '{"deviceProperties": [{"id": 0, "name": "Made GPU"}], '
FIRST, LAST = (json.dumps(forward(start, number))[1:-1] for start, number in ((1000.0, 1), (9000.0, 100)))
EVENTS = HEAD + '"traceEvents": [' + FIRST
EVENT = ', {"ph": "X", "cat": "cpu_op", "ts": 1500, "dur": 1, "name": '
TAIL = '], "traceName": "made.json"}'
# What stands before the long part, what after it, and how many kernels there are.
PLACES = {
    "before the file's object": ("", EVENTS + TAIL, 2),
    "string before the events": (HEAD + '"note": "', '", "traceEvents": [' + FIRST + TAIL, 2),
    "list before the events": (HEAD + '"note": [', '0], "traceEvents": [' + FIRST + TAIL, 2),
    "device properties": ('{"deviceProperties": [', '{}], "traceEvents": [' + FIRST + TAIL, 2),
    "name of an event": (EVENTS + EVENT + '"', '"}, ' + LAST + TAIL, 4),
    "grid of an event": (EVENTS + EVENT + '"k", "args": {"grid": [', "1]}}, " + LAST + TAIL, 4),
    "between two events": (EVENTS + ", ", LAST + TAIL, 4),
    "list after the events": (EVENTS + TAIL[:-1] + ', "x": [', "0]}", 2),
    "after the file's object": (EVENTS + TAIL, "", 2),
}
CONTENTS = {
    "blanks": b" \n\t ", "letters": b"x", "zeros": b"\0", "quotes": b'"', "backslashes": b"\\", "braces": b"{",
    "brackets": b"[", "closing braces": b"}", "closing brackets": b"]", "commas": b",", "digits": b"9",
    "é": "é".encode(), "numbers": b"1,", "strings": b'"a",', "objects": b"{},", "starts": b'{"ph":',
    "borders": b'},{"ph":', "nested": b'{"ph":[{},', "words": b"NaN,", "keys": b'"traceEvents": [',
    "noise": random.Random(7).randbytes(4096),
}  # fmt: skip
CHUNK = 1 << 20


def packed(part, times=1):
    """Gzip members of `part`, again and again: a file of any size in no time."""
    return gzip.compress(part, 1) * times


def write_long(path, place, content, size):
    """A file with a long part of `size` bytes."""
    before, after, _ = PLACES[place]
    chunk = CONTENTS[content] * (CHUNK // len(CONTENTS[content]))
    with path.open("wb") as file:
        file.write(packed(before.encode()))
        member = packed(chunk[: min(size, len(chunk))])
        for _ in range(max(size // CHUNK, 1)):
            file.write(member)
        file.write(packed(after.encode()))
    return path


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_held_does_not_grow_with_the_file(tmp_path, monkeypatch, place, content):
    """With limits of some KiB instead of MiB, a file of 8 MiB takes less than 2 MiB."""
    limits = ((reader, "_MOST_HELD"), (reader, "_WINDOW"), (salvage, "_MAX_UNFINISHED"), (metadata, "_LARGEST"))
    for module, name in limits:
        monkeypatch.setattr(module, name, 1 << 14)
    monkeypatch.setattr(reader, "_SMALL", 1 << 12)
    monkeypatch.setattr(source, "_MOST_PLAIN", 1 << 12)
    for module in (reader, salvage):
        monkeypatch.setattr(module, "MOST_WASTED", 10**5)
    small = functools.partial(reader.EventReader, block=1 << 14)
    monkeypatch.setattr(reading, "EventReader", small)
    path = write_long(tmp_path / "made.json", place, content, 8 << 20)
    read_trace(write_long(tmp_path / "small.json", place, "blanks", 10))  # what is made once and kept
    tracemalloc.start()
    try:
        found = read_trace(path)
    except TraceError:
        pass
    else:
        assert found.totals.kernels >= 2
        assert found.truncated is False
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_grids_of_many_numbers_are_not_kept(tmp_path):
    """Each of 100 kernels has another grid, of 5000 numbers: together they would take 18 MB."""
    grids = [list(range(first, first + 5000)) for first in range(1000, 1100)]
    events = [kernel("k", 10.0 * place, 1, place, grid=grid) for place, grid in enumerate(grids)]
    path = write(tmp_path / "made.json", [*forward(5000), *events])
    read_trace(write(tmp_path / "small.json", forward()))  # what is made once and kept
    tracemalloc.start()
    found = read_trace(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.totals.kernels == 102
    assert peak < 8 << 20


@pytest.mark.parametrize("place", PLACES)
def test_padding_is_no_damage_outside_of_values(tmp_path, place):
    found = read_trace(write_long(tmp_path / "made.json", place, "blanks", 1 << 20))
    assert found.totals.kernels == PLACES[place][2]
    assert {warning.code for warning in found.warnings} == set()


MEASURE = """
import sys
sys.path[:0] = sys.argv[1:3]
from measure import peak_mb
from kernelbook.trace import TraceError, read_trace
for path in sys.argv[3:]:
    try:
        print(peak_mb(), read_trace(path).totals.kernels)
    except TraceError as error:
        print(peak_mb(), error)
print(peak_mb(), "at the end")
"""


def measured(root, *paths):
    """What reading each file gives, and by how many MB it raised the peak of one process that reads all in turn."""
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", MEASURE, root / "scripts", root / "benchmarks", *paths]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone, timeout=LONG, check=True)
    rows = [line.split(" ", 1) for line in done.stdout.splitlines()]
    peaks = [float(peak) for peak, _ in rows]
    return [outcome for _, outcome in rows[:-1]], [after - before for before, after in pairwise(peaks)], peaks[-1]


@pytest.mark.slow
@pytest.mark.parametrize("content", ["letters", "noise", "starts"])
def test_a_long_part_raises_the_peak_by_less_than_a_quarter_of_its_size(root, tmp_path, content):
    """The stated limit is 300 MB for a file of 1 GB, here of zeros below: the same share above what a small file takes.

    Text, what is no text, and what looks like events: the three that take different ways.
    """
    small = write_long(tmp_path / "small.json", "name of an event", "blanks", 10)
    paths = [write_long(tmp_path / f"{place}.json", place, content, 256 << 20) for place in PLACES]
    outcomes, growth, _ = measured(root, small, *paths)
    read = ("2", "4")
    refused = ("no array traceEvents begins in the first 8 MiB", "damaged")
    assert [each for each in outcomes if each not in read and not any(words in each for words in refused)] == []
    assert sum(growth[1:]) < 60, dict(zip(PLACES, growth[1:], strict=True))


@pytest.mark.slow
def test_a_gigabyte_takes_less_than_300_mb(root, tmp_path):
    """Most of it zeros on the disk, as a file system leaves them after a crash."""
    path = tmp_path / "made.json"
    path.write_text(EVENTS + ", ")
    os.truncate(path, 1 << 30)
    with path.open("a") as file:
        file.write(LAST + TAIL)
    outcomes, _, peak = measured(root, path)
    assert (outcomes, peak < 300) == (["4"], True)
