"""Inputs of ops as they are read from what the profiler writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kernelbook.trace.inputs import Input, parse_inputs


def inputs(
    shapes: Any, kinds: Any = (), values: Sequence[str] = (), strides: Any = (), every: str | None = None
) -> tuple[Input, ...]:
    """The inputs of an op with these recorded values. every: the type of all of them."""
    kinds = [every] * len(shapes) if every else kinds
    texts = tuple(json.dumps(part).encode() for part in (shapes, kinds, values, strides))
    return tuple(parse_inputs(texts))
