"""The tables of the report: the columns of each, for the page and for report.md alike."""

from __future__ import annotations

from kernelbook.report.listings.case import (
    NOISY,
    against_floor,
    cases_of_workload,
    forward_times,
    kernels,
    on_each_run,
    products,
    ranges,
    whole_file,
)
from kernelbook.report.listings.judged import broken, findings_of_case, findings_of_weight, guesses
from kernelbook.report.listings.runs import (
    backends,
    environment,
    headline_price,
    matrix,
    not_measured,
    published,
    trusted,
)

__all__ = [
    "NOISY",
    "against_floor",
    "backends",
    "broken",
    "cases_of_workload",
    "environment",
    "findings_of_case",
    "findings_of_weight",
    "forward_times",
    "guesses",
    "headline_price",
    "kernels",
    "matrix",
    "not_measured",
    "on_each_run",
    "products",
    "published",
    "ranges",
    "trusted",
    "whole_file",
]
