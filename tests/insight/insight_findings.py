"""What the tests of rules share: the findings of one rule in one case, and figures read off the recorded run."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings import Finding, find
from kernelbook.text.formatting import duration
from tests.insight.insight_raw import device_time, forwards
from tests.insight.insight_recorded import facts_of_folder
from tests.insight.insight_traces import Trace


def found(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> list[Finding]:
    """What one rule found."""
    return [finding for finding in find(facts, others) if finding.rule == rule]


def one(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> Finding:
    """The only finding of a rule."""
    (finding,) = found(facts, rule, others)
    assert finding.text.endswith(".")
    assert finding.remedy.endswith(".")
    assert finding.evidence
    return finding


def small(tmp_path: Path, trace: Trace, **measured: object) -> CaseFacts:
    """The facts of one small trace."""
    trace.write(tmp_path, "small", **measured)
    return facts_of_folder("small", tmp_path)["small"]


def unprofiled(folder: Path) -> list[float]:
    """Median forward time of each process, from the measurements, µs."""
    read = [json.loads(path.read_text()) for path in sorted(folder.glob("*/measurement.json"))]
    return [median(each["forward_times_us"]) for each in read]


def busy(folder: Path, annotation: str) -> list[float]:
    """Median device time of each process, which is its busy time on one stream, µs."""
    traces = sorted(folder.glob("*/trace.json.gz"))
    return [median(map(device_time, forwards(trace, annotation))) for trace in traces]


def ends(times: list[float]) -> str:
    """The range as texts give it."""
    return f"{duration(min(times))} to {duration(max(times))}"
