"""Damage outside the events: metadata before and after them, several arrays of them, and gzip files."""

import functools
import gzip
import json
import zlib

import pytest

from kernelbook.trace import TraceError, reading
from kernelbook.trace.reader import EventReader
from tests.trace.made_trace import document, facts, forward, kineto, op, read_in_memory, warned

EVENTS = [event for i in range(6) for event in forward(1000.0 + 200 * i, 1 + 3 * i)]
SPELLED = ",".join(map(json.dumps, EVENTS))
DEVICE = '"deviceProperties": [{"id": 0, "name": "Made GPU"}]'
TAIL = '], "traceName": "made.json"}'


@pytest.fixture(scope="module")
def sound():
    return without_warnings(read_in_memory(EVENTS))


@pytest.fixture
def small(request, monkeypatch):
    """Files are read in blocks of so many bytes."""
    monkeypatch.setattr(reading, "EventReader", functools.partial(EventReader, block=request.param))
    return request.param


def without_warnings(reading):
    return {key: value for key, value in facts(reading).items() if key != "warnings"}


HEADS = {
    "unescaped quotes": '{DEVICE, "trace_id": "run "A" 3", "traceEvents": [',
    "one unescaped quote": '{DEVICE, "trace_id": "run "A 3", "traceEvents": [',
    "a quote too few": '{DEVICE, "trace_id": "run, "traceEvents": [',
    "a lone backslash": '{DEVICE, "trace_id": "C:\\path", "traceEvents": [',
    "a backslash before the quote": '{DEVICE, "trace_id": "C:\\", "traceEvents": [',
    "a missing comma": '{DEVICE "traceEvents": [',
    "a missing colon": '{DEVICE, "a" 1, "traceEvents": [',
    "a missing brace": '{DEVICE, "distributedInfo": {"rank": 0, "traceEvents": [',
    "a missing bracket": '{DEVICE, "shapes": [1, 2, "traceEvents": [',
    "a brace too many": '{DEVICE}, "traceEvents": [',
    "a word": '{DEVICE, "a": undefined, "traceEvents": [',
    "a cut word": '{DEVICE, "a": tru, "traceEvents": [',
    "bytes": '{DEVICE, \x00\x01 "traceEvents": [',
    "no first brace": '"schemaVersion": 1, DEVICE, "traceEvents": [',
    "a line before it": 'writing the trace to made.json\n{DEVICE, "traceEvents": [',
    "a word about the key": '{DEVICE, "note": "of "traceEvents": [ all", "traceEvents": [',
}


@pytest.mark.parametrize("small", [50, 1 << 20], indirect=True)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.usefixtures("small")
def test_damage_before_the_events_costs_none(read_bytes, sound, head):
    reading = read_bytes((head.replace("DEVICE", DEVICE) + SPELLED + TAIL).encode())
    assert without_warnings(reading) == sound
    assert warned(reading) == {"damaged": 1}
    assert reading.device == "Made GPU"


TAILS = {
    "unescaped quotes": '], "traceName": "TMP/a "b".json", DEVICE}',
    "one unescaped quote": '], DEVICE, "traceName": "TMP/a "b.json"}',
    "a quote too few": '], DEVICE, "traceName": "made.json}',
    "a lone backslash": '], "traceName": "C:\\path", DEVICE}',
    "a missing comma": ']\n"traceName": "made.json", DEVICE}',
    "a missing comma later": '], "traceName": "made.json" DEVICE}',
    "a missing value": '], "traceName": , DEVICE}',
    "bytes": '], \x00\x01 "traceName": "made.json", DEVICE}',
    "a brace too many": '], DEVICE}}',
    "a bracket for a brace": '], DEVICE]',
    "a line after it": '], DEVICE}\ndone',
    "zeros after it": "], DEVICE}" + "\0" * 512,
    "braces after it": "], DEVICE}" + "{" * 512,
}  # fmt: skip


@pytest.mark.parametrize("small", [50, 1 << 20], indirect=True)
@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_damage_after_the_events_costs_none(read_bytes, sound, small, tail):
    found = read_bytes(('{"traceEvents": [' + SPELLED + tail.replace("DEVICE", DEVICE)).encode())
    assert without_warnings(found) == sound
    assert found.device == "Made GPU"
    assert set(warned(found)) == {"damaged"}
    assert warned(found)["damaged"] == 1 or small == 50  # where a part of the damage is all that is seen at once


def test_words_for_missing_and_control_characters_in_metadata_are_no_damage(read_bytes, sound):
    for word in ("NaN", '"a\tb"', "Infinity", "N/A"):
        head = '{"schemaVersion": WORD, DEVICE, "traceEvents": ['.replace("DEVICE", DEVICE).replace("WORD", word)
        for text in (head + SPELLED + TAIL, head + SPELLED + f'], "x": {word}}}'):
            reading = read_bytes(text.encode())
            assert without_warnings(reading) == sound
            assert warned(reading) == {}


@pytest.mark.parametrize("cut", range(3))
def test_a_file_that_is_cut_behind_the_events_is_truncated_and_not_damaged(read_bytes, cut):
    tail = ('], "traceName": "ma', "]", '], "distributedInfo": {"rank": 0}')[cut]
    reading = read_bytes(('{"traceEvents": [' + SPELLED + tail).encode())
    assert set(warned(reading)) == {"truncated"}
    assert reading.totals.kernels == 12


def test_damage_behind_the_last_event_that_is_damaged_too(read_bytes):
    text = '{"traceEvents": [' + SPELLED.removesuffix("}}") + '"}}], "traceName": "a "b".json"}'
    reading = read_bytes(text.encode())
    assert (reading.totals.kernels, reading.truncated, warned(reading)) == (11, False, {"damaged": 2})


def parted(places, between='], "traceEvents": ['):
    """The events in several arrays."""
    parts = [",".join(map(json.dumps, EVENTS[a:b])) for a, b in zip([0, *places], [*places, None], strict=True)]
    return "{" + DEVICE + ', "traceEvents": [' + between.join(parts) + TAIL


@pytest.mark.parametrize("small", [50, 700, 1 << 20], indirect=True)
@pytest.mark.parametrize("places", [[0], [1], [30], [59], [60], [20, 40], [20, 20, 20]])
@pytest.mark.parametrize("between", ['], "traceEvents": [', '],\n"a": [1], "traceEvents" :\n[', '],"traceEvents":[{},'])
@pytest.mark.usefixtures("small")
def test_several_arrays_of_events_are_all_read(read_bytes, sound, places, between):
    reading = read_bytes(parted(places, between).encode())
    assert without_warnings(reading) == sound
    assert warned(reading) == {}


def test_damage_between_two_arrays_is_counted(read_bytes, sound):
    reading = read_bytes(parted([30], '], "a": "b"c", "traceEvents": [').encode())
    assert without_warnings(reading) == sound
    assert warned(reading) == {"damaged": 1}


def test_an_array_of_that_name_elsewhere_is_none(read_bytes, sound):
    inner = '"other": {"traceEvents": [{"ph": "X", "name": "no"}]}'
    for text in ("{" + inner + ', "traceEvents": [' + SPELLED + TAIL, parted([], "")[:-1] + ", " + inner + "}"):
        assert without_warnings(read_bytes(text.encode())) | {"truncated": False} == sound
    with pytest.raises(TraceError, match="a JSON object with the keys 'other'"):
        read_bytes(("{" + inner + "}").encode())


def packed(level=6):
    """A gzip file whose content does not shrink to nothing, and the content."""
    events = [event | {"name": f"{event['name']} {number * 7919 % 1000}"} for number, event in enumerate(EVENTS * 40)]
    text = kineto(events).encode()
    return bytearray(gzip.compress(text, level, mtime=0)), text


def plainly_unpacked(data):
    """Every byte that zlib gives, one byte of input after the other, and what it says of the damage."""
    member, content = zlib.decompressobj(31), bytearray()
    for place in range(len(data)):
        try:
            content += member.decompress(data[place : place + 1])
        except zlib.error as error:
            return bytes(content), str(error)
    return bytes(content), ""


def read_all(path, block=1 << 20):
    found = EventReader(path, block)
    return [event.name for batch in found.batches() for event in batch], found


@pytest.mark.parametrize(("place", "check"), [(-8, "CRC"), (-5, "CRC"), (-4, "length"), (-1, "length")])
@pytest.mark.parametrize("short", [True, False])
def test_a_check_that_fails_costs_nothing_and_is_named(tmp_path, read_bytes, place, check, short):
    data, text = packed()
    if short:
        text = kineto(EVENTS).encode()
        data = bytearray(gzip.compress(text))
    data[place] ^= 0x40
    reading = read_bytes(bytes(data))
    assert facts(reading) | {"warnings": {}} == facts(read_bytes(text)) | {"warnings": {}}
    assert (reading.truncated, warned(reading)) == (False, {"damaged": 1})
    assert f"the {check} check of the gzip file fails" in reading.warnings[0].message


@pytest.mark.parametrize("size", [40, 1000, 70_000, 300_000])
def test_every_byte_before_a_break_is_used(tmp_path, size):
    """Blocks of type 3 do not exist."""
    _, text = packed()
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(text[:size]) + packer.flush(zlib.Z_FULL_FLUSH) + b"\x07" + b"a" * 1000
    assert plainly_unpacked(data)[0] == text[:size]
    (tmp_path / "whole.json").write_bytes(text[:size])
    (tmp_path / "made.json").write_bytes(data)
    names, found = read_all(tmp_path / "made.json")
    assert names == read_all(tmp_path / "whole.json")[0]
    assert found.truncated
    assert found.checks == [f"the gzip file is damaged after {size} bytes of its content (invalid block type)"]


def test_a_cut_gzip_file_gives_every_byte(tmp_path):
    data, text = packed(1)
    member, lengths = zlib.decompressobj(31), [0]  # of the content, after each byte
    for place in range(len(data)):
        lengths.append(lengths[-1] + len(member.decompress(data[place : place + 1])))
    for cut in range(300, len(data), 311):
        (tmp_path / "whole.json").write_bytes(text[: lengths[cut]])
        (tmp_path / "made.json").write_bytes(data[:cut])
        names, found = read_all(tmp_path / "made.json")
        assert names == read_all(tmp_path / "whole.json")[0]
        assert (found.truncated, found.checks, found.lost) == (True, [], 0)


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_member_takes_no_other_with_it(tmp_path, damaged):
    """Each member holds some whole events; the middle of one is overwritten, or its check is."""
    members = [[op(f"{part}-{number}", 10 * number, 5) for number in range(500)] for part in range(3)]
    contents = [",".join(map(json.dumps, events)) + "," for events in members]
    contents = ['{"traceEvents": [' + contents[0], contents[1], contents[2].rstrip(",") + TAIL]
    for place in (-8, 1000):
        packed = [bytearray(gzip.compress(content.encode())) for content in contents]
        packed[damaged][place : place + 4] = b"\xff" * 4
        (tmp_path / "made.json").write_bytes(b"".join(packed))
        names, found = read_all(tmp_path / "made.json")
        others = [event["name"] for part in range(3) for event in members[part] if part != damaged or place == -8]
        assert len(set(others) - set(names)) <= (place == 1000)
        assert len(found.checks) == 1


@pytest.mark.parametrize("place", [2, 3, 10])
def test_a_gzip_file_that_gives_nothing_is_not_said_to_be_blank(read_bytes, place):
    data, _ = packed()
    data[place] = 0xFF
    with pytest.raises(TraceError) as error:
        read_bytes(bytes(data))
    assert "the gzip file is damaged after 0 bytes of its content" in str(error.value)
    assert "blank" not in str(error.value)


def test_whatever_is_in_a_damaged_document_the_message_names_the_checks(read_bytes):
    data = bytearray(gzip.compress(json.dumps(document(EVENTS))[:9].encode()))
    data[-8] ^= 1
    with pytest.raises(TraceError, match=r"not JSON.*; the CRC check of the gzip file fails"):
        read_bytes(bytes(data))
