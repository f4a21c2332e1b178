"""The records of the ranks of a case, why the first of them failed, and the stage of each."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.harness import failures
from workloads.harness.rank import CASE, END, folder_of

NOTEBOOK = ".child.json"
# What torch, gloo and NCCL raise in a rank that lost its peer: a consequence, not the reason.
PEER_IS_GONE = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|remote process exited|ncclRemoteError|ncclSystemError"
    r"|DistNetworkError|DistStoreError|Socket Timeout|[Ww]ait timeout|[Tt]imed out (waiting|after)|watchdog",
)


@dataclass(frozen=True)
class Rank:
    """One rank: its folder, the record of its child, and the child's exit status and end; None if it was ended.

    ``ended_at``: seconds of the monotonic clock.
    """

    number: int
    folder: Path
    record: dict[str, Any]
    status: int | None
    ended_at: float | None

    @property
    def failed_at(self) -> float:
        """When its exception was raised, else when it ended, in seconds of the monotonic clock; inf if unknown."""
        at = self.record.get("error", {}).get("at", self.ended_at)
        return float(at) if isinstance(at, (int, float)) else float("inf")


def prepare(output: Path, count: int) -> None:
    """Make an empty folder for each rank, and remove those of an earlier measurement."""
    for folder in output.glob("rank-*"):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()
    for number in range(count):
        folder_of(output, number).mkdir()


def clean(output: Path) -> None:
    """Remove the files through which supervisor, launcher, ranks and children communicate."""
    of_ranks = [file for name in (END, NOTEBOOK) for file in output.glob(f"rank-*/{name}")]
    for file in (output / NOTEBOOK, output / CASE, *of_ranks):
        file.unlink(missing_ok=True)


def read(output: Path, count: int) -> tuple[Rank, ...]:
    """The ranks in order."""
    return tuple(_read(number, folder_of(output, number)) for number in range(count))


def _read(number: int, folder: Path) -> Rank:
    end = _object(folder / END)
    status, at = end.get("status"), end.get("at")
    return Rank(number, folder, read_notebook(folder / NOTEBOOK), status if isinstance(status, int) else None, at)


def read_notebook(path: Path) -> dict[str, Any]:
    """The record of a child; {} if there is none, or none that can be used."""
    record = _object(path)
    return record if isinstance(record.get("error", {}), dict) else {}


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def first_failure(ranks: Sequence[Rank], log: list[str]) -> failures.Failure | None:
    """The failure of the rank that failed first, with its number; None if none failed.

    A rank that lost its connection to another one counts only if no rank failed in another way: a process that crashes
    closes its connections before it has ended.
    """
    reasons = {rank.number: _failure(rank, log) for rank in ranks}
    failed = [(rank, reason) for rank in ranks if (reason := reasons[rank.number]) is not None]
    if not failed:
        return None
    first, reason = min(failed, key=lambda pair: (_lost_its_peer(pair[0]), pair[0].failed_at, pair[0].number))
    if reason.status == "unsupported" or len({other.reason for _, other in failed}) == 1 < len(failed):
        return reason
    return failures.Failure(reason.status, f"rank {first.number}: {reason.fact}", reason.remedy, reason.retry)


def _failure(rank: Rank, log: list[str]) -> failures.Failure | None:
    if "error" not in rank.record and rank.status is None:
        return None  # it was ended since another rank failed
    return failures.of_process(rank.status or 0, rank.record, log)


def _lost_its_peer(rank: Rank) -> bool:
    error = rank.record.get("error", {})
    return PEER_IS_GONE.search(f"{error.get('kind')}: {error.get('message')}") is not None


def stages(ranks: Sequence[Rank]) -> str:
    """The stage of the ranks, for a sentence; if they differ, each stage with its ranks."""
    by_stage: dict[str, list[str]] = {}
    for rank in ranks:
        by_stage.setdefault(rank.record.get("stage") or "its start", []).append(str(rank.number))
    if len(by_stage) == 1:
        return next(iter(by_stage))
    return ", ".join(f"{stage} (rank {', '.join(numbers)})" for stage, numbers in by_stage.items())
