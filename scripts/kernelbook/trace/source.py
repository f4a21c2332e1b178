"""A trace file as a stream of plain bytes, whatever it is wrapped in."""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from kernelbook.trace.types import TraceError

_GZIP = b"\x1f\x8b"
_WINDOW_GZIP = 31  # zlib's wbits for a gzip wrapper
_READ = 1 << 16
_AT_ONCE = 1 << 16  # plain bytes that a decompressor gives at once
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# The start of a gzip member: deflate, no reserved flags, and the extra flags and systems that RFC 1952 lists.
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL)
_MEMBER_BYTES = 10
_CHECKS = {"incorrect data check": "CRC", "incorrect length check": "length"}  # by zlib's words


class Source:
    """Blocks of a file's plain bytes.

    After reading, `complete` is False when a gzip stream ended too early, and `checks` says what is wrong with a
    damaged one, of which every byte that can be unpacked was given.
    """

    def __init__(self, path: Path, block: int) -> None:
        self.path = path
        self.block = block
        self.complete = True
        self.checks: list[str] = []

    def blocks(self) -> Iterator[bytes]:
        """Yield non-empty blocks of about `block` bytes.

        Compression is decided by content. Raises TraceError when the file cannot be read or holds nothing, and for
        what is no file: reading a pipe, a socket or a device may never end.
        """
        try:
            if kind := _SPECIAL.get(stat.S_IFMT(self.path.stat().st_mode)):
                raise TraceError(f"{self.path}: is {kind}, not a file: write its content to a file first")
            with self.path.open("rb") as file:
                start = file.read(len(_GZIP))
                if not start:
                    raise TraceError(f"{self.path}: the file is empty; record the trace again")
                if start == _GZIP:
                    yield from self._gathered(self._unzipped(file))
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

    def _unzipped(self, file: BinaryIO) -> Iterator[bytes]:
        """The content of every member of a gzip file."""
        start: int | None = 0
        while start is not None:
            self.complete = False
            start = yield from self._member(file, start)

    def _member(self, file: BinaryIO, start: int) -> Generator[bytes, None, int | None]:
        """The content of the member at `start`; returns where the next one starts. What is no member is padding."""
        file.seek(start)
        member = isal_zlib.decompressobj(wbits=_WINDOW_GZIP)
        given = 0
        data = b""
        try:
            while not member.eof and (data := data or file.read(_READ)):
                plain = member.decompress(data, _AT_ONCE)
                data = member.unconsumed_tail
                given += len(plain)
                yield plain
        except isal_zlib.error:
            pass  # below: zlib gives the bytes up to the damage, and says what it is
        if not member.eof:
            return (yield from self._damaged_member(file, start, given))
        self.complete = True
        end = file.tell() - len(member.unused_data)
        file.seek(end)
        return end if file.read(len(_GZIP)) == _GZIP else None

    def _damaged_member(self, file: BinaryIO, start: int, given: int) -> Generator[bytes, None, int | None]:
        """The content of a cut or damaged member, without the first `given` bytes; returns as `_member` does."""
        file.seek(start)
        member = zlib.decompressobj(wbits=_WINDOW_GZIP)
        size = 0
        while data := file.read(_READ):
            while data:
                before = member.copy()
                try:
                    plain = member.decompress(data, _AT_ONCE)
                except zlib.error as error:
                    plain, used = _up_to_damage(before, data)
                    yield plain[max(given - size, 0) :]
                    self._note(str(error).rpartition(": ")[2], size + len(plain))
                    return _next_member(file, file.tell() - len(data) + used)
                yield plain[max(given - size, 0) :]
                size += len(plain)
                data = member.unconsumed_tail
        last = member.flush()
        yield last[max(given - size, 0) :]
        self.complete = member.eof
        if start == size == len(last) == 0:
            self.checks.append("the gzip file ends before any content")
        return None

    def _note(self, error: str, size: int) -> None:
        """Say what is wrong with a member that gave `size` bytes."""
        if error in _CHECKS:
            self.complete = True
            self.checks.append(f"the {_CHECKS[error]} check of the gzip file fails: its content has changed")
        elif size or not self.checks:
            self.checks.append(f"the gzip file is damaged behind {size} bytes of its content ({error})")


def _up_to_damage(member: zlib._Decompress, data: bytes) -> tuple[bytes, int]:
    """All that a damaged member gives of `data`, and how many bytes it could use."""
    parts: list[bytes] = []
    for place in range(len(data)):
        try:
            parts.append(member.decompress(data[place : place + 1]))
        except zlib.error:
            return b"".join(parts), place
    return b"".join(parts), len(data)


def _next_member(file: BinaryIO, position: int) -> int | None:
    """Where something that looks like a member starts, at `position` or later."""
    file.seek(position)
    text = b""
    while data := file.read(_READ):
        text = text[1 - _MEMBER_BYTES :] + data
        if found := _MEMBER.search(text):
            return file.tell() - len(text) + found.start()
    return None
