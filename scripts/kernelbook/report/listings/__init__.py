"""The tables of the report: the columns of each, for the page and for report.md alike."""

from __future__ import annotations

from kernelbook.report.listings.case import (
    against_floor,
    cases_of_workload,
    kernels,
    on_each_run,
    products,
    ranges,
    whole_file,
)
from kernelbook.report.listings.judged import broken, findings_of_case, findings_of_weight, guesses
from kernelbook.report.listings.runs import backends, environment, not_measured, published, trusted

__all__ = [
    "against_floor",
    "backends",
    "broken",
    "cases_of_workload",
    "environment",
    "findings_of_case",
    "findings_of_weight",
    "guesses",
    "kernels",
    "not_measured",
    "on_each_run",
    "products",
    "published",
    "ranges",
    "trusted",
    "whole_file",
]
