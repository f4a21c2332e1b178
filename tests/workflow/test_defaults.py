"""The defaults on both sides of the wall, which import nothing of each other, and in the schema that users read."""

import yaml

from kernelbook.config.defaults import MEASURE_DEFAULTS
from workloads.harness.case_file import DEFAULTS


def test_a_case_file_has_the_defaults_of_the_configuration():
    assert {key: DEFAULTS[key] for key in MEASURE_DEFAULTS} == MEASURE_DEFAULTS


def test_the_schema_tells_the_defaults_that_hold(root):
    schema = yaml.safe_load((root / "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8"))
    told = schema["$defs"]["measure"]["properties"]
    steps = {key: part["default"] for key, part in told["schedule"]["properties"].items()}
    flat = {key: told[key]["default"] for key in MEASURE_DEFAULTS if key != "schedule"}
    assert flat | {"schedule": steps} == MEASURE_DEFAULTS
