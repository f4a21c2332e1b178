"""A compiled case beside its eager twin: whether it runs the same kernels, and whether its forward takes longer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings.costs import Span, forward_span
from kernelbook.judge.findings.rules import Scene

#: A forward that is slower by less than this share of itself than its eager twin is not told as a cost.
LEAST_LOSS = 0.02


@dataclass(frozen=True)
class Loss:
    """What a case loses to its eager twin: the unprofiled forwards of both, over their processes."""

    twin: CaseFacts
    mine: Span
    eager: Span

    @property
    def time_us(self) -> float:
        """By how much longer the case's own forward is, of medians."""
        return self.mine.time_us - self.eager.time_us


def loss_to_eager(scene: Scene) -> Loss | None:
    """The loss to a comparable eager twin; None unless every process takes longer than every one of the twin."""
    twin = scene.eager_twin()
    mine = forward_span(scene.facts)
    eager = forward_span(twin) if twin and scene.comparable(twin) else None
    if twin is None or mine is None or eager is None or mine.low_us <= eager.high_us:
        return None
    loss = Loss(twin, mine, eager)
    return loss if loss.time_us >= LEAST_LOSS * mine.time_us else None


def unfused_twin(scene: Scene) -> CaseFacts | None:
    """The eager twin of a compiled case that runs the very same kernels, by full name and number."""
    twin = scene.eager_twin()
    if twin is None or not twin.on_device or not scene.kernels or scene.facts.mode != "compile":
        return None
    own = Counter(k.name for k in scene.kernels)
    return twin if own == Counter(k.name for k in twin.activities if k.category == "kernel") else None


def loses_for_nothing(scene: Scene) -> bool:
    """Whether torch.compile fused nothing and makes the forward longer: one finding tells that with all its reasons."""
    return unfused_twin(scene) is not None and loss_to_eager(scene) is not None
