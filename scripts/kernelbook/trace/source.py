"""A trace file as a stream of plain bytes, whether it is compressed or not."""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from isal import igzip_lib

from kernelbook.trace.types import TraceError

_IsalError: type[Exception] = igzip_lib.error  # type: ignore[assignment]  # declared as an instance
_GZIP = b"\x1f\x8b"
_GZIP_WBITS = 31
_READ = 1 << 16
_MOST_PLAIN = 1 << 18  # bytes that one call of a decompressor returns
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# The start of a gzip member: deflate, no reserved flags, and the extra flags and systems that RFC 1952 lists.
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL)
_MEMBER_BYTES = 10
_CHECKS = {"incorrect data check": "CRC", "incorrect length check": "length"}  # by the words of zlib's message


class Source:
    """Blocks of the plain bytes of a file.

    After reading, `complete` is False if a gzip stream ended too early. `checks` states what is wrong with a damaged
    one; all bytes that can be unpacked are returned.
    """

    def __init__(self, path: Path, block: int) -> None:
        self.path = path
        self.block = block
        self.complete = True
        self.checks: list[str] = []

    def blocks(self) -> Iterator[bytes]:
        """Yield non-empty blocks of about `block` bytes.

        Compression is recognised by content. Raises TraceError if the file cannot be read or is empty, and for pipes,
        sockets and devices, since reading them may never end.
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
        """Yield the content of the member at `start`; return the start of the next. Anything else is padding."""
        file.seek(start)
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        size = 0
        try:
            while not member.eof:
                data = b""
                if member.needs_input and not (data := file.read(_READ)):
                    break
                plain = member.decompress(data, _MOST_PLAIN)
                size += len(plain)
                yield plain
        except _IsalError:
            pass  # zlib, below, returns the bytes before the damage and describes it
        if not member.eof:
            return (yield from self._damaged_member(file, start, size))
        self.complete = True
        end = file.tell() - len(member.unused_data)
        file.seek(end)
        return end if file.read(len(_GZIP)) == _GZIP else None

    def _damaged_member(self, file: BinaryIO, start: int, skip: int) -> Generator[bytes, None, int | None]:
        """As `_member`, for a truncated or damaged member, without the first `skip` bytes."""
        file.seek(start)
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        size = 0
        while data := file.read(_READ):
            while data:
                before = member.copy()
                try:
                    plain = member.decompress(data, _MOST_PLAIN)
                except zlib.error as error:
                    plain, used = _up_to_damage(before, data)
                    yield plain[max(skip - size, 0) :]
                    self._note(str(error).rpartition(": ")[2], size + len(plain))
                    return _next_member(file, file.tell() - len(data) + used)
                yield plain[max(skip - size, 0) :]
                size += len(plain)
                data = member.unconsumed_tail
        last = member.flush()
        yield last[max(skip - size, 0) :]
        self.complete = member.eof
        if start == size == len(last) == 0:
            self.checks.append("the gzip file ends before any content")
        return None

    def _note(self, error: str, size: int) -> None:
        """Add what is wrong with a member of which `size` bytes were unpacked."""
        if error in _CHECKS:
            self.complete = True
            self.checks.append(f"the {_CHECKS[error]} check of the gzip file fails: its content has changed")
        elif size or not self.checks:
            self.checks.append(f"the gzip file is damaged after {size} bytes of its content ({error})")


def _up_to_damage(member: zlib._Decompress, data: bytes) -> tuple[bytes, int]:
    """(all that can be unpacked of `data`, number of bytes used)."""
    parts: list[bytes] = []
    for place in range(len(data)):
        try:
            parts.append(member.decompress(data[place : place + 1]))
        except zlib.error:
            return b"".join(parts), place
    return b"".join(parts), len(data)


def _next_member(file: BinaryIO, position: int) -> int | None:
    """Start of the next bytes, from `position` on, that look like a member."""
    file.seek(position)
    text = b""
    while data := file.read(_READ):
        text = text[1 - _MEMBER_BYTES :] + data
        if match := _MEMBER.search(text):
            return file.tell() - len(text) + match.start()
    return None
