"""Write the generated files: the reference pages of the docs, and the JSON schemas.

Examples:
  python scripts/reference_docs.py            write docs/reference/ and the JSON schemas
  python scripts/reference_docs.py --check    list the files that are out of date

Exit status: 0 all current, 1 with --check if a file is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.judge.expectations import expect_schema
from kernelbook.reference import reference_pages
from kernelbook.reference.json_schemas import schema_files

HOME = Path(__file__).resolve().parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; list the files that are out of date")
    args = parser.parse_args(argv)
    files = {f"docs/reference/{name}": text for name, text in reference_pages(HOME).items()}
    files |= schema_files()
    files["workflow/schemas/expect.schema.json"] = json.dumps(expect_schema(), indent=1, ensure_ascii=False) + "\n"
    stale = [name for name, text in files.items() if not _is(HOME / name, text)]
    for name in stale:
        if args.check:
            print(f"{name}: out of date: run python scripts/reference_docs.py", file=sys.stderr)
        else:
            (HOME / name).write_text(files[name], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if stale and args.check else 0


def _is(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(run(main))
