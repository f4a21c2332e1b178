"""The tables of the report: the columns of each, for the page and for report.md."""

from kernelbook.report.listings import case, cases, folder, judged, runs

__all__ = ["case", "cases", "folder", "judged", "runs"]
