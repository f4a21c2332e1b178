"""A trace file as a stream of plain bytes, whatever it is wrapped in."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from kernelbook.trace.model import TraceError

_GZIP = b"\x1f\x8b"
_WINDOW_GZIP = 31  # zlib's wbits for a gzip wrapper
_READ = 1 << 16
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_AT_ONCE = 1 << 16  # plain bytes; where a stream is damaged, at most so many before the damage are lost


class Source:
    """Blocks of a file's plain bytes. `complete` is False after reading when a gzip stream ended too early."""

    def __init__(self, path: Path, block: int) -> None:
        self.path = path
        self.block = block
        self.complete = True

    def blocks(self) -> Iterator[bytes]:
        """Yield non-empty blocks of about `block` bytes.

        Compression is decided by content. Raises TraceError when the file cannot be read or holds nothing, and for
        what is no file: reading a pipe, a socket or a device may never end.
        """
        try:
            if kind := _SPECIAL.get(stat.S_IFMT(self.path.stat().st_mode)):
                raise TraceError(f"{self.path}: is {kind}, not a file: write its content to a file first")
            with self.path.open("rb") as file:
                start = file.read(2)
                if not start:
                    raise TraceError(f"{self.path}: the file is empty; record the trace again")
                if start == _GZIP:
                    yield from self._gathered(self._unzipped(file, start))
                else:
                    while data := start + file.read(self.block):
                        yield data
                        start = b""
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _gathered(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        held: list[bytes] = []
        size = 0
        for part in parts:
            held.append(part)
            size += len(part)
            if size >= self.block:
                yield b"".join(held)
                held, size = [], 0
        if held:
            yield b"".join(held)

    def _unzipped(self, file: BinaryIO, data: bytes) -> Iterator[bytes]:
        """Every member of a gzip file; bytes after the last member that are no member are padding."""
        member = None
        while data := data or file.read(_READ):
            if member is None:
                data = data if len(data) > 1 else data + file.read(_READ)
                if not data.startswith(_GZIP):
                    return
                member = isal_zlib.decompressobj(wbits=_WINDOW_GZIP)
                self.complete = False
            try:
                plain = member.decompress(data, _AT_ONCE)
            except isal_zlib.error:
                return
            if plain:
                yield plain
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data
                member = None
                self.complete = True
