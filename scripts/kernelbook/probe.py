"""Can a run be measured here? The answer decides whether its cases are measured or become failed rows."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelbook.recorded import recorded_cases

SCHEMA = 1


def probe(spec: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Look at one run and return what run.json holds: status ok or lost, reason, and what identifies the build.

    spec: run, kind, where, description, and retry_of where an earlier look failed.
    """
    found = {"schema": SCHEMA, **spec, "probed_utc": utc_now(), "image_digest": None}
    obstacle = _LOOKS[spec["kind"]](root, spec)
    return found | {"status": "lost" if obstacle else "ok", "reason": obstacle}


def utc_now() -> str:
    """This second as 2026-11-29T15:00:00Z."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nothing_to_check(root: Path, spec: Mapping[str, Any]) -> None:
    """The host's torch is looked at when the plan is made; a broken one fails case by case, with its own words."""


def _recorded(root: Path, spec: Mapping[str, Any]) -> str | None:
    folder = root / spec["folder"]
    if not folder.is_dir():
        return f"no folder {spec['where']}: correct runs.{spec['run']}.recorded"
    if not recorded_cases(folder):
        return f"{spec['where']} holds neither <case>/<process>/measurement.json nor a trace (*.json, *.json.gz)"
    return None


_LOOKS = {"host": _nothing_to_check, "recorded": _recorded, "published": _nothing_to_check}
