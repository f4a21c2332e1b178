"""What a forward computes: a result that lies far from its reference makes its times those of something else."""

from __future__ import annotations

from collections.abc import Iterator

from kernelbook.judge.findings.rules import Finding, Scene, rule

#: Bounds of the relative error for measurements that do not state their own; float32 may have used TF32.
BOUNDS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 5e-3, "float64": 1e-10}


@rule("wrong-result", "a result whose relative error against float64 is above the bound of the case or its dtype")
def wrong_result(scene: Scene) -> Iterator[Finding]:
    """The bound is `max_relative_error`, or one for the dtype: about five times the spacing of its numbers near 1."""
    facts = scene.facts
    bound = BOUNDS.get(facts.dtype or "") if facts.error_bound is None else facts.error_bound
    if facts.relative_error is None or bound is None or facts.relative_error <= bound:
        return
    text = (
        f"The result is far from its reference: its relative error is {facts.relative_error:.2g}, and up to "
        f"{bound:.2g} is taken for rounding in {facts.dtype}. The times may be those of a wrong computation."
    )
    remedy = (
        "Compare the forward with its reference on small inputs; where such an error is meant, set max_relative_error."
    )
    evidence = f"relative error {facts.relative_error:.3g} against a float64 reference, bound {bound:.3g}"
    yield Finding("wrong-result", "high", None, None, evidence, remedy, text)
