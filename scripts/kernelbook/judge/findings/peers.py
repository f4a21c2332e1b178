"""A case compared with other cases of its run: a faster peer of the same workload, or its eager twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import useful_flops
from kernelbook.judge.findings.costs import TimeRange, device_span, forward_span, maker, timed
from kernelbook.judge.findings.rules import DEVICE, RECOVERABLE, Finding, Scene, rule
from kernelbook.text.formatting import duration, error, plural, significant

#: Backends of SDPA with one kernel.
BACKENDS = "sdpa_kernel with FLASH_ATTENTION, EFFICIENT_ATTENTION or CUDNN_ATTENTION"
#: Library of a kernel that SDPA launched -> the backend to select.
SDPA_BACKENDS = {
    "cuDNN": "cuDNN attention (sdpa_kernel with CUDNN_ATTENTION)",
    "flash-attention": "FlashAttention (sdpa_kernel with FLASH_ATTENTION)",
    "memory-efficient attention": "memory-efficient attention (sdpa_kernel with EFFICIENT_ATTENTION)",
}
FLEX = "flex_attention, compiled (torch.compile)"
#: Smaller losses, as a share of the forward, are not reported as a cost.
LEAST_LOSS = 0.02


@dataclass(frozen=True)
class Loss:
    """Unprofiled forward times of a case and of its faster eager twin, over their processes."""

    twin: CaseFacts
    mine: TimeRange
    eager: TimeRange

    @property
    def time_us(self) -> float:
        return self.mine.time_us - self.eager.time_us


def loss_to_eager(scene: Scene) -> Loss | None:
    """The loss to a comparable eager twin; None unless every process is slower than every process of the twin."""
    twin = scene.eager_twin()
    mine = forward_span(scene.facts)
    eager = forward_span(twin) if twin and scene.comparable(twin) else None
    if twin is None or mine is None or eager is None or mine.low_us <= eager.high_us:
        return None
    loss = Loss(twin, mine, eager)
    return loss if loss.time_us >= LEAST_LOSS * mine.time_us else None


def unfused_twin(scene: Scene) -> CaseFacts | None:
    """The eager twin of a compiled case if it runs the same kernels, by full name and count."""
    twin = scene.eager_twin()
    if twin is None or not twin.on_device or not scene.kernels or scene.facts.mode != "compile":
        return None
    return twin if twin.kernel_names == scene.facts.kernel_names else None


def loses_for_nothing(scene: Scene) -> bool:
    """Whether torch.compile fused nothing and the forward is slower than eager; compile-fused-nothing reports both."""
    return unfused_twin(scene) is not None and loss_to_eager(scene) is not None


#: Least ratio of device times, in every process.
FASTER_FROM = 1.5
#: Most ratio of the peer's error to that of the case.
MOST_ERROR = 2.0
#: Largest relative differences of input bytes and FLOPs between cases that compute the same.
SAME_INPUT, SAME_FLOPS = 0.1, 0.01


@dataclass(frozen=True)
class Faster:
    """A comparable case of the same workload with much less device time; times in µs."""

    peer: CaseFacts
    own_us: float
    peer_us: float

    @property
    def saved_us(self) -> float:
        return self.own_us - self.peer_us

    @property
    def ratio(self) -> float:
        return self.own_us / self.peer_us


def faster_peer(scene: Scene) -> Faster | None:
    """The peer with the least device time; None unless its device time is lower in all processes, and its forward too.

    Peers must compute the same: similar error against float64, equal output bytes. Cases of an unknown workload, bare
    traces and ceilings are excluded, since they may do different work.
    """
    facts, own = scene.facts, scene.facts.device_time_us
    if not own or not facts.on_device or facts.workload is None or facts.bare or facts.ceiling:
        return None
    alike = [peer for peer in scene.peers() if _computes_the_same(peer, facts)]
    better = [peer for peer in alike if peer.device_time_us and _beats(peer, facts)]
    best = min(better, key=lambda peer: peer.device_time_us or 0.0, default=None)
    return Faster(best, own, best.device_time_us or 0.0) if best else None


def _computes_the_same(peer: CaseFacts, facts: CaseFacts) -> bool:
    """Whether a peer does equal work with different kernels, at an error against float64 that is not much larger.

    Equal work: output bytes, and within tolerances input bytes (a mask may be an input of only one) and useful FLOPs.
    Variants of a training step, which may differ in work, have no error against float64.
    """
    mine, theirs = facts.relative_error, peer.relative_error
    if mine is None or theirs is None or theirs > MOST_ERROR * mine or peer.output_bytes != facts.output_bytes:
        return False
    if not _near(facts.input_bytes, peer.input_bytes, SAME_INPUT):
        return False
    return _near(useful_flops(facts), useful_flops(peer), SAME_FLOPS) and facts.kernel_names != peer.kernel_names


def _near(mine: float | None, theirs: float | None, tolerance: float) -> bool:
    """Whether two figures differ by at most `tolerance` of the larger; True if one is unknown."""
    return mine is None or theirs is None or abs(mine - theirs) <= tolerance * max(mine, theirs)


def _beats(peer: CaseFacts, facts: CaseFacts) -> bool:
    own, other = device_span(facts), device_span(peer)
    if own is None or other is None or own.low_us < FASTER_FROM * other.high_us:
        return False
    mine, theirs = forward_span(facts), forward_span(peer)
    return mine is None or theirs is None or theirs.high_us < mine.low_us


def attention_way(facts: CaseFacts) -> str | None:
    """How a case computes attention, by its longest attention kernel: a backend of SDPA, or flex_attention.

    None without such a kernel, or if neither of them launched it.
    """
    kernels = [activity for activity in facts.activities if activity.family == "attention"]
    if not kernels:
        return None
    longest = max(kernels, key=lambda kernel: kernel.duration_us)
    if any(op.startswith("flex_attention") for op in longest.decoded.fused_ops):
        return FLEX
    of_sdpa = any("scaled_dot_product" in op for op in longest.op_path)
    return SDPA_BACKENDS.get(longest.decoded.library) if of_sdpa else None


def _one_row(group: Sequence[Finding]) -> str:
    """The slowest case against the peer, then the other cases that are slower than it."""
    slowest, *others = sorted(group, key=lambda finding: -(finding.time_us or 0.0))
    more = ", ".join(f"{finding.case} {finding.subject}×" for finding in others)
    return (
        f"{slowest.case} takes {slowest.subject}× the device time of {slowest.theme} for the same result. "
        f"{plural(len(others), 'more case')} {'is' if len(others) == 1 else 'are'} slower, too: {more}."
    )


@rule(
    "slower-than-peer",
    "a comparable case of the same workload, with other kernels and at most twice the error, takes less device time by "
    "a factor of 1.5 or more in every process",
    _one_row,
)
def slower_than_peer(scene: Scene) -> Iterator[Finding]:
    """The whole difference of device times; other rules report parts of it and their causes."""
    faster = faster_peer(scene)
    if faster is None:
        return
    facts, peer, ratio = scene.facts, faster.peer, significant(faster.ratio)
    text = f"{peer.case} does the same in {duration(faster.peer_us)} of device time; this case takes {ratio}× as long"
    if facts.forward_time_us and peer.forward_time_us:
        text += (
            f", and an unprofiled forward takes {duration(facts.forward_time_us)} against "
            f"{duration(peer.forward_time_us)}"
        )
    theirs, own = error(peer.relative_error), error(facts.relative_error)
    longest = max(peer.activities, key=lambda activity: activity.duration_us)
    shared = f"{peer.case} ({duration(faster.peer_us)})"
    way = attention_way(peer)
    same_way = way is not None and way == attention_way(facts)
    how = f": {way}" if way and not same_way else ""
    evidence = f"{duration(faster.own_us)} against {duration(faster.peer_us)} of device time in {peer.case}"
    text += f". Error against float64: {theirs} there, {own} here."
    remedy = f"Compute it as {peer.case} does{how}; its longest kernel is of {maker(longest)}."
    theme = None if same_way else shared
    yield timed(
        scene, DEVICE, faster.saved_us, text, remedy, evidence, RECOVERABLE, whole_us=faster.own_us, theme=theme,
        subject=ratio,
    )  # fmt: skip
