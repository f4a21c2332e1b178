"""The category `overhead`: what CUPTI reports on no thread of the program, inside the call that it delays."""

from tests.trace.made_trace import annotation, facts, forward, launch, op, row


def overhead(name, ts, dur):
    return row("overhead", name, ts, dur, tid=0, pid=-1)


def rows_of(reading, category="overhead"):
    calls = reading.forwards()[1].to_pylist()
    by_place = {(call["index"], call["position"]): call["name"] for call in calls}
    return [
        (call["name"], by_place.get((call["index"], call["parent"])), call["start_us"], call["duration_us"])
        for call in calls
        if call["category"] == category
    ]


def test_overhead_lies_in_the_shortest_event_around_it(read):
    """In the second launch (1020 to 1025), in aten::relu before its launch (1060 to 1062), in the range alone."""
    events = [
        *forward(),
        overhead("Command Buffer Full", 1021, 3),
        overhead("Lazy Function Loading", 1060.5, 1),
        overhead("Activity Buffer Request", 1050, 8),
    ]
    assert rows_of(read(events)) == [
        ("Command Buffer Full", "cudaLaunchKernel", 21.0, 3.0),
        ("Activity Buffer Request", None, 50.0, 8.0),
        ("Lazy Function Loading", "aten::relu", 60.5, 1.0),
    ]


def test_overhead_is_no_self_time_of_the_call_around_it(read):
    """The second launch takes 5 µs, 3 of them overhead."""
    calls = read([*forward(), overhead("Command Buffer Full", 1021, 3)]).forwards()[1].to_pylist()
    launches = [call["self_us"] for call in calls if call["name"] == "cudaLaunchKernel"]
    assert launches == [2.0, 6.0]


def test_overhead_of_another_thread_is_that_of_its_call(read):
    """The backward thread launches at 1030 for 6 µs; the main thread waits in an op of 40 µs meanwhile."""
    events = [
        *forward(),
        op("aten::mm_backward", 1028, 10, tid=2),
        launch(9, 1030, 6, tid=2),
        overhead("Runtime Triggered Module Loading", 1031, 4),
    ]
    assert rows_of(read(events)) == [("Runtime Triggered Module Loading", "cudaLaunchKernel", 31.0, 4.0)]


def test_each_forward_has_its_own_overhead(read):
    events = [*forward(1000, 1), *forward(2000, 4)]
    events += [overhead("Lazy Function Loading", start + 20.5, 2) for start in (1000, 2000, 1500)]
    reading = read(events)
    assert [row["index"] for row in reading.forwards()[1].to_pylist() if row["category"] == "overhead"] == [0, 1]


def test_overhead_changes_no_other_figure(read):
    """Neither one inside a call nor one before all other events."""
    plain = [*forward(), annotation("other", 1200, 10)]
    noisy = [overhead("Buffer Flush", 10, 5), *plain, overhead("Command Buffer Full", 1021, 3)]
    assert facts(read(noisy)) == facts(read(plain))
    assert rows_of(read(noisy), "runtime") == rows_of(read(plain), "runtime")  # their lengths, too
    assert rows_of(read(noisy), "op") == rows_of(read(plain), "op")
