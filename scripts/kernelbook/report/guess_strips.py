"""The guessed kernels of a case above those that ran, place by place, with the differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kernelbook.cases import Activity
from kernelbook.edition.model import Edition
from kernelbook.kernel_names.labels import activity_label
from kernelbook.report import strips
from kernelbook.report.case_views import GuessLine
from kernelbook.report.families import BY_KEY, Family, family_of
from kernelbook.text.formatting import duration

#: Kernels without a guessed family are guessed as this.
ANY = Family("unknown", "kernel", BY_KEY["unknown"].light, BY_KEY["unknown"].dark)
#: Largest number of places that are drawn.
PLACES = 24


@dataclass(frozen=True)
class Slot:
    """One place of both strips.

    kind: same, more (it ran and was not guessed), less (it was guessed and did not run), other (it ran in place of the
    guessed one) or free (nothing was guessed about it).
    """

    kind: str
    guessed: Family | None = None
    seen: Activity | None = None

    @property
    def word(self) -> str:
        """The difference in words; empty if there is none."""
        return {"more": "not guessed", "less": "did not run", "other": "ran instead"}.get(self.kind, "")

    @property
    def family(self) -> Family | None:
        """The family of what ran."""
        return family_of(self.seen.category, self.seen.family) if self.seen else None


@dataclass(frozen=True)
class BrokenCase:
    """The broken guesses of a case, and its slots on the first of their runs that has device activities, if any."""

    case: str
    lines: tuple[GuessLine, ...]
    strip: strips.Strip | None = None
    slots: tuple[Slot, ...] = ()

    @property
    def drawn(self) -> tuple[Slot, ...]:
        """The slots that fit."""
        return self.slots[:PLACES]

    @property
    def difference(self) -> str:
        """`guessed, but not run: 2 GEMM; run, but not guessed: Memcpy DtoD (127 µs)`; empty without a difference."""
        gone = Counter(slot.guessed.label for slot in self.slots if slot.kind == "less" and slot.guessed)
        parts = (
            [f"guessed, but not run: {', '.join(f'{count} {label}' for label, count in gone.items())}"] if gone else []
        )
        more = [_activity(slot.seen) for slot in self.slots if slot.kind == "more" and slot.seen]
        parts += [f"run, but not guessed: {', '.join(more)}"] if more else []
        other = [(slot.seen, slot.guessed) for slot in self.slots if slot.kind == "other"]
        swapped = [f"{_activity(seen)} instead of {guessed.label}" for seen, guessed in other if seen and guessed]
        parts += [f"run: {', '.join(swapped)}"] if swapped else []
        return "; ".join(parts)


def _activity(activity: Activity) -> str:
    return f"{activity_label(activity).short} ({duration(activity.duration_us)})"


def differences(broken: Iterable[BrokenCase]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """(cases, difference from the guess), one entry for each distinct difference."""
    alike: dict[str, list[str]] = {}
    for each in broken:
        if each.difference:
            alike.setdefault(each.difference, []).append(each.case)
    return tuple((tuple(cases), difference) for difference, cases in alike.items())


def broken_cases(edition: Edition, lines: Iterable[GuessLine]) -> tuple[BrokenCase, ...]:
    """One for each case with a broken guess, in the order of the lines."""
    groups: dict[str, list[GuessLine]] = {}
    for line in lines:
        groups.setdefault(line.case, []).append(line)
    return tuple(_broken_case(edition, case, tuple(members)) for case, members in groups.items())


def _broken_case(edition: Edition, case: str, lines: tuple[GuessLine, ...]) -> BrokenCase:
    runs = {run.run: run for run in edition.runs}
    names = [name for line in lines for name in line.runs]
    rows = [(place, row) for place, row in enumerate(edition.case_runs) if row.case == case and row.run in names]
    place, row = next(((place, row) for place, row in rows if row.activities), (0, None))
    if row is None:
        return BrokenCase(case, lines)
    guesses = {each.word: each.expected for each in edition.judged if (each.run, each.case) == row.key}
    return BrokenCase(case, lines, strips.alone(row, runs[row.run], place), slots_of(guesses, row.activities))


def slots_of(guesses: Mapping[str, str], activities: Iterable[Activity]) -> tuple[Slot, ...]:
    """The slots of the guesses `kernels`, `kernel_families`, `memcpys` and `memsets`; empty if there are none.

    guesses: word -> the guessed value as text. Each activity is paired with a guess of its family, else with one of any
    kernel. Remaining guesses are paired with activities that were not guessed; the others are at the end.
    """
    families = Counter(_families(guesses.get("kernel_families", "")))
    whole = _number(guesses.get("kernels"))
    spare = max(whole - sum(families.values()), 0) if whole is not None else 0
    for word in ("memcpy", "memset"):
        families[BY_KEY[word]] += _number(guesses.get(f"{word}s")) or 0
    if whole is None and not families.total():
        return ()
    listed = {family.key for family in families} - {"memcpy", "memset"}
    slots: list[Slot] = []
    for activity in activities:
        family = family_of(activity.category, activity.family)
        kernel = activity.category == "kernel"
        free = whole is None and family.key not in listed if kernel else f"{activity.category}s" not in guesses
        if families[family] > 0:
            families[family] -= 1
            slots.append(Slot("same", family, activity))
        elif kernel and spare > 0:
            spare -= 1
            slots.append(Slot("same", ANY, activity))
        else:
            slots.append(Slot("free" if free else "more", None, activity))
    left = [*families.elements(), *[ANY] * spare]
    for place, slot in enumerate(slots):
        if slot.kind == "more" and left:
            slots[place] = replace(slot, kind="other", guessed=left.pop(0))
    return (*slots, *(Slot("less", family) for family in left))


def _number(text: str | None) -> int | None:
    """A guessed count; None for a range."""
    return int(text) if text and text.isdecimal() else None


def _families(text: str) -> dict[Family, int]:
    """`GEMM: 2, softmax: 1` -> counts; ranges are left out."""
    matches = re.findall(r"([^:,]+): (\d+)(?=,|$)", text)
    return {family_of("kernel", name.strip()): int(count) for name, count in matches}
