"""Publish the site as one commit without parents on a git branch such as gh-pages.

Neither the checkout nor its index is touched. A branch is replaced only if Kernelbook wrote its tip (`TRAILER`), or
with `adopt`. A branch that is checked out or a default branch is never replaced.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

from kernelbook.text.credentials import without_secrets

IDENTITY = {
    "GIT_AUTHOR_NAME": "Kernelbook",
    "GIT_AUTHOR_EMAIL": "kernelbook@localhost",
    "GIT_COMMITTER_NAME": "Kernelbook",
    "GIT_COMMITTER_EMAIL": "kernelbook@localhost",
}
TIMEOUT_S = 300
TRAILER = "Published-by: Kernelbook"
NEVER = {"HEAD": "git has another meaning for it", **dict.fromkeys(("main", "master"), "it is for a project's work")}


class BranchError(ValueError):
    """The branch was not published; the message has the reason or git's message, and the remedy."""


def commit_site(
    site: Path, repository: Path, branch: str, message: str, remote: str | None = None, adopt: bool = False
) -> str:
    """Make `branch` one commit that holds the site, and push it if `remote` is set; returns the commit id.

    adopt: replace the branch even if Kernelbook did not write its tip. Raises BranchError if the branch must not be
    replaced (nothing is changed then) or if git fails.
    """
    git = Git(repository)
    git.check_name(branch)
    ref = f"refs/heads/{branch}"
    default, pushed = git.remote_state(remote, ref) if remote else ("", "")
    protected = NEVER | git.checked_out() | git.default_branches() | {default: f"it is the default branch of {remote}"}
    if reason := {name.casefold(): why for name, why in protected.items()}.get(branch.casefold()):
        raise BranchError(
            f"publish.git_branch: {branch}: {reason}, and publishing replaces all that a branch holds: "
            "name a branch that holds nothing but the site, such as gh-pages"
        )
    local = git.run("for-each-ref", "--format=%(objectname)", ref)
    for tip, where in ((local, "this repository"), (pushed, str(remote))):
        if tip and not adopt and not git.wrote(tip, ref, remote):
            raise BranchError(
                f"publish.git_branch: {branch} of {without_secrets(where)} is at {tip[:12]}, a commit that Kernelbook "
                "did not write: name another branch, or set publish.git_adopt: true to replace what it holds"
            )
    commit = git.commit_of(site, f"{message}\n\n{TRAILER}")
    git.run("update-ref", ref, commit, local or "0" * len(commit))
    if remote:
        git.run("push", f"--force-with-lease={ref}:{pushed}", remote, f"{ref}:{ref}")
    return commit


class Git:
    """Git commands in one repository. Each raises BranchError if git fails or does not end within `TIMEOUT_S`."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.folder = _run(["git", "rev-parse", "--absolute-git-dir"], repository)

    def run(self, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """Standard output of a git command, stripped."""
        return _run(["git", "--git-dir", self.folder, *arguments], cwd or self.repository, env)

    def check_name(self, branch: str) -> None:
        """Raise BranchError if it is not the plain name of a branch."""
        try:
            self.run("check-ref-format", f"refs/heads/{branch}")
        except BranchError:
            branch = ""
        if not branch or branch.startswith(("-", "refs/")):
            raise BranchError("publish.git_branch: is not the name of a branch: write one such as gh-pages")

    def checked_out(self) -> dict[str, str]:
        """Branch -> reason, for branches of HEAD and of all worktrees, including unborn ones."""
        lines = self.run("worktree", "list", "--porcelain").splitlines()
        with contextlib.suppress(BranchError):  # HEAD may be detached
            lines.append(f"branch {self.run('symbolic-ref', '--quiet', 'HEAD')}")
        refs = [line.removeprefix("branch refs/heads/") for line in lines if line.startswith("branch refs/heads/")]
        return dict.fromkeys(refs, "it is checked out")

    def default_branches(self) -> dict[str, str]:
        """Branch -> reason, for default branches of all remotes as last fetched."""
        reasons = {}
        for line in self.run("for-each-ref", "--format=%(refname) %(symref)", "refs/remotes").splitlines():
            name, _, target = line.partition(" ")
            remote = name.removesuffix("HEAD")
            if target.startswith(remote):
                reasons[target.removeprefix(remote)] = f"it is the default branch of {remote[13:-1]}"
        return reasons

    def remote_state(self, remote: str, ref: str) -> tuple[str, str]:
        """Name of the remote's default branch, and commit id of `ref` there; empty if there is none."""
        default = tip = ""
        for line in self.run("ls-remote", "--symref", remote, "HEAD", ref).splitlines():
            value, _, name = line.partition("\t")
            if name == "HEAD" and value.startswith("ref: refs/heads/"):
                default = value.removeprefix("ref: refs/heads/")
            elif name == ref:
                tip = value
        return default, tip

    def wrote(self, commit: str, ref: str, remote: str | None) -> bool:
        """Whether Kernelbook wrote this commit: it has `TRAILER` and no parents. Fetches it if it is missing."""
        try:
            self.run("cat-file", "-e", commit)
        except BranchError:
            self.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", remote or ".", ref)
        parents, *trailers = self.run("show", "--no-patch", "--format=parents %P%n%(trailers)", commit).splitlines()
        return parents.split() == ["parents"] and TRAILER in trailers

    def commit_of(self, site: Path, message: str) -> str:
        """A new commit without parents that holds the site's files; no branch points to it yet."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            work = f"--work-tree={site.resolve()}"
            self.run(work, "add", "--all", "--force", "--", ".", env=index, cwd=site.resolve())
            tree = self.run("write-tree", env=index)
        return self.run("commit-tree", tree, "-m", message, env=IDENTITY | self._own_identity())

    def _own_identity(self) -> dict[str, str]:
        """The configured git author; `IDENTITY` is used without one."""
        identity: dict[str, str] = {}
        for key, names in (
            ("user.name", ("AUTHOR_NAME", "COMMITTER_NAME")),
            ("user.email", ("AUTHOR_EMAIL", "COMMITTER_EMAIL")),
        ):
            value = self.run("config", "--default", "", "--get", key)
            if value:
                identity |= {f"GIT_{name}": value for name in names}
        return identity


def _run(command: list[str], cwd: Path, env: dict[str, str] | None = None) -> str:
    quiet = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}  # nobody answers a prompt of a nightly job
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | quiet | (env or {}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BranchError(f"git did not end within {TIMEOUT_S} s") from error
    except OSError as error:
        raise BranchError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        words = next((word for word in command[3:] if not word.startswith("-")), command[1])
        output = " ".join((done.stderr or done.stdout).split())[:300]
        raise BranchError(f"git {words}: {without_secrets(output)}")
    return done.stdout.strip()
