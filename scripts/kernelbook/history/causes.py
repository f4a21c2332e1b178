"""Probable causes of a change: other differences between the nights before and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kernelbook.cases import Activity
from kernelbook.history.series import CONDITIONS, Series
from kernelbook.judge.alignment import Step, align_names, align_op_names
from kernelbook.kernel_names import decode
from kernelbook.text.formatting import clip

CLOCK_DROP = 0.02
"""Least relative difference of a clock that counts; boost clocks vary by less on their own."""
STEADY = 0.01
"""Device time within this share is unchanged."""
VERSIONS = (*CONDITIONS, "torch", "torch_git", "cuda", "cudnn", "image_digest")
_SHORT = 70


def describe(name: str) -> str:
    """A kernel name in a few words (`GEMM, bf16, tile 128x128, cuBLAS`), or shortened if it cannot be decoded."""
    decoded = decode(name)
    tile = f"tile {decoded.tile}" if decoded.tile else None
    words = [decoded.family, decoded.element_type, tile, decoded.library]
    stated = [word for word in words if word and word != "unknown"]
    return ", ".join(stated) if len(stated) > 1 else shorten(name)


def percent(change: float, sign: str = "") -> str:
    """`5.3 %`; with sign "+" `+5.3 %` and `−5.3 %`."""
    text = f"{100 * change:{sign}.1f} %"
    return text.replace("-", "−") if abs(change) >= 0.0005 else "0.0 %"


def shorten(name: str) -> str:
    """At most 70 characters of a name, made safe to print; both ends are kept."""
    return clip(name, _SHORT)


def kernel_changes(before: Sequence[str], after: Sequence[str], *, brief: bool = False) -> list[str]:
    """How the kernels of two nights differ, one line a difference: replaced, fused, split, added, removed.

    Kernels are aligned as in every comparison (`judge.alignment`). They are decoded, followed by the name in brackets
    unless `brief`; if both sides decode to the same words, by name only.
    """
    steps = [step for step in align_names(before, after) if step.kind != "same"]
    if steps and sorted(before) == sorted(after):
        return ["the same kernels in another order"]
    return list(dict.fromkeys(_step_text(step, describe if brief else _kernel) for step in steps))


def _step_text(step: Step, describe_name: Callable[[str], str]) -> str:
    old, new = (_joined(map(describe_name, _names(side))) for side in (step.a, step.b))
    if old == new:
        old, new = (_joined(map(shorten, _names(side))) for side in (step.a, step.b))
    noun = "kernels" if step.kind == "fused" else "kernel"
    return f"{noun} {step.kind}: {' → '.join(filter(None, (old, new)))}"


def _names(activities: Sequence[Activity]) -> list[str]:
    return [activity.name for activity in activities]


def _joined(texts: Iterable[str]) -> str:
    return " + ".join(texts)


def op_changes(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """How the ops of two nights differ, one line an op: added or removed."""
    if sorted(before) == sorted(after):
        return ["the same ops in another order"]
    steps = align_op_names(before, after)
    return list(dict.fromkeys(f"op {step.kind}: {shorten(name)}" for step in steps for name in step.names))


def _kernel(name: str) -> str:
    words = describe(name)
    return words if words == shorten(name) else f"{words} ({shorten(name)})"


def count_changes(series: Series, position: int, names: Sequence[str]) -> list[str]:
    """Counts per forward that differ from the night before (`memcpys 0 → 1`)."""
    pairs = ((name, series.facts[name][position - 1], series.facts[name][position]) for name in names)
    return [f"{name} {_value_text(old)} → {_value_text(new)}" for name, old, new in pairs if old != new]


def version_changes(series: Series, position: int) -> list[str]:
    """Differences from the night before: GPU, driver, parameters, versions and image."""
    return [_version(name, old, new) for name, old, new in _version_pairs(series, position) if old != new]


def gpu_change(series: Series, position: int) -> list[str]:
    """A cause if the night ran on another GPU of the same model than the night before."""
    gpus = series.facts.get("gpu_id")
    old, new = gpus[position - 1 : position + 1] if gpus and position else (None, None)
    return [f"another GPU of this kind: {old} → {new}"] if old and new and old != new else []


def _versions_around(series: Series, position: int) -> list[str]:
    """Version changes at a step, or one night after or before, because a step can be placed one night off."""
    for offset, when in ((0, ""), (1, " (the night after)"), (-1, " (the night before)")):
        if 0 < position + offset < len(series.nights):
            changes = version_changes(series, position + offset)
            changes += gpu_change(series, position) if offset == 0 else []
            if changes:
                return [change + when for change in changes]
    return []


def _version_pairs(series: Series, position: int) -> list[tuple[str, str, str]]:
    facts = [(name, *series.facts[name][position - 1 : position + 1]) for name in VERSIONS if name in series.facts]
    return [
        (name, old, new) for name, old, new in facts if (old and new) or (name in CONDITIONS and position == series.own)
    ]


def _version(name: str, old: str, new: str) -> str:
    if name == "image_digest":
        return f"image {short_digest(old)} → {short_digest(new)}"
    if name == "torch_git":
        return f"commits of PyTorch to look through: {old[:12]}...{new[:12]}"
    return f"{name} {old or 'n/a'} → {new or 'n/a'}"


def is_version(cause: str) -> bool:
    """Whether a cause is one of `version_changes`, the same for all cases of a run."""
    return cause.startswith(tuple(f"{name} " for name in (*VERSIONS, "image", "commits", "another GPU")))


def short_digest(digest: str) -> str:
    """Twelve digits of an image digest, as container tools show it."""
    return digest.rpartition(":")[2][:12]


def level_step(series: Series, metric: str, position: int) -> float | None:
    """Relative step of a metric's median over up to seven nights on each side; None if values are missing."""
    values = series.values[metric]
    before, after = values[max(0, position - 7) : position], values[position : position + 7]
    before, after = before[before > 0], after[after > 0]
    if not len(before) or not len(after):
        return None
    return float(np.median(after) / np.median(before) - 1)


def _clock_causes(series: Series, position: int) -> list[str]:
    clock = level_step(series, "sm_clock_mhz", position)
    if clock is None or abs(clock) < CLOCK_DROP:
        return []
    return [f"SM clock {'lower' if clock < 0 else 'higher'} by {percent(abs(clock))}"]


def shared_causes(series: Series, position: int) -> tuple[str, ...]:
    """Probable causes of a shift that all cases of a run share."""
    causes = _versions_around(series, position) + _clock_causes(series, position)
    return tuple(causes) or ("clock, driver or machine: nothing that is recorded differs",)


def time_causes(series: Series, position: int) -> tuple[str, ...]:
    """Probable causes of a new level of time at a position, most certain first."""
    causes = _versions_around(series, position) + _clock_causes(series, position)
    if "shared_gpu" in (series.facts["warnings"][position] or ()):
        causes.append("other processes used the GPU")
    device, forward = (level_step(series, metric, position) for metric in ("device_time_us", "forward_time_us"))
    if device is not None and forward is not None and abs(device) < STEADY <= abs(forward):
        causes.append("only CPU time changed: the device time is the same")
    return tuple(causes) or ("only the time changed: same kernels, versions and clocks",)


def _value_text(value: object) -> str:
    return "n/a" if value is None else str(value)
