"""Hostile names of cases and reasons in what a comparison writes: text, Markdown and JSON only show them."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from kernelbook.compare.output import as_json, markdown, text
from kernelbook.compare.result import CaseResult, ComparisonResult
from kernelbook.compare.subjects import Subject
from kernelbook.judge.paired import PairedRatio, Precision
from tests.helpers import ROOT
from tests.helpers.hostile import HOSTILE

HIDDEN = "\u202egnp.exe\u202c\x1b[2J\x00"


@pytest.fixture
def result() -> ComparisonResult:
    cases = [
        CaseResult(name, "failed", PairedRatio(1.0, None, None, 1), (), (f"B failed: {name}{HIDDEN}",))
        for name in (*HOSTILE, HIDDEN)
    ]
    sides = (Subject("A", f"x.py:{HOSTILE[0]}", "workload"), Subject("B", f"x.py:{HIDDEN}", "workload"))
    return ComparisonResult(*sides, tuple(cases), None, Precision())


def test_the_terminal_gets_a_line_for_each_case_and_nothing_that_moves_it(result: ComparisonResult) -> None:
    lines = text(result).split("\n")
    assert len(lines) == 2 + len(result.cases)
    assert not any(character in line for line in lines for character in HIDDEN[:1] + "\x1b\x00\r")


def test_markdown_has_a_row_for_each_case_and_no_element(result: ComparisonResult) -> None:
    made = markdown(result)
    rows = [line for line in made.split("\n") if line.startswith("|")]
    assert len(rows) == 2 + len(result.cases)
    assert {row.replace("\\|", "").count("|") for row in rows} == {8}  # seven columns
    assert set(re.findall(r"<\s*/?\s*([a-zA-Z]+)", made)) == {"code"}  # Kernelbook's own
    assert "\u202e" not in made
    assert "\x1b" not in made


def test_json_is_strict_and_keeps_the_names(result: ComparisonResult) -> None:
    schema = json.loads((ROOT / "scripts/kernelbook/compare/compare.schema.json").read_text(encoding="utf-8"))
    made = json.dumps(as_json(result), allow_nan=False)
    jsonschema.validate(json.loads(made), schema)
    assert [case["case"] for case in json.loads(made)["cases"]] == [*HOSTILE, HIDDEN]
    assert not [character for character in made if ord(character) < 32]
