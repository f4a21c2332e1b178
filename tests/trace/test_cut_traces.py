"""A file that was cut: the ranges that the cut left incomplete count in no median and are no forwards."""

import json

import pytest

from kernelbook.trace import read_trace
from tests.trace.made_trace import annotation, document, kernel, launch, op

FORWARDS = 4
EACH = 3  # kernels a forward


def parts():
    """(ops and annotations, activities and launches in pairs) as torch writes them, of four forwards alike."""
    cpu, pairs = [], []
    for forward in range(FORWARDS):
        begin = 1000 * forward
        cpu += [annotation("step", begin, 500), op("aten::mm", begin + 10, 400)]
        for place in range(EACH):
            number = EACH * forward + place + 1
            pairs += [kernel("gemm", begin + 600 + 10 * place, 8, number), launch(number, begin + 20 + 100 * place)]
    return cpu, pairs


def cut(path, events):
    """The text up to the end of the last of `events`, without the rest of the document."""
    path.write_text(json.dumps(document(events)).removesuffix("]}"))
    return read_trace(path)


@pytest.mark.parametrize("kept", range(2, 2 * EACH * FORWARDS + 1))
def test_a_forward_counts_once_a_later_launch_was_read(tmp_path, kept):
    cpu, pairs = parts()
    reading = cut(tmp_path / "cut.json", cpu + pairs[:kept])
    assert reading.truncated
    launches = kept // 2
    # the last forward with a launch may have had more of them
    whole = max(launches - 1, 0) // EACH
    assert reading.incomplete.tolist() == [number >= whole for number in range(FORWARDS)]
    activities, _ = reading.forwards()
    assert activities.num_rows == whole * EACH
    (step,) = reading.annotations()
    if whole:
        assert (step.ranges, step.counts["kernels"], step.device_time_us) == (whole, (EACH, EACH), 8.0 * EACH)
    else:
        assert (step.counts["kernels"], step.device_time_us, step.busy_share) == (None, None, None)


def test_the_loss_is_counted_and_every_range_is_still_there(tmp_path):
    cpu, pairs = parts()
    reading = cut(tmp_path / "cut.json", cpu + pairs[: 2 * EACH + 3])
    assert reading.ranges.num_rows == FORWARDS
    assert reading.ranges["kernels"].to_pylist() == [3, 1, 0, 0]  # the second kernel's launch is past the cut
    (warning,) = (warning for warning in reading.warnings if warning.code == "truncated")
    assert "3 of 4 ranges may lack work after it" in warning.message


def test_where_launches_come_first_their_missing_activities_tell(tmp_path):
    cpu, pairs = parts()
    reading = cut(tmp_path / "cut.json", cpu + pairs[1::2] + [launch(None, 9000)] + pairs[0 : 2 * EACH + 2 : 2])
    assert reading.incomplete.tolist() == [False, True, True, True]


def test_a_forward_keeps_its_number_where_an_earlier_one_is_cut(tmp_path):
    cpu, pairs = parts()
    without_the_first = [pairs[place] for place in range(2, len(pairs), 2)]
    reading = cut(tmp_path / "cut.json", cpu + pairs[1::2] + [launch(None, 9000)] + without_the_first)
    assert reading.incomplete.tolist() == [True, False, False, False]
    activities, calls = reading.forwards()
    assert sorted(set(activities["index"].to_pylist())) == sorted(set(calls["index"].to_pylist())) == [1, 2, 3]


def test_a_file_that_is_whole_and_one_without_a_device_have_nothing_cut(tmp_path, read):
    cpu, pairs = parts()
    assert not read(cpu + pairs).incomplete.any()
    assert not cut(tmp_path / "cut.json", cpu).incomplete.any()
