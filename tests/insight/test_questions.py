"""Questions that people ask with a bare trace in hand: the first finding answers, and no other has weight."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbook.cases import case_facts
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.findings import Finding, find_in_run


def findings_of(trace: Path) -> list[Finding]:
    tables = tables_of(Origin("asked", "case", 1, {}), {"case": "case", "params": {}}, trace)
    tables["cases"] = tables.pop("case")
    (facts,) = case_facts({name: tables[name] for name in ("cases", "ranges", "activities", "calls")}).values()
    return find_in_run({"case": facts})


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
    assert words in first.text
    assert {finding.severity for finding in others} <= {"low", "info"}
    assert not any("bound by the device" in finding.text for finding in others)
