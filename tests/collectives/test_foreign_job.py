"""A recorded FSDP2 step on two H200s as a folder of traces from elsewhere, against a count over its raw events."""

import gzip
import json
import shutil
from contextlib import redirect_stdout
from decimal import Decimal
from io import StringIO
from statistics import median

import pytest

from kernelbook.cli import main

WIDTH = {"BFloat16": 2, "Float": 4}
NAMES = ("left.json.gz", "right.json.gz")  # nothing says which rank is which


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("from elsewhere")
    for rank, name in enumerate(NAMES):
        recorded = root / f"resources/recorded/h200-x2-torch2.11/fsdp2-step/1/rank-{rank}/trace.json.gz"
        shutil.copy(recorded, folder / name)
    return folder


@pytest.fixture(scope="module")
def raw(folder):
    """The complete events of each rank, with exact times."""
    files = (json.loads(gzip.decompress((folder / name).read_bytes()), parse_float=Decimal) for name in NAMES)
    return [[event for event in file["traceEvents"] if event["ph"] == "X"] for file in files]


@pytest.fixture(scope="module")
def lines(folder):
    """What `kernelbook summarize --json` prints of each rank."""
    with redirect_stdout(StringIO()) as printed:
        assert main(["summarize", str(folder), "--json"]) == 0
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def end(event):
    return event["ts"] + event["dur"]


def union(events):
    total, reach = Decimal(0), Decimal(0)
    for event in sorted(events, key=lambda each: each["ts"]):
        total += max(end(event) - max(event["ts"], reach), Decimal(0))
        reach = max(reach, end(event))
    return total


def is_comm(event):
    return event["cat"] == "kernel" and "nccl" in event["name"]


def on_device(events):
    return [event for event in events if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]


def collectives(events):
    return sorted(filter(is_comm, on_device(events)), key=lambda event: event["ts"])


def split(activities):
    """The times that a row of `ranks` states, from unions of intervals."""
    comm = [event for event in activities if is_comm(event)]
    kernels = [event for event in activities if event["cat"] == "kernel"]
    compute = [event for event in kernels if not is_comm(event)]
    span = max(map(end, activities)) - min(event["ts"] for event in activities)
    both, everything = union(kernels), union(activities)
    times = {
        "span_us": span, "compute_us": union(compute), "communication_us": union(comm), "copies_us": everything - both,
        "hidden_us": union(compute) + union(comm) - both, "exposed_us": both - union(compute),
        "idle_us": span - everything, "device_time_us": sum(event["dur"] for event in activities),
        "communication_kernels": len(comm),
    }  # fmt: skip
    return {name: float(value) for name, value in times.items()}


def stated(row, names):
    return {name: row[name] for name in names}


@pytest.mark.parametrize("rank", [0, 1])
def test_times_of_the_file_and_of_every_forward(lines, raw, rank):
    whole, *forwards = lines[rank]["ranks"]
    expected = split(on_device(raw[rank]))
    assert stated(whole, expected) == pytest.approx(expected)
    calls = {event["args"]["correlation"]: event["ts"] for event in raw[rank] if event["cat"].startswith("cuda_")
             and "correlation" in event.get("args", {})}  # fmt: skip
    steps = sorted((e for e in raw[rank] if e["name"] == "fsdp2_step" and e["cat"] == "user_annotation"),
                   key=lambda event: event["ts"])  # fmt: skip
    assert len(forwards) == len(steps)
    for row, step in zip(forwards, steps, strict=True):
        own = [each for each in on_device(raw[rank])
               if step["ts"] <= calls.get(each["args"]["correlation"], -1) < end(step)]  # fmt: skip
        expected = split(own)
        assert stated(row, expected) == pytest.approx(expected)
    ranges = [row for row in lines[rank]["ranges"] if row["annotation"] == "fsdp2_step"]
    assert ranges[-1]["kernels"] == sum(each["cat"] == "kernel" for each in own)


def test_waits_transfers_and_bandwidths(lines, raw):
    first, second = map(collectives, raw)
    rows = [sorted(line["collectives"], key=lambda row: row["start_us"]) for line in lines]
    late = []
    for number, (one, two) in enumerate(zip(first, second, strict=True)):
        last = int(two["ts"] > one["ts"])
        late.append(last)
        shortest = float((one, two)[last]["dur"])
        args = one["args"]
        size = max(args["In msg nelems"], args["Out msg nelems"]) * WIDTH[args["dtype"]]
        for rank, event in enumerate((one, two)):
            wait = float(max((one, two)[last]["ts"] - event["ts"], Decimal(0)))
            row = rows[rank][number]
            assert (row["last_rank"], row["bytes"], row["ranks"]) == (last, size, 2)
            assert row["wait_us"] == pytest.approx(min(wait, float(event["dur"])), abs=0.002)
            assert row["transfer_us"] == pytest.approx(shortest)
            assert row["bus_gb_s"] == pytest.approx(size / shortest / 1000 / 2)  # (n - 1) / n of two ranks
    sentence = lines[0]["job"]["sentence"]
    straggler = int(late.count(1) > late.count(0))
    assert sentence.startswith(f"rank {straggler} comes last to {late.count(straggler)} of {len(late)} collectives, by")
    apart = median(abs(float(end(one) - end(two))) for one, two in zip(first, second, strict=True))
    assert apart <= lines[0]["job"]["clock_error_us"]
