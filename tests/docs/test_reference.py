"""The generated pages are current, and what they are made from fits what the code really writes."""

import json
import sys

import jsonschema
import pytest
import yaml

from kernelbook.cli import COMMANDS as CLI_COMMANDS
from kernelbook.reference import reference_pages
from kernelbook.reference.commands import help_of
from kernelbook.reference.tables_page import described, edition_tables
from tests.helpers import ROOT

COMMANDS = sorted(path.name for path in (ROOT / "scripts").glob("*.py"))


@pytest.fixture(scope="module")
def made():
    return reference_pages(ROOT)


PAGES = ["config.md", "guesses.md", "findings.md", "tables.md", "summary.md", "trace-json.md", "commands.md"]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(made, name):
    if name == "commands.md" and sys.version_info[:2] != (3, 11):
        pytest.skip("argparse words its help differently in other versions of Python")
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == made[name], "run python scripts/reference_docs.py"


def test_every_key_of_the_shipped_configuration_is_in_the_reference(made):
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    keys = {f"cases.<name>.{key}" for case in shipped["cases"].values() for key in case}
    keys |= {f"runs.<name>.{key}" for run in shipped["runs"].values() for key in run}
    keys |= {key for key, value in shipped.items() if not isinstance(value, dict)}
    assert {key for key in keys if f"`{key}`" not in made["config.md"]} == set()


def test_every_word_of_a_shipped_guess_is_in_the_reference(made):
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    words = {word for case in shipped["cases"].values() for word in case.get("expect", {})}
    assert {word for word in words if f"`{word}`" not in made["guesses.md"]} == set()


def test_nothing_is_described_that_no_table_has():
    found = edition_tables(ROOT)
    columns = {(name, column) for name, table in found.items() for column in table.column_names}
    told = {(name, column) for name, about in described()["tables"].items() for column in about["columns"]}
    assert told <= columns


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_of_itself(command):
    text = help_of(ROOT / "scripts", [command])
    assert "Example" in text
    assert f"python scripts/{command}" in text


@pytest.mark.parametrize("command", CLI_COMMANDS)
def test_every_subcommand_shows_an_example_and_its_exit_statuses(command):
    text = help_of(ROOT / "scripts", [command])
    assert f"  kernelbook {command} " in text.partition("Example")[2]
    assert "Exit status: 0" in text
    assert command in help_of(ROOT / "scripts", [])


def test_summary_json_of_the_example_report_fits_its_schema():
    schema = json.loads((ROOT / "scripts/kernelbook/report/summary.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    example = ROOT / "reports/example/summary.json"
    if not example.is_file():
        pytest.skip("no example report: make example")
    summary = json.loads(example.read_text(encoding="utf-8"))
    jsonschema.validate(summary, schema)
    assert summary["cases"]
    assert summary["expectations"]
