"""Nights on disk: a folder per night with a Parquet file per run, and the events of each night.

history/nights/<edition>/<run>.parquet (never rewritten in place), history/events/<edition>.json (reported events, so
that each is reported once), history/damaged/... (unreadable files that were moved).

A night is written to a hidden folder, flushed to disk and renamed, so it is complete or absent. Writers take turns by a
file lock, which the kernel releases if its owner dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelbook.history.nights import is_night, night_order, read_judged
from kernelbook.history.schema import SCHEMA, VERSION_KEY, upgrade, with_series

KEPT = ("night", "process", "device_type", "image", "started_utc")
LISTS = ("forward_times_us", "kernels", "ops")
JUDGED = tuple(name for name in SCHEMA.names if name not in (*KEPT, *LISTS))
"""Columns that judging needs."""
CONFIRMATION = "+confirmation"
"""Follows the run in the names of files with second measurements; no name of a run has a plus."""
_DICTIONARIES = [
    *(field.name for field in SCHEMA if field.type == pa.string()),
    *(f"{field.name}.list.element" for field in SCHEMA if field.type == pa.list_(pa.string())),
]
"""Columns of text, in which values repeat. A dictionary of times would only take space and time."""
_RUN = re.compile(r"^[a-z][a-z0-9.-]*$")


@dataclass(frozen=True)
class Damaged:
    """A file of the history that could not be read."""

    file: str  # relative to the history folder
    reason: str


@dataclass(frozen=True)
class History:
    """Rows of all readable nights in order, and the files that could not be read.

    renamed: (series id of an older version, case) -> series id in `table`.
    """

    table: pa.Table
    nights: tuple[str, ...]
    damaged: tuple[Damaged, ...]
    renamed: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def until(self, night: str, last: int) -> History:
        """The `last` nights up to and including this one. Raises ValueError if there is no such night."""
        end = self.nights.index(night) + 1
        nights = self.nights[max(0, end - last) : end]
        if nights == self.nights:
            return self
        table = self.table.filter(pc.is_in(self.table["edition"], pa.array(nights)))
        later = tuple(f"nights/{name}/" for name in self.nights[end:])
        damaged = (item for item in self.damaged if not item.file.removeprefix("damaged/").startswith(later))
        return replace(self, table=table, nights=nights, damaged=tuple(damaged))


@dataclass(frozen=True)
class Store:
    """A history in one folder."""

    folder: Path

    @property
    def nights_folder(self) -> Path:
        return self.folder / "nights"

    @property
    def events_folder(self) -> Path:
        return self.folder / "events"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock; waits for other writers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._mend()
            yield

    def _mend(self) -> None:
        """Clean up after a killed writer: delete incomplete nights, restore a replaced night without a successor."""
        for left in sorted(self.nights_folder.glob(".old-*")):
            night = self.nights_folder / left.name.removeprefix(".old-")
            if night.exists():
                shutil.rmtree(left)
            else:
                left.rename(night)
        for left in [*self.nights_folder.glob(".new-*"), *self.events_folder.glob(".new-*")]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def nights(self) -> tuple[str, ...]:
        """All nights, oldest first."""
        if not self.nights_folder.is_dir():
            return ()
        names = [path.name for path in self.nights_folder.iterdir() if path.is_dir() and is_night(path.name)]
        return tuple(sorted(names, key=night_order))

    def add_night(self, edition: str, tables: Mapping[str, pa.Table]) -> None:
        """Write one complete night, replacing one of the same name. On a full disk: OSError, nothing changed."""
        if not is_night(edition) or not all(_RUN.match(run) for run in tables):
            raise ValueError(f"night {edition!r}, runs {sorted(tables)}: not names of a night and its runs")
        with self.writing():
            new, target = self.nights_folder / f".new-{edition}", self.nights_folder / edition
            try:
                new.mkdir(parents=True)
                for run, table in tables.items():
                    _write_parquet(table, new / f"{run}.parquet")
                _flush(new)
                self._put(new, target)
            finally:
                shutil.rmtree(new, ignore_errors=True)

    def add_confirmation(self, edition: str, tables: Mapping[str, pa.Table]) -> None:
        """Add second measurements to a recorded night: a file per run beside those of the first ones."""
        with self.writing():
            folder = self.nights_folder / edition
            for run, table in tables.items():
                new = folder / f".new-{run}.parquet"
                _write_parquet(table, new)
                new.replace(folder / f"{run}{CONFIRMATION}.parquet")
            _flush(folder)

    def _put(self, new: Path, target: Path) -> None:
        old = target.with_name(f".old-{target.name}")
        if target.exists():
            target.rename(old)
        new.rename(target)
        _flush(target.parent)
        shutil.rmtree(old, ignore_errors=True)

    def read(self, *, until: str | None = None, last: int = 0, columns: Sequence[str] = JUDGED) -> History:
        """`columns` of all nights, or of the last ones, up to and including `until`, with the files that are damaged.

        The columns include `SERIES_KEY`, `settings` and `series`, which older nights need to continue their series.
        """
        nights = [name for name in self.nights() if until is None or night_order(name) <= night_order(until)]
        nights = nights[-last:]
        paths = [path for night in nights for path in sorted((self.nights_folder / night).glob("[!._]*.parquet"))]
        results = [self._read_one(path, columns) for path in paths]
        tables = [item for item in results if isinstance(item, pa.Table)]
        damaged = (*(item for item in results if isinstance(item, Damaged)), *self._set_aside_before(until))
        empty = pa.schema([SCHEMA.field(name) for name in columns]).empty_table()
        table, renamed = with_series(pa.concat_tables([empty, *tables]).combine_chunks())
        return History(table, tuple(nights), damaged, renamed)

    def _set_aside_before(self, edition: str | None) -> Iterator[Damaged]:
        """Files of this night that were set aside when it was judged before, and not recorded again since."""
        for path in sorted((self.folder / "damaged" / "nights" / (edition or "")).glob("*.parquet")):
            if not (self.nights_folder / path.parent.name / path.name).exists():
                yield Damaged(str(path.relative_to(self.folder)), "was damaged when it was read before")

    def _read_one(self, path: Path, columns: Sequence[str]) -> pa.Table | Damaged:
        try:
            return _read_parquet(path, columns)
        except (OSError, ValueError, pa.ArrowException) as error:
            return Damaged(str(path.relative_to(self.folder)), _one_line(error))

    def names(self, edition: str, run: str, column: str) -> dict[str, tuple[str, ...]]:
        """Kernel or op names (`column`) of one run's night by their id; empty if the file cannot be read."""
        path = self.nights_folder / edition / f"{run}.parquet"
        table = self._read_one(path, [column, f"{column}_id"])
        if isinstance(table, Damaged):
            return {}
        pairs = zip(table[f"{column}_id"].to_pylist(), table[column].to_pylist(), strict=True)
        return {key: tuple(names or ()) for key, names in pairs if key is not None}

    def set_aside(self, damaged: Sequence[Damaged]) -> None:
        """Move damaged files to history/damaged; files of a newer schema stay."""
        with self.writing():
            for item in damaged:
                source, target = self.folder / item.file, self.folder / "damaged" / item.file
                if source.exists() and "update Kernelbook" not in item.reason:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source.replace(target)

    def write_events(self, edition: str, judged: Mapping[str, Any]) -> None:
        """Write the events of a night atomically."""
        with self.writing():
            write_json(self.events_folder / f"{edition}.json", judged)

    def read_events(self) -> tuple[dict[str, dict[str, Any]], tuple[Damaged, ...]]:
        """(night -> its events file, oldest first; files that could not be read)."""
        by_night, damaged = {}, []
        paths = [path for path in self.events_folder.glob("*.json") if is_night(path.stem)]
        for path in sorted(paths, key=lambda path: night_order(path.stem)):
            try:
                by_night[path.stem] = read_judged(path)
            except (OSError, ValueError) as error:
                damaged.append(Damaged(str(path.relative_to(self.folder)), _one_line(error)))
        return by_night, tuple(damaged)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _write_parquet(table: pa.Table, path: Path) -> None:
    """Packed with Snappy, which is read in half the time of zstd. The statistics of columns are not used."""
    pq.write_table(table, path, use_dictionary=_DICTIONARIES, write_statistics=False, write_page_checksum=True)
    _flush(path)


def _read_parquet(path: Path, columns: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
        version = int((file.schema_arrow.metadata or {}).get(VERSION_KEY, b"0"))
        if version == 0:
            raise ValueError("no history schema in it: not written by Kernelbook")
        have = set(file.schema_arrow.names)
        table = file.read(columns=[name for name in columns if name in have], use_threads=False)
    return upgrade(table, version, columns)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON atomically: to a file beside the path, flushed to disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".new-{path.name}")
    with new.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _flush(path.parent)
