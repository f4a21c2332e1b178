"""Adds traces to a report: small ones inside the page, others as files beside it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kernelbook.edition.model import Edition
from kernelbook.text.credentials import secrets_in
from kernelbook.text.formatting import slug
from kernelbook.text.scrubbing import Scrubber
from kernelbook.trace import TraceError
from kernelbook.trace.source import Source

EACH_LIMIT = 96 * 1024  # bytes, compressed
PAGE_LIMIT = 48 * 1024  # bytes of all embedded traces together, compressed
PIECE = 1 << 18  # bytes that are scrubbed at once
GZIP = b"\x1f\x8b"

Links = Mapping[tuple[str, str], Mapping[str, str]]


def place(edition: Edition, folder: Path, output: Path, each: int = EACH_LIMIT, page: int = PAGE_LIMIT) -> Links:
    """(run, case) -> {"gz": base64} for an embedded trace, {"href": path} for one that is copied below `output`.

    folder: of the edition; paths of traces may be relative to it. each, page: largest compressed size in bytes of an
    embedded trace, and of all together. The smallest traces are embedded first.
    """
    links: dict[tuple[str, str], Mapping[str, str]] = {}
    left = page
    scrub = Scrubber(secrets=secrets_in(os.environ))
    files = {row.key: find(folder, row.trace_path) for row in edition.case_runs if row.trace_path}
    for _, key, file in sorted((file.stat().st_size, key, file) for key, file in files.items() if file):
        relative = Path("traces") / slug(key[0]) / f"{slug(key[1])}.json.gz"
        copy = output / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            _copy(file, copy, scrub)
        except TraceError:  # such as an empty file; its row gives the reason
            copy.unlink(missing_ok=True)
            continue
        size = copy.stat().st_size
        if size <= min(each, left) and copy.open("rb").read(2) == GZIP:
            left -= size
            links[key] = {"gz": base64.b64encode(copy.read_bytes()).decode("ascii")}
            copy.unlink()
        else:
            links[key] = {"href": relative.as_posix()}
    for empty in (*output.glob("traces/*/"), output / "traces"):
        with contextlib.suppress(OSError):
            empty.rmdir()
    return links


def find(folder: Path, path: str) -> Path | None:
    """A file of a case: the path as it stands, or relative to the edition's folder or to its results."""
    places = (Path(path), folder / path, folder.parent / path)
    return next((place for place in places if place.is_file()), None)


def _copy(file: Path, copy: Path, scrub: Scrubber) -> None:
    """Copy a trace without credentials and paths of the machine; a trace without any is copied byte for byte.

    Of a damaged gzip file the readable part is copied. Raises TraceError if there is none.
    """
    changed = False
    source = Source(file, PIECE)
    with copy.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as target:
        for text in _pieces(source.blocks()):
            clean = scrub.text(text)
            changed = changed or clean != text
            target.write(clean.encode("utf-8", "surrogateescape"))
    if not changed and source.complete and not source.checks:
        shutil.copyfile(file, copy)


def _pieces(blocks: Iterable[bytes]) -> Iterator[str]:
    """The text of a trace in pieces that end with an event, so that no name is cut."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"}") + 1
        if end:
            yield (rest + block[:end]).decode("utf-8", "surrogateescape")
            rest = b""
        rest += block[end:]
    yield rest.decode("utf-8", "surrogateescape")
