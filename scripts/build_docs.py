"""Build the docs as a site: README.md, and every page and file that it leads to. Needs mkdocs-material.

The pages are copied with their folders into --source, so that the links of the repository work in the site as they are.
The menu has the links of docs/README.md, in its order.

Example:
  python scripts/build_docs.py --source .cache/docs --output docs-site
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from kernelbook.command import run

HOME = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#]+)")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site and return the exit status of mkdocs: 1 if a link is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="folder for the copied pages; replaced as a whole")
    parser.add_argument("--output", type=Path, required=True, help="folder of the site; replaced as a whole")
    args = parser.parse_args(argv)
    shutil.rmtree(args.source, ignore_errors=True)
    for file in sorted(linked_files([HOME / "README.md"])):
        copy = args.source / file.relative_to(HOME)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    index = (HOME / "docs" / "README.md").read_text(encoding="utf-8")
    settings = {"INHERIT": str(HOME / "mkdocs.yml"), "docs_dir": str(args.source.resolve()), "nav": menu(index)}
    config = args.source.with_suffix(".yml")
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(args.output.resolve())]
    return subprocess.call([*command, "--config-file", str(config)], env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def menu(index: str) -> list[dict[str, Any]]:
    """The menu of mkdocs from docs/README.md: its links to pages, below the bold line that they follow."""
    top: list[dict[str, Any]] = [{"Kernelbook": "README.md"}, {"Docs": "docs/README.md"}]
    items = top
    for line in index.splitlines():
        if re.fullmatch(r"\*\*[^*]+\*\*", line):
            items = []
            top.append({line.strip("*"): items})
        elif line and not line.startswith(("- ", " ")):
            items = top
        for text, link in re.findall(r"\[([^\]]+)\]\(([^)\s#]+\.md)", line):
            title = text.replace("`", "")
            title = title if "." in title.split()[0] else title[:1].upper() + title[1:]
            items.append({title: os.path.normpath(f"docs/{link}")})
    return top


def linked_files(pages: Iterable[Path]) -> set[Path]:
    """The pages, and all files of the project that they lead to, directly or through other pages."""
    reached: set[Path] = set()
    ahead = list(pages)
    while ahead:
        file = ahead.pop()
        if file not in reached:
            reached.add(file)
            ahead += _links(file) if file.suffix == ".md" else []
    return reached


def _links(page: Path) -> Iterator[Path]:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / unquote(link)).resolve()
        if "://" not in link and file.is_file() and file.is_relative_to(HOME):
            yield file


if __name__ == "__main__":
    sys.exit(run(main))
