"""docs/reference/commands.md: the help text of each command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INTRO = """# Commands

Output of `--help` for each command. The workflow calls most of them; `summarize_trace.py`, `profile_case.py` and the
commands for nights are also useful on their own. An error is one line; `KERNELBOOK_TRACEBACK=1` in the environment
shows the traceback.

"""
WIDTH = "100"


def commands_page(scripts: Path) -> str:
    """The help of every command in the folder, in the order of names."""
    parts = [INTRO]
    for script in sorted(scripts.glob("*.py")):
        parts.append(f"## {script.name}\n\n```text\n{help_of(script)}\n```\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def help_of(script: Path) -> str:
    """Output of --help in a terminal of fixed width."""
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHON_COLORS": "0"}
    done = subprocess.run(
        [sys.executable, script, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip()
