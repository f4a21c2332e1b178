"""What YAML can say and nothing after it can bear: keys that are no words, NaN, numbers past 64 bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

LARGEST = 2**63 - 1


def value_errors(given: Mapping[str, Any]) -> list[str]:
    """One line a mistake: where, what, remedy. A structure without any can be checked, sorted and written as JSON."""
    return list(_errors(given, (), ()))


def _errors(value: Any, path: tuple[str, ...], inside: tuple[int, ...]) -> Iterator[str]:
    if id(value) in inside:
        yield f"{_said(path)}: holds itself (an alias within its own anchor): write it out"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{_said(path)}: the key {str(key)!r} is no word for YAML but {type(key).__name__}: quote it"
            yield from _errors(item, (*path, str(key)), (*inside, id(value)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _errors(item, (*path, str(place)), (*inside, id(value)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{_said(path)}: must be a finite number, got {value}"
    elif isinstance(value, int) and abs(value) > LARGEST:
        yield f"{_said(path)}: must be a number of at most 64 bits, got one of {value.bit_length()}"
    elif isinstance(value, str) and "\0" in value:
        yield f"{_said(path)}: holds a NUL character: delete it"


def _said(path: tuple[str, ...]) -> str:
    return ".".join(path) or "the top level"
