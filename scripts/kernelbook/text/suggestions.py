"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

SYNONYMS = (
    ("cuda", "gpu", "nvidia", "cuda:0"),
    ("bfloat16", "bf16"),
    ("float16", "fp16", "half", "f16"),
    ("float32", "fp32", "float", "single", "f32"),
    ("tf32", "tfloat32"),
    ("float64", "fp64", "double", "f64"),
    ("compile", "compiled", "torch.compile", "inductor", "jit"),
    ("graph", "graphs", "cudagraph", "cudagraphs", "cuda-graph", "cuda_graph", "cuda-graphs"),
)
"""Groups of words with one meaning."""


def near_miss(word: Any, choices: Iterable[str]) -> str:
    """The remedy for an unknown name: a synonym, the most similar name, or the list of all names."""
    names = sorted(str(name) for name in choices)
    similar = closest(str(word), names)
    if similar is not None:
        return f"did you mean {similar!r}?"
    return f"there is: {', '.join(names)}" if names else "there is none"


def closest(word: str, names: Iterable[str]) -> str | None:
    """The synonym of a word among the names, else the most similar name in any case; None if none is similar."""
    ordered = sorted(names)
    spelled = {name.lower(): name for name in ordered}
    same = [name for group in SYNONYMS if word.lower() in group for name in ordered if name in group]
    similar = (
        same
        or difflib.get_close_matches(word, ordered, n=1)
        or [spelled[name] for name in difflib.get_close_matches(word.lower(), spelled, n=1)]
    )
    return similar[0] if similar else None
