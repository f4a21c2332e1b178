"""A case whose work another case of the run does in much less device time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelbook.cases import YARDSTICK, CaseFacts
from kernelbook.judge.findings.costs import device_span, forward_span, maker, part, severity
from kernelbook.judge.findings.rules import DEVICE, RECOVERABLE, Finding, Scene, rule
from kernelbook.judge.findings.together import in_cases
from kernelbook.text.units import duration, error, significant

#: Told from this ratio of device times on, which every process of the two must reach.
FASTER_FROM = 1.5
#: A peer may be wrong by as many times the error of the case: what is faster by far less accuracy is another trade.
MOST_ERROR = 2.0
#: Workloads whose cases need not do the same: unknown, what measures the device, and bare traces.
UNLIKE = (None, YARDSTICK, "trace")


@dataclass(frozen=True)
class Faster:
    """A comparable case of the same workload that takes much less device time, and how much less, µs."""

    peer: CaseFacts
    own_us: float
    peer_us: float

    @property
    def saved_us(self) -> float:
        """Device time of a forward that its way of doing it spares."""
        return self.own_us - self.peer_us

    @property
    def ratio(self) -> float:
        """``1.64``: how many times as long the case works."""
        return self.own_us / self.peer_us


def faster_peer(scene: Scene) -> Faster | None:
    """The one of least device time; none where the device, or an unprofiled forward, is not faster in all processes.

    Of those alone that compute the same: with an error against float64 not much larger, and an output as large.
    """
    own = scene.facts.device_time_us
    if not own or not scene.facts.on_device or scene.facts.workload in UNLIKE:
        return None
    alike = [peer for peer in scene.peers() if _computes_the_same(peer, scene.facts)]
    better = [peer for peer in alike if peer.device_time_us and _beats(peer, scene.facts)]
    best = min(better, key=lambda peer: peer.device_time_us or 0.0, default=None)
    return Faster(best, own, best.device_time_us or 0.0) if best else None


def _computes_the_same(peer: CaseFacts, facts: CaseFacts) -> bool:
    """Whether both were compared with float64, about as well, give as much, and do it by other kernels.

    Variants of a training step may do more than others, and none of them is compared with float64.
    """
    mine, theirs = facts.relative_error, peer.relative_error
    if mine is None or theirs is None or theirs > MOST_ERROR * mine or peer.output_bytes != facts.output_bytes:
        return False
    own, other = (Counter(a.name for a in each.activities if a.category == "kernel") for each in (facts, peer))
    return own != other


def _beats(peer: CaseFacts, facts: CaseFacts) -> bool:
    own, other = device_span(facts), device_span(peer)
    if own is None or other is None or own.low_us < FASTER_FROM * other.high_us:
        return False
    mine, theirs = forward_span(facts), forward_span(peer)
    return mine is None or theirs is None or theirs.high_us < mine.low_us


def _one_row(group: Sequence[Finding]) -> str:
    """All that the same peer is faster than, the slowest first."""
    slowest_first = sorted(group, key=lambda finding: -(finding.time_us or 0.0))
    each = ", ".join(f"{finding.case} {finding.subject}" for finding in slowest_first)
    return f"{in_cases(group)} take more device time than {group[0].theme} for the same work. They are {each}."


@rule(
    "slower-than-peer",
    "a comparable case of the same workload, with other kernels and at most twice the error, takes less device time by "
    "a factor of 1.5 or more in every process",
    _one_row,
)
def slower_than_peer(scene: Scene) -> Iterator[Finding]:
    """The whole difference of device times, for which the other rules name parts and reasons.

    How exactly both compute stands beside.
    """
    faster = faster_peer(scene)
    if faster is None:
        return
    facts, peer, times = scene.facts, faster.peer, f"{significant(faster.ratio)} x"
    text = f"{peer.case} does the same in {duration(faster.peer_us)} of device time; here it is {times} that"
    if facts.forward_time_us and peer.forward_time_us:
        text += (
            f", and an unprofiled forward takes {duration(facts.forward_time_us)} against "
            f"{duration(peer.forward_time_us)}"
        )
    theirs, own = error(peer.relative_error), error(facts.relative_error)
    shared = f"{peer.case} ({duration(faster.peer_us)}, error against float64 {theirs})"
    longest = max(peer.activities, key=lambda activity: activity.duration_us)
    evidence = f"{duration(faster.own_us)} against {duration(faster.peer_us)} of device time in {peer.case}"
    share = part(faster.saved_us, faster.own_us)
    yield Finding(
        "slower-than-peer", severity(share), faster.saved_us, share, evidence,
        f"Compute it as {peer.case} does, whose longest kernel is of {maker(longest)}.",
        f"{text}. Error against float64: {theirs} there, {own} here.", of=DEVICE, kind=RECOVERABLE, theme=shared,
        subject=f"{times} (error {own})",
    )  # fmt: skip
