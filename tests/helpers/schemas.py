"""Validation against the schemas that ship with the package."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from tests.helpers import ROOT


@cache
def validator(schema: str) -> Draft202012Validator:
    """The validator of a schema, which is checked once. schema: its file below scripts/kernelbook."""
    made = json.loads((ROOT / "scripts/kernelbook" / schema).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def validate(value: Any, schema: str) -> None:
    """Raises jsonschema's ValidationError if the value does not fit. schema: as for `validator`."""
    validator(schema).validate(value)
