"""Removes from text what must not be published: credentials, and absolute paths of the machine.

`edition.collect` applies it to all that an edition holds. Report, history, site, feed and webhook get their text from
there.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from kernelbook.text.credentials import secrets_in, without_secrets

Folders = Mapping[str, Path | str | None]
CHECKOUT = Path(__file__).resolve().parents[3]
#: Folders of the operating system, which are alike on every machine. Paths in them stay as they are.
SYSTEM = {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "opt", "proc", "sbin", "sys", "usr"}
#: Folders where people's files are on one machine or another. What this machine has beside `SYSTEM` is added.
PEOPLE = {"data", "fsx", "gpfs", "lustre", "media", "mnt", "net", "nfs", "private", "projects", "scratch", "shared"}
PEOPLE |= {"srv", "storage", "tmp", "var", "work", "workspace"}
NAME = r"(?:[\w.@+-]|\\u[0-9a-fA-F]{4})+"  # one part of a path; JSON may spell a letter as \u00fc
START = r"(?<![\w.>/-])(?:(?<=file:)//)?"
HOME = re.compile(rf"{START}(?:(?:/{NAME})*/(?:home|Users)/{NAME}|[A-Za-z]:\\+Users\\+{NAME}|/root(?![\w.-]*\w))")


class Scrubber:
    """Makes text fit to be published.

    Folders of this machine become words such as `<cwd>` and `<home>`, and so do homes on other machines. Of any other
    absolute path outside the operating system's folders the last part is kept: `<path>/trace.json`.
    """

    def __init__(self, folders: Folders | None = None, secrets: Iterable[str] = ()) -> None:
        """folders: more folders of this machine, by word. secrets: credentials whose text is known."""
        self._words = _spellings(folders or {})
        known = "|".join(re.escape(folder) for folder in self._words)
        self._folder = re.compile(rf"(?<![\w.-])(?:{known})(?![\w.-]*\w)")
        self._secrets = tuple(secrets)
        self._tops = [f"/{name}/" for name in sorted((PEOPLE | set(os.listdir("/"))) - SYSTEM)]
        tops = "|".join(re.escape(top[1:-1]) for top in self._tops)
        quoted = rf"(?<=[\"'])/(?:{tops})/[^\"'\n\\]*/(?=[^\"'\n/\\])"
        plain = rf"{START}/(?:{tops})(?:/(?:[%:,=]|{NAME})+)*/(?=[\w.@%+\\-])"
        self._path = re.compile(f"{quoted}|{plain}")
        self._short_text = lru_cache(maxsize=1 << 16)(self.text)

    def text(self, text: str) -> str:
        """The same text, fit to be published."""
        text = without_secrets(text, self._secrets)
        if any(folder in text for folder in self._words):
            text = self._folder.sub(lambda found: self._words[found[0]], text)
        if any(part in text for part in ("/home/", "/Users/", "/root", "\\Users\\")):
            text = HOME.sub("<home>", text)
        return self._path.sub("<path>/", text) if any(top in text for top in self._tops) else text

    def value(self, value: Any) -> Any:
        """The same JSON value with every text in it scrubbed, keys included."""
        if isinstance(value, str):
            return self._short_text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def table(self, table: pa.Table) -> pa.Table:
        """The same table with every text in it scrubbed, in nested columns too."""
        return pa.Table.from_arrays([self._column(column) for column in table.columns], schema=table.schema)

    def _column(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        kind = column.type
        if pa.types.is_string(kind):
            encoded = pa.chunked_array([column.combine_chunks().dictionary_encode()]).chunk(0)
            before = encoded.dictionary.to_pylist()
            after = self.value(before)
            return column if after == before else pa.chunked_array([pa.array(after, kind).take(encoded.indices)])
        if pa.types.is_nested(kind):
            return pa.chunked_array([pa.array(self.value(column.to_pylist()), kind)])
        return column


def edition_scrubber(plan: Mapping[str, Any], results: Path) -> Scrubber:
    """The scrubber of an edition; it knows the secrets in the environment. plan: plan.json."""
    sources = {run["name"]: run["source"] for run in plan["runs"] if os.path.isabs(run.get("source") or "")}
    return Scrubber({**sources, "results": results}, secrets_in(os.environ))


def _spellings(more: Folders) -> dict[str, str]:
    """Every spelling of the folders of this machine -> its word, the longest first."""
    places = {
        "kernelbook": CHECKOUT,
        "python": sys.prefix,
        "images": os.environ.get("KERNELBOOK_IMAGES"),
        **more,
        "cwd": Path.cwd(),
        "home": Path.home(),
        "tmp": tempfile.gettempdir(),
    }
    known: dict[str, str] = {}
    for word, folder in places.items():
        for form in (os.path.abspath(folder), os.path.realpath(folder)) if folder else ():
            if len(form) > 2:
                for spelled in (form, json.dumps(form)[1:-1], quote(form)):
                    known.setdefault(spelled, f"<{word}>")
    return dict(sorted(known.items(), key=lambda item: -len(item[0])))
