"""Files: compressed, cut, damaged, of old schemas, and no traces at all."""

import gzip
import json
import math

import pytest

from kernelbook.trace import TraceError, read_trace
from kernelbook.trace.files import trace_files
from kernelbook.trace.reader import EventReader
from tests.trace.made_trace import annotation, document, facts, forward, kernel, kineto, launch, memcpy, op, warned

EVENTS = [event for i in range(6) for event in forward(1000.0 + 200 * i, 1 + 3 * i)]


@pytest.fixture
def sound(read):
    return facts(read(EVENTS))


def whole_events(text, cut):
    """How many of the events of `text` end before `cut`: by the plainest JSON reader there is."""
    position, count, decoder = text.index("[", text.index("traceEvents")) + 1, 0, json.JSONDecoder()
    while True:
        while text[position] in " \n,":
            position += 1
        if text[position] == "]":
            return count
        _, position = decoder.raw_decode(text, position)
        if position > cut:
            return count
        count += 1


def events_of(path, block=4 << 20):
    reader = EventReader(path, block)
    return [event for batch in reader.batches() for event in batch], reader


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace"])
def test_gzip_is_decided_by_content(read_bytes, sound, name):
    assert facts(read_bytes(gzip.compress(kineto(EVENTS).encode()), name)) == sound
    assert facts(read_bytes(kineto(EVENTS).encode(), name)) == sound


def test_several_gzip_members(read_bytes, sound):
    data = kineto(EVENTS).encode()
    parts = [data[:100], data[100:101], b"", data[101:3000], data[3000:]]
    assert facts(read_bytes(b"".join(map(gzip.compress, parts)))) == sound
    assert facts(read_bytes(gzip.compress(data) + b"\0" * 512)) == sound


def test_a_cut_gzip_stream(read_bytes):
    data = gzip.compress(kineto(EVENTS).encode())
    for cut in range(len(data) // 2, len(data) - 1, 7):
        reading = read_bytes(data[:cut])
        assert reading.truncated
        assert warned(reading)["truncated"] == 1


def test_a_damaged_gzip_stream_gives_what_came_before(read_bytes):
    data = bytearray(gzip.compress(kineto(EVENTS * 20).encode(), 1))
    data[-len(data) // 4] ^= 0xFF
    reading = read_bytes(bytes(data))
    assert reading.truncated


@pytest.mark.parametrize("spelled", [kineto, lambda events: json.dumps(document(events))])
def test_a_file_cut_at_any_byte(tmp_path, spelled):
    text = spelled(forward()).rstrip()
    path = tmp_path / "cut.json"
    for cut in range(text.index("schemaVersion") + 16, len(text)):
        path.write_text(text[:cut])
        events, reader = events_of(path)
        begun = cut > text.index("[", text.index("traceEvents"))
        assert len(events) == (whole_events(text, cut) if begun else 0)
        assert reader.truncated
        assert reader.lost == 0
    path.write_text(text)
    assert events_of(path)[1].truncated is False


def test_a_file_cut_before_it_says_what_it_is(read_bytes):
    for text in ("{", '{"sch', '{"other": 1,'):
        with pytest.raises(TraceError, match="not a torch trace"):
            read_bytes(text.encode())


def damaged_copies():
    """(id, the text of a trace with one event that is damaged)."""
    text = kineto(EVENTS)
    place = text.index('"aten::relu"', len(text) // 2)
    yield "unescaped quote", text[: place + 6] + '"' + text[place + 6 :]
    yield "lone backslash", text[: place + 6] + "\\" + text[place + 6 :]
    yield "backslash before the quote", text[: place + 11] + "\\" + text[place + 11 :]
    yield "missing colon", text[: place - 2] + " " + text[place:]
    yield "missing closing quote", text[: place + 11] + text[place + 12 :]
    yield "missing brace", text[: text.index("}", place)] + text[text.index("}", place) + 1 :]
    yield "garbage", text[:place] + "\x00\x01garbage}{" + text[place:]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in damaged_copies()])
@pytest.mark.parametrize("block", [200, 1000, 4 << 20])
def test_one_damaged_event_is_lost_at_most(tmp_path, text, block):
    path = tmp_path / "damaged.json"
    path.write_text(text)
    events, reader = events_of(path, block)
    sound = [(event["ts"], event["name"]) for event in EVENTS]
    missing = [event for event in sound if event not in [(e.ts, e.name) for e in events]]
    assert len(events) == len(EVENTS) - 1
    assert [name for _, name in missing] == ["aten::relu"]
    assert (reader.lost, reader.truncated) == (1, False)
    assert warned(read_trace(path))["damaged"] == 1


@pytest.mark.parametrize("stray", ["}", "]", ",", "}}"])
def test_a_stray_bracket_between_events(read_bytes, stray):
    text = kineto(EVENTS)
    place = text.rindex("},", 0, len(text) // 2) + 1
    reading = read_bytes((text[:place] + stray + text[place:]).encode())
    assert (reading.totals.kernels, reading.truncated) == (12, False)


def test_neighbours_that_are_damaged_are_all_counted(read_bytes):
    reading = read_bytes(kineto(EVENTS).replace('"aten::', '"at"en::').encode())
    assert warned(reading)["damaged"] == 18
    assert (reading.ops.num_rows, reading.totals.kernels) == (0, 12)


@pytest.mark.parametrize("character", ["\n", "\x01", "\x1f", "\t", "\x00"])
def test_a_raw_control_character_is_repaired_and_counted(read_bytes, character):
    reading = read_bytes(kineto(EVENTS).replace("aten::relu", f"aten::re{character}lu", 1).encode())
    assert warned(reading) == {"damaged": 1}
    assert f"aten::re{character}lu" in reading.ops["name"].to_pylist()
    assert reading.totals.kernels == 12


def test_the_last_event_damaged(read_bytes):
    text = kineto(EVENTS)
    place = text.rindex('"relu"')
    reading = read_bytes((text[: place + 3] + '"' + text[place + 3 :]).encode())
    assert warned(reading) == {"damaged": 1}
    assert (reading.totals.kernels, reading.truncated) == (11, False)


@pytest.mark.parametrize("word", ["NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf", "N/A"])
def test_words_for_missing_numbers(read_bytes, word):
    events = [launch(1, 0), kernel("k", 5, 1, 1, **{"est. achieved occupancy %": "WORD", "registers per thread": 8})]
    reading = read_bytes(kineto(events * 3).replace('"WORD"', word).encode())
    assert reading.activities["occupancy_percent"].to_pylist() == [None] * 3
    assert reading.activities["registers_per_thread"].to_pylist() == [8] * 3
    assert "damaged" not in warned(reading)


def test_a_word_for_missing_in_the_head(read_bytes):
    text = kineto(EVENTS).replace('"id": 0', '"id": 0, "clock": NaN')
    reading = read_bytes(text.encode())
    assert reading.device == "Made GPU"
    assert reading.device_properties[0]["clock"] is None


OLD = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "gpu_memset": "Memset"}


def old_schema(events):
    """The same trace as torch 1.7 would have written it; it had no annotations but the profiler's step."""
    for event in events:
        category = OLD.get(event["cat"], "Operator")
        device = category in ("Kernel", "Memset")
        tid = f"stream {event['tid']}" if device else str(event["tid"])
        args = {key: value for key, value in event["args"].items() if not (device and key in ("device", "stream"))}
        yield event | {"cat": category, "tid": tid, "args": args}


@pytest.mark.parametrize(
    "spelled",
    [
        kineto,
        json.dumps,
        lambda events: json.dumps(events)[:-1],  # no closing bracket
        lambda events: json.dumps(events)[:-1] + ",",
        lambda events: json.dumps(events)[:-1] + ",\n]",
        lambda events: json.dumps(document(events))[:-2] + "}",  # no bracket, but the brace
        lambda events: json.dumps(document(events))[:-2] + ",]}",
    ],
    ids=["object", "array", "no bracket", "comma at the end", "comma and bracket", "brace only", "comma in the object"],
)
def test_old_schema(read_bytes, read, spelled):
    plain = [event for event in EVENTS if event["cat"] != "user_annotation"]
    step = annotation("ProfilerStep#5", 900, 3000)
    expected = facts(read([step, *plain]))
    found = facts(read_bytes(spelled(list(old_schema([step, *plain]))).encode()))
    assert found == expected
    assert found["ranges"] == []


def test_an_array_of_the_new_schema_keeps_its_annotations(read_bytes, sound):
    assert facts(read_bytes(json.dumps(EVENTS).encode())) == sound


def test_invalid_utf8_is_replaced(read_bytes):
    reading = read_bytes(kineto(EVENTS).encode().replace(b"aten::relu", b"aten::re\xff\xfelu"))
    assert "aten::re\ufffd\ufffdlu" in reading.ops["name"].to_pylist()
    assert warned(reading) == {}
    assert reading.totals.kernels == 12


def test_lone_surrogates_are_replaced(read_bytes):
    reading = read_bytes(kineto(EVENTS).encode().replace(b"aten::relu", rb"aten::\ud800relu"))
    assert "aten::\ufffdrelu" in reading.ops["name"].to_pylist()


def test_a_byte_order_mark(read_bytes, sound):
    assert facts(read_bytes(b"\xef\xbb\xbf \n" + kineto(EVENTS).encode())) == sound


def test_long_and_odd_names_are_grouped_whole(read):
    long = "k" * 5000
    names = [long + "1", long + "2", '<b>&"quoted"</b>', "=HYPERLINK(1)"]
    rows = read([kernel(name, 10 * i, 1, i) for i, name in enumerate(names * 2)]).kernels.to_pylist()
    assert sorted((row["name"], row["count"]) for row in rows) == sorted((name, 2) for name in names)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "the file is empty"),
        (b" \n\t", "only blanks"),
        (b"{}", "an empty JSON object"),
        (b'{"a": 1, "b": 2}', "a JSON object with the keys 'a', 'b'"),
        (b"[]", "the array holds no trace event"),
        (b"[1, 2, 3]", "the array holds no trace event"),
        (b'[{"a": 1}]', "the array holds no trace event"),
        (b'{"traceEvents": [{"a": 1}]}', "traceEvents holds no trace event"),
        (b'{"traceEvents": {"a": 1}}', "traceEvents that is not an array"),
        (b'"text"', "a JSON str"),
        (b"12", "a JSON int"),
        (b"null", "null"),
        (b"PK\x03\x04 a zip file", "not JSON"),
        (b'{"a": "traceEvents", "b": {"traceEvents": []}}', "a JSON object with the keys"),
        (gzip.compress(b"", mtime=0), "only blanks"),
        (gzip.compress(b"hello", mtime=0), "not JSON"),
        (b"\x1f\x8b", "the gzip file ends before any content"),
        (kineto(EVENTS).encode() * 2, "two JSON documents"),
        (json.dumps(EVENTS).encode() * 2, "two JSON documents"),
    ],
)  # fmt: skip
def test_what_is_no_trace(read_bytes, data, found):
    with pytest.raises(TraceError) as error:
        read_bytes(data)
    assert found in str(error.value)
    assert "made.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_two_large_documents(tmp_path):
    path = tmp_path / "two.json"
    path.write_text(kineto(EVENTS) * 2)
    with pytest.raises(TraceError, match="two JSON documents"):
        events_of(path, block=500)


def test_a_file_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(TraceError, match="cannot be read"):
            read_trace(path)


def test_a_trace_without_events_is_one(read):
    reading = read([])
    assert (reading.activities.num_rows, reading.ops.num_rows, reading.truncated) == (0, 0, False)


@pytest.mark.parametrize("block", [1, 7, 100, 1000, 4 << 20])
def test_the_size_of_the_blocks_does_not_matter(tmp_path, block):
    path = tmp_path / "made.json"
    path.write_text(kineto(EVENTS, distributedInfo={"rank": 3}))
    events, reader = events_of(path, block)
    assert [(event.ts, event.name) for event in events] == [(event["ts"], event["name"]) for event in EVENTS]
    assert reader.metadata["distributedInfo"] == {"rank": 3}
    assert (reader.lost, reader.truncated) == (0, False)


@pytest.mark.parametrize("block", [60, 300, 4 << 20])
def test_names_that_look_like_borders_between_events(tmp_path, block):
    hostile = ['}, {"ph": "X"', '"}, {"name": ', "]}", '"traceEvents": [', "\\", '\\"}, {"ph":"X"}']
    events = [
        op(name, 10 * i, 5, lists=[{"name": name}, {"name": name}, {"ph": "X", "ts": 1}])
        for i, name in enumerate(hostile)
    ]
    path = tmp_path / "made.json"
    path.write_text(json.dumps(document(events * 3, note='"traceEvents": [')))
    found, reader = events_of(path, block)
    assert [event.name for event in found] == hostile * 3
    assert (reader.lost, reader.truncated) == (0, False)


def test_metadata_after_the_events(read_bytes):
    text = json.dumps({"traceEvents": EVENTS, "distributedInfo": {"rank": 2}, "deviceProperties": [{"name": "Late"}]})
    reading = read_bytes(text.encode())
    assert (reading.device, reading.distributed) == ("Late", {"rank": 2})


def test_long_metadata_after_the_events(tmp_path):
    other = [{"name": f"n{i}", "ph": "X", "ts": i} for i in range(500)]
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"traceEvents": EVENTS, "other": other, "distributedInfo": {"rank": 2}}))
    events, reader = events_of(path, block=2000)
    assert len(events) == len(EVENTS)
    assert reader.metadata["distributedInfo"] == {"rank": 2}
    assert (reader.truncated, reader.lost) == (False, 0)


def test_unusual_types_are_no_error(read):
    events = [
        op(None, 0, 5), op(12, 10, 5), op(["a"], 20, 5), launch([1], 31), launch(1.0, 33), kernel("k", 40, 5, "1"),
        memcpy(50, 1, 1e30), kernel("l", 60, 1, 1, grid="large", block=[1, None, 2]),
    ]  # fmt: skip
    events[0]["args"] = "none"
    reading = read([*events, {"ph": 7}, {"ph": "X"}])
    assert (reading.totals.kernels, reading.totals.attributed, reading.totals.launches) == (2, 2, 1)
    assert reading.ops["name"].to_pylist() == ["", "12", "['a']"]
    assert not any(math.isnan(value) for value in reading.activities["start_us"].to_pylist())


def test_of_a_measured_process_only_the_trace_is_taken(tmp_path):
    """What Kernelbook left beside it is none, and a forward with shapes is no window; elsewhere these names count."""
    measured = ["measurement.json", "trace.json.gz", "shapes.json.gz", "case.json"]
    files = {"job/measurement.json", *(f"job/rank-{rank}/{name}" for rank in (0, 1) for name in measured)}
    files |= {"own/shapes.json.gz", "own/case.json", "mine/measurement.json", "mine/shapes.json.gz"}
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = {path.relative_to(tmp_path).as_posix() for path in trace_files(tmp_path)}
    traces = {"job/rank-0/trace.json.gz", "job/rank-1/trace.json.gz"}
    assert found == traces | {name for name in files if name.startswith(("own/", "mine/"))}
