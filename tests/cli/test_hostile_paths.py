"""Names that are no text, names of dots, loops, pipes, folders without rights, full disks."""

import errno
import os

import pytest

from kernelbook import command
from tests.trace.made_trace import forward, write


def test_a_name_of_dots_has_a_folder_of_its_own_for_its_tables(kernelbook, tmp_path):
    """`...json` is the name `..` with the ending `.json`: its tables would lie beside --output."""
    (tmp_path / "traces").mkdir()
    for name in (".json", "..json", "...json"):
        write(tmp_path / "traces" / name, forward())
    assert kernelbook("summarize", tmp_path / "traces", "--output", tmp_path / "out")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "traces"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["trace", "trace-2", "trace-3"]


def test_diff_refuses_a_name_that_is_no_text(kernelbook, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    good = write(folder / "good.json", forward())
    bad = os.fsdecode(os.fsencode(folder) + b"/bad\xff.json")
    os.rename(write(folder / "x.json", forward()), bad)
    status, out, err = kernelbook("diff", bad, good)
    assert (status, out) == (2, "")
    assert err == f"{bad!a}: its name is no text: rename the file or folder\n"
    status, out, _ = kernelbook("diff", folder, folder)
    assert status == 0
    assert f"skipped: {bad!a}: its name is no text" in out.replace("\n", "")


def test_a_loop_a_pipe_and_a_device_are_named_for_what_they_are(kernelbook, tmp_path):
    good = write(tmp_path / "good.json", forward())
    (tmp_path / "loop.json").symlink_to("loop.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name, fact in (("loop.json", "Too many levels of symbolic links"), ("pipe.json", "is a pipe, not a file")):
        status, out, err = kernelbook("diff", good, tmp_path / name)
        assert (status, out) == (2, "")
        assert err.startswith(f"{tmp_path / name}: ")
        assert fact in err
        report = kernelbook("report", tmp_path / name, "-o", tmp_path / "out")
        assert report == (2, "", f"kernelbook report: {tmp_path / name}: is no folder\n")


def test_diff_with_a_range_that_there_is_not_says_where_the_names_are(kernelbook, folder):
    file = folder / "one.json"
    status, _, err = kernelbook("diff", file, file, "--annotation", "stpe")
    assert (status, err) == (2, f"{file}: no range named 'stpe': kernelbook summarize {file} lists the names\n")
    assert kernelbook("diff", file, file, "--annotation", "step")[0] == 0


def test_diff_of_a_folder_without_rights(kernelbook, tmp_path, monkeypatch):
    """As the operating system refuses it to anybody but root."""
    (tmp_path / "closed").mkdir()

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path / "edition.json"))

    monkeypatch.setattr("kernelbook.diffs.sides._side", refuse)
    fact = f"{tmp_path / 'closed'}: cannot be read: Permission denied"
    remedy = "get the right to read it, or name another"
    assert kernelbook("diff", tmp_path / "closed", tmp_path) == (2, "", f"{fact}: {remedy}\n")


@pytest.mark.parametrize(("name", "option"), [("report", "-o"), ("diff", "--output")])
def test_a_full_disk_names_the_folder_and_the_remedy(kernelbook, folder, tmp_path, monkeypatch, name, option):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kernelbook.diffs.as_files.write", full)
    monkeypatch.setattr("kernelbook.report.rendering.write_tables", full)
    words = [folder] if name == "report" else [folder / "one.json", folder / "one.json"]
    with pytest.raises(
        ValueError, match=r"No space left on device: make room there and in .*, or name another"
    ) as error:
        kernelbook(name, *words, option, tmp_path / "out")
    assert str(error.value).startswith(f"{tmp_path / 'out'}: cannot be written: ")
    assert str(error.value).endswith(f"name another folder with {option}")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_behind_standard_output(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kernelbook"])
    command._say(OSError, OSError(errno.ENOSPC, "No space left on device"), None)
    assert "No space left on device: make room, or write to another disk (" in capsys.readouterr().err


def test_folders_without_a_case_are_called_that(kernelbook, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine.yaml").write_text(f"runs: {{a: {{recorded: {tmp_path / 'empty'}}}}}\n")
    status, out, _ = kernelbook("check", tmp_path / "mine.yaml")
    assert status == 1
    assert "runs: no case is found: their folders hold no trace (*.json, *.json.gz) and no measurement.json" in out


def test_a_run_that_is_no_map_is_one_mistake(kernelbook, tmp_path):
    (tmp_path / "mine.yaml").write_text("runs: {a: 3}\ncases: {x: {workload: linear}}\n")
    status, out, _ = kernelbook("check", tmp_path / "mine.yaml")
    assert status == 1
    assert out.count("runs.a: ") == 1
    assert "runs.a: must be a map of keys and values, got 3" in out
