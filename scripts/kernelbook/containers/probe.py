"""Checks whether a run can be measured here; if not, its cases become failed rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelbook.containers.images import Image, ImageError, image_of, obtain, stamp_of
from kernelbook.containers.launching import look_inside, prepare_environment
from kernelbook.text.formatting import utc_now
from kernelbook.trace.recorded import recorded_cases

SCHEMA = 1


class Lost(Exception):  # noqa: N818
    """The run cannot take part; the message says fact, where and remedy."""


def probe(spec: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Check one run and return the content of run.json: status ok or lost, reason, and what identifies the build.

    spec: run, kind, where, description, and retry_of if an earlier check failed; for a container run also `container`
    (see Plan.run_json), whose image is pulled or built, linked into the results and started once.
    """
    entry = {key: value for key, value in spec.items() if key != "container"}
    status = {"schema": SCHEMA, **entry, "probed_utc": utc_now(), "image_digest": None}
    try:
        return status | {"status": "ok", "reason": None} | _LOOKS[spec["kind"]](root, spec)
    except (Lost, ImageError, OSError) as obstacle:
        return status | {"status": "lost", "reason": str(obstacle)}


def _nothing_to_check(root: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The plan checks the host's torch; with a broken one each case fails with torch's message."""
    return {}


def _recorded(root: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    folder = root / spec["folder"]
    if not folder.is_dir():
        raise Lost(f"no folder {spec['where']}: correct runs.{spec['run']}.recorded")
    if not recorded_cases(folder):
        raise Lost(f"{spec['where']} holds neither <case>/<process>/measurement.json nor a trace (*.json, *.json.gz)")
    return {}


def _container(root: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fetch the image, link it to where the measurement expects it, start it; returns its digests and versions."""
    how = spec["container"]
    where = f"runs.{spec['run']}"
    image = image_of(spec["where"], root / how["store"], root / how["source"])
    identity = obtain(image, f"{where}.container")
    link = root / how["link"]
    _link(image, link)
    prepare_environment(os.environ, how["visible_devices"])
    versions = look_inside(Path(how["link"]), how["python"], how["arguments"], spec["where"], where)
    return {
        "image_digest": identity.digest,
        **vars(identity),
        "image_name": image.name,
        "image_stamp": stamp_of(image.file, how["python"]),
        "image_seen": how["seen"],
        **versions,
    }


def _link(image: Image, link: Path) -> None:
    """A link to the image at a path without spaces, which Snakemake needs."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(image.file.absolute())


_LOOKS = {"host": _nothing_to_check, "recorded": _recorded, "published": _nothing_to_check, "container": _container}
