"""Publishing to a git branch: what it replaces, and what it refuses to replace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelbook.history.site.branch import TRAILER, BranchError, commit_site

NOT_OURS = "a commit that Kernelbook did not write: name another branch, or set publish.git_adopt: true"


def git(*words: str, cwd: Path) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(cwd: Path, name: str, *more: str) -> None:
    (cwd / name).write_text(name, encoding="utf-8")
    git("add", name, cwd=cwd)
    git("commit", "--quiet", "-m", name, *more, cwd=cwd)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git with an author, and without the configuration of whoever runs the tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("nights", encoding="utf-8")
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with the branches trunk, which is its default, and side."""
    git("init", "--quiet", "--bare", "-b", "trunk", "remote.git", cwd=tmp_path)
    git("init", "--quiet", "-b", "trunk", "first", cwd=tmp_path)
    commit(tmp_path / "first", "work")
    git("branch", "side", cwd=tmp_path / "first")
    git("push", "--quiet", "../remote.git", "trunk", "side", cwd=tmp_path / "first")
    return tmp_path / "remote.git"


@pytest.fixture
def clone(tmp_path: Path, remote: Path) -> Path:
    """A clone of it, on the branch night."""
    git("clone", "--quiet", "remote.git", "clone", cwd=tmp_path)
    git("switch", "--quiet", "-c", "night", cwd=tmp_path / "clone")
    return tmp_path / "clone"


@pytest.fixture
def publish(site: Path, clone: Path) -> Callable[..., str]:
    def publish(branch: str, to: str | None = "origin", adopt: bool = False) -> str:
        return commit_site(site, clone, branch, "Nights up to 2026-01-02", to, adopt)

    return publish


def refs(repository: Path) -> str:
    return git("for-each-ref", cwd=repository)


def refused(publish: Callable[..., str], clone: Path, remote: Path, words: str, branch: str, **how: object) -> None:
    """Publishing says `words`, and no branch has moved, here or there."""
    before = refs(clone), refs(remote)
    with pytest.raises(BranchError, match=words):
        publish(branch, **how)
    assert (refs(clone), refs(remote)) == before


def test_a_new_branch_is_one_commit_with_our_trailer_and_is_replaced_by_the_next(publish, clone, remote, site):
    first = publish("gh-pages")
    (site / "index.html").write_text("more nights", encoding="utf-8")
    second = publish("gh-pages")
    assert first != second
    for repository in (clone, remote):
        assert git("rev-list", "gh-pages", cwd=repository) == second
        assert git("show", "gh-pages:index.html", cwd=repository) == "more nights"
    assert git("show", "-s", "--format=%B", "gh-pages", cwd=remote) == f"Nights up to 2026-01-02\n\n{TRAILER}"
    assert git("status", "--short", "--branch", cwd=clone) == "## night"


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("how", [None, "origin"])
def test_the_branch_that_is_checked_out(publish, clone, remote, how, adopt):
    refused(publish, clone, remote, "night: it is checked out", "night", to=how, adopt=adopt)
    git("switch", "--quiet", "--orphan", "unborn", cwd=clone)
    refused(publish, clone, remote, "unborn: it is checked out", "unborn", to=how, adopt=adopt)


@pytest.mark.parametrize("adopt", [False, True])
def test_a_branch_that_another_worktree_has_checked_out(publish, clone, remote, tmp_path, adopt):
    git("worktree", "add", "--quiet", "-b", "pages", str(tmp_path / "other"), cwd=clone)
    refused(publish, clone, remote, "pages: it is checked out", "pages", adopt=adopt)


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("branch", ["trunk", "Trunk"])
@pytest.mark.parametrize("how", [None, "origin"])
def test_the_default_branch(publish, clone, remote, branch, how, adopt):
    refused(publish, clone, remote, f"{branch}: it is the default branch of origin", branch, to=how, adopt=adopt)


@pytest.mark.parametrize("adopt", [False, True])
def test_the_default_branch_of_a_remote_that_was_never_fetched(publish, clone, remote, adopt):
    git("remote", "remove", "origin", cwd=clone)
    git("branch", "-D", "trunk", cwd=clone)
    address = str(remote)
    refused(publish, clone, remote, "trunk: it is the default branch of", "trunk", to=address, adopt=adopt)


def test_a_default_branch_that_the_remote_chose_since_is_asked_for(publish, clone, remote):
    git("symbolic-ref", "HEAD", "refs/heads/side", cwd=remote)
    refused(publish, clone, remote, "side: it is the default branch of origin", "side", adopt=True)


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("branch", ["main", "master", "MAIN", "HEAD"])
def test_main_and_master_even_where_they_do_not_exist_yet(publish, clone, remote, branch, adopt):
    refused(publish, clone, remote, f"publish.git_branch: {branch}", branch, adopt=adopt)


@pytest.mark.parametrize("branch", ["refs/heads/trunk", "-d", "a..b", "a b", "a.lock", "@{-1}", "/x", "x/"])
def test_what_is_no_name_of_a_branch(publish, clone, remote, branch):
    refused(publish, clone, remote, "is not the name of a branch", branch, adopt=True)


def test_a_branch_of_somebody_else_here(publish, clone, remote):
    git("branch", "mine", cwd=clone)
    refused(publish, clone, remote, f"mine of this repository is at [0-9a-f]{{12}}, {NOT_OURS}", "mine", to=None)


def test_a_branch_of_somebody_else_at_the_remote_alone(publish, clone, remote):
    """Its commit is not in this clone."""
    commit(clone.parent / "first", "pages")
    git("push", "--quiet", "../remote.git", "HEAD:gh-pages", cwd=clone.parent / "first")
    refused(publish, clone, remote, f"gh-pages of origin is at [0-9a-f]{{12}}, {NOT_OURS}", "gh-pages")


def test_our_branch_with_a_commit_of_somebody_on_top(publish, clone, remote, tmp_path):
    publish("gh-pages")
    git("clone", "--quiet", "-b", "gh-pages", str(remote), "third", cwd=tmp_path)
    commit(tmp_path / "third", "CNAME", "-m", TRAILER)  # with our trailer even
    git("push", "--quiet", cwd=tmp_path / "third")
    refused(publish, clone, remote, "gh-pages of origin", "gh-pages")


def test_a_branch_that_was_adopted_is_ours_from_then_on(publish, clone, remote):
    git("push", "--quiet", "origin", "night:gh-pages", cwd=clone)
    git("branch", "gh-pages", cwd=clone)
    publish("gh-pages", adopt=True)
    second = publish("gh-pages")
    assert git("rev-list", "gh-pages", cwd=remote) == second


def test_a_site_that_another_machine_published_is_replaced(publish, clone, remote, site, tmp_path):
    git("clone", "--quiet", str(remote), "other machine", cwd=tmp_path)
    git("switch", "--quiet", "--detach", cwd=tmp_path / "other machine")
    commit_site(site, tmp_path / "other machine", "gh-pages", "Nights up to 2026-01-01", "origin")
    (site / "index.html").write_text("more nights", encoding="utf-8")
    assert git("rev-list", "gh-pages", cwd=remote) != publish("gh-pages") == git("rev-list", "gh-pages", cwd=remote)


@pytest.mark.parametrize("there", [False, True])
def test_a_push_of_somebody_else_in_the_meantime_is_not_overwritten(publish, clone, remote, tmp_path, there):
    """The push has a lease on what the remote held when it was looked at; a hook of git's pushes just before it."""
    if there:
        publish("gh-pages")
        (clone.parent / "site" / "index.html").write_text("more nights", encoding="utf-8")
    hook = clone / ".git" / "hooks" / "reference-transaction"
    theirs = f'git --git-dir "{remote}" update-ref refs/heads/gh-pages side'
    hook.write_text(f'#!/bin/sh\n[ "$1" = committed ] && {theirs}\n:\n', encoding="utf-8")
    hook.chmod(0o755)
    with pytest.raises(BranchError, match=r"git push: .*stale info"):
        publish("gh-pages")
    assert git("rev-parse", "gh-pages", cwd=remote) == git("rev-parse", "side", cwd=remote)


def test_a_remote_that_cannot_be_reached_changes_nothing_and_shows_no_password(publish, clone, remote):
    before = refs(clone)
    with pytest.raises(BranchError, match="git ls-remote: ") as error:
        publish("gh-pages", to="http://user:PASSW0RD@127.0.0.1:9/x.git")
    assert "PASSW0RD" not in str(error.value)
    assert refs(clone) == before


def test_a_bare_repository_can_publish_but_not_to_its_default_branch(site, remote):
    with pytest.raises(BranchError, match="trunk: it is checked out"):
        commit_site(site, remote, "trunk", "Nights", adopt=True)
    assert commit_site(site, remote, "gh-pages", "Nights") == git("rev-list", "gh-pages", cwd=remote)
