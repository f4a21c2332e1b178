"""Removes passwords and tokens from text. Paths stay: see `scrubbing` for text that is published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import unquote

#: Shared with the code inside containers, which may not be imported here.
SHAPES = Path(__file__).resolve().parents[1] / "workloads" / "harness" / "secret_shapes.txt"
HIDDEN = "<secret>"
LEAST_LETTERS = 6
SECRET_NAME = re.compile(r"(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|PRIVATE_KEY|WEBHOOK|CREDENTIALS?)$")


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text with credentials removed from addresses, and others replaced by `<secret>`.

    known: credentials that are hidden wherever they stand. Short ones may be part of ordinary words and are left out.
    """
    for secret in sorted({secret for secret in known if len(secret) >= LEAST_LETTERS}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _shapes():
        text = pattern.sub(replacement, text)
    return text


def passwords_in(address: str) -> tuple[str, ...]:
    """What scheme://user:password@host gives away, in the spellings that messages may have."""
    login, _, _ = address.partition("://")[2].rpartition("@")
    user, _, password = login.partition(":")
    known = "/" not in user and password
    return (f"{login}@", password, unquote(password)) if known else ()


def secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of the environment variables that hold credentials, by their names."""
    for name, value in environ.items():
        if SECRET_NAME.search(name.upper()) and not value.startswith("/") and not value.isdecimal():
            yield from (value, json.dumps(value)[1:-1])


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], str], ...]:
    lines = SHAPES.read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(" ")[::2] for line in lines if line and not line.startswith("#")]
    return tuple((re.compile(regex, re.MULTILINE), _replacement(what, regex)) for what, regex in pairs)


def _replacement(what: str, regex: str) -> str:
    if what == "drop":
        return ""
    return rf"\g<kept>{HIDDEN}" if "(?P<kept>" in regex else HIDDEN
