"""A reading of events given inline."""

import pytest

from kernelbook.trace import read_trace
from tests.trace import made_trace


@pytest.fixture
def read(tmp_path):
    def of(events, annotation=None, **head):
        return read_trace(made_trace.write(tmp_path / "made.json", events, **head), annotation)

    return of


@pytest.fixture
def read_bytes(tmp_path):
    def of(data, name="made.json"):
        path = tmp_path / name
        path.write_bytes(data)
        return read_trace(path)

    return of
