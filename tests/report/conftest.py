"""A made-up edition and its rendered report, shared by the tests of the report."""

from __future__ import annotations

from pathlib import Path

import made_edition
import pytest

from kernelbook.report import render_report


@pytest.fixture(scope="session")
def edition_dir(tmp_path_factory) -> Path:
    return made_edition.build(tmp_path_factory.mktemp("results") / "test" / "edition")


@pytest.fixture(scope="session")
def report(edition_dir, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("reports") / "test"
    render_report(edition_dir, output, "2026-11-29T15:00:00Z")
    return output
