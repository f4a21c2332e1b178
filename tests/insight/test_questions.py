"""Questions that people ask with a bare trace in hand: the first finding answers, and no other has weight."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbook.cases import case_facts
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.findings import Finding, find_in_run
from tests.collectives.made_job import read


def findings_of(trace: Path) -> list[Finding]:
    tables = tables_of(Origin("asked", "case", 1, {}), {"case": "case", "params": {}}, trace)
    tables["cases"] = tables.pop("case")
    (facts,) = case_facts({name: tables[name] for name in ("cases", "ranges", "activities", "calls")}).values()
    return find_in_run({"case": facts})


def test_which_rank_waits_is_known_without_a_common_clock(shared_dir: Path) -> None:
    """Rank 0's all-reduce takes 9.8 ms and rank 1's 0.19, since rank 1 computes for 9.6 ms longer."""
    folder = shared_dir / "round2" / "questions" / "c10"
    report = read({rank: folder / f"train_rank{rank}.json.gz" for rank in (0, 1)})
    assert report.lead.startswith("2 ranks: rank 1 computes for 24.8 ms, rank 0 for 15.2 ms.")
    assert "rank 0 waits for rank 1. Look at the compute of rank 1, not at the communication." in report.lead
    assert report.remarks[0].share == pytest.approx(9.6 / 24.8, abs=0.01)


@pytest.mark.parametrize(
    ("trace", "rule", "words"),
    [
        ("c01/queue", "full-queue", "up to 1024 are queued"),
        ("c03/calculator-compiled", "graph-breaks", "42 compiled regions: 41 graph breaks, with aten::item between"),
        ("c06/first-slow", "kernel-loading", "Lazy Function Loading 41.0 ms, Runtime Triggered Module Loading 9.00 ms"),
        ("c08/train", "optimizer-on-cpu", "takes 30.7 ms of CPU time between the forwards"),
        ("c14/h2d", "pageable-copy", "takes 9.50 ms at 7.06 GB/s"),
    ],
)
def test_the_first_finding_answers(shared_dir: Path, trace: str, rule: str, words: str) -> None:
    first, *others = findings_of(shared_dir / "round2" / "questions" / f"{trace}.json.gz")
    assert first.rule == rule
    assert first.severity in ("high", "medium")
    assert words in first.text
    assert {finding.severity for finding in others} <= {"low", "info"}
    assert not any("bound by the device" in finding.text for finding in others)
