"""What makes two rows one series: nothing by which two cases differ, and no older night is cut off from its series."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from kernelbook.cases import Process
from kernelbook.config.loading import load_config
from kernelbook.history.record import KeptEdition, RecordError, night_tables
from kernelbook.history.schema import SCHEMA, VERSION_KEY, series_id, settings_of, short_id, table_of
from kernelbook.history.series import make_series
from kernelbook.history.store import Store
from kernelbook.history.verdicts import Rules, judge_last_night
from tests.nights.made_nights import editions, night, row

HERE = Path(__file__).parent
NAMES = {"case", "sweep", "note", "expect"}
OLD_KEY = ("workload", "variant", "mode", "params", "dtype", "device", "driver", "line")  # of versions 1 and 2


def shipped_cases(root: Path, device: str) -> dict[str, dict]:
    """Every case of the shipped configuration, those that are off too, as a row of a night on the device."""
    raw = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8")) | {"only_cases": "*"}
    rows = {}
    for case in load_config(raw, root / "workflow" / "schemas").cases:
        spec = dict(case.measurement)
        params = spec["params"] | (spec["cpu_params"] if device == "cpu" else {})
        place = {"device": device, "driver": None, "line": "host", "settings": settings_of(spec)}
        rows[case.name] = spec | place | {"params": json.dumps(params, sort_keys=True)}
    return rows


@pytest.mark.parametrize("device", ["NVIDIA H200", "cpu"])
def test_no_two_shipped_cases_share_a_series(root: Path, device: str) -> None:
    rows = shipped_cases(root, device)
    assert len(rows) >= 40
    for one, other in itertools.combinations(rows, 2):
        assert series_id(rows[one]) != series_id(rows[other]), (one, other)


def test_what_two_shipped_cases_differ_by_is_told_apart_even_under_one_name(root: Path) -> None:
    rows = shipped_cases(root, "NVIDIA H200")
    figures = (
        "workload",
        "variant",
        "mode",
        "compile_options",
        "dtype",
        "params",
        "warmup",
        "schedule",
        "tf32",
        "seed",
    )
    for one, other in itertools.combinations(rows.values(), 2):
        differ = any(one.get(key) != other.get(key) for key in figures)
        assert (series_id(one | {"case": "x"}) != series_id(other | {"case": "x"})) is differ, (
            one["case"],
            other["case"],
        )
    assert rows["matmul-add-64-cold-eager"]["settings"] == '{"warmup": 0}'
    assert rows["matmul-add-64-eager"]["settings"] == "{}"


@pytest.mark.parametrize(
    "change",
    [{"warmup": 0}, {"flush_l2": True}, {"tf32": False}, {"compile_options": {"dynamic": True}}, {"seed": 1},
     {"schedule": {"wait": 1, "warmup": 1, "active": 3}}, {"samples": 30}],
)  # fmt: skip
def test_each_setting_is_part_of_the_series(change: dict) -> None:
    assert json.loads(settings_of({"case": "a", "warmup": 3} | change)) == change


def test_what_cannot_change_a_figure_is_not_part_of_the_series() -> None:
    plain = {"case": "a", "workload": "w", "warmup": 3, "compile_options": {}, "samples": 50}
    harmless = {"timeout_s": 9, "retries": 0, "retry_of": "x", "note": "n", "expect": {"kernels": 1}, "annotation": "f"}
    assert settings_of(plain) == settings_of(plain | harmless) == "{}"


def as_version_2(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Tables of a night as version 2 wrote them: no settings, and ids that left out the case."""
    found = {}
    for run, table in tables.items():
        rows = [row | {"series": short_id([row[key] for key in OLD_KEY])} for row in table.to_pylist()]
        names = [name for name in SCHEMA.names if name != "settings"]
        schema = pa.schema([SCHEMA.field(name) for name in names], metadata={VERSION_KEY: b"2"})
        found[run] = pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema=schema)
    return found


def cold_and_warm(edition: str, factor: float = 1.0) -> dict[str, pa.Table]:
    """Two cases that versions 1 and 2 put into one series; the cold one takes ten times as long."""
    same = {"workload": "matmul_add", "params": '{"size": 64}'}
    rows = []
    for process in (1, 2, 3):
        rows.append(row(edition, "host", "warm", process, **same, settings="{}", forward_time_us=100.0 * factor))
        cold = {"settings": '{"warmup": 0}', "forward_time_us": 1000.0}
        rows.append(row(edition, "host", "cold", process, **same, **cold))
    return {"host": table_of(rows)}


def test_series_of_older_nights_go_on_and_are_no_longer_mixed(tmp_path: Path) -> None:
    dates, store = editions(6), Store(tmp_path)
    for date in dates[:4]:
        store.add_night(date, as_version_2(cold_and_warm(date)))
    (mixed,) = {found["series"] for found in pq.read_table(tmp_path / "nights" / dates[0]).to_pylist()}
    for date in dates[4:]:
        store.add_night(date, cold_and_warm(date))
    read = store.read()
    series = {found.case: found for found in make_series(read.table, read.nights).series}
    assert set(series) == {"warm", "cold"}
    assert series["warm"].values["forward_time_us"].tolist() == [100.0] * 6
    assert series["cold"].values["forward_time_us"].tolist() == [1000.0] * 6
    assert read.renamed == {(mixed, "warm"): series["warm"].id, (mixed, "cold"): series["cold"].id}
    judged = judge_last_night(read, dates[-1], {}, lambda *_: {}, Rules())
    assert [event for event in judged.events if event.kind == "series"] == []


def test_the_committed_night_of_version_1_is_one_series_with_a_new_night(tmp_path: Path) -> None:
    place = tmp_path / "nights/2026-01-05"
    place.mkdir(parents=True)
    (place / "host.parquet").write_bytes((HERE / "version-1/nights/2026-01-05/host.parquet").read_bytes())
    store = Store(tmp_path)
    cases = sorted({found["case"] for found in store.read().table.to_pylist()})
    store.add_night("2026-01-06", night("2026-01-06", ["host"], cases, np.random.default_rng(0)))
    read = store.read()
    assert [list(series.nights) for series in make_series(read.table, read.nights).series] == [[0, 1]] * len(cases)


def test_what_was_told_of_an_older_series_is_not_told_again(tmp_path: Path) -> None:
    dates, store = editions(20), Store(tmp_path)
    tables = {date: cold_and_warm(date, 1.0 if at < 14 else 1.2) for at, date in enumerate(dates)}
    for date in dates[:-1]:
        store.add_night(date, as_version_2(tables[date]))
    store.add_night(dates[-1], tables[dates[-1]])
    read = store.read()
    (event,) = (
        found for found in judge_last_night(read, dates[-1], {}, lambda *_: {}, Rules()).events if found.kind == "time"
    )
    assert (event.case, event.night) == ("warm", dates[14])
    old = next(series for (series, case) in read.renamed if case == "warm")
    told = {dates[17]: {"events": [event.as_json() | {"series": old}]}}
    assert [
        found
        for found in judge_last_night(read, dates[-1], told, lambda *_: {}, Rules()).events
        if found.kind == "time"
    ] == []


def edition(cases: list[dict], specs: list[dict]) -> KeptEdition:
    about = {"edition": "2026-01-01", "runs": [{"run": "host", "kind": "host"}], "left_out": [], "cases": specs}
    processes = [Process("host", device="NVIDIA H200", kernels=1, **case) for case in cases]
    return KeptEdition(about, processes, {}, {})


def test_settings_are_recorded_as_configured() -> None:
    specs = [{"case": "a", "compile_options": {"mode": "max-autotune"}, "samples": 50}, {"case": "b"}]
    made = night_tables(edition([{"case": "a", "warmup": 0}, {"case": "b", "flush_l2": False}], specs))["host"]
    assert made["settings"].to_pylist() == ['{"compile_options": {"mode": "max-autotune"}, "warmup": 0}', "{}"]


def test_two_cases_of_one_series_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelbook.history.record.series_id", lambda row: "0123456789ab")
    with pytest.raises(RecordError, match="the cases a and b would be one series: rename one"):
        night_tables(edition([{"case": "a"}, {"case": "b"}], []))
