"""Fingerprints of files and of images that are folders: equal fingerprints mean equal content."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from kernelbook.sources.imports import parsed

LARGEST_READ = 1 << 20  # bytes; for a larger file, size and modification time replace the content
# Folders of an image below which a Python may be installed, as glob patterns.
PREFIXES = (
    "usr",
    "usr/local",
    "opt",
    "opt/*",
    "opt/*/envs/*",
    "opt/*/*",
    "venv",
    "root/*",
    "root/*/envs/*",
    "home/*/*",
)
LIBRARIES = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
# Packages listed with all files except headers and tests. Of other packages, the first two levels count.
WHOLE = ("torch", "triton", "liger_kernel", "nvidia")
SKIPPED = frozenset({"__pycache__", "include", "test", "testing", "share"})
# Text files that state a version or set the environment of the image.
VERSION_FILES = (
    "usr/local/cuda*/version.json",
    ".singularity.d/env/*.sh",
    ".singularity.d/labels.json",
    "etc/ld.so.conf.d/*",
)
SYSTEM_LIBRARIES = (
    "usr/lib/*/libcu*",
    "usr/lib/*/libnvrtc*",
    "usr/local/cuda*/lib64/lib*",
    "usr/local/cuda*/targets/*/lib/lib*",
)


def files_digest(files: Iterable[Path], base: Path) -> str:
    """16 hexadecimal digits that depend on the content of each file and its path relative to `base`.

    Comments and layout of Python files have no effect.
    """
    entries = sorted(f"{os.path.relpath(file, base)} {_file_digest(file)}" for file in files)
    return _short("\n".join(entries))


def _file_digest(file: Path) -> str:
    module = parsed(file)
    if module:
        return _tree_digest(file, module[0])
    try:
        status = file.stat()
        if status.st_size > LARGEST_READ:
            return f"{status.st_size}-{status.st_mtime_ns}"
        return _short(file.read_bytes())
    except OSError:
        return "absent"


@cache
def _tree_digest(file: Path, stamp: str) -> str:
    tree = parsed(file)
    try:
        return _short(ast.dump(tree[1])) if tree else stamp
    except RecursionError:
        return _short(file.read_bytes())


def folder_stamp(image: Path, python: str = "python3") -> str:
    """A fingerprint of torch, Python, packages and CUDA libraries in an image that is a folder.

    Version files count with their content, all others with name, size and modification time, so no large file is read.
    python: the run's Python in the image. With an absolute path, the packages next to it count too.
    """
    prefixes = {place for pattern in PREFIXES for place in image.glob(pattern)}
    if os.path.isabs(python):
        prefixes.add(image.joinpath(*Path(python).parts[1:-2]))
    listed = [
        _entry(path, os.path.relpath(path, image)) for pattern in SYSTEM_LIBRARIES for path in image.glob(pattern)
    ]
    texts = [path for pattern in VERSION_FILES for path in image.glob(pattern)]
    for prefix in sorted(prefixes):
        listed += [_entry(path, os.path.relpath(path, image)) for path in prefix.glob("bin/python3*")]
        texts.append(prefix / "pyvenv.cfg")
        for packages in {path for pattern in LIBRARIES for path in prefix.glob(pattern)}:
            listed += _packages(packages, image)
            listed += [_entry(path, os.path.relpath(path, image)) for path in packages.parent.glob("*.py")]
            texts += [packages / "torch" / "version.py", packages / "triton" / "__init__.py"]
    listed += [f"{path.relative_to(image)} {_file_digest(path)}" for path in texts if path.is_file()]
    return f"folder-{_short(chr(10).join(sorted(set(listed))))}"


def _packages(folder: Path, image: Path) -> Iterator[str]:
    """One line per file of a site-packages folder: name, size and modification time."""
    for child in _children(folder):
        if child.is_dir(follow_symlinks=False):
            yield from _listed(child.path, child.name, 64 if child.name in WHOLE else 1)
        else:
            yield _entry(child, os.path.relpath(child.path, image))


def _listed(folder: str, name: str, levels: int) -> Iterator[str]:
    """One line per file of a folder and of `levels - 1` levels below it. `name`: of the folder, in the lines."""
    for child in _children(folder):
        if child.is_dir(follow_symlinks=False):
            if levels > 1 and child.name not in SKIPPED:
                yield from _listed(child.path, f"{name}/{child.name}", levels - 1)
        elif not child.name.endswith(".pyc"):
            yield _entry(child, f"{name}/{child.name}")


def _children(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _entry(file: Path | os.DirEntry[str], name: str) -> str:
    """One line for a file, or for the target of a link."""
    try:
        status = file.stat()
    except OSError:
        return f"{name} absent"
    return f"{name} {status.st_size} {status.st_mtime_ns}"


def _short(content: str | bytes) -> str:
    raw = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()[:16]
