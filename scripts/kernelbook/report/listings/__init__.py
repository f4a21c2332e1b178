"""The tables of the report: the columns of each, for the page and for report.md alike."""

from kernelbook.report.listings import case, judged, runs

__all__ = ["case", "judged", "runs"]
