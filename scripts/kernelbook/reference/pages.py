"""docs/reference/config.md, guesses.md, findings.md and commands.md: from the schemas, the rules and the help texts."""

from __future__ import annotations

import io
import json
import os
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from kernelbook.cli import COMMANDS
from kernelbook.config.errors import TYPE_NAMES, config_schema
from kernelbook.judge.expectations import expect_schema
from kernelbook.judge.findings import rules

Schema = Mapping[str, Any]
INTRO = """# config.yaml

Every key, what it may hold and what it means. Unknown keys are errors, and all errors are reported together, before
anything runs. `<name>` stands for a name of your choice.

On the command line: `--config edition=NAME only_runs=a,b only_cases=x,y retry_failed=true`.

"""
GUESSES = """# Guesses

The words under `expect:` of a case, each judged against the trace: confirmed, broken, or not applicable (on a CPU,
for instance, there are no kernels to count). A word without a value is not judged.

A count must hold in every forward, a figure in every process, a comparison of times or memory in every pair of
processes of the two cases. If only some agree, the guess is not applicable, and the judgement says how many. Times
within 3 % are about equal: neither slower nor faster.

A guess that a name is absent (`ops_absent`, `activity_names_absent`, `op_counts` of 0) also holds for a misspelled
name. If the name occurs nowhere in the run, the judgement suggests a similar name that does.

"""


def config_page(schemas: Path) -> str:
    whole = Resolver(schemas, config_schema(schemas))
    top = [key for key, value in whole.root["properties"].items() if not _is_section(whole.follow(value))]
    parts = [INTRO, "## Top level\n\n", _keys(whole, "", {key: whole.root["properties"][key] for key in top})]
    for key, value in whole.root["properties"].items():
        section = whole.follow(value)
        if key not in top:
            parts.append(f"\n## {key}\n\n{_about(section)}\n\n")
            parts.append(
                _keys(whole, f"{key}.", section.get("properties") or {"<name>": section["additionalProperties"]})
            )
    return "".join(parts)


def guesses_page(schemas: Path) -> str:
    schema = expect_schema()
    whole = Resolver(schemas, schema)
    words = schema["properties"].items()
    rows = [(f"`{word}`", _kind(whole.follow(value)), _about(whole.follow(value))) for word, value in words]
    return GUESSES + table(("word", "value", "meaning"), rows)


class Resolver:
    """Follows `$ref` within one schema and to the files beside it."""

    def __init__(self, schemas: Path, root: Schema) -> None:
        self.root = root
        self._files = {
            path.name: json.loads(path.read_text(encoding="utf-8")) for path in schemas.glob("*.schema.json")
        }

    def follow(self, schema: Schema) -> Schema:
        """The schema itself, or the target of its reference, overridden by its own keys."""
        reference = schema.get("$ref")
        if reference is None:
            return schema
        file, _, pointer = reference.partition("#")
        target: Any = self._files[file] if file else self.root
        for part in filter(None, pointer.split("/")):
            target = target[part]
        return {**self.follow(target), **{key: value for key, value in schema.items() if key != "$ref"}}


def _is_section(schema: Schema) -> bool:
    return "properties" in schema or isinstance(schema.get("additionalProperties"), Mapping)


def _keys(whole: Resolver, prefix: str, properties: Mapping[str, Schema]) -> str:
    rows = list(_rows(whole, prefix, properties))
    return table(("key", "value", "default", "meaning"), rows)


def _rows(whole: Resolver, prefix: str, properties: Mapping[str, Schema]) -> Iterator[tuple[str, str, str, str]]:
    for name, value in properties.items():
        schema = whole.follow(value)
        path = prefix + name
        if path.endswith(".expect"):
            yield f"`{path}`", "a map", "", f"{_about(schema)} See [guesses](guesses.md)."
            continue
        inner = schema.get("properties")
        if not inner or name != "<name>":
            default = inline(schema["default"]) if "default" in schema else ""
            yield f"`{path}`", _kind(schema), default, _about(schema)
        if inner:
            shared = whole.root["$defs"]["measure"]["properties"] if name == "<name>" else {}
            inner = dict(sorted(inner.items(), key=lambda item: item[0] in shared))  # its own keys first
            yield from _rows(whole, f"{path}.", inner)


def _about(schema: Schema) -> str:
    return str(schema.get("description", ""))


def _kind(schema: Schema) -> str:
    if "must" in schema:
        return str(schema["must"])
    if "const" in schema:
        return inline(schema["const"])
    if "enum" in schema:
        return ", ".join(inline(value) for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "object" if "properties" in schema else [])
    kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    words = " or ".join(TYPE_NAMES[kind] for kind in kinds) or "anything"
    limits = [f"{word} {schema[key]}" for key, word in LIMITS.items() if key in schema]
    return ", ".join([words, *limits])


LIMITS = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}


# --- tables ----------------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """Text that can neither leave its table cell nor be read as HTML."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines) + "\n"


def inline(value: Any) -> str:
    """A value as one line of YAML, formatted as code."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("\n...").strip()
    return f"`{text}`"


# --- findings --------------------------------------------------------------------------------------------------------


FINDINGS = """# Findings

Each rule checks the representative forward of a case for the condition below. The severity is `high` from 20 % of the
forward's time, `medium` from 5 %, `low` below, and `info` for facts that are no problem. A finding has evidence, a
remedy and, if known, its cost. A rule is a function in `scripts/kernelbook/judge/findings/` and a test.

`kind` is the kind of its time: `recoverable`, time that the remedy could save; `spent`, time that went there; `note`,
no time. Times of findings may overlap (`slower-than-peer` contains the times of other findings), so do not add them
up. If the processes of a case differ by more than 20 %, the text has their range, and the shortest time determines
the order. Equal findings of several cases of a run are merged: the merged finding belongs to the case with the
highest cost, has that case's time, and lists all cases in `cases`.

"""


def findings_page() -> str:
    rows = [
        (f"`{rule.name}`", rule.condition[:1].upper() + rule.condition[1:] + ".") for _, rule in sorted(rules().items())
    ]
    return FINDINGS + table(("rule", "condition"), rows)


# --- commands --------------------------------------------------------------------------------------------------------


COMMANDS_INTRO = """# Commands

Output of `--help` for each command. `pip install .` gives the command `kernelbook`, and `make setup` puts it into
`.venv/bin`. The scripts are what the workflow calls; `profile_case.py` and
those for nights are also useful on their own. An error is one line; `KERNELBOOK_TRACEBACK=1` in the environment shows
the traceback.

"""
SAME = {"summarize_trace.py": "summarize", "kernel_name.py": "name"}
WIDTH = "100"


def commands_page(scripts: Path) -> str:
    """The help of `kernelbook`, of its subcommands, and of every script in the folder, by name."""
    parts = [
        COMMANDS_INTRO,
        _part("kernelbook", help_of(scripts, [])),
        *(_subcommand(scripts, name) for name in COMMANDS),
    ]
    for script in sorted(scripts.glob("*.py")):
        if script.name in SAME:
            parts.append(f"## {script.name}\n\n`kernelbook {SAME[script.name]}` without an installation.\n\n")
        else:
            parts.append(_part(script.name, help_of(scripts, [script.name])))
    return "".join(parts).rstrip("\n") + "\n"


def _subcommand(scripts: Path, name: str) -> str:
    return _part(f"kernelbook {name}", help_of(scripts, [name]))


def _part(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n\n"


def help_of(scripts: Path, words: Sequence[str]) -> str:
    """Output of --help in a terminal of fixed width. words: a script of the folder, or words after `kernelbook`.

    It is run in this process, because a new one would spend most of its time on imports that all commands share.
    """
    program, *rest = words if words and words[0].endswith(".py") else ["kernelbook", *words]
    fixed = {"COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHON_COLORS": "0"}
    printed = io.StringIO()
    with (
        patch.dict(os.environ, fixed),
        patch.object(sys, "argv", [str(scripts / program), *rest, "--help"]),
        patch.object(sys, "excepthook"),
        redirect_stdout(printed),
        suppress(SystemExit),
    ):
        if program == "kernelbook":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(scripts / program), run_name="__main__")
    return printed.getvalue().rstrip()
