"""`kernelbook diff`: two traces, folders of traces, cases, runs or editions, compared range by range.

In: two paths. Out: a `Diff`, whose comparisons are those of the report (`judge.comparisons`), as text, JSON or pages.
"""

from kernelbook.diffs.model import Diff, diff
from kernelbook.diffs.sides import SideError

__all__ = ["Diff", "SideError", "diff"]
