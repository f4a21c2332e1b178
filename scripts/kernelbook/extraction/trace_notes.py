"""Notes on unusual properties of a bare trace, which explain its figures; defects are warnings of its reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kernelbook.text.formatting import plural
from kernelbook.trace import TraceReading, TraceWarning

MOST_NAMES = 5
DRIVER_LAUNCH = re.compile(r"cuLaunch|hipModuleLaunch")
GRAPH_LAUNCH = "graphlaunch"  # in the lower-case names of the calls that replay a graph, of any vendor
OLD_CATEGORIES = {"Operator", "Runtime", "Kernel", "Memcpy", "Memset"}


def trace_notes(reading: TraceReading) -> list[TraceWarning]:
    """Notes on one trace, each with code, count and message like a warning of the reading.

    Codes: rank, old_schema, no_ops, graph_launches, driver_launches, several_streams, steps_alone, numbered_names,
    numbered_apart, ranges_beside.
    """
    return [
        *_rank(reading),
        *_schema(reading),
        *_ops(reading),
        *_graphs(reading),
        *_driver(reading),
        *_streams(reading),
        *_steps(reading),
        *_numbered(reading),
        *beside_forwards(reading),
    ]


def _rank(reading: TraceReading) -> Iterator[TraceWarning]:
    job = reading.distributed or {}
    rank, size = job.get("rank"), job.get("world_size")
    if isinstance(rank, int) and isinstance(size, int) and size > 1:
        yield TraceWarning("rank", 1, f"the trace is that of rank {rank} of a job with {size} ranks")


def _schema(reading: TraceReading) -> Iterator[TraceWarning]:
    old = sorted(OLD_CATEGORIES & reading.categories)
    if old:
        what = "is a bare array of events with" if reading.bare_array else "has"
        text = f"the trace {what} the categories of old versions of torch ({', '.join(old)})"
        yield TraceWarning("old_schema", 1, text)


def _ops(reading: TraceReading) -> Iterator[TraceWarning]:
    """A graph replay calls no op, so its trace lacks none."""
    if reading.frames["ops"].size:
        return
    used = reading.device_use.counts("graph", "launch_api")
    if any(not graph and GRAPH_LAUNCH not in (api or "").lower() for graph, api in used):
        recorded = reading.frames["ranges"].size or reading.steps  # they are recorded along with the ops
        why = "" if recorded else " (recorded without ProfilerActivity.CPU)"
        yield TraceWarning("no_ops", 1, f"the trace has no CPU ops{why}: which op launched a kernel is not known")


def _graphs(reading: TraceReading) -> Iterator[TraceWarning]:
    graphs = reading.device_use.take(reading.device_use["graph"].values)
    launches = Counter(graphs["launch"].to_list())
    if launches:
        most = max(launches.values())
        all_graphs = all(GRAPH_LAUNCH in api.lower() for api in graphs["launch_api"].to_list())
        if len(launches) == 1:
            text = f"1 launch starts several activities, up to {most}: {'a graph launch, ' * all_graphs}counted once"
        else:
            what = f"{len(launches)} launches start several activities each"
            text = f"{what}, up to {most}: {'graph launches, ' * all_graphs}each counted once"
        yield TraceWarning("graph_launches", len(launches), text)


def _driver(reading: TraceReading) -> Iterator[TraceWarning]:
    used = reading.device_use.counts("category", "launch_api").items()
    apis = {api: n for (category, api), n in used if category == "kernel" and api and DRIVER_LAUNCH.match(api)}
    if apis:
        number = sum(apis.values())
        what = "1 kernel was" if number == 1 else f"{number} kernels were"
        text = f"{what} launched through the driver ({', '.join(sorted(apis))})"
        libraries = "hipBLASLt, MIOpen" if all(api.startswith("hip") for api in apis) else "cuBLAS, cuDNN"
        who = f"Triton and other compilers at run time do so, and libraries for kernels that they load ({libraries})"
        yield TraceWarning("driver_launches", number, f"{text}: {who}")


def _streams(reading: TraceReading) -> Iterator[TraceWarning]:
    pairs = reading.device_use.counts("device", "stream")
    if len(pairs) > 1:
        devices = len({device for device, _ in pairs})
        where = f"{len(pairs)} streams" + (f" of {devices} devices" if devices > 1 else "")
        sums = " on one device once, and adds up the devices" if devices > 1 else " once"
        text = f"activities on {where}: busy time counts an overlap{sums}"
        yield TraceWarning("several_streams", len(pairs), text)


def _steps(reading: TraceReading) -> Iterator[TraceWarning]:
    if reading.steps and not reading.frames["ranges"].size:
        spans = plural(reading.steps, "ProfilerStep# span", "ProfilerStep# spans")
        text = f"the trace has {spans} and no range: to take them as ranges, name the annotation 'ProfilerStep#*'"
        yield TraceWarning("steps_alone", reading.steps, text)


def beside_forwards(reading: TraceReading) -> Iterator[TraceWarning]:
    """A note on ranges of the user on other threads, whose kernels do not count for the forward around them."""
    beside = reading.beside_forwards()
    kernels = sum(count or 0 for count in beside["kernels"].to_list())
    if kernels:
        names = list(dict.fromkeys(beside["group"].to_list()))
        listed = ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")
        text = (
            f"{plural(beside.size, 'range')} of other threads ({listed}) ran inside {reading.groups.forward_name}: "
            f"{plural(kernels, 'kernel')} in them count for them alone"
        )
        yield TraceWarning("ranges_beside", beside.size, text)


def _numbered(reading: TraceReading) -> Iterator[TraceWarning]:
    """Notes on names of ranges that differ only in numbers."""
    for code, groups, text in (
        ("numbered_names", reading.groups.merged, "names of ranges differ in numbers alone and are taken together"),
        ("numbered_apart", reading.groups.apart, "names of ranges differ in numbers alone and are kept apart, as each "
         "runs other kernels or one lies inside another; a glob takes them together"),
    ):  # fmt: skip
        if groups:
            names = ", ".join(f"{name} ({len(members)} names)" for name, members in list(groups.items())[:MOST_NAMES])
            more = f" and {len(groups) - MOST_NAMES} more" if len(groups) > MOST_NAMES else ""
            count = sum(map(len, groups.values()))
            yield TraceWarning(code, count, f"{count} {text}: {names}{more}")
