"""Which traces are windows of one process and ranks of one job, which rank each is, and what the set lacks."""

import gzip
import zlib
from pathlib import Path

import pytest

from kernelbook.trace.files import TraceFile, content_of, read_origin
from kernelbook.trace.ranks import jobs_of

DAY = 86_400 * 10**9
TIME = 1796008518075623954


def info(rank, world=None, groups=None):
    found = {"backend": "nccl", "rank": rank} | ({"world_size": world} if world else {})
    return found | ({"pg_config": groups} if groups else {})


def named(worker, time=TIME, folder=""):
    return f"{folder}{worker}.{time}.pt.trace.json"


def jobs(*traces):
    """Per job its key, and per process its rank and the number of its windows."""
    found = jobs_of([TraceFile(Path(name), inside) for name, inside in traces])
    return [(job.key, [(each.rank, len(each.windows)) for each in job.processes]) for job in found]


def ranks_of(*traces):
    """(ranks, warning codes with counts per trace) of traces with such names and such distributedInfo."""
    ranks, warnings = {}, {}
    for job in jobs_of([TraceFile(Path(name), inside) for name, inside in traces]):
        for process in job.processes:
            for window in process.windows:
                ranks[window.place] = process.rank
                said = [*job.warnings(process), *window.warnings()]
                warnings[window.place] = {warning.code: warning.count for warning in said}
    places = range(len(traces))
    return [ranks[place] for place in places], [warnings[place] for place in places]


def test_ranks_from_distributed_info_before_the_name_and_a_word_that_they_differ():
    ranks, warnings = ranks_of(("rank9.json", {"rank": 1, "world_size": 2}), ("rank7.json", {"rank": 0}))
    assert (ranks, warnings) == ([1, 0], [{"rank_mismatch": 1}] * 2)


def test_the_words_for_two_ranks_of_one_trace():
    ((process,),) = (job.processes for job in jobs_of([TraceFile(Path("a_rank9.json"), info(1, 2))]))
    (warning,) = process.first.warnings()
    assert warning.message == "the name says rank 9, the file says rank 1: the file is followed"


def test_a_rank_is_from_the_file_or_its_name_and_never_made_up():
    ranks, warnings = ranks_of(("a_rank1.json.gz", None), ("b.json", None), ("rank-2.json", {"backend": "nccl"}))
    assert (ranks, warnings) == ([1, None, 2], [{}, {}, {}])


def test_unrelated_jobs_in_one_folder_miss_no_ranks_of_each_other():
    traces = [
        ("gloo.json", {"rank": 34, "world_size": 300}),
        ("nccl.json", {"rank": 0, "world_size": 16}),
        ("alone.json", {"rank": 0, "world_size": 1}),
        ("a.json", {"rank": 0}),
        ("b.json", {"rank": 0}),
        ("other/c.json", {"rank": 1, "world_size": 16}),
        ("one_rank0.json", None),
        ("two_rank1.json", None),
    ]
    ranks, warnings = ranks_of(*traces)
    assert ranks == [34, 0, None, 0, 0, 1, 0, 1]
    assert warnings == [{}] * len(traces)


def test_files_that_differ_in_the_rank_alone_are_a_set():
    assert ranks_of(("a_rank0.json", None), ("a_rank2.json", None), ("b_rank1.json", None)) == (
        [0, 2, 1],
        [{"missing_rank": 1}, {"missing_rank": 1}, {}],
    )


def test_missing_and_duplicate_ranks():
    traces = [(name, {"rank": rank, "world_size": 4}) for name, rank in (("a", 0), ("b", 2), ("c", 2))]
    ranks, warnings = ranks_of(*traces)
    assert ranks == [0, 2, 2]
    both = {"missing_rank": 2, "duplicate_rank": 2}
    assert warnings == [{"missing_rank": 2}, both, both]


@pytest.mark.parametrize(
    ("world", "text"),
    [
        (4, "2 of 4 ranks have no trace here: 2, 3"),
        (12, "10 of 12 ranks have no trace here: 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"),
    ],
)
def test_the_ranks_that_are_missing_are_listed(world, text):
    (job,) = jobs_of([TraceFile(Path(f"job_rank{rank}.json"), info(rank, world)) for rank in (0, 1)])
    assert [warning.message for warning in job.warnings(job.processes[0])] == [text]


def test_a_single_trace_has_the_rank_that_it_says_and_lacks_no_other():
    assert ranks_of(("a.json", None), ("b.json", None)) == ([None, None], [{}, {}])
    assert ranks_of(("rank5.json", {"rank": 5, "world_size": 8})) == ([5], [{}])


FOLDERS = [
    "rank_{}/trace.json",
    "rank{}/t.json.gz",
    "job/rank-{}/trace.json",
    "{}/trace.json",
    "job/{}/step.pt.trace.json",
]


@pytest.mark.parametrize("path", FOLDERS)
def test_folders_are_ranks(path):
    traces = [(path.format(rank), None) for rank in (0, 1, 3)]
    assert ranks_of(*traces) == ([0, 1, 3], [{"missing_rank": 1}] * 3)
    assert len(jobs(*traces)) == 1


def test_numbered_folders_that_do_not_begin_at_0_are_ranks_only_if_the_files_say_so():
    assert [
        len(jobs(("1/a.json", one), ("3/a.json", two))) for one, two in ((None, None), (info(1, 4), info(3, 4)))
    ] == [2, 1]
    assert len(jobs(("0/a.json", info(1, 2)), ("1/a.json", info(0, 2)))) == 2
    assert len(jobs(("0/a.json", None), ("1/b.json", None))) == 2


@pytest.mark.parametrize(
    "paths",
    [
        ("/lora_rank8/trace.json", "/lora_rank16/trace.json"),
        ("lora_rank8.json", "lora_rank16.json"),
        ("/data/rank1_tests/a.json", "/data/rank1_tests/b.json"),
        ("/data/rank_7/a.json",),
    ],
)
def test_the_rank_of_an_adapter_or_in_the_name_of_a_test_is_none_of_a_job(paths):
    assert ranks_of(*((path, None) for path in paths)) == ([None] * len(paths), [{}] * len(paths))
    assert [key for key, _ in jobs(*((path, None) for path in paths))] == sorted(path[:-5] for path in paths)


def test_a_folder_of_a_rank_inside_that_of_an_adapter():
    traces = [(f"lora_rank{size}/rank_{rank}/trace_rank{rank}.json", None) for size in (8, 16) for rank in (0, 1)]
    assert jobs(*traces) == [(f"lora_rank{size}//trace_", [(0, 1), (1, 1)]) for size in (16, 8)]


def test_a_folder_that_names_another_rank_than_the_file():
    traces = [(f"rank_{rank}/trace.json", info(1 - rank, 2)) for rank in (0, 1)]
    assert ranks_of(*traces) == ([1, 0], [{"rank_mismatch": 1}] * 2)


def cycles(host, pids, times, world=None, folder=""):
    """Each process of a job writes a window at each time; with a world size, its ranks are those of the pids' order."""
    return [
        (named(f"{host}_{pid}", time + rank, folder), info(rank, world) if world else None)
        for rank, pid in enumerate(pids)
        for time in times
    ]


def test_windows_of_a_process_and_ranks_of_a_job_by_the_names_that_torch_gives():
    one, two = cycles("node01", (4711, 4712), (TIME, TIME + 10**9), 2), cycles("gpu-7", (9, 8), (TIME, TIME + 10**9), 2)
    assert jobs(*one) == jobs(*two) == [("", [(0, 2), (1, 2)])]
    assert ranks_of(*one) == ([0, 0, 1, 1], [{}] * 4)


def test_windows_are_in_the_order_of_time_whatever_its_unit():
    files = [named("a_1", 1796008519), named("a_1", 1796008518075), named("a_1", TIME), named("a_1", 1796008518000000)]
    found = jobs_of([TraceFile(Path(file)) for file in files])
    assert [[window.place for window in job.processes[0].windows] for job in found] == [[3, 1, 2], [0]]


def test_processes_without_a_rank_are_jobs_of_their_own_by_time():
    early, late = cycles("node01", (9,), (TIME, TIME + 10**9)), cycles("node01", (4,), (TIME + DAY,))
    assert jobs(*late, *early) == [("", [(None, 2)]), ("", [(None, 1)])]


def test_a_rank_in_the_name_of_a_worker():
    traces = [(named(f"rank{rank}", time), None) for rank in (0, 1) for time in (TIME, TIME + 10**9)]
    assert jobs(*traces) == [("", [(0, 2), (1, 2)])]
    assert jobs(*((named(f"train_rank{rank}_{40 + rank}"), None) for rank in (0, 1))) == [("train_", [(0, 1), (1, 1)])]


def test_a_worker_s_own_name_tells_jobs_apart():
    traces = [(named(worker, time, "log/"), None) for worker in ("bert", "resnet50") for time in (TIME, TIME + 10**9)]
    assert jobs(*traces) == [("log/bert", [(None, 2)]), ("log/resnet50", [(None, 2)])]


DEFAULT, OTHER = (
    {"pg_name": "0", "pg_desc": desc, "pg_size": 2, "ranks": [0, 1]} for desc in ("default_pg", "mesh_dp")
)
HALVES = [{"pg_name": str(n), "pg_desc": "mesh_tp", "pg_size": 1, "ranks": [n]} for n in (0, 1)]
TWO_JOBS = {
    "hosts": [*cycles("node01", (1, 2), (TIME,), 2), *cycles("node02", (1, 2), (TIME,), 2)],
    "world sizes": [*cycles("node01", (1, 2), (TIME,), 2), *cycles("node01", (3, 4), (TIME,), 4)],
    "process groups": [
        (named(f"node01_{10 * job + rank}", TIME + rank), info(rank, 2, groups))
        for job, groups in enumerate(([DEFAULT], [DEFAULT, OTHER]))
        for rank in (0, 1)
    ],
    "time": [*cycles("node01", (1, 2), (TIME,), 2), *cycles("node01", (3, 4), (TIME + DAY,), 2)],
    "time, in other order": [*cycles("node01", (3, 4), (TIME + DAY,), 2), *cycles("node01", (1, 2), (TIME,), 2)],
}


@pytest.mark.parametrize("by", TWO_JOBS)
def test_two_jobs_in_one_folder_are_two_jobs(by):
    assert jobs(*TWO_JOBS[by]) == [("", [(0, 1), (1, 1)])] * 2
    lacking = [{} if inside["world_size"] == 2 else {"missing_rank": 2} for _, inside in TWO_JOBS[by]]
    assert ranks_of(*TWO_JOBS[by])[1] == lacking


def test_one_job_over_two_hosts_is_one():
    traces = [(named(f"node0{1 + rank // 2}_{7 + rank}"), info(rank, 4)) for rank in range(4)]
    assert jobs(*traces) == [("", [(rank, 1) for rank in range(4)])]


def test_groups_that_only_some_ranks_are_in_do_not_part_a_job():
    traces = [(named(f"node01_{rank}"), info(rank, 2, [DEFAULT, HALVES[rank]])) for rank in (0, 1)]
    assert jobs(*traces) == [("", [(0, 1), (1, 1)])]


def test_ranks_that_nothing_tells_apart_are_said_to_be_there_twice():
    traces = [*cycles("node01", (1, 2), (TIME,), 2), (named("node01_9", TIME + 5), info(0, 2))]
    assert ranks_of(*traces) == ([0, 1, 0], [{"duplicate_rank": 2}, {}, {"duplicate_rank": 2}])


def test_devices_of_different_kinds_are_different_jobs():
    files = [TraceFile(Path(f"{name}.json"), info(rank, 2), name) for rank, name in enumerate(("A100", "H100"))]
    assert len(jobs_of(files)) == 2


HEADS = [
    ('{"distributedInfo": {"rank": 1, "world_size": 2}, "deviceProperties": [{"name": "X"}], "traceEvents": [', 1, "X"),
    (
        '{"deviceProperties": [{"id": 0, "name": "X"}],\n "distributedInfo" : {"world_size": 2, "rank": 1}, "b',
        1,
        "X",
    ),
    ('{"distributedInfo": {"rank": 1, "world_', None, None),
    ('{"distributedInfo": 5, "deviceProperties": [], "traceEvents": []}', None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("head", "rank", "device"), HEADS)
def test_what_the_head_of_a_file_says(tmp_path, head, rank, device):
    (tmp_path / "a.json").write_text(head)
    found = read_origin(tmp_path, Path("a.json"))
    assert ((found.distributed or {}).get("rank"), found.device) == (rank, device)


def test_folders_of_hosts_hold_one_job_only_if_their_ranks_fit_together():
    traces = [(f"host{name}/trace.json", info(rank, 4)) for rank, name in enumerate("abcd")]
    assert jobs(*traces) == [("ranks", [(rank, 1) for rank in range(4)])]
    assert len(jobs(*traces, ("hoste/trace.json", info(3, 4)))) == 5
    assert len(jobs(("hosta/trace.json", info(0, 2)), ("hostb/other.json", info(1, 2)))) == 2


def test_copies_are_taken_once_and_of_equal_files_the_one_whose_name_states_a_rank():
    names = ("a.json", "job_rank1.json", "b/job_rank1.json")
    files = [TraceFile(Path(name), info(1, 2), content=(9, 9)) for name in names]
    first, second = sorted(jobs_of(files), key=lambda job: job.processes[0].first.place)
    assert [window.place for window in first.processes[0].windows] == [1]
    assert [copy.place for copy in first.processes[0].first.copies] == [0]
    assert second.processes[0].first.copies == ()


def test_copies_are_told_by_their_unpacked_content(tmp_path):
    plain, packed, other, broken = (tmp_path / name for name in ("a.json", "b.json.gz", "c.json", "d.json.gz"))
    plain.write_bytes(b'{"traceEvents": []}')
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    other.write_bytes(b'{"traceEvents":  []')
    broken.write_bytes(b"\x1f\x8b")
    assert content_of(plain) == content_of(packed) == (19, zlib.crc32(plain.read_bytes()))
    assert content_of(other) != content_of(plain)
    assert content_of(broken) is content_of(tmp_path / "none.json") is None
