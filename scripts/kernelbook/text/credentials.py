"""Removes passwords and tokens from text. It keeps paths; `scrubbing` is for text that is published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import unquote

from kernelbook.home import home

#: Shared with the code inside containers, which may not be imported here.
SHAPES = home() / "scripts" / "workloads" / "harness" / "secret_shapes.txt"
HIDDEN = "<secret>"
LEAST_LETTERS = 6
BASE64_RUN = b"x" * 58
"""60 characters of base64 after `_BASE64`, less the two slashes that a dropped password may leave before them."""
# each character of base64 as an x, any other as a space
_BASE64 = bytes(
    ord("x") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/") else 32 for code in range(256)
)
SECRET_NAME = re.compile(r"(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|PRIVATE_KEY|WEBHOOK|CREDENTIALS?)$")


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Remove credentials from addresses, and replace others by `<secret>`.

    secrets: further credentials to replace. Those shorter than LEAST_LETTERS stay, since they may be part of words.
    """
    parts = distinct(text)
    lower, has_run = parts.lower(), BASE64_RUN in parts.encode("utf-8", "surrogatepass").translate(_BASE64)
    for shape in _shapes():
        if any(word in lower for word in shape.words) or (has_run and not shape.words):
            text = shape.pattern.sub(shape.replacement, text)
    for secret in sorted({secret for secret in secrets if len(secret) >= LEAST_LETTERS}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


@lru_cache(maxsize=1)
def distinct(text: str) -> str:
    """The parts of a text between its double quotes, each once; of a trace this is a sixth.

    It contains the same words without double quotes as the text.
    """
    return '"'.join(set(text.split('"')))


def passwords_in(address: str) -> tuple[str, ...]:
    """The password of scheme://user:password@host as written and decoded; empty if there is none."""
    match = re.search(r"://[^\s/:@]+:(?!\d+/)(\S+)@(?!sha\d+:)", address)
    return (match[1], unquote(match[1])) if match else ()


def secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of the environment variables whose names suggest credentials."""
    for name, value in environ.items():
        if SECRET_NAME.search(name.upper()) and not value.startswith("/") and not value.isdecimal():
            yield from (value, json.dumps(value)[1:-1])


@dataclass(frozen=True)
class _Shape:
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str


@cache
def _shapes() -> tuple[_Shape, ...]:
    """The patterns in `SHAPES`; the file describes its format."""
    lines = SHAPES.read_text(encoding="utf-8").splitlines()
    return tuple(_shape(*line.split(" ", 2)) for line in lines if line and not line.startswith("#"))


def _shape(what: str, words: str, regex: str) -> _Shape:
    kept = r"\g<kept>" if "(?P<kept>" in regex else ""
    required = () if words == "*" else tuple(words.split(","))
    return _Shape(required, re.compile(regex, re.MULTILINE), f"{kept}{HIDDEN}" if what == "hide" else "")
