"""Properties that hold for any trace: order, nesting, streams, cuts, damage (`make fuzz` tries more examples)."""

import gzip
import json
import zlib
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelbook.trace import TraceError, read_trace
from kernelbook.trace.reader import EventReader
from tests.trace import made_trace, plain_count, plain_forwards
from tests.trace.forwards_of import counted
from tests.trace.made_trace import in_a_file

pytestmark = pytest.mark.filterwarnings("error")
NAMES = ["aten::mm", "aten::add", "aten::to", "step", "loss", '}, {"ph": "X"', 'naïve \\ "quoted"', "", "=1+1"]
# Made once: a strategy made at each draw takes longer than the draw.
BOOLEANS, ANY_NAME = st.booleans(), st.sampled_from(NAMES)
ROWS = st.sampled_from(["op", "op", "annotation", "call"])
ACTIVITIES = st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset"])
CROWDED_NAMES, CROWDED_ROWS = st.sampled_from(["step", "loss", "step 2"]), st.sampled_from(["op", "annotation", "call"])
PROCESSES = st.sampled_from([100, 100, 100, 200])
PLACES_OF_ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=4, max_size=9, unique_by=lambda place: place[0]
)


@st.composite
def nests(draw, start, length, depth):
    """CPU rows inside [start, start + length), in ns; neighbours never touch. Kinds are drawn by chance."""
    rows = []
    position = start
    while depth and length > 40 and draw(BOOLEANS):
        begin = position + draw(st.integers(2, 20))
        size = draw(st.integers(0, max(start + length - begin - 2, 0)))
        if begin + size >= start + length:
            break
        kind = draw(ROWS)
        rows.append((kind, draw(ANY_NAME), begin, size))
        if kind != "call":
            rows += draw(nests(begin, size, depth - 1))
        position = begin + size
    return rows


@st.composite
def traces(draw):
    """Events of a trace: threads with nested rows, calls with correlation ids, activities on devices and streams."""
    events, correlation, scale = [], 0, 2000  # ns times 2000: all is more than the tolerance of 1 µs apart
    for thread in range(draw(st.integers(1, 3))):
        for kind, name, start, length in draw(nests(1000, 2000, 4)):
            ts, dur = start * scale / 1000, length * scale / 1000
            if kind == "call":
                correlation += 1
                events.append(made_trace.launch(correlation, ts, dur, "cudaLaunchKernel", tid=thread))
            else:
                events.append(getattr(made_trace, kind)(name, ts, dur, tid=thread))
    for _ in range(draw(st.integers(0, 12))):
        category = draw(ACTIVITIES)
        ts, dur = draw(st.integers(0, 9000)) / 2, draw(st.integers(0, 900)) / 4
        of = draw(st.integers(1, correlation + 2))
        where = {"device": draw(st.integers(0, 1)), "stream": draw(st.integers(7, 9))}
        events.append(made_trace.activity(category, draw(ANY_NAME), ts, dur, of, **where))
    return events


@st.composite
def crowded_threads(draw):
    """Events of two or three threads, of one process or two, that work at the same time under ranges of few names.

    In some traces rows of one thread overlap without nesting.
    """
    nested = draw(BOOLEANS)
    events = []
    for thread in range(draw(st.integers(2, 3))):
        where = {"tid": thread, "pid": draw(PROCESSES)}
        open_until = []
        for start, length in sorted(draw(PLACES_OF_ROWS)):
            open_until = [end for end in open_until if end > start]
            if nested and any(end < start + length for end in open_until):
                continue
            kind, name, ts, dur = draw(CROWDED_ROWS), draw(CROWDED_NAMES), 4 * start, 4 * length
            if kind == "call":
                correlation = len(events) + 1
                events.append(made_trace.launch(correlation, ts, 1, **where))
                events.append(made_trace.kernel(name, ts + draw(st.integers(0, 99)), 3, correlation))
            else:
                open_until.append(start + length)
                events.append(getattr(made_trace, kind)(name, ts, dur, **where))
    return events


def text_of(events, draw_format):
    return made_trace.kineto(events) if draw_format else json.dumps(made_trace.document(events))


def read_events(data, block=4 << 20):
    def use(path):
        reader = EventReader(path, block)
        return [(e.ph, e.cat, e.name, e.ts, e.dur) for batch in reader.batches() for e in batch], reader

    return in_a_file(use, data)


@given(traces())
def test_totals_are_those_of_a_plain_count(events):
    reading, plain = in_a_file(lambda path: (read_trace(path), plain_count.count(path)), text_of(events, True).encode())
    totals = reading.totals
    if not plain["activities"]:
        assert set(vars(totals).values()) == {None}
        return
    assert totals.attributed + totals.unattributed == plain["activities"] == reading.activities.num_rows
    for name in ("kernels", "memcpys", "memsets", "attributed", "unattributed", "launches"):
        assert getattr(totals, name) == plain[name]
    assert totals.device_time_us == pytest.approx(plain["device_time_us"], abs=1e-6)
    assert totals.device_busy_us == pytest.approx(plain["device_busy_us"], abs=1e-6)
    assert totals.device_busy_us <= totals.device_time_us
    found = {row["name"]: row["self_device_time_us"] for row in reading.ops.to_pylist() if row["self_device_time_us"]}
    assert found == pytest.approx(plain["self_device_us"])


@given(traces())
def test_every_range_has_the_work_of_its_own_thread(events):
    reading, plain = in_a_file(lambda path: (read_trace(path), plain_count.count(path)), text_of(events, True).encode())
    rows = reading.ranges.to_pylist()
    assert len(rows) == plain["ranges"]
    own = sorted((name, kernels) for name, kernels, _ in plain["per_range"])
    if plain["activities"] and not any(row["inferred"] for row in rows):
        assert sorted((row["annotation"], row["kernels"]) for row in rows) == own
    top = [row for row in rows if row["parent"] is None]
    counted = sum((row["kernels"] or 0) + (row["memcpys"] or 0) + (row["memsets"] or 0) for row in top)
    assert counted == len([row for row in reading.activities["range"].to_pylist() if row is not None])


def kernels_of(forward):
    """How often a forward ran each kernel, on whichever thread it was launched."""
    found = Counter()
    for (name, _), count in forward["activities"].items():
        found[name] += count
    return frozenset(found.items())


CHOICES = {"step": ["step"], "step*": ["step", "step 2"], "*s*": ["step", "step 2", "loss"], "[!s]*": ["loss"]}


@given(crowded_threads(), st.sampled_from(sorted(CHOICES)))
def test_forwards_are_those_of_a_plain_reading(events, annotation):
    """Threads overlap, and ranges of one name or of several lie inside one another."""

    def use(path):
        reading = read_trace(path, annotation)
        return reading, counted(reading), plain_forwards.forwards(path, *CHOICES[annotation])

    reading, found, plain = in_a_file(use, text_of(events, True).encode())
    assert found == {i: (f["rows"], f["activities"]) for i, f in enumerate(plain) if f["rows"] or f["activities"]}
    rows = [row for row in reading.ranges.to_pylist() if row["forward"]]
    assert [row["annotation"] for row in rows] == [forward["range"]["name"] for forward in plain]
    if reading.totals.kernels is not None:
        assert [row["device_time_us"] for row in rows] == [forward["device_time_us"] for forward in plain]
    work = [
        (row["kind"], row["annotation"].rstrip("2"), kernels_of(forward))
        for row, forward in zip(rows, plain, strict=True)
        if forward["activities"]
    ]
    assert len({each[0] for each in work}) == len(set(work)) == len({each[1:] for each in work})
    inside = [events[place] for place in set().union(*(forward["places"] for forward in plain))]
    kernels = Counter(event["name"] for event in inside if event["cat"] == "kernel")
    assert {row["name"]: row["count"] for row in reading.tables()["range_kernels"].to_pylist()} == kernels
    ops = {event["name"] for event in inside if event["cat"] == "cpu_op"}
    assert set(reading.tables()["range_ops"]["name"].to_pylist()) == ops


@given(traces())
def test_times_of_ops_add_up(events):
    """Self times of all rows of a thread cover exactly its outermost rows."""
    reading = in_a_file(read_trace, text_of(events, True).encode())
    forest = reading._attribution.forest
    top = forest.length[forest.parent == -1].sum()
    assert forest.self_time.sum() == top
    assert (forest.self_time >= 0).all()


@given(traces(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_events_does_not_matter(events, random, spelled):
    shuffled = random.sample(events, len(events))
    facts = [
        in_a_file(lambda p: made_trace.facts(read_trace(p)), text_of(e, spelled).encode()) for e in (events, shuffled)
    ]
    for each in facts:
        each["activities"].sort(key=repr)
        each["ranges"].sort(key=lambda row: repr({k: v for k, v in row.items() if k not in ("parent", "index")}))
        for row in each["activities"]:
            row.pop("range")  # rows of equal start may change places in `ranges`
        for row in each["ranges"]:
            row["parent"] = row["parent"] is None
            row.pop("index")
    assert facts[0] == facts[1]


@given(traces(), st.booleans(), st.sampled_from([64, 999, 4 << 20]), st.data())
def test_a_cut_gives_the_events_before_it(events, spelled, block, data):
    text = text_of(events, spelled).rstrip().encode()
    whole, _ = read_events(text)
    cut = data.draw(st.integers(text.index(b"traceEvents") + 16, len(text) - 1))
    found, reader = read_events(text[:cut], block)
    assert found == whole[: len(found)]
    assert len(whole) - len(found) <= text[cut:].count(b'"ph"') + 1
    assert reader.truncated
    assert reader.lost == 0


@given(traces(), st.booleans(), st.sampled_from([64, 999, 4 << 20]), st.data())
def test_a_byte_of_damage_costs_little_and_invents_nothing(events, spelled, block, data):
    text = bytearray(text_of(events, spelled).encode())
    place = data.draw(st.integers(0, len(text) - 1))
    change = data.draw(
        st.sampled_from([b"", b'"', b"\\", b"\x00", b"\xff", b"{", b"}", b"]", b",", b" ", b"NaN", b'\\"'])
    )
    text[place : place + data.draw(st.integers(0, 1))] = change
    try:
        found, _ = read_events(bytes(text), block)
    except TraceError:
        return
    assert len(found) <= len(events)
    if change in (b'"', b"\\", b"\x00"):
        assert len(found) >= len(events) - 2  # the damaged one, and its neighbour where the border between them is hit


@given(traces(), st.booleans(), st.sampled_from([64, 999, 4 << 20]), st.data())
def test_damage_outside_the_events_costs_none_of_them(events, spelled, block, data):
    """Something inserted before or after the events: nothing is missing, so nothing is truncated."""
    text = text_of(events, spelled).rstrip()
    key, closing = text.index('"traceEvents"'), text.rindex("]")
    before = data.draw(st.booleans())
    place = data.draw(st.integers(1, key - 1) if before else st.integers(closing + 1, len(text) - 1))
    inserted = data.draw(st.sampled_from(['"', "\\", "{", "[", ",", ":", "}", "x", "\x00", 'a "b" c', '"a": "b"c",']))
    whole, _ = read_events(text.encode())
    found, reader = read_events((text[:place] + inserted + text[place:]).encode(), block)
    assert found == whole
    assert reader.truncated is False
    assert reader.lost <= 1 + (block < 999)


@given(traces(), st.booleans(), st.sampled_from([64, 999, 4 << 20]), st.lists(st.integers(0, 40), max_size=4))
def test_events_in_several_arrays_are_all_read(events, spelled, block, places):
    text = text_of(events, spelled)
    opening = text.index("[", text.index('"traceEvents"')) + 1
    whole, _ = read_events(text.encode())
    parts = [events[a:b] for a, b in zip([0, *sorted(places)], [*sorted(places), None], strict=True)]
    arrays = '], "note": "]", "traceEvents": ['.join(",".join(map(json.dumps, part)) for part in parts)
    found, reader = read_events((text[:opening] + arrays + text[text.rindex("]") :]).encode(), block)
    assert found == whole
    assert (reader.truncated, reader.lost) == (False, 0)


@given(traces(), st.integers(0, 9), st.data())
def test_a_damaged_gzip_file_gives_what_can_be_unpacked(events, level, data):
    packed = bytearray(gzip.compress(text_of(events, True).encode(), level, mtime=0))
    place = data.draw(st.integers(3, len(packed) - 1))
    packed[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    assume(not packed[3] & 0xE0)  # reserved flags, which zlib refuses and isal skips
    member, plain = zlib.decompressobj(31), b""
    try:
        for byte in packed:
            plain += member.decompress(bytes([byte]))
    except zlib.error:
        pass
    try:
        expected, _ = read_events(plain)
    except TraceError:
        expected = []
    try:
        found, _ = read_events(bytes(packed))
    except TraceError:
        found = []
    assert found == expected


PLACES = ["pid", "tid", "ts", "dur", "correlation", "device", "stream", "bytes", "grid", "registers per thread", "name"]


@given(traces(), st.lists(st.tuples(st.integers(0, 200), st.sampled_from(PLACES), st.integers()), max_size=3))
def test_numbers_of_any_size_are_read(events, odd):
    for number, place, value in odd:
        if events:
            event = events[number % len(events)]
            where = event if place in event else event["args"]
            where[place] = [value << 60, 1, 1] if place == "grid" else value << 60
    reading = in_a_file(read_trace, text_of(events, True).encode())
    rows = reading.activities.to_pylist() + reading.ranges.to_pylist()
    assert all(abs(value) < 2**63 for row in rows for value in row.values() if isinstance(value, int))
    json.dumps(rows, allow_nan=False)


@given(st.binary(max_size=400), st.sampled_from([b"", b'{"traceEvents": [', b"[", b"\x1f\x8b\x08\x00"]))
def test_any_bytes_at_all(noise, prefix):
    try:
        in_a_file(read_trace, prefix + noise)
    except TraceError as error:
        message = str(error)
        assert "\n" not in message


def test_a_cut_at_every_byte_of_one_trace():
    text = made_trace.kineto(made_trace.forward()).rstrip().encode()
    whole, _ = read_events(text)
    for cut in range(text.index(b"traceEvents") + 16, len(text)):
        found, reader = read_events(text[:cut], 300)
        assert found == whole[: len(found)]
        assert reader.truncated
