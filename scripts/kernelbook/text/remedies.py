"""Splits the reason of a failure into the fact and the remedy."""

from __future__ import annotations

import re

#: First words of a remedy after the last colon of a reason.
_BEGINNINGS = (
    "add|allow|ask|call|check|choose|correct|do|drop|end|free|give|in a container|install|keep|leave|let|look|make"
    "|measure|move|name|point|pull|put|raise|remove|repair|replace|run|see|set|start|the log|the machine|try|turn"
    "|update|use|wait|write"
)
_REMEDY = re.compile(rf": (?=(?:{_BEGINNINGS})\b)(?![^()]*\))")
#: Pattern in a reason -> remedy, if the reason states none; the first match counts.
_RULES = tuple(
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in (
        (r"out of memory|OutOfMemory|MemoryError|SIGKILL", "Use smaller params, or a device with more free memory."),
        (
            r"No module named|ModuleNotFound|ImportError|cannot be imported",
            "Install the package in the environment or image of this run, or disable the case in config.yaml.",
        ),
        (r"time limit|timed out|exceeded \d", "Raise timeout_s of the case, or see in its log where it hung."),
        (r"no kernel image|driver .*(too old|insufficient)", "Use a torch that is built for this GPU and its driver."),
        (r"no space left|disk quota", "Free some space in the folders of outputs and caches."),
    )
)


def fact_and_remedy(reason: str) -> tuple[str, str]:
    """(fact, remedy): split at the last colon before a remedy; without one the remedy is that of a known pattern.

    The remedy is a sentence; empty if there is none.
    """
    colons = [*_REMEDY.finditer(reason)]
    if colons:
        fact, remedy = reason[: colons[-1].start()], reason[colons[-1].end() :].strip().rstrip(".")
        return fact, f"{remedy[:1].upper()}{remedy[1:]}."
    return reason, next((remedy for pattern, remedy in _RULES if pattern.search(reason)), "")
