"""Removes credentials and absolute paths of the machine from text that is published.

`edition.collect` applies it to the whole edition, the source of all text in report, history, site, feed and webhook.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from kernelbook.home import home
from kernelbook.text.arrow_values import array_of
from kernelbook.text.credentials import distinct, secrets_in, without_secrets

Folders = Mapping[str, Path | str | None]
CHECKOUT = home()
#: Folders of the operating system, which are the same on every machine. Paths in them are kept.
SYSTEM = {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "opt", "proc", "sbin", "sys", "usr"}
#: Folders that hold users' files on some machines. Other top-level folders of this machine are added.
PEOPLE = {"data", "fsx", "gpfs", "lustre", "media", "mnt", "net", "nfs", "private", "projects", "scratch", "shared"}
PEOPLE |= {"srv", "storage", "tmp", "var", "work", "workspace"}
ESCAPED = r"\\u[0-9a-fA-F]{4}"  # JSON may spell a letter as \u00fc
NAME = rf"(?:[\w.@+-]|{ESCAPED})+"  # one part of a path
START = r"(?<![\w.>/-])(?:(?<=file:)//)?"
HOME = re.compile(rf"{START}(?:(?:/{NAME})*/(?:home|Users)/{NAME}|[A-Za-z]:\\+Users\\+{NAME}|/root(?![\w.-]*\w))")


class Scrubber:
    """Removes private information from text.

    Folders of this machine and home folders of any machine become words such as `<cwd>` and `<home>`. Of other absolute
    paths outside the operating system's folders only the last part is kept: `<path>/trace.json`.
    """

    def __init__(self, folders: Folders | None = None, secrets: Iterable[str] = ()) -> None:
        """folders: further folders of this machine, by word. secrets: credentials to remove."""
        self._words = _spellings(folders or {})
        folder_names = "|".join(re.escape(folder) for folder in self._words)
        self._folder = re.compile(rf"(?<![\w.-])(?:{folder_names})(?![\w.-]*\w)")
        self._secrets = tuple(secrets)
        self._tops = [f"/{name}/" for name in sorted((PEOPLE | set(os.listdir("/"))) - SYSTEM)]
        tops = "|".join(re.escape(top[1:-1]) for top in self._tops)
        quoted = rf"(?<=[\"'])/(?:{tops})/[^\"'\n\\]*/(?=[^\"'\n/\\])"
        plain = rf"{START}/(?:{tops})(?:/(?:[%:,=\w.@+-]|{ESCAPED})+)*/(?=[\w.@%+\\-])"
        self._path = re.compile(f"{quoted}|{plain}")
        self._quoted = any('"' in name for name in (*self._words, *self._tops))
        self._short_text = lru_cache(maxsize=1 << 16)(self.text)

    def text(self, text: str) -> str:
        """The text without private information."""
        text = without_secrets(text, self._secrets)
        parts = text if self._quoted else distinct(text)
        if any(folder in parts for folder in self._words):
            text = self._folder.sub(lambda match: self._words[match[0]], text)
        if any(part in parts for part in ("/home/", "/Users/", "/root", "\\Users\\")):
            text = HOME.sub("<home>", text)
        return self._path.sub("<path>/", text) if any(top in parts for top in self._tops) else text

    def value(self, value: Any) -> Any:
        """A JSON value with `text` applied to all strings in it, including keys."""
        if isinstance(value, str):
            return self._short_text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, tuple):  # the key and value of an entry of a map
            return tuple(self.value(item) for item in value)
        return value

    def table(self, table: pa.Table) -> pa.Table:
        """The table with `text` applied to all strings in it, also in nested columns."""
        return pa.Table.from_arrays(
            [self._column(column) for column in table.combine_chunks().columns], schema=table.schema
        )

    def _column(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        texts = [*{text for chunk in column.chunks for part in _texts(chunk) for text in part.unique().to_pylist()}]
        if self.value(texts) == texts:
            return column
        return pa.chunked_array([array_of(self.value(column.to_pylist()), column.type)])


def _texts(values: pa.Array) -> Iterator[pa.Array]:
    """The strings in an array, also in its lists, maps and structs."""
    if pa.types.is_string(values.type):
        yield values
    elif pa.types.is_nested(values.type):
        struct = pa.types.is_struct(values.type)
        for part in values.flatten() if struct else [values.values]:
            yield from _texts(part)


def edition_scrubber(plan: Mapping[str, Any], results: Path) -> Scrubber:
    """The scrubber of an edition, with the secrets of the environment. plan: content of plan.json."""
    sources = {run["name"]: run["source"] for run in plan["runs"] if os.path.isabs(run.get("source") or "")}
    return Scrubber({**sources, "results": results}, secrets_in(os.environ))


def _spellings(more: Folders) -> dict[str, str]:
    """The word for each spelling of the folders of this machine, longest first."""
    places = {
        "kernelbook": CHECKOUT,
        "python": sys.prefix,
        "images": os.environ.get("KERNELBOOK_IMAGES"),
        **more,
        "cwd": Path.cwd(),
        "home": Path.home(),
        "tmp": tempfile.gettempdir(),
    }
    spellings: dict[str, str] = {}
    for word, folder in places.items():
        for form in (os.path.abspath(folder), os.path.realpath(folder)) if folder else ():
            if len(form) > 2:
                for spelled in (form, json.dumps(form)[1:-1], quote(form)):
                    spellings.setdefault(spelled, f"<{word}>")
    return dict(sorted(spellings.items(), key=lambda item: -len(item[0])))
