"""The generated pages are current, and what they are made from fits what the code really writes."""

import json
import re
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypedDict

import jsonschema
import pytest
import yaml

from kernelbook.cli import COMMANDS as CLI_COMMANDS
from kernelbook.judge.findings import Finding
from kernelbook.reference import reference_pages
from kernelbook.reference.json_schemas import SCHEMAS, json_schema, schema_files
from kernelbook.reference.pages import SAME, help_of
from kernelbook.reference.tables_page import KEYS, TABLE_DOCS, columns_of
from kernelbook.text.meaning import doc, plain
from tests.helpers import ROOT

COMMANDS = sorted(path.name for path in (ROOT / "scripts").glob("*.py"))


@pytest.fixture(scope="module")
def made():
    return reference_pages(ROOT)


def help_texts(made):
    """What --help of each command and script prints, by its title in commands.md."""
    return dict(re.findall(r"^## ([^\n]+)\n\n```text\n(.+?)\n```$", made["commands.md"], re.M | re.S))


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


def test_nothing_is_described_that_no_table_has(made):
    """The page lists the columns of a real edition."""
    tables = dict(re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", made["tables.md"], re.M | re.S))
    assert [*tables] == [*TABLE_DOCS]
    internal = {("findings", name) for name in Finding.INTERNAL}
    for name, table in tables.items():
        documented = {(name, column) for column in columns_of(name) if column not in KEYS}
        assert documented - internal <= {(name, column) for column in re.findall(r"^\| `(\w+)` \|", table, re.M)}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_generated_schema_is_current_and_valid(name):
    file = f"scripts/kernelbook/{name}.schema.json"
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text == schema_files()[file], "run python scripts/reference_docs.py"
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_a_schema_follows_from_the_types_of_the_fields():
    class Part(TypedDict):
        name: Annotated[str | None, doc("Its name.")]
        kind: Annotated[str, doc("", "a", "b")]

    @dataclass
    class Whole:
        INTERNAL: ClassVar = ("hidden",)

        schema: Literal[2]
        parts: Annotated[tuple[Part, ...], doc("All.")]
        hidden: str
        first: Part | None = None
        count: int = 0

    schema = json_schema(Whole, "t", "d")
    part = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "description": "Its name."},
            "kind": {"type": "string", "enum": ["a", "b"]},
        },
        "required": ["name", "kind"],
        "additionalProperties": False,
    }
    assert schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "t",
        "description": "d",
        "type": "object",
        "properties": {
            "schema": {"enum": [2]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}, "description": "All."},
            "first": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
            "count": {"type": "integer", "minimum": 0},
        },
        "required": ["schema", "parts"],
        "additionalProperties": False,
        "$defs": {"Part": part},
    }
    written = Whole(2, ({"name": None, "kind": "a"},), "x")
    assert plain(written) == {"schema": 2, "parts": [{"name": None, "kind": "a"}], "first": None, "count": 0}
    jsonschema.validate(plain(written), schema)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_of_itself(made, command):
    text = help_of(ROOT / "scripts", [command]) if command in SAME else help_texts(made)[command]
    assert "Example" in text
    assert f"python scripts/{command}" in text


@pytest.mark.parametrize("command", CLI_COMMANDS)
def test_every_subcommand_shows_an_example_and_its_exit_statuses(made, command):
    texts = help_texts(made)
    text = texts[f"kernelbook {command}"]
    assert f"  kernelbook {command} " in text.partition("Example")[2]
    assert "Exit status: 0" in text
    assert command in texts["kernelbook"]


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
