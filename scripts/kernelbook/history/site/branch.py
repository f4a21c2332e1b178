"""The site as one commit without a past on a git branch (gh-pages); neither the checkout nor its index is touched."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "Kernelbook",
    "GIT_AUTHOR_EMAIL": "kernelbook@localhost",
    "GIT_COMMITTER_NAME": "Kernelbook",
    "GIT_COMMITTER_EMAIL": "kernelbook@localhost",
}
TIMEOUT_S = 300


class BranchError(ValueError):
    """Git refused; the message is what it said, and what to do."""


def commit_site(site: Path, repository: Path, branch: str, message: str, remote: str | None = None) -> str:
    """Make `branch` one commit that holds the site, and with `remote` push it there; returns the commit's id.

    Raises BranchError with git's own words.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        work = f"--work-tree={site.resolve()}"
        _git(repository, work, "add", "--all", "--force", "--", ".", env=index, cwd=site.resolve())
        tree = _git(repository, "write-tree", env=index)
    commit = _git(repository, "commit-tree", tree, "-m", message, env=IDENTITY | _own_identity(repository))
    _git(repository, "update-ref", f"refs/heads/{branch}", commit)
    if remote:
        _git(repository, "push", "--force", remote, f"refs/heads/{branch}:refs/heads/{branch}")
    return commit


def _own_identity(repository: Path) -> dict[str, str]:
    """Whoever git is set up for here commits; without anybody, `IDENTITY` does."""
    found = {}
    for key, names in (
        ("user.name", ("AUTHOR_NAME", "COMMITTER_NAME")),
        ("user.email", ("AUTHOR_EMAIL", "COMMITTER_EMAIL")),
    ):
        asked = subprocess.run(["git", "config", key], cwd=repository, capture_output=True, text=True, check=False)
        if asked.stdout.strip():
            found |= {f"GIT_{name}": asked.stdout.strip() for name in names}
    return found


def _git(repository: Path, *args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    git_dir = ["--git-dir", _git_dir(repository)]
    return _run(["git", *git_dir, *args], cwd or repository, env)


def _git_dir(repository: Path) -> str:
    return _run(["git", "rev-parse", "--absolute-git-dir"], repository, None)


def _run(command: list[str], cwd: Path, env: dict[str, str] | None) -> str:
    quiet = {"GIT_TERMINAL_PROMPT": "0"}  # a nightly has nobody to ask
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | quiet | (env or {}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BranchError(f"git could not be run: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise BranchError(f"{' '.join(command[:2])} ... {command[-1]}: {said}")
    return done.stdout.strip()
