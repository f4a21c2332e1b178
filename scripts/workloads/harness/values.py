"""Finds the tensors in what a forward takes and returns: tuples, dicts, dataclasses and other objects."""

from __future__ import annotations

import collections
import contextlib
import copy
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

SEQUENCES = (list, tuple, set, frozenset, collections.deque)
# Objects that are leaves although they have attributes. A module is state, not a value.
CLOSED = (torch.Tensor, torch.nn.Module, type, types.ModuleType, types.FunctionType, types.MethodType)
LAZY = (Iterator, Awaitable, AsyncIterator)


def leaves(value: Any, objects: bool = True) -> Iterator[Any]:
    """Every value that is no container, in order: tensors, modules, numbers, functions.

    Containers are mappings (their values), sequences, sets and, with `objects`, other objects (their attributes and
    slots). An object inside itself is visited once.
    """
    return _leaves(value, objects, frozenset())


def _leaves(value: Any, objects: bool, around: frozenset[int]) -> Iterator[Any]:
    inside = _contents(value, objects)
    if inside is None:
        yield value
    elif id(value) not in around:
        for item in inside:
            yield from _leaves(item, objects, around | {id(value)})


def _contents(value: Any, objects: bool) -> list[Any] | None:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, SEQUENCES):
        return list(value)
    if not objects or isinstance(value, (*CLOSED, *LAZY)):
        return None
    names = [name for kind in type(value).__mro__ for name in _slots(kind)]
    if not names and not hasattr(value, "__dict__"):
        return None
    slots = [getattr(value, name) for name in names if hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).values(), *slots]


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def tensors(value: Any, objects: bool = True) -> Iterator[torch.Tensor]:
    """The tensors among the leaves, in order."""
    return (leaf for leaf in leaves(value, objects) if isinstance(leaf, torch.Tensor))


def held_by(forward: Any) -> list[Any]:
    """What a forward refers to: itself, the object that it is a method of, and what it closes over."""
    held = [forward, getattr(forward, "__self__", None)]
    for cell in getattr(forward, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a name that is not bound yet
            held.append(cell.cell_contents)
    return held


def lazy(value: Any) -> list[str]:
    """Types of the leaves that compute their values only on demand: generators, coroutines, other iterators."""
    return [type(leaf).__name__ for leaf in leaves(value) if isinstance(leaf, LAZY)]


def copied(value: Any, replace: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor) -> Any:
    """New containers around the same leaves, each tensor replaced by `replace(tensor)`.

    A tensor that occurs twice stays one. Raises TypeError for an object that cannot be copied.
    """
    copies = {id(leaf): leaf for leaf in leaves(value)}
    copies = {key: replace(leaf) if isinstance(leaf, torch.Tensor) else leaf for key, leaf in copies.items()}
    return copy.deepcopy(value, copies)


def chunks(tensor: torch.Tensor, elements: int = 2**26) -> tuple[torch.Tensor, ...]:
    """Its values in order, in parts of at most `elements`; as float64 a part of the default size takes 512 MiB."""
    return tensor.detach().reshape(-1).split(elements)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether shape, dtype and every bit agree, those of NaN too."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    pairs = zip(chunks(one), chunks(other))  # noqa: B905 - Python 3.9 has no strict
    return all(torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in pairs)


def distance(got: Iterable[torch.Tensor], wanted: Iterable[torch.Tensor]) -> tuple[float, float]:
    """(‖y - r‖², ‖r‖²) (L2, float64) over all tensors, which must have the same shapes."""
    difference = norm = 0.0
    for one, other in zip(got, wanted):  # noqa: B905 - Python 3.9 has no strict
        for y, r in zip(chunks(one), chunks(other)):  # noqa: B905
            difference += float((y.double() - r.double()).square().sum())
            norm += float(r.double().square().sum())
    return difference, norm
