"""Writing files that leave the container: whole or not at all, without names and folders of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gzip
import json
import math
import os
import re
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[2]
SHAPES = Path(__file__).with_name("secret_shapes.txt")


@contextlib.contextmanager
def held(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Lock a folder; first wait for another measurement into it, such as one that outlived a killed workflow.

    The lock is flock on the folder itself; on a file system without it, nothing is locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{folder}: another measurement still writes into it; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def restored(file: Path) -> Iterator[None]:
    """Write a file again at the end if it is gone: a workload may remove the folder of its case file."""
    content = file.read_bytes()
    yield
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def finite(value: Any) -> Any:
    """The same value for strict JSON: NaN and infinity become None, lone surrogates become `?`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write one key on each line under a temporary name, then rename: a reader sees the old file or the new one.

    The folder is made again if a workload has removed it. Raises OSError if there is no room.
    """
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in finite(record).items()]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_gzip(target: Path, text: str) -> None:
    """Write the text compressed, under a temporary name first. Raises OSError if there is no room."""
    temporary = target.with_name(f".{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)  # a workload may have removed it
    try:
        # No time stamp and no name inside: the same text gives the same bytes. Level 6 takes a third of the time of
        # level 9 for files that are 7 % larger.
        with open(temporary, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            packed.write(text.encode("utf-8"))
        os.replace(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def without_secrets(text: str) -> str:
    """The text with passwords and tokens removed or replaced by `<secret>`, as `SHAPES` states."""
    lower = text.lower()
    for line in _shapes():
        what, words, regex = line.split(" ", 2)
        if words == "*" or any(word in lower for word in words.split(",")):
            kept = r"\g<kept>" if "(?P<kept>" in regex else ""
            text = re.sub(regex, f"{kept}<secret>" if what == "hide" else "", text, flags=re.MULTILINE)
    return text


@functools.cache
def _shapes() -> tuple[str, ...]:
    lines = SHAPES.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


class MachineScrubber:
    """Replaces this machine's folders and name by words: `<python>`, `<scripts>`, `<output>`, `<tmp>` ..."""

    def __init__(self, **folders: Path | str | None) -> None:
        places = {
            "scripts": SCRIPTS,
            "packages": sysconfig.get_path("purelib"),
            "python": sys.prefix,
            "base-python": sys.base_prefix,
            "cwd": Path.cwd(),
            "home": os.environ.get("HOME"),
            "tmp": tempfile.gettempdir(),
            **folders,
        }
        words: dict[str, str] = {}
        for word, folder in places.items():
            for form in (str(folder), os.path.realpath(str(folder))) if folder else ():
                if len(form) > 2:
                    words.setdefault(form, f"<{word}>")
        # The longest first, so that a folder inside another one keeps its own word.
        self._words = sorted(words.items(), key=lambda item: -len(item[0]))
        host = socket.gethostname()
        name = re.escape(host) if host else "(?!)"
        self._host_in_path = re.compile(rf"(?<=[/@]){name}(?![\w-])")
        # A machine may be called "kernel" or "node": such a name is replaced only in a path or an address.
        telling = len(host) > 3 and re.search(r"[\d.-]", host)
        self._host = re.compile(rf"(?<![\w-]){name}(?![\w-])") if telling else self._host_in_path

    def __call__(self, text: str) -> str:
        """A message without credentials, with the machine's name replaced everywhere."""
        return self._host.sub("<host>", self._without_folders(without_secrets(text)))

    def within(self, value: Any) -> Any:
        """The same JSON value with every text in it replaced like a message, keys too."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self.within(key): self.within(item) for key, item in value.items()}
        return [self.within(item) for item in value] if isinstance(value, list) else value

    def trace(self, text: str) -> str:
        """The text of a trace, with the machine's name replaced only in paths.

        Names of kernels and ops and the file's own keys stay as they are.
        """
        return self._host_in_path.sub("<host>", self._without_folders(text))

    def _without_folders(self, text: str) -> str:
        for folder, word in self._words:
            text = re.sub(re.escape(folder) + r"(?![\w.-])", word, text)
        return text
