"""What is known of one case of one run, typed; see ``model`` for the facts and ``tables`` for where they come from."""

from __future__ import annotations

from kernelbook.case_facts.medians import median, median_durations_us, median_of_processes, medians_by_process, spread
from kernelbook.case_facts.merging import FAILED_PROCESSES, MergedCase, merge_processes
from kernelbook.case_facts.model import (
    YARDSTICK,
    Activity,
    Call,
    CallTotal,
    CaseFacts,
    Forward,
    Note,
    Process,
    label,
)
from kernelbook.case_facts.tables import activity_of, call_totals, calls_of, case_facts

__all__ = [
    "FAILED_PROCESSES",
    "YARDSTICK",
    "Activity",
    "Call",
    "CallTotal",
    "CaseFacts",
    "Forward",
    "MergedCase",
    "Note",
    "Process",
    "activity_of",
    "call_totals",
    "calls_of",
    "case_facts",
    "label",
    "median",
    "median_durations_us",
    "median_of_processes",
    "medians_by_process",
    "merge_processes",
    "spread",
]
