"""Guesses: the words of ``expect:`` in config.yaml, judged against a case of a run.

`vocabulary` has every word. `expect_schema` is the JSON schema of an ``expect:`` block, stored in
``workflow/schemas/expect.schema.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import Ceilings, ceilings_of
from kernelbook.judge.expectations import (  # noqa: F401 - they define the words
    figures,
    kernel_guesses,
    ops,
    other_cases,
)
from kernelbook.judge.expectations.vocabulary import (
    BROKEN,
    CONFIRMED,
    DEVICE_KEYS,
    NOT_APPLICABLE,
    Judgement,
    Observation,
    RunFacts,
    Word,
    unknown_word,
    value_text,
    vocabulary,
)

__all__ = [
    "BROKEN",
    "CONFIRMED",
    "NOT_APPLICABLE",
    "Judgement",
    "expect_schema",
    "judge",
    "judge_checked",
    "vocabulary",
    "words_for",
]


def judge(
    case_id: str,
    expect: Mapping[str, Any],
    facts: CaseFacts,
    others: Mapping[str, CaseFacts],
    ceilings: Ceilings | None = None,
) -> list[Judgement]:
    """`judge_checked`, for values that no schema has checked yet. Raises ValueError for an invalid one."""
    from jsonschema import Draft202012Validator  # takes longer to import than to judge the cases of an edition

    words = vocabulary()
    for name, value in words_for(expect, facts).items():
        if name in words and not Draft202012Validator(words[name].schema).is_valid(value):
            raise ValueError(f"cases.{case_id}.expect.{name}: must be {words[name].schema['must']}, got {value!r}")
    return judge_checked(case_id, expect, facts, others, ceilings)


def judge_checked(
    case_id: str,
    expect: Mapping[str, Any],
    facts: CaseFacts,
    others: Mapping[str, CaseFacts],
    ceilings: Ceilings | None = None,
) -> list[Judgement]:
    """Judge every word of ``expect``, in its order.

    ``others``: the cases of the same run by name. ``ceilings``: those of its device, by default from its cases. Words
    about the device are not applicable if the trace has no device activity. Raises ValueError for an unknown word.
    """
    vocabulary_words = vocabulary()
    run = RunFacts(others, ceilings_of(others) if ceilings is None else ceilings)
    judgements = []
    for name, value in words_for(expect, facts).items():
        where = f"cases.{case_id}.expect"
        if name not in vocabulary_words:
            raise ValueError(unknown_word(name, where))
        try:
            observation = _observe(vocabulary_words[name], value, facts, run)
        except ValueError as error:
            raise ValueError(f"{where}.{name}: {error}") from error
        verdict = {True: CONFIRMED, False: BROKEN, None: NOT_APPLICABLE}[observation.held]
        judgements.append(
            Judgement(
                facts.run, facts.case, name, value_text(value), observation.observed, verdict, observation.evidence
            )
        )
    return judgements


def words_for(expect: Mapping[str, Any], facts: CaseFacts) -> dict[str, Any]:
    """The words that apply to this device: common ones, then those under cuda or cpu, then those under smXY.

    A word under a device replaces the common one; null removes it.
    """
    keys = [facts.device_type] if facts.device_type in ("cuda", "cpu") else []
    if facts.capability:
        keys.append("sm" + facts.capability.replace(".", ""))
    words = {name: value for name, value in expect.items() if name not in DEVICE_KEYS}
    for key in keys:
        words |= expect.get(key) or {}
    return {name: value for name, value in words.items() if value is not None}


def _observe(word: Word, value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    if facts.status != "ok":
        what = "is unsupported" if facts.status == "unsupported" else facts.status
        return Observation(None, f"the case {what}", f"the case {what}: {facts.reason or 'no reason given'}")
    if word.needs_device and not facts.on_device:
        where = "a CPU run" if facts.device_type == "cpu" else "the trace"
        return Observation(None, "nothing ran on a GPU", f"{where} has no device activities")
    if facts.representative is None:
        return Observation(None, "no forward", "the trace has no forward of this case")
    return word.look(value, facts, run)


def expect_schema() -> dict[str, Any]:
    """The JSON schema of an ``expect:`` block; ``must`` describes the valid values in words."""
    words = {
        name: {"description": word.means, **word.schema, "type": _with_null(word.schema)}
        if "type" in word.schema
        else {"description": word.means, "enum": [*word.schema["enum"], None], "must": word.schema["must"]}
        for name, word in vocabulary().items()
    }
    override = {"$ref": "#/$defs/words"}
    devices = {key: {"description": f"Guesses that hold on {_device(key)} only.", **override} for key in DEVICE_KEYS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "expect",
        "description": "What was guessed about a case before anybody looked; judged by every run of it.",
        "type": "object",
        "additionalProperties": False,
        "properties": {**{name: {"$ref": f"#/$defs/words/properties/{name}"} for name in words}, **devices},
        "$defs": {"words": {"type": "object", "additionalProperties": False, "properties": words}},
    }


def _with_null(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema["type"]
    return [*([kinds] if isinstance(kinds, str) else kinds), "null"]


def _device(key: str) -> str:
    if key in ("cuda", "cpu"):
        return "a CUDA device" if key == "cuda" else "the CPU"
    return f"compute capability {key[2:-1]}.{key[-1]}"
