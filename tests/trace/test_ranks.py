"""Which traces are ranks of one job, which rank each is, and what the set lacks."""

import pytest
from made_trace import op

from kernelbook.trace.ranks import assign_ranks, rank_warnings
from kernelbook.trace.summary import summarize


@pytest.fixture
def ranks_of(read):
    """(ranks, warning codes with counts per trace) of traces with such names and such distributedInfo."""

    def of(*traces):
        found = []
        for name, info in traces:
            reading = read([op("aten::add", 0, 1)], **({"distributedInfo": info} if info else {}))
            found.append(summarize(reading).__class__(**vars(summarize(reading)) | {"source": name}))
        ranks = assign_ranks(found)
        return ranks, [{w.code: w.count for w in each} for each in rank_warnings(found, ranks)]

    return of


def test_ranks_from_distributed_info_before_the_name(ranks_of):
    ranks, warnings = ranks_of(("rank9.json", {"rank": 1, "world_size": 2}), ("rank7.json", {"rank": 0}))
    assert (ranks, warnings) == ([1, 0], [{}, {}])


def test_a_rank_is_from_the_file_or_its_name_and_never_made_up(ranks_of):
    ranks, warnings = ranks_of(("a_rank1.json.gz", None), ("b.json", None), ("rank-2.json", {"backend": "nccl"}))
    assert (ranks, warnings) == ([1, None, 2], [{}, {}, {}])


def test_unrelated_jobs_in_one_folder_miss_no_ranks_of_each_other(ranks_of):
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


def test_files_that_differ_in_the_rank_alone_are_a_set(ranks_of):
    assert ranks_of(("a_rank0.json", None), ("a_rank2.json", None), ("b_rank1.json", None)) == (
        [0, 2, 1],
        [{"missing_rank": 1}, {"missing_rank": 1}, {}],
    )


def test_missing_and_duplicate_ranks(ranks_of):
    traces = [(name, {"rank": rank, "world_size": 4}) for name, rank in (("a", 0), ("b", 2), ("c", 2))]
    ranks, warnings = ranks_of(*traces)
    assert ranks == [0, 2, 2]
    both = {"missing_rank": 2, "duplicate_rank": 2}
    assert warnings == [{"missing_rank": 2}, both, both]


def test_a_single_trace_has_the_rank_that_it_says_and_lacks_no_other(ranks_of):
    assert ranks_of(("a.json", None), ("b.json", None)) == ([None, None], [{}, {}])
    assert ranks_of(("rank5.json", {"rank": 5, "world_size": 8})) == ([5], [{}])
