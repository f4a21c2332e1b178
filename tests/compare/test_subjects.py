"""How the words for A and B are understood, and the files of a commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelbook.compare.subjects import (
    Subject,
    SubjectError,
    Wish,
    cases_of,
    check_pair,
    environment_of,
    files_of,
    python_words,
    read_settings,
    subject_of,
)
from kernelbook.config.errors import ConfigError
from kernelbook.sources.workload_source import Places

WORKLOAD = "from workloads import Workload\n\n\ndef block(context, rows=4):\n    return Workload(abs, (rows,))\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of sub/mine.py; the second is tagged `second`, and the working tree differs from both."""
    folder = tmp_path / "repository"
    (folder / "sub").mkdir(parents=True)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)

    git("init", "-b", "main")
    for text in ("first", "second"):
        (folder / "sub" / "mine.py").write_text(f"# {text}\n{WORKLOAD}")
        git("add", ".")
        git("commit", "-m", text)
    git("tag", "second")
    (folder / "sub" / "mine.py").write_text(f"# now\n{WORKLOAD}")
    return folder


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("host", "host"),
        ("docker://example.org/torch:2.14", "image"),
        ("images/torch.sif", "image"),
        ("torch.def", "image"),
        ("mine.py:block", "workload"),
        ("workload:package.module:block", "workload"),
        ("second", "commit"),
        ("HEAD~1", "commit"),
        ("commit:main", "commit"),
        (".", "commit"),
    ],
)
def test_a_text_is_taken_for_one_kind(text: str, kind: str, repository: Path) -> None:
    assert subject_of("A", text, repository).kind == kind


def test_a_python_and_a_virtual_environment(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    for text in ("venv", "venv/bin/python", "python:venv"):
        subject = subject_of("A", text, tmp_path)
        assert (subject.kind, subject.text) == ("python", str(tmp_path / "venv" / "bin" / "python"))
        assert python_words(subject) == subject.text
    assert environment_of(subject, {"PYTHONPATH": "x", "HOME": "y"}) == {"HOME": "y"}


@pytest.mark.parametrize("text", ["nothing", "commit:nothing", "python:nothing", ""])
def test_an_unknown_text_names_the_side_and_the_remedy(text: str, repository: Path) -> None:
    with pytest.raises(SubjectError, match=r"B=.*(: correct it|see git log|name an executable)"):
        subject_of("B", text, repository)


def test_kinds_that_cannot_be_compared_are_refused() -> None:
    host, image = Subject("A", "host", "host"), Subject("B", "x.sif", "image")
    check_pair(host, image)
    with pytest.raises(SubjectError, match="A is a host and B a workload"):
        check_pair(host, Subject("B", "mine.py:block", "workload"))


def test_files_of_a_commit_are_those_of_it_and_the_working_tree_stays(repository: Path, tmp_path: Path) -> None:
    sub = repository / "sub"
    sides = [subject_of(side, text, sub) for side, text in (("A", "HEAD~1"), ("B", "second"))]
    texts = [(files_of(side, sub, tmp_path / "store") / "mine.py").read_text() for side in sides]
    assert [text.splitlines()[0] for text in texts] == ["# first", "# second"]
    assert files_of(subject_of("B", ".", sub), sub, tmp_path / "store") == sub
    assert (sub / "mine.py").read_text().startswith("# now")


def test_two_workloads_are_one_case_with_the_wishes(repository: Path, root: Path) -> None:
    a, b = (subject_of(side, "sub/mine.py:block", repository) for side in "AB")
    wish = Wish(params={"rows": 8}, measure={"samples": 5})
    _, mine, theirs = cases_of(a, b, {}, wish, Places(repository, root))
    assert list(mine) == list(theirs) == ["block"]
    assert mine["block"]["workload"] == "sub/mine.py:block"
    assert (mine["block"]["params"], mine["block"]["samples"]) == ({"rows": 8}, 5)


def test_mistakes_are_reported_before_anything_runs(repository: Path, root: Path) -> None:
    a, b = (subject_of(side, "sub/mine.py:blok", repository) for side in "AB")
    with pytest.raises(ConfigError, match="blok"):
        cases_of(a, b, {}, Wish(), Places(repository, root))


def test_commits_are_compared_by_cases_with_code_of_ones_own(repository: Path, root: Path) -> None:
    config = repository / "config.yaml"
    config.write_text(
        "runs: {host: {host: true}}\ncases:\n  mine: {workload: 'sub/mine.py:block'}\n  theirs: {workload: linear}\n"
    )
    a, b = subject_of("A", "main", repository), subject_of("B", ".", repository)
    _, specs, _ = cases_of(a, b, read_settings(config), Wish(), Places(repository, root))
    assert list(specs) == ["mine"]
    with pytest.raises(SubjectError, match="no chosen case has a workload of your own"):
        cases_of(a, b, read_settings(config), Wish(only_cases=("theirs",)), Places(repository, root))


def test_a_workload_that_is_not_there_is_a_mistake_of_its_side(tmp_path: Path, root: Path) -> None:
    (tmp_path / "there.py").write_text(WORKLOAD)
    sides = Subject("A", "there.py:block", "workload"), Subject("B", "gone.py:block", "workload")
    with pytest.raises(ConfigError, match=r"^B: cases\.block\.workload: there is no file 'gone\.py'"):
        cases_of(*sides, {}, Wish(), Places(tmp_path, root))
