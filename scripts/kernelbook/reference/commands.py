"""docs/reference/commands.md: what each command says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INTRO = """# Commands

What each command of the project prints for `--help`. The workflow calls most of them; `summarize_trace.py`,
`profile_case.py` and the ones for nights are of use by themselves. An error is one line; `KERNELBOOK_TRACEBACK=1` in
the environment shows where it happened.

"""
WIDTH = "100"


def commands_page(scripts: Path) -> str:
    """The help of every command in the folder, in the order of names."""
    parts = [INTRO]
    for script in sorted(scripts.glob("*.py")):
        parts.append(f"## {script.name}\n\n```text\n{help_of(script)}\n```\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def help_of(script: Path) -> str:
    """What the command prints for --help in a terminal of fixed width."""
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHON_COLORS": "0"}
    done = subprocess.run(
        [sys.executable, script, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip()
