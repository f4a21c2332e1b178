"""The command `kernelbook` as a whole: subcommands, help, statuses, what is imported."""

import json
import os
import subprocess
import sys

import pytest

from kernelbook.cli import COMMANDS
from tests.helpers import ROOT
from tests.helpers.patience import LONG
from tests.helpers.schemas import validate
from tests.trace.made_trace import annotation, forward, write

HEAVY = ("torch", "snakemake", "pandas", "scipy", "matplotlib")


def shell(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "kernelbook", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), **environment},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def test_every_command_is_listed_with_what_it_does(kernelbook):
    status, out, _ = kernelbook("--help")
    assert status == 0
    assert all(f"  {name} " in out and about in out for name, about in COMMANDS.items())


@pytest.mark.parametrize("words", [(), ("nope",), ("top",), ("name",)])
def test_bad_arguments_are_status_2(kernelbook, words):
    status, out, err = kernelbook(*words)
    assert (status, out) == (2, "")
    assert "usage: kernelbook" in err


def test_a_command_imports_nothing_heavy(folder):
    code = (
        "import sys; from kernelbook.cli import main; main(sys.argv[1:]);"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    for words in (["summarize", folder / "one.json"], ["top", folder / "one.json"], ["name", "gemm"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
            capture_output=True, text=True, timeout=LONG, check=True,
        )  # fmt: skip
        assert done.stderr == "\n", words


def test_no_colours_and_no_progress_where_nobody_looks(folder):
    done = shell("top", folder / "one.json", folder / "two.json", TERM="xterm")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


def test_name_as_json_fits_its_schema(kernelbook):
    status, out, _ = kernelbook("name", "--json", "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "nothing known")
    assert status == 0
    first, second = map(json.loads, out.splitlines())
    for each in (first, second):
        validate(each, "cli/name.schema.json")
    assert (first["family"], first["arch"], second["family"], second["dtype"]) == ("GEMM", "sm90", "unknown", None)


def test_a_misspelled_command_gets_the_right_one(kernelbook):
    status, _, err = kernelbook("sumarize", "trace.json")
    assert status == 2
    assert "no command 'sumarize': did you mean 'summarize'?" in err


def test_an_annotation_that_no_range_has_gets_the_right_one(kernelbook, tmp_path):
    file = write(tmp_path / "made.json", forward())  # its range is `step`
    assert kernelbook("summarize", file, "--annotation", "stpe")[2].endswith("did you mean 'step'?\n")
    assert kernelbook("summarize", file, "--annotation", "backward")[2].endswith(": there is: step\n")
    assert kernelbook("summarize", file, "--annotation", "st*")[2] == ""


def test_of_many_names_the_first_are_listed(kernelbook, tmp_path):
    ranges = [annotation(f"part {letter}", 10 * place, 5) for place, letter in enumerate("abcdefg")]
    file = write(tmp_path / "made.json", ranges)
    listed = "there is: part a, part b, part c, part d, part e and 2 more\n"
    assert kernelbook("summarize", file, "--annotation", "zzz")[2].endswith(listed)
    assert kernelbook("summarize", file, "--annotation", "part_g")[2].endswith("did you mean 'part g'?\n")
