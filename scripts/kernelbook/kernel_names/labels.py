"""Labels for the report: a short form of a kernel name, and its decoded fields in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any

from kernelbook.kernel_names import UNKNOWN, KernelName, decode_activity
from kernelbook.kernel_names.text import function_name
from kernelbook.text.formatting import clip, visible

WRAPPERS = ("elementwise_kernel", "reduce_kernel")
EMPTY = (None, "", UNKNOWN, ())
NOT_LISTED = ("name", "family", "what", "sentence")


@dataclass(frozen=True)
class KernelLabel:
    """How one name is shown. ``details`` are its fields as (label, value), ``ops`` the ops that it fuses."""

    short: str
    what: str
    sentence: str
    precision: str
    family: str
    details: tuple[tuple[str, str], ...]
    ops: tuple[str, ...] = ()


@lru_cache(maxsize=8192)
def kernel_label(category: str, name: str) -> KernelLabel:
    """The label of a device activity's name; its texts are safe to print."""
    kernel = decode_activity(category, name)
    details = tuple(
        (spec.name.replace("_", " "), _words(getattr(kernel, spec.name)))
        for spec in fields(KernelName)
        if spec.name not in NOT_LISTED and getattr(kernel, spec.name) not in EMPTY
    )
    return KernelLabel(
        short(name),
        visible(kernel.what),
        visible(kernel.sentence),
        _precision(kernel),
        kernel.family,
        details,
        kernel.fused_ops,
    )


def activity_label(act: Any) -> KernelLabel:
    """As ``kernel_label``, for an activity; a copy whose two types are recorded names both."""
    label = kernel_label(act.category, act.name)
    converts = getattr(act, "converts", None)
    return replace(label, what=f"converts {visible(converts)}", precision="") if converts else label


def _precision(kernel: KernelName) -> str:
    """``bf16, tensor cores``: the element type, and for products and attention which cores multiply."""
    if kernel.element_type == UNKNOWN or kernel.what.startswith("converts"):  # ``what`` names the types
        return ""
    if kernel.family not in ("GEMM", "attention") or kernel.tensor_cores == UNKNOWN:
        return kernel.element_type
    return f"{kernel.element_type}, {'tensor' if kernel.tensor_cores == 'yes' else 'CUDA'} cores"


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(visible, value)) if isinstance(value, tuple) else visible(value)


def short(name: str, limit: int = 56) -> str:
    """The function's name without return type, namespaces, template and call arguments."""
    text = visible(name).replace("(anonymous namespace)::", "")
    text = re.sub(r"^(void|std::\S+) ", "", text)
    base = visible(function_name(name))
    what = _functor(text) if base.endswith(WRAPPERS) else None
    return clip(f"{base} · {what}" if what else base, limit)


def _functor(text: str) -> str | None:
    """What an elementwise kernel computes: the functor or the host function among its template arguments."""
    words = re.findall(r"(\w+(?:Functor(?:On(?:Self|Other))?(?:_\w+)?|_kernel_impl|_kernel_cuda|_kernel))\b", text)
    words = [
        word for word in words if not word.endswith(WRAPPERS) and not re.fullmatch(r"\w+(ary|wrapper)Functor", word)
    ]
    if not words:
        return None
    own = re.sub(r"^CUDAFunctor(?:On(?:Self|Other))?(?=_)", "", words[0])
    return re.sub(r"(_kernel_impl|_kernel_cuda|_kernel|Functor)", "", own).strip("_")


def labels(names: Sequence[str], room: int) -> list[str]:
    """A unique label of at most `room` characters for each name.

    It is the name of the function. Where names share it, the rest of the name follows, from the first difference.
    """
    short_names = [short(name, room) for name in names]
    for label, count in Counter(short_names).items():
        if count > 1:
            alike = [place for place, other in enumerate(short_names) if other == label]
            for place, rest in zip(alike, _from_difference([visible(names[place]) for place in alike]), strict=True):
                head = clip(label, room // 2)
                short_names[place] = f"{head} …{clip(rest, room - len(head) - 2)}"
    return _numbered(short_names, room)


def _from_difference(names: Sequence[str]) -> list[str]:
    """The names without their common start, cut at the beginning of a word."""
    columns = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    same = re.sub(r"[A-Za-z0-9]*$", "", "".join(letters[0] for letters in columns))
    return [name[len(same) :] for name in names]


def _numbered(names: Sequence[str], room: int) -> list[str]:
    """Number the labels that are still equal."""
    count = Counter(names)
    used: Counter[str] = Counter()
    numbered = []
    for label in names:
        used[label] += 1
        ending = f" #{used[label]}" if count[label] > 1 else ""
        numbered.append(clip(label, room - len(ending)) + ending)
    return numbered
