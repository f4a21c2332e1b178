"""Made-up nights whose events are known beforehand; times in µs."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kernelbook.history.schema import series_id, short_id, table_of
from kernelbook.history.store import Store

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel__5x_cublas"
GEMM_2 = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)"


def editions(count: int, first: str = "2026-01-01") -> list[str]:
    start = date.fromisoformat(first)
    return [str(start + timedelta(days=day)) for day in range(count)]


def continued(played: Any, folder: Path) -> Any:
    """What has played nights, again in another folder, where it plays on as it would have; it has `rng` and `dates`."""
    again = type(played)(shutil.copytree(played.store.folder, folder, dirs_exist_ok=True))
    again.rng, again.dates = copy.deepcopy((played.rng, played.dates))
    return again


def row(edition: str, run: str, case: str, process: int, **changes: object) -> dict:
    """One process of a case as the history holds it; `changes` replace columns."""
    base = {
        "edition": edition, "night": edition[:10], "run": run, "line": run, "case": case, "process": process,
        "workload": case, "variant": "default", "mode": "eager", "dtype": "bfloat16", "params": "{}", "status": "ok",
        "device": "NVIDIA H200", "device_type": "cuda", "driver": "580.95.05", "torch": "2.13.0", "cuda": "13.0",
        "cudnn": "91002", "image": "docker://example/torch:nightly", "image_digest": "sha256:" + "a" * 64,
        "started_utc": f"{edition[:10]}T02:00:00Z", "kernels": [GEMM, ADD], "kernel_count": 2,
        "memcpys": 0, "memsets": 1, "launches": 3,
        "ops": ["aten::linear", "aten::addmm", "aten::add"], "warnings": [], "sm_clock_mhz": 1980.0,
        "forward_time_us": 100.0, "device_time_us": 80.0, "cpu_time_us": 60.0,
    }  # fmt: skip
    made = base | changes
    if made["status"] == "ok":
        made["kernels_id"] = short_id([made["kernels"], made["memcpys"], made["memsets"]]) if made["kernels"] else None
        made["ops_id"] = short_id(made["ops"]) if made["ops"] else None
        made["series"] = series_id(made)
    else:
        made |= dict.fromkeys(("kernels", "ops", "forward_time_us", "device_time_us", "cpu_time_us", "launches"))
    return made


def night(
    edition: str,
    runs: Iterable[str],
    cases: Iterable[str],
    rng: np.random.Generator,
    *,
    noise: float = 0.01,
    processes: int = 5,
    samples: int = 0,
    change: Callable[[str, str], dict] = lambda run, case: {},
) -> dict[str, pa.Table]:
    """A night of every case on every run; `change(run, case)` gives `factor` (of all times) and columns to replace."""
    tables = {}
    for run in runs:
        rows = []
        for case in cases:
            extra = dict(change(run, case))
            factor = extra.pop("factor", 1.0) * (1 + noise * rng.standard_normal())
            for process in range(1, processes + 1):
                own = factor * (1 + 0.003 * rng.standard_normal())
                times = {name: base * own for name, base in (("forward_time_us", 100.0), ("device_time_us", 80.0))}
                times["cpu_time_us"] = 60.0 * (1 + 0.01 * rng.standard_normal())
                if samples:
                    times["forward_times_us"] = list(100.0 * own * (1 + 0.01 * rng.standard_normal(samples)))
                rows.append(row(edition, run, case, process, **times | extra))
        tables[run] = table_of(rows)
    return tables


def fill(folder: Path, dates: Iterable[str], runs: Iterable[str], cases: Iterable[str]) -> Store:
    """A history in which every night is the first with other times: made quickly, read as slowly as real ones."""
    store, rng = Store(folder), np.random.default_rng(0)
    first = night("2026-01-01", runs, cases, rng, samples=50, change=lambda run, case: {"settings": "{}"})
    for date_of_night in dates:
        tables = {}
        for run, table in first.items():
            factor = 1 + 0.01 * rng.standard_normal(len(table))
            columns = {name: table[name].to_numpy() * factor for name in ("forward_time_us", "device_time_us")}
            columns |= dict.fromkeys(("edition", "night"), [date_of_night] * len(table))
            for name, values in columns.items():
                place = table.column_names.index(name)
                table = table.set_column(place, table.schema.field(name), pa.array(values))
            tables[run] = table
        store.add_night(date_of_night, tables)
    return store
