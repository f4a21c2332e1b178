"""docs/reference/commands.md: the help text of each command."""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

from kernelbook.cli import COMMANDS

INTRO = """# Commands

Output of `--help` for each command. `pip install .` gives the command `kernelbook`, and `make setup` puts it into
`.venv/bin`. The scripts are what the workflow calls; `profile_case.py` and
those for nights are also useful on their own. An error is one line; `KERNELBOOK_TRACEBACK=1` in the environment shows
the traceback.

"""
SAME = {"summarize_trace.py": "summarize", "kernel_name.py": "name"}
WIDTH = "100"


def commands_page(scripts: Path) -> str:
    """The help of `kernelbook`, of its subcommands, and of every script in the folder, in the order of names."""
    parts = [INTRO, _part("kernelbook", help_of(scripts, [])), *(_subcommand(scripts, name) for name in COMMANDS)]
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

    It is run in this process, because most of a new one's time is imports that all commands share.
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
