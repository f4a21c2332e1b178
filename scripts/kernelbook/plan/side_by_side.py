"""How many measurements run at once on this machine: one a GPU, as far as there are cores for each."""

from __future__ import annotations

from kernelbook.plan.surroundings import models_and_driver

CORES_EACH = 4
"""Cores that a measurement on a GPU keeps busy at most: the forward, its backward, the driver and the profiler."""


def measurements_at_once(cores: int | None, device: str, visible: str | None) -> int:
    """The number of GPUs like the first visible one, but no more than there are 4 cores for each; at least 1.

    cores: those of ``--cores``, None where jobs are submitted to a cluster. device: as configured. visible:
    CUDA_VISIBLE_DEVICES. On a CPU measurements run one after the other.
    """
    if device == "cpu" or cores is None:
        return 1
    return max(1, min(_gpus_alike(visible), cores // CORES_EACH))


def _gpus_alike(visible: str | None) -> int:
    """GPUs of the first visible one's model. One that CUDA_VISIBLE_DEVICES gives by UUID is taken to be of it."""
    models, _ = models_and_driver()
    if visible is None:
        return models.count(models[0]) if models else 0
    words = [word.strip() for word in visible.split(",")]
    chosen = [models[int(word)] if word.isdigit() and int(word) < len(models) else word for word in words]
    first = chosen[0] if chosen[0] in models else None
    return sum(model == first or word.startswith("GPU-") for word, model in zip(words, chosen, strict=True))
