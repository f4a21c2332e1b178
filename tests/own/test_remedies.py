"""The reason of a failure taken apart into what happened and what to do."""

from __future__ import annotations

import pytest

from kernelbook.text.remedies import fact_and_remedy
from workloads.harness import failures

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 GiB"
MISSING = "ModuleNotFoundError: No module named 'liger_kernel'"


@pytest.mark.parametrize("rule", failures.RULES, ids=lambda rule: rule.fact)
def test_every_remedy_of_a_measurement_is_found_behind_its_fact(rule: failures._Rule) -> None:
    """Colons inside parentheses belong to the exception's own words."""
    fact = f"{rule.fact} during the first forward (KeyError: use: 'x')"
    remedy = f"{rule.remedy[0].upper()}{rule.remedy[1:]}."
    assert fact_and_remedy(failures.Failure("failed", fact, rule.remedy).reason) == (fact, remedy)


@pytest.mark.parametrize("reason", [failures.from_time_limit(300, None), failures.from_signal(9, None, []),
                                    failures.from_signal(6, None, []), failures.from_removed(["a"])])  # fmt: skip
def test_those_of_a_stopped_process_are_found_too(reason: failures.Failure) -> None:
    fact, remedy = fact_and_remedy(reason.reason)
    assert fact == reason.fact
    assert remedy.lower().rstrip(".") == reason.remedy.lower()


@pytest.mark.parametrize(
    ("reason", "begins"),
    [(OOM, "Use smaller params"), (MISSING, "Install the package"), ("timed out after 300 s", "Raise timeout_s")],
)
def test_a_bare_exception_has_a_known_remedy(reason: str, begins: str) -> None:
    fact, remedy = fact_and_remedy(reason)
    assert fact == reason
    assert remedy.startswith(begins)


def test_what_nobody_knows_has_none() -> None:
    assert fact_and_remedy("RuntimeError: shapes differ: 3 and 4") == ("RuntimeError: shapes differ: 3 and 4", "")
