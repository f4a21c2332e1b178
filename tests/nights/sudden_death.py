"""A writer that dies, as by kill -9, at every moment at which it touches a file: one death after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.helpers import ROOT

DEAD = 9


def copies_after_deaths(folder: Path, code: str) -> list[Path]:
    """Copies of `folder`, one for each death of a writer in it, and as the last one that which it got through in.

    `code` imports what is needed and defines `act(folder)`. It runs in a process of its own, which has no threads when
    it forks the writers.
    """
    before = f"import sys\nsys.path[:0] = {[str(ROOT), str(ROOT / 'scripts')]!r}\n"
    after = """
from pathlib import Path
from tests.nights.sudden_death import die_everywhere
die_everywhere(act, Path(sys.argv[1]))
"""
    subprocess.run([sys.executable, "-c", before + code + after, folder], check=True)
    found = folder.parent.glob(f"{folder.name}-[0-9]*")
    return sorted(found, key=lambda copy: int(copy.name.removeprefix(f"{folder.name}-")))


def die_everywhere(act: Callable[[Path], object], folder: Path) -> None:
    """Act in copies of the folder: dead before the first touch of a file, before the second, until one gets through."""
    touches = 0
    while True:
        touches += 1
        copy = folder.with_name(f"{folder.name}-{touches}")
        shutil.copytree(folder, copy, symlinks=True)
        writer = os.fork()
        if writer == 0:
            _act_until(act, copy, touches)
        status = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1])
        if status != DEAD:
            assert status == 0, f"the writer failed by itself, with status {status}"
            return


def _act_until(act: Callable[[Path], object], folder: Path, touches: int) -> None:
    """Act, and be gone before touch number `touches`: no `finally`, no flushing, as after SIGKILL."""
    left = touches

    def touched(event: str, _: tuple) -> None:  # Python tells of an act on files before it does it (PEP 578)
        nonlocal left
        if event == "open" or event.startswith(("os.", "shutil.")):
            left -= 1
            if left == 0:
                os._exit(DEAD)

    sys.addaudithook(touched)
    status = 1
    try:
        act(folder)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)
