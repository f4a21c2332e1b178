"""A guess about a block of code, checked with torch.profiler: `with kernelbook.expect(kernels=5): model(x)`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelbook.api.strip import strip_text
from kernelbook.text.suggestions import near_miss

if TYPE_CHECKING:
    from kernelbook.cases import CaseFacts
    from kernelbook.judge.expectations import Judgement

RANGE = "kernelbook.expect"


class BrokenGuess(AssertionError):  # noqa: N818
    """The block ran something other than the guess; the message lists what it ran."""


class NotJudged(RuntimeError):  # noqa: N818
    """A guess could not be judged: a number of kernels without a GPU, or a block inside another profiler."""


class Result:
    """What the block of `expect` ran; empty until the block ends."""

    facts: CaseFacts | None = None
    judgements: Sequence[Judgement] = ()

    @property
    def kernels(self) -> int | None:
        """Kernels that the block ran; None until it ends, or if the trace has no device activity."""
        return self.facts.kernels if self.facts else None

    def __str__(self) -> str:
        return strip_text(self.facts) if self.facts else "the block has not ended"


@contextmanager
def expect(**guess: Any) -> Iterator[Result]:
    """Profile the block and check a guess about it, in the words of `expect:` in config.yaml: kernels=5, memcpys=0.

    Call the code once before the block, so that torch's work at a first call is not counted. The block is one forward;
    kernels of a backward pass inside it count. Needs torch. Raises BrokenGuess if a word does not hold, NotJudged if
    one cannot be judged, ValueError for an unknown word or value. Exceptions of the block are passed on.
    """
    _check(guess)
    result = Result()
    with tempfile.TemporaryDirectory(prefix="kernelbook-") as folder:
        trace = Path(folder) / "trace.json"
        with _profiled(trace):
            yield result
        result.facts, result.judgements = judge_trace(trace, guess, RANGE)
    raise_broken(result)


@contextmanager
def _profiled(trace: Path) -> Iterator[None]:
    """Profile the block as one range and write its trace; work queued earlier is finished first."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise NotJudged("kernelbook.expect needs torch: install it in this environment") from error

    if torch.autograd._profiler_enabled():
        raise NotJudged("another torch.profiler is running, and torch runs one at a time: end it before the block")
    on_gpu = torch.cuda.is_available()
    activity = torch.profiler.ProfilerActivity
    synchronize = torch.cuda.synchronize if on_gpu else _nothing
    synchronize()
    with torch.profiler.profile(activities=[activity.CPU, *([activity.CUDA] if on_gpu else [])]) as profiler:
        with torch.profiler.record_function(RANGE):
            yield
        synchronize()
    profiler.export_chrome_trace(str(trace))


def _nothing() -> None:
    """A CPU has nothing to wait for."""


def judge_trace(trace: Path, guess: Mapping[str, Any], annotation: str | None) -> tuple[CaseFacts, list[Judgement]]:
    """The forward of a trace, and each word of the guess judged on it. Raises NotJudged if it cannot be read."""
    from kernelbook.api.trace import facts_of_trace
    from kernelbook.judge.expectations import judge

    facts, _ = facts_of_trace(trace, annotation)
    if facts.status != "ok":
        raise NotJudged(facts.reason or f"{trace}: cannot be read")
    return facts, judge("expect", guess, facts, {"trace": facts})


def raise_broken(result: Result) -> None:
    """Raise BrokenGuess if a word was broken, else NotJudged if one could not be judged."""
    broken = [judged for judged in result.judgements if judged.broken]
    if broken:
        lines = [f"{judged.word}: guessed {judged.expected}, saw {judged.observed}" for judged in broken]
        raise BrokenGuess("\n".join([*lines, str(result)]))
    undecided = [judged for judged in result.judgements if not judged.held]
    if undecided:
        why = "; ".join(f"{judged.word}: {judged.observed}" for judged in undecided)
        raise NotJudged(f"not judged: {why}")


def _check(guess: Mapping[str, Any]) -> None:
    """Raise ValueError for a guess without words, and for unknown words and values."""
    from jsonschema import Draft202012Validator

    from kernelbook.judge.expectations import vocabulary

    words = vocabulary()
    if not guess:
        raise ValueError("expect: no guess: say for instance kernels=5")
    for name, value in guess.items():
        if name not in words:
            raise ValueError(f"expect: unknown word {name!r}: {near_miss(name, words)}")
        if not Draft202012Validator(words[name].schema).is_valid(value):
            raise ValueError(f"expect: {name}: must be {words[name].schema['must']}, got {value!r}")
