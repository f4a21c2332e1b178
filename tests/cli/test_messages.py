"""Messages of the commands about bad arguments, files that are no traces, and folders without access."""

import json
import os
import sys

import pytest

from kernelbook import command
from tests.trace.made_trace import document, forward, write

READERS = ("summarize", "top", "check")


@pytest.fixture
def closed(monkeypatch):
    """Folders of the name `closed` cannot be listed, whoever runs the tests."""
    scandir = os.scandir

    def refusing(path="."):
        if not isinstance(path, int) and os.path.basename(os.fspath(path)) == "closed":
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)


@pytest.mark.parametrize("name", READERS)
def test_every_command_words_a_skipped_file_alike(kernelbook, folder, tmp_path, name):
    skipped = f"skipped: {folder / 'rows.json'}: not a torch trace: found a JSON object with the keys 'rows'\n"
    assert kernelbook(name, folder)[2] == skipped
    assert kernelbook("report", folder, "-o", tmp_path / "out")[2] == skipped


@pytest.mark.parametrize("name", READERS)
def test_a_folder_that_cannot_be_listed_is_reported(kernelbook, folder, closed, name):
    (folder / "closed").mkdir()
    write(folder / "closed" / "three.json", forward())
    status, _, err = kernelbook(name, folder)
    assert status == 0
    assert f"skipped: {folder / 'closed'}: cannot be read: Permission denied\n" in err
    status, out, err = kernelbook(name, folder / "closed")
    assert (status, out, err) == (2, "", f"{folder / 'closed'}: cannot be read: Permission denied\n")


def test_report_and_diff_report_a_folder_that_cannot_be_listed(kernelbook, folder, closed, tmp_path):
    (folder / "closed").mkdir()
    status, _, err = kernelbook("report", folder, "-o", tmp_path / "out")
    assert status == 0
    assert f"skipped: {folder / 'closed'}: cannot be read: Permission denied\n" in err
    status, _, err = kernelbook("report", folder / "closed", "-o", tmp_path / "out2")
    assert (status, err) == (2, f"kernelbook report: {folder / 'closed'}: cannot be read: Permission denied\n")
    assert "cannot be read: Permission denied" in kernelbook("diff", folder, folder)[1]
    status, _, err = kernelbook("diff", folder / "closed", folder)
    assert status == 2
    assert "cannot be read: Permission denied" in err


@pytest.mark.parametrize(("name", "option", "kind"), [("report", "-o", "report"), ("diff", "--output", "diff")])
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    kernelbook, folder, tmp_path, monkeypatch, name, option, kind
):
    words = [name, *(["traces"] if name == "report" else ["absent.json", "absent.json"])]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.tex").write_text("years of work")
    remedy = f"name another folder with {option}"
    for output, fact in (
        ("precious", f"precious: is not a {kind}, and is not replaced"),
        ("precious/thesis.tex", f"precious/thesis.tex: is not a {kind}, and is not replaced"),
        ("precious/thesis.tex/out", f"precious/thesis.tex/out: {tmp_path / 'precious/thesis.tex'} is a file"),
    ):
        assert kernelbook(*words, option, output) == (2, "", f"kernelbook {name}: {fact}: {remedy}\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    status, _, err = kernelbook(*words, option, "new/out")
    fact = f"new/out: cannot be written, {tmp_path} is read-only for you"
    assert (status, err) == (2, f"kernelbook {name}: {fact}: {remedy}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "traces"]


def test_a_diff_is_replaced_by_the_next(kernelbook, folder, tmp_path):
    for _ in range(2):
        assert kernelbook("diff", folder / "one.json", folder / "one.json", "--output", tmp_path / "out")[0] == 0


def test_failed_traces_are_listed_with_their_reasons(kernelbook, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "empty.json").touch()
    (folder / "text.json").write_text("hello")
    status, out, err = kernelbook("report", folder, "-o", tmp_path / "out")
    assert status == 0
    assert out.startswith("2 cases failed.\n")
    why = "the trace cannot be read: <traces>"
    assert err.splitlines() == [
        f"failed: traces/empty: {why}/empty.json: the file is empty; record the trace again",
        f"failed: traces/text: {why}/text.json: not a torch trace: not JSON, begins with 'hello'",
    ]


def test_traces_are_read_one_by_one_where_processes_cannot_share_memory(kernelbook, folder, monkeypatch):
    """Without /dev/shm a pool of processes is an OSError."""

    def none(*_, **__):
        raise FileNotFoundError(2, "No such file or directory")

    expected = kernelbook("top", folder, "--json")
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", none)
    assert kernelbook("top", folder, "--json") == expected


@pytest.mark.parametrize("limit", ["-3", "x", "1.5", ""])
def test_a_limit_is_a_whole_number(kernelbook, folder, limit):
    status, out, err = kernelbook("top", f"--limit={limit}", folder)
    assert (status, out) == (2, "")
    assert f"argument --limit: must be a whole number from 0 on, got '{limit}'" in err


def test_a_file_in_utf_16_names_the_command_that_converts_it(kernelbook, tmp_path):
    """What `>` of PowerShell writes."""
    file = tmp_path / "made.json"
    file.write_text(json.dumps(document(forward())), encoding="utf-16")
    status, _, err = kernelbook("summarize", file)
    assert status == 2
    assert err == f"{file}: not a torch trace: UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8\n"


def test_a_key_that_a_configuration_lacks_is_reported_of_that_file(kernelbook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("runs: {host: {host: true}}\n")
    status, out, _ = kernelbook("check", "mine.yaml")
    assert status == 1
    assert "  mine.yaml: the top level: the key 'cases' is missing" in out


@pytest.mark.parametrize("columns", ["1", "40"])
def test_a_narrow_terminal_cuts_no_figure(kernelbook, folder, monkeypatch, columns):
    """As wide as one of 80 columns: the times of gemm and relu, 20 and 10 of 31 µs, stand there as a whole."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = kernelbook("top", folder / "one.json")[1]
    assert "20.0 µs" in out
    assert "10.0 µs" in out
    assert "65 %" in out


def test_without_a_command_all_of_them_are_listed(kernelbook):
    status, out, err = kernelbook()
    assert (status, out) == (2, "")
    assert "summarize  what ran in traces" in err


@pytest.mark.parametrize("words", [["help"], ["help", "top"]])
def test_help_is_a_word_too(kernelbook, words):
    assert kernelbook(*words) == kernelbook(*words[1:], "--help")
    assert kernelbook(*words)[0] == 0


def test_a_closed_standard_input_holds_no_name(kernelbook, monkeypatch):
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, stream, getattr(sys, stream))  # which command.run may replace
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert command.run(lambda: kernelbook("name", "-")[0]) == 0


def test_a_full_disk_is_named_without_a_number(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kernelbook"])
    command._say(OSError, OSError(28, "No space left on device"), None)
    assert capsys.readouterr().err.startswith(
        "kernelbook: No space left on device: make room, or write to another disk ("
    )


def test_names_that_hide_text_are_escaped_in_summary_json(kernelbook, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    bad = "gemm\x07\x7f\x9b31m\u202e\u2028\U000e0041"
    events = [dict(event, name=bad) if event["name"] == "gemm" else event for event in forward()]
    write(folder / "made.json", events)
    assert kernelbook("report", folder, "-o", tmp_path / "out")[0] == 0
    text = (tmp_path / "out/summary.json").read_text(encoding="utf-8")
    assert not [sign for sign in text if sign != "\n" and not sign.isprintable()]
    assert json.loads(text)
    for name in ("report.md", "details.md", "summary.md", "index.html"):
        shown = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert not set("\x07\x7f\x9b\u202e\u2028\U000e0041") & set(shown), name
