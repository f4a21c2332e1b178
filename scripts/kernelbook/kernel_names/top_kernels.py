"""Kernels, memcpys and memsets summed over many traces: by name and by family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from kernelbook.kernel_names import decode_activity
from kernelbook.text.meaning import doc

#: The family of kernels whose names say that they convolve.
CONVOLUTION = "convolution"


@dataclass(eq=False)
class TopRow:
    """The activities of one name or one family in all traces."""

    INTERNAL: ClassVar = ("sources",)

    name: Annotated[str, doc("Name of the kernel, as in the trace, or of the family.")]
    category: Annotated[str | None, doc("null for a family that has several.", "kernel", "memcpy", "memset", None)]
    family: Annotated[str, doc("What the name says that it does; memcpy and memset are families of their own.")]
    count: Annotated[int, doc("Activities in all files.")] = 0
    total_us: Annotated[float, doc("Sum of their durations.")] = 0.0
    max_us: Annotated[float, doc("The longest duration.")] = 0.0
    files: Annotated[int, doc("Files that have at least one.")] = 0
    sources: set[Any] = field(default_factory=set)

    def add(self, source: Any, row: Mapping[str, Any]) -> None:
        self.count += row["count"]
        self.total_us += row["total_us"]
        self.max_us = max(self.max_us, row["max_us"])
        self.sources.add(source)
        self.files = len(self.sources)


def top_kernels(rows: Iterable[tuple[Any, Mapping[str, Any]]]) -> tuple[list[TopRow], list[TopRow]]:
    """(by name, by family), each with the longest total first.

    rows: (source, row) pairs; a row has name, category, count, total_us and max_us, a source tells traces apart.
    memcpys and memsets are families of their own.
    """
    names: dict[tuple[str, str], TopRow] = {}
    families: dict[str, TopRow] = {}
    for source, row in rows:
        key = (row["category"], row["name"])
        if key not in names:
            names[key] = TopRow(row["name"], row["category"], _family(*key))
        family = names[key].family
        if family not in families:
            families[family] = TopRow(family, row["category"], family)
        elif families[family].category != row["category"]:
            families[family].category = None
        names[key].add(source, row)
        families[family].add(source, row)
    return _sorted(names.values()), _sorted(families.values())


def _family(category: str, name: str) -> str:
    """The family of a kernel; convolutions, which are kernels of the family `other`, have a row of their own."""
    if category != "kernel":
        return category
    kernel = decode_activity(category, name)
    return CONVOLUTION if (kernel.family, kernel.what) == ("other", CONVOLUTION) else kernel.family


def _sorted(rows: Iterable[TopRow]) -> list[TopRow]:
    return sorted(rows, key=lambda row: (-row.total_us, row.name))
