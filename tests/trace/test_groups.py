"""Which ranges are taken together: by a name, a glob or names that differ in numbers alone; outermost ones; by work."""

from collections import Counter

import pytest

from tests.trace.made_trace import annotation, kernel, kineto, launch, op, warned


class Made:
    """Events under way, one range after the other."""

    def __init__(self):
        self.events, self.now, self.correlation = [], 0, 0

    def range(self, name, kernels=(), length=100, inner=()):
        """A range with these kernels ((name, µs)); inner: ranges (name, kernels) in it, one after the other."""
        start = self.now
        self.events.append(annotation(name, start, length))
        self.now += 1
        for each in inner:
            self.range(*each, length=20)
        for called, time in kernels:
            self.correlation += 1
            self.events.append(op("aten::mm", self.now, 4))
            self.events.append(launch(self.correlation, self.now + 1))
            self.events.append(kernel(called, 100_000 + 1000 * self.correlation, time, self.correlation))
            self.now += 5
        assert self.now < start + length
        self.now = start + length + 1
        return self


def serving(steps=(("1(256)", "1(1)"), ("0(0)", "2(2)"), ("0(0)", "3(3)"), ("0(0)", "2(2)"), ("1(64)", "2(2)"))):
    """What a server's steps look like: prefills of seven kernels and 304 µs, decodes of four and 28 µs."""
    made = Made()
    for context, generation in steps:
        kernels = [("gemm", 50)] * 6 if context[0] == "1" else [("gemm", 8)] * 3
        made.range(f"execute_context_{context}_generation_{generation}", [*kernels, ("argmax", 4)])
    return made.events


def lines(reading):
    """(name, ranges, kernels, device time, kind of how many) of each line of the summary."""
    return [
        (each.annotation, each.ranges, each.counts["kernels"], each.device_time_us, each.kind, each.kinds)
        for each in reading.annotations()
    ]


def forwards(reading):
    return [row["annotation"] for row in reading.ranges.to_pylist() if row["forward"]]


def test_names_that_differ_in_numbers_alone_are_one_range_with_a_line_per_work(read):
    reading = read(serving())
    name = "execute_context_*(*)_generation_*(*)"
    assert lines(reading) == [(name, 3, (4, 4), 28.0, 0, 2), (name, 2, (7, 7), 304.0, 1, 2)]
    assert [each.labels for each in reading.annotations()] == [
        ("0, 0, 2, 2", "0, 0, 3, 3"),
        ("1, 256, 1, 1", "1, 64, 2, 2"),
    ]
    assert reading.groups.forward_name == name
    assert len(forwards(reading)) == 5
    names = {row["annotation"] for row in reading.ranges.to_pylist()}
    assert {name: set(members) for name, members in reading.groups.merged.items()} == {name: names}


@pytest.mark.parametrize("glob", ["execute_*", "execute_context_*(*)_generation_*(*)", "*_generation_?(?)"])
def test_a_glob_chooses_them_too(read, glob):
    reading = read(serving(), glob)
    assert len(forwards(reading)) == 5
    assert [line[1:4] for line in lines(reading)] == [(3, (4, 4), 28.0), (2, (7, 7), 304.0)]
    activities, calls = reading.forwards()
    assert sorted(Counter(activities["index"].to_pylist()).items()) == [(0, 7), (1, 4), (2, 4), (3, 4), (4, 7)]
    assert sorted(set(calls["index"].to_pylist())) == [0, 1, 2, 3, 4]


def test_a_glob_of_one_of_them_leaves_the_others_out(read):
    reading = read(serving(), "execute_context_0*")
    assert len(forwards(reading)) == 3
    assert [line[1:4] for line in lines(reading)] == [(3, (4, 4), 28.0)]


def test_a_name_is_taken_literally_where_there_is_a_range_of_it(read):
    events = [annotation(name, 10 * place, 5) for place, name in enumerate(["a[1]", "a1", "a*", "ab"])]
    assert forwards(read(events, "a[1]")) == ["a[1]"]
    assert forwards(read(events, "a*")) == ["a*"]
    assert forwards(read(events, "a?")) == ["a1", "a*", "ab"]
    assert forwards(read(events, "A*")) == []
    assert read(events, "A*").groups.forward_name is None


def test_layers_inside_a_step_are_one_range_of_it(read):
    made = Made()
    for _ in range(3):
        made.range("step", inner=[("layer_0", [("gemm", 5)]), ("layer_1", [("gemm", 7)])])
    reading = read(made.events)
    assert reading.groups.forward_name == "step"
    assert lines(reading) == [("step", 3, (2, 2), 12.0, 0, 1), ("layer_*", 6, (1, 1), 6.0, 0, 1)]
    assert forwards(read(made.events, "layer_1")) == ["layer_1"] * 3


def test_stages_with_kernels_of_their_own_are_kept_apart(read):
    made = Made()
    for _ in range(3):
        made.range("stage_1", [("gemm", 5)]).range("stage_2", [("softmax", 70)], length=120)
    reading = read(made.events)
    assert lines(reading) == [("stage_1", 3, (1, 1), 5.0, 0, 1), ("stage_2", 3, (1, 1), 70.0, 0, 1)]
    assert reading.groups.forward_name == "stage_2"
    assert reading.groups.apart == {"stage_*": ["stage_1", "stage_2"]}
    together = read(made.events, "stage_*")
    assert [line[3:] for line in lines(together)] == [(5.0, 0, 2), (70.0, 1, 2)]


def test_names_that_lie_inside_one_another_are_kept_apart(read):
    made = Made()
    for _ in range(3):
        made.range("level_1", [("gemm", 5)], inner=[("level_2", [("gemm", 5)])])
    reading = read(made.events)
    assert lines(reading) == [("level_1", 3, (2, 2), 10.0, 0, 1), ("level_2", 3, (1, 1), 5.0, 0, 1)]
    assert reading.groups.apart == {"level_*": ["level_1", "level_2"]}
    glob = read(made.events, "level_*")
    assert forwards(glob) == ["level_1"] * 3
    assert [(row["annotation"], row["level"]) for row in glob.ranges.to_pylist()][:2] == [
        ("level_1", 0),
        ("level_2", 1),
    ]
    assert lines(glob) == [("level_*", 3, (2, 2), 10.0, 0, 1)]


def test_without_kernels_the_ops_tell_what_a_range_did(read):
    """A CPU run: two names of the same ops, and one of another."""
    events = []
    for place, (name, called) in enumerate([("f_1", "aten::mm"), ("f_2", "aten::mm"), ("f_3", "aten::add")] * 2):
        events += [annotation(name, 100 * place, 50 + place), op(called, 100 * place + 1, 10)]
    reading = read(events)
    assert [(each.annotation, each.ranges, each.cpu_time_us, each.kind) for each in reading.annotations()] == [
        ("f_*", 4, 52.0, 0),
        ("f_*", 2, 53.5, 1),
    ]


def test_a_range_inside_one_of_its_name_is_counted_in_it_alone(read):
    made = Made()
    for _ in range(3):
        made.range("fsdp", [("embed", 15)], inner=[("fsdp", [("gather", 3), ("gemm", 6)])] * 2)
    reading = read(made.events)
    assert lines(reading) == [("fsdp", 3, (5, 5), 33.0, 0, 1)]
    assert [each.nested for each in reading.annotations()] == [6]
    assert [row["level"] for row in reading.ranges.to_pylist()] == [0, 1, 1] * 3
    assert warned(reading) == {}  # the first is no longer than its like; it is than the ranges in it


def test_work_is_told_by_kernels_and_not_by_their_order(read):
    made = Made().range("s", [("a", 1), ("b", 2)]).range("s", [("b", 2), ("a", 1)]).range("s", [("a", 1), ("a", 2)])
    assert [line[1] for line in lines(read(made.events))] == [2, 1]


def test_of_works_that_are_equally_common_that_of_median_time_comes_first(read):
    made = Made()
    for time in (900, 20, 30, 10):
        made.range("s", [(f"k{time}", time)])
    rows = read(made.events).ranges.to_pylist()
    assert [row["kind"] for row in rows if row["device_time_us"] == 20] == [0]


def test_rare_works_share_a_line_without_medians(read):
    made = Made()
    for number in range(8):
        made.range("s", [(f"k{number}", 1 + number)] * (1 + number))
    found = read(made.events).annotations()
    assert [(each.ranges, each.kind) for each in found] == [(1, 0), (1, 1), (1, 2), (1, 3), (4, None)]
    assert {each.kinds for each in found} == {8}
    assert (found[-1].cpu_time_us, found[-1].device_time_us, found[-1].launch_delay_us) == (None, None, None)


def test_the_first_range_is_compared_with_those_of_its_work(read):
    """A prefill before decodes is not slow; a first decode that takes three times as long is."""
    prefill, decode = [("gemm", 300)], [("gemm", 8), ("argmax", 2)]
    made = Made().range("step", prefill)
    for _ in range(4):
        made.range("step", decode)
    assert warned(read(made.events)) == {}
    slow = Made().range("step", prefill).range("step", [("gemm", 28), ("argmax", 2)])
    for _ in range(4):
        slow.range("step", decode)
    assert warned(read(slow.events)) == {"slow_first": 1}


STEPS = [event for place in range(3) for event in (
    annotation(f"ProfilerStep#{place}", 200 * place, 190), annotation("inner", 200 * place + 5, 20),
    launch(place, 200 * place + 10), kernel("k", 5000 + 10 * place, 5, place),
)]  # fmt: skip


@pytest.mark.parametrize(("chosen", "count"), [("ProfilerStep#*", 3), ("Profiler*", 3), ("ProfilerStep#1", 1)])
def test_the_steps_of_the_profiler_can_be_chosen(read, chosen, count):
    reading = read(STEPS, chosen)
    assert len(forwards(reading)) == count
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [1] * 6
    activities, calls = reading.forwards()
    assert (activities.num_rows, calls.num_rows) == (count, 2 * count)


@pytest.mark.parametrize("chosen", [None, "*", "inner", "*e*"])
def test_but_are_left_out_otherwise(read, chosen):
    assert set(read(STEPS, chosen).ranges["annotation"].to_pylist()) == {"inner"}


def test_a_trace_with_nothing_but_steps_has_ranges_only_if_they_are_asked_for(read):
    alone = [event for event in STEPS if event["name"] != "inner"]
    assert read(alone).ranges.num_rows == 0
    assert read(alone).groups.forward_name is None
    assert forwards(read(alone, "*")) == [f"ProfilerStep#{place}" for place in range(3)]


def test_ranges_that_are_cut_are_no_work_of_their_own(read_bytes):
    """The second of two ranges has lost its second kernel with the end of the file."""
    events = Made().range("s", [("a", 1), ("b", 2)]).range("s", [("a", 1), ("b", 2)]).events
    ordered = [event for event in events if event["cat"] != "kernel"] + [e for e in events if e["cat"] == "kernel"]
    text = kineto(ordered)
    reading = read_bytes(text[: text.rindex('"b"')].encode())
    assert reading.incomplete.tolist() == [False, True]
    assert reading.ranges["kind"].to_pylist() == [0, 0]


@pytest.mark.parametrize(
    "own",
    ["Optimizer.step#AdamW.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "nccl:all_reduce"],
)
def test_a_range_that_torch_opens_is_no_forward_unless_it_is_named(read, own):
    made = Made()
    for _ in range(2):
        made.range("step", [("gemm", 5)], length=50).range(own, [("update", 5)], length=400)
    assert forwards(read(made.events)) == ["step", "step"]
    assert forwards(read(made.events, own)) == [own, own]
    alone = Made().range(own, [("update", 5)], length=400)
    assert forwards(read(alone.events)) == []
