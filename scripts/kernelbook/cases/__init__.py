"""What was measured and recorded for one case in one run, as one typed object.

In: the extracted tables of the case's processes. Out: `CaseFacts`, with the medians over processes and the
representative forward. Judgement, report and nights all read this object.
"""

from __future__ import annotations

from kernelbook.cases.facts import (
    RESTLESS_FROM,
    Activity,
    Call,
    CallTotal,
    CaseFacts,
    OtherRange,
    ProfiledForward,
    is_restless,
    label,
)
from kernelbook.cases.from_tables import call_totals, case_facts, representative, with_counters
from kernelbook.cases.medians import median, median_durations_us, median_of_processes, medians_by_process, spread
from kernelbook.cases.merging import FAILED_PROCESSES, merge_processes
from kernelbook.cases.process import CASE_COLUMNS, Environment, Process

__all__ = [
    "CASE_COLUMNS",
    "FAILED_PROCESSES",
    "RESTLESS_FROM",
    "Activity",
    "Call",
    "CallTotal",
    "CaseFacts",
    "Environment",
    "OtherRange",
    "Process",
    "ProfiledForward",
    "call_totals",
    "case_facts",
    "is_restless",
    "label",
    "median",
    "median_durations_us",
    "median_of_processes",
    "medians_by_process",
    "merge_processes",
    "representative",
    "spread",
    "with_counters",
]
