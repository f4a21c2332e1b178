"""Inductor's output code of compiled cases, as text files beside the page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kernelbook.edition.model import Edition
from kernelbook.judge.fusions import read_code
from kernelbook.report.attached_traces import find
from kernelbook.text.credentials import secrets_in
from kernelbook.text.formatting import slug
from kernelbook.text.scrubbing import Scrubber

CodeLinks = Mapping[tuple[str, str], str]


def place(edition: Edition, folder: Path, output: Path) -> CodeLinks:
    """Write the code of each case to `output` without credentials and machine paths; (run, case) -> its path there.

    folder: of the edition; paths may be relative to it. The names end in .txt, so that browsers show the files.
    """
    links: dict[tuple[str, str], str] = {}
    scrub = Scrubber(secrets=secrets_in(os.environ))
    for row in edition.case_runs:
        file = find(folder, row.output_code) if row.output_code else None
        code = read_code(str(file)) if file else ""
        if code:
            relative = Path("code") / slug(row.run) / f"{slug(row.case)}.py.txt"
            (output / relative).parent.mkdir(parents=True, exist_ok=True)
            (output / relative).write_text(scrub.text(code), encoding="utf-8")
            links[row.key] = relative.as_posix()
    return links
