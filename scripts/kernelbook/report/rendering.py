"""Renders all files of a report and replaces the previous report by them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from kernelbook.edition.model import read_edition
from kernelbook.report import attached_traces, markdown_page, output_code, page, summary_json
from kernelbook.text.table_files import write_tables


def render_report(edition_dir: Path, output: Path, created_utc: str | None = None) -> None:
    """Render the edition in `edition_dir` into the folder `output`, and replace its content.

    The files are written to a temporary folder first, so that readers never see an incomplete report.
    created_utc: replaces the edition's time, for reproducible files. Raises EditionError if the edition cannot be read.
    """
    edition = read_edition(edition_dir)
    created = created_utc or edition.created_utc
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as scratch:
        made = Path(scratch) / "report"
        made.mkdir(mode=0o755)
        (made / "figures").mkdir()
        links = attached_traces.place(edition, edition_dir, made)
        code = output_code.place(edition, edition_dir, made)
        (made / "index.html").write_text(page.render(edition, created, links, code), encoding="utf-8")
        for name, text in markdown_page.render(edition, created, made).items():
            (made / name).write_text(text, encoding="utf-8")
        (made / "summary.json").write_text(summary_json.dumps(summary_json.summary(edition, created)), encoding="utf-8")
        write_tables(edition.tables, made / "tables")
        _put_in_place(made, output, Path(scratch) / "old")


def _put_in_place(made: Path, output: Path, aside: Path) -> None:
    if output.is_symlink() or output.is_file():
        output.unlink()
    elif output.exists():
        output.rename(aside)
    try:
        made.rename(output)
    except OSError:
        if aside.exists():
            aside.rename(output)
        raise
    shutil.rmtree(aside, ignore_errors=True)
