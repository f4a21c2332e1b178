"""Short phrases of the report: sizes, numbers of bytes, ranges of ratios."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.report import phrases
from kernelbook.report.listings.cases import CaseRow


def case(**params: str) -> CaseFacts:
    return CaseFacts("r", "c", dtype="bfloat16", params=params, status="ok")


def test_bytes_have_a_binary_unit_where_people_read_them():
    texts = [phrases.parameter("bytes", str(value)) for value in (512, 1024, 16384, 1536, 1 << 30, 1 << 40)]
    assert texts == ["512", "1 KiB", "16 KiB", "1.5 KiB", "1 GiB", "1 TiB"]
    assert phrases.parameter("bucket_bytes", 25 << 20) == "25 MiB"
    assert phrases.parameter("size", "1073741824") == "1073741824"
    assert phrases.size_of(case(bytes="1073741824")) == "bf16, bytes 1 GiB"
    assert phrases.conditions(case(bytes="1073741824")) == "bfloat16, bytes 1 GiB"


def test_sizes_of_one_case_are_in_one_order():
    """A failed case has its parameters by name, one that ran in the order of its workload."""
    ran, failed = case(batch="8", seq="1024", dim="64"), case(batch="8", dim="64", seq="1024")
    assert phrases.size_of(failed, ran.params) == phrases.size_of(ran) == "bf16, 8 × 1024 × 64"
    assert phrases.size_of(failed, ("missing",)) == "bf16, 8 × 64 × 1024"


def test_ratios_that_read_alike_are_one():
    assert phrases.ratios([2.8, 2.46, 2.5]) == "2.46× to 2.80×"
    assert phrases.ratios([2.501, 2.499]) == "2.50×"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"batch": "8", "seq": "1024", "causal": "yes"}, ""),
        ({"batch": "1", "seq": "1024", "causal": "yes"}, "batch 1"),
        ({"seq": "128", "batch": "1", "causal": "yes"}, "1 × 128"),
        ({"batch": "8", "seq": "1024", "causal": "no", "mask": "tril"}, "causal no, mask tril"),
    ],
)
def test_another_size_is_named_in_few_words(params, words):
    lead = SimpleNamespace(row=case(batch="8", seq="1024", causal="yes"))
    row = CaseRow(None, SimpleNamespace(lead=lead), SimpleNamespace(row=case(**params)), True)
    assert row.other_size == words
