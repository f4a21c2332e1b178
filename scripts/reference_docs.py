"""Write the reference pages of the docs from what they describe: schemas, tables, help texts.

Examples:
  python scripts/reference_docs.py            write docs/reference/
  python scripts/reference_docs.py --check    say which pages are out of date

Exit status: 0 all current, 1 with --check where a page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.reference import reference_pages

HOME = Path(__file__).resolve().parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that are out of date")
    args = parser.parse_args(argv)
    folder = HOME / "docs" / "reference"
    pages = reference_pages(HOME)
    stale = [name for name, text in pages.items() if not _is(folder / name, text)]
    for name in stale:
        if args.check:
            print(f"docs/reference/{name}: out of date: run python scripts/reference_docs.py", file=sys.stderr)
        else:
            (folder / name).write_text(pages[name], encoding="utf-8")
            print(f"wrote docs/reference/{name}")
    return 1 if stale and args.check else 0


def _is(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(run(main))
