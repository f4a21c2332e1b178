"""What is known of one case of one run, typed; see ``model`` for the facts and ``tables`` for where they come from."""

from __future__ import annotations

from kernelbook.case_facts.model import Activity, Call, CaseFacts, Forward, Note, Process, label, median
from kernelbook.case_facts.tables import case_facts

__all__ = ["Activity", "Call", "CaseFacts", "Forward", "Note", "Process", "case_facts", "label", "median"]
