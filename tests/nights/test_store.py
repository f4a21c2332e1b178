"""The history on disk: a night is there whole or not at all, whatever happens to its writer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kernelbook.history.schema import SCHEMA, VERSION, VERSION_KEY, table_of
from kernelbook.history.site.views import COLUMNS
from kernelbook.history.store import Store
from tests.helpers import ROOT
from tests.nights.made_nights import editions, night, row
from tests.nights.sudden_death import copies_after_deaths

RUNS = ("host", "stable")
CASES = [f"case-{number}" for number in range(6)]
WRITER = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "scripts")!r}]
from pathlib import Path
import numpy as np
from tests.nights.made_nights import night
from kernelbook.history.store import Store
folder, edition, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
tables = night(edition, {RUNS!r}, {CASES!r}, np.random.default_rng(seed), samples=2000)
Store(folder).add_night(edition, tables)
"""


def fill(store: Store, dates: list[str], seed: int = 0, **more: object) -> None:
    rng = np.random.default_rng(seed)
    for date in dates:
        store.add_night(date, night(date, RUNS, CASES, rng, **more))


def start_writer(folder: Path, edition: str, seed: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", WRITER, folder, edition, str(seed)])


def test_what_is_written_is_read_raw_samples_and_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tables = night("2026-03-01", RUNS, CASES, np.random.default_rng(1), samples=7)
    store.add_night("2026-03-01", tables)
    assert sorted(path.name for path in (tmp_path / "nights/2026-03-01").iterdir()) == [
        "host.parquet",
        "stable.parquet",
    ]
    read = store.read(columns=SCHEMA.names)
    assert read.table.equals(pa.concat_tables([tables["host"], tables["stable"]]).replace_schema_metadata(None))
    assert all(len(samples) == 7 for samples in read.table["forward_times_us"].to_pylist())
    assert "forward_times_us" not in store.read().table.column_names


def test_the_schema_version_is_inside_and_pandas_reads_the_folder_as_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, editions(3), samples=2)
    metadata = pq.read_schema(tmp_path / "nights/2026-01-01/host.parquet").metadata
    assert metadata[VERSION_KEY] == str(VERSION).encode()
    frame = pandas.read_parquet(tmp_path / "nights")
    assert len(frame) == 3 * 2 * 6 * 5
    assert set(frame["edition"]) == set(editions(3))
    assert ds.dataset(tmp_path / "nights").count_rows() == len(frame)


WRITING = f"""
import numpy as np
from tests.nights.made_nights import night
from kernelbook.history.store import Store
tables = night("EDITION", {RUNS!r}, {CASES!r}, np.random.default_rng(2), samples=3)
def act(folder):
    Store(folder).add_night("EDITION", tables)
"""


@pytest.mark.parametrize("edition", ["2026-01-01", "2026-01-02"], ids=["replaced", "new"])
def test_killed_at_any_moment_a_writer_leaves_whole_nights_only(tmp_path: Path, edition: str) -> None:
    old = Store(tmp_path / "history")
    fill(old, ["2026-01-01"], seed=1, samples=3)
    before = old.read(columns=SCHEMA.names).table
    made = night(edition, RUNS, CASES, np.random.default_rng(2), samples=3)
    after = pa.concat_tables([made[run] for run in RUNS]).replace_schema_metadata(None)
    if edition == "2026-01-02":
        after = pa.concat_tables([before, after])
    seen = []
    for copy in copies_after_deaths(old.folder, WRITING.replace("EDITION", edition)):
        store = Store(copy)
        read = store.read(columns=SCHEMA.names)
        assert read.damaged == ()
        between = edition == "2026-01-01" and len(read.table) == 0  # its old rows are away, its new ones not yet there
        assert between or read.table.equals(before) or read.table.equals(after)
        fill(store, ["2026-01-03"])  # whoever writes next mends what the dead one left
        assert sorted(os.listdir(copy / "nights")) == [*sorted({*read.nights, "2026-01-01"}), "2026-01-03"]
        mended = store.read(until="2026-01-02", columns=SCHEMA.names).table
        assert mended.equals(before) or mended.equals(after)
        seen.append(mended.equals(after))
    assert seen == sorted(seen)  # up to one moment nothing has changed, and from then on all has
    assert set(seen) == {False, True}
    assert len(seen) > 10


JUDGING = """
from kernelbook.history.store import Store
def act(folder):
    Store(folder).write_events("2026-01-01", {"events": [], "text": "new"})
"""


def test_killed_at_any_moment_what_was_judged_is_the_old_or_the_new(tmp_path: Path) -> None:
    Store(tmp_path / "history").write_events("2026-01-01", {"events": [], "text": "old"})
    seen = []
    for copy in copies_after_deaths(tmp_path / "history", JUDGING):
        found, damaged = Store(copy).read_events()
        assert damaged == ()
        seen.append(found["2026-01-01"]["text"])
        Store(copy).write_events("2026-01-02", {"events": []})
        assert sorted(os.listdir(copy / "events")) == ["2026-01-01.json", "2026-01-02.json"]
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}


def test_two_writers_at_once_take_turns(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, "2026-01-01", seed) for seed in range(3)]
    writers += [start_writer(tmp_path, "2026-01-02", 9)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    read = Store(tmp_path).read()
    assert read.damaged == ()
    assert read.nights == ("2026-01-01", "2026-01-02")
    assert len(read.table) == 2 * 2 * 6 * 5


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, ["2026-01-01"])
    before = store.read().table

    def no_room() -> None:  # a file that may not grow is what a full disk looks like to a writer
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-c", WRITER, tmp_path, "2026-01-02", "1"]
    done = subprocess.run(command, preexec_fn=no_room, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert store.nights() == ("2026-01-01",)
    assert store.read().table.equals(before)


def test_a_replaced_night_whose_writer_died_between_the_renames_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, ["2026-01-01"])
    nights = tmp_path / "nights"
    (nights / "2026-01-01").rename(nights / ".old-2026-01-01")
    (nights / ".new-2026-01-01").mkdir()
    fill(store, ["2026-01-02"])
    assert store.nights() == ("2026-01-01", "2026-01-02")
    assert sorted(os.listdir(nights)) == ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize("harm", ["cut", "empty", "flipped", "text", "foreign"])
def test_a_damaged_file_is_named_set_aside_and_the_rest_is_read(tmp_path: Path, harm: str) -> None:
    store = Store(tmp_path)
    fill(store, editions(3), samples=50)
    path = tmp_path / "nights/2026-01-02/stable.parquet"
    whole = path.read_bytes()
    if harm == "foreign":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        flipped = bytearray(whole)
        for at in range(500, 2500):
            flipped[at] ^= 0x55
        path.write_bytes({"cut": whole[:-200], "empty": b"", "text": b"hello", "flipped": bytes(flipped)}[harm])
    read = store.read(columns=SCHEMA.names)
    assert [item.file for item in read.damaged] == ["nights/2026-01-02/stable.parquet"]
    assert read.damaged[0].reason
    assert len(read.table) == 3 * 2 * 30 - 30
    store.set_aside(read.damaged)
    assert store.read().damaged == ()
    assert (tmp_path / "damaged/nights/2026-01-02/stable.parquet").is_file()


def test_a_night_of_a_newer_kernelbook_is_named_and_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, editions(1))
    path = tmp_path / "nights/2026-01-01/host.parquet"
    newer = pq.read_table(path).replace_schema_metadata({VERSION_KEY: str(VERSION + 1).encode()})
    pq.write_table(newer, path)
    (damaged,) = store.read().damaged
    assert "update Kernelbook" in damaged.reason
    store.set_aside((damaged,))
    assert path.is_file()


def test_a_night_written_by_version_1_is_read_beside_new_ones(tmp_path: Path) -> None:
    """The committed file was written by version 1: no kernel counts, digests, clocks, ops or warnings in it."""
    old = Path(__file__).parent / "version-1" / "nights" / "2026-01-05" / "host.parquet"
    metadata = pq.read_schema(old).metadata
    assert metadata[VERSION_KEY] == b"1"
    store = Store(tmp_path)
    (tmp_path / "nights/2026-01-05").mkdir(parents=True)
    (tmp_path / "nights/2026-01-05/host.parquet").write_bytes(old.read_bytes())
    fill(store, ["2026-01-06"])
    read = store.read(columns=SCHEMA.names)
    assert read.damaged == ()
    assert read.table.schema.equals(pa.schema(list(SCHEMA)))
    first = read.table.slice(0, 1).to_pylist()[0]
    assert first["edition"] == "2026-01-05"
    assert first["forward_time_us"] == pytest.approx(101.5)
    assert first["forward_times_us"] == [101.0, 101.5, 102.0]
    assert first["ops_id"] is None
    assert first["sm_clock_mhz"] is None


def test_an_unreadable_events_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_events("2026-01-01", {"events": []})
    store.write_events("2026-01-02", {"events": []})
    (tmp_path / "events/2026-01-01.json").write_text('{"events": [')
    found, damaged = store.read_events()
    assert list(found) == ["2026-01-02"]
    assert damaged[0].file == "events/2026-01-01.json"


def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path) -> None:
    table = table_of([row("2026-01-01", "host", "a", 1)])
    for edition, run in [("../x", "host"), ("latest", "host"), ("2026-01-01", "../host"), ("2026-13-01", "host")]:
        with pytest.raises(ValueError, match="not names of a night"):
            Store(tmp_path).add_night(edition, {run: table})


def test_nights_are_in_order_with_suffixes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    wanted = ["2026-01-01", "2026-01-01-2", "2026-01-01-10", "2026-01-01-b", "2026-01-02"]
    fill(store, wanted[::-1])
    assert list(store.nights()) == wanted
    assert store.read(until="2026-01-01-10").nights == tuple(wanted[:3])


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add_night("2026-01-01", night("2026-01-01", ["host"], ["case"], np.random.default_rng(1)))
    assert store.read(columns=COLUMNS).table.column_names == list(COLUMNS)
    assert not {"warnings", "kernels_id", "cpu_time_us"} & set(COLUMNS)
