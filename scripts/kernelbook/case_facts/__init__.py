"""What is known of one case of one run, typed; see ``model`` for the facts and ``tables`` for where they come from."""

from __future__ import annotations

from kernelbook.case_facts.medians import median, median_durations_us, median_of_processes, medians_by_process, spread
from kernelbook.case_facts.merging import FAILED_PROCESSES, MergedCase, merge_processes
from kernelbook.case_facts.model import (
    RESTLESS_FROM,
    YARDSTICK,
    Activity,
    Call,
    CallTotal,
    CaseFacts,
    Forward,
    Note,
    Process,
    is_restless,
    label,
)
from kernelbook.case_facts.tables import call_totals, case_facts, representative

__all__ = [
    "FAILED_PROCESSES",
    "RESTLESS_FROM",
    "YARDSTICK",
    "Activity",
    "Call",
    "CallTotal",
    "CaseFacts",
    "Forward",
    "MergedCase",
    "Note",
    "Process",
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
]
