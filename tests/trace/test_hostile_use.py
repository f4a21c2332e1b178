"""summarize_trace under hostile use: pipes, closed and full outputs, narrow encodings, names that are no text."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import summarize_trace
from kernelbook.summarize import batch
from kernelbook.trace import TraceError, read_trace
from tests.helpers.patience import LONG
from tests.trace.made_trace import forward, write

COMMAND = [sys.executable, Path(summarize_trace.__file__)]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "made.json", forward())


def finished(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=LONG, check=False, **options)


def pipe_at(path):
    os.mkfifo(path)
    return path


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


@pytest.mark.parametrize(
    ("make", "kind"),
    [(pipe_at, "a pipe"), (socket_at, "a socket"), (lambda _: "/dev/zero", "a device")],
    ids=["pipe", "socket", "device"],
)
def test_what_is_no_file_is_refused_at_once(make, kind):
    """Nobody writes into the pipe, so a reader would wait forever."""
    with tempfile.TemporaryDirectory() as folder:  # the name of a socket must be short
        special = make(Path(folder) / "made.json")
        with pytest.raises(TraceError, match=f"is {kind}, not a file: write its content to a file first"):
            read_trace(special)
        done = finished(special, "--json", text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_pipe_in_a_folder_of_traces_is_passed_over(trace):
    pipe_at(trace.with_name("pipe.json"))
    done = finished(trace.parent, "--json", text=True)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def broken(path, annotation):
    """Read a trace as read_trace does, but with a bug, or the kernel's anger, for files of certain names."""
    if "bug" in Path(path).name:
        raise OverflowError("too large\nto convert")
    if "kill" in Path(path).name:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_trace(path, annotation)


@pytest.mark.parametrize(("name", "said"), [("bug", "OverflowError: too large to convert"), ("kill", "was killed")])
@pytest.mark.parametrize("place", ["a", "z"])
def test_no_file_takes_another_with_it(trace, monkeypatch, name, said, place):
    monkeypatch.setattr(batch, "read_trace", broken)
    for other in ("m", "n", "o"):
        write(trace.with_name(f"{other}.json"), forward())
    write(trace.with_name(f"{place}-{name}.json"), forward())
    results = list(batch.run_jobs(batch.find_jobs([trace.parent], None), None))
    failed = [result for result in results if isinstance(result, batch.ReadFailure)]
    assert len(results) == 5
    assert len(failed) == 1
    assert said in failed[0].message
    assert f"{place}-{name}.json" in failed[0].message
    assert not failed[0].skippable


def test_a_closed_output_is_no_traceback(trace):
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *COMMAND, trace], capture_output=True, timeout=LONG, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_output_is_one_line_and_a_failure(trace, options):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *options, trace], stdout=full, stderr=subprocess.PIPE, timeout=LONG, check=False, text=True
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_an_output_without_the_letter_mu_spells_it_out(trace):
    done = finished(trace, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xb5s" in done.stdout


def test_a_message_is_one_line_of_plain_letters_whatever_the_file_is_called(tmp_path):
    file = tmp_path / "a\nb\x1b[31m\udcff.json"
    file.write_text("")
    done = finished(file, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("a b[U+001B][31m[U+DCFF].json: the file is empty; record the trace again\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "folder"), [("\udcff.json", "tables"), ("made.json", "scheme:tables")])
def test_tables_are_written_whatever_the_names_of_trace_and_folder(trace, tmp_path, name, folder):
    file = tmp_path / name
    file.write_bytes(trace.read_bytes())
    done = finished(name, "--json", "--output", folder, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    (written,) = (tmp_path / folder).iterdir()
    assert {"ranges.csv", "ranges.parquet"} <= {path.name for path in written.iterdir()}
