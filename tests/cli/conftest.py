"""The command `kernelbook`, called as installed, and a folder of two made traces."""

import json

import pytest

from kernelbook.cli import main
from tests.trace.made_trace import forward, kernel, launch, write


@pytest.fixture
def kernelbook(capsys):
    """Run the command; returns status, stdout and stderr."""

    def call(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path):
    """one.json: a memset of 1 µs and the kernels gemm (20 µs) and relu (10 µs); two.json: gemm twice, 50 and 5 µs.

    rows.json is JSON, but no trace.
    """
    folder = tmp_path / "traces"
    folder.mkdir()
    write(folder / "one.json", forward())
    events = [launch(1, 0), launch(2, 5), kernel("gemm", 10, 50, 1), kernel("gemm", 70, 5, 2)]
    write(folder / "two.json", events)
    (folder / "rows.json").write_text(json.dumps({"rows": []}))
    return folder
