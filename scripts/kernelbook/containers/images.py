"""Container images: their place on disk, how they are pulled or built, and their digests.

A docker:// or oras:// address is pulled once, a definition file built once, into the folder of images; an image file or
folder is used where it is. A tag is resolved once: to follow a moved tag, delete the file, and it is pulled again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelbook.sources.fingerprint import folder_stamp
from kernelbook.text.credentials import passwords_in, without_secrets
from kernelbook.text.formatting import last_words

# --- the registry's digest of an image -------------------------------------------------------------------------------
# After the OCI distribution specification 1.1 ("Pulling manifests") and Docker's token authentication; anonymous only.


TIMEOUT_S = 20
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
DOCKER_HUB = "registry-1.docker.io"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def pinned_address(address: str) -> tuple[str, str | None]:
    """The address to pull, and its digest: for a tag, the registry's current one; None if the registry gives none.

    A docker:// address with a digest loses its tag, since the two together cannot be pulled.
    """
    if not address.startswith("docker://"):
        return address, None
    name, _, digest = address.removeprefix("docker://").partition("@")
    digest = digest or _asked(*_parts(name)) or ""
    if not DIGEST.fullmatch(digest):
        return address, None
    return with_digest(address, digest), digest


def with_digest(address: str, digest: str) -> str:
    """The same image by its digest: docker://nvcr.io/nvidia/pytorch@sha256:..."""
    name = address.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}@{digest}"


def _parts(name: str) -> tuple[str, str, str]:
    """(host, path, tag) of nvcr.io/nvidia/pytorch:26.09-py3, with Docker's defaults for missing parts."""
    host, slash, path = name.partition("/")
    if not slash or not (set(".:") & set(host) or host == "localhost"):
        host, path = DOCKER_HUB, name
    path, _, tag = path.partition(":")
    if host == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return host, path, tag or "latest"


def _asked(host: str, path: str, tag: str) -> str | None:
    plain = os.environ.get("APPTAINER_NOHTTPS", "").lower() in ("1", "true", "yes")
    url = f"{'http' if plain else 'https'}://{host}/v2/{path}/manifests/{tag}"
    request = urllib.request.Request(url, method="HEAD", headers={"Accept": MANIFESTS})
    try:
        try:
            answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as refusal:
            if refusal.code != 401:
                return None
            request.add_header("Authorization", f"Bearer {_token(refusal.headers.get('WWW-Authenticate', ''))}")
            answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)
        with answer:
            return answer.headers.get("Docker-Content-Digest")
    except (OSError, ValueError):
        return None


def _token(challenge: str) -> str:
    """An anonymous token from the service in the challenge.

    Raises ValueError if the challenge names no service, OSError if the service cannot be reached.
    """
    query = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = query.pop("realm", "")
    if not realm.startswith("https://"):
        raise ValueError(f"no token service named in {challenge!r}")
    with urllib.request.urlopen(f"{realm}?{urllib.parse.urlencode(query)}", timeout=TIMEOUT_S) as answer:
        reply = json.load(answer)
    return reply.get("token") or reply.get("access_token") or ""


# --- images on disk --------------------------------------------------------------------------------------------------


PULL_LIMIT_S = 3 * 3600
IMAGE_SUFFIX = ".sif"
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")

# Last lines of apptainer -> fact and remedy; the first match is reported.
PULL_FAILURES = (
    (
        r"unable to parse image name|invalid reference format",
        "this is not the address of an image",
        "correct {key}; a user and a password cannot stand in it: apptainer registry login",
    ),
    (
        r"BLOB_UNKNOWN|blob unknown",
        "the registry lacks a part of the image",
        "have the image pushed again, or name another in {key}",
    ),
    (
        r"unexpected EOF|connection reset|broken pipe|: EOF$",
        "the registry broke off",
        "run again; if it keeps happening, look at the registry",
    ),
    (
        r"(?:HTTP|status|answered)[^\n]{0,12}\b(?:5\d\d|429)\b|too ?many ?requests|bad gateway|service unavailable|"
        r"gateway time-?out|internal server error|deadline exceeded|Client\.Timeout|i/o timeout|handshake timeout|"
        r"stopped after \d+ hours",
        "the registry is busy, or did not answer in time",
        "try again later; if it stays so, pull it on another machine that sees this folder: snakemake pull_images",
    ),
    (
        r"manifest unknown|not found: manifest|status 404|NAME_UNKNOWN|repository name not known",
        "the registry has no such image or tag",
        "correct {key}",
    ),
    (
        r"unauthorized|authentication required|denied|status 40[13]",
        "the registry wants a login, or has no such image",
        "correct {key}, or log in: apptainer registry login",
    ),
    (
        r"no such host|dial tcp|connection refused|network is unreachable|TLS handshake|server misbehaving",
        "the registry cannot be reached from this machine",
        "pull it where there is a network, into the same folder: snakemake pull_images",
    ),
    (
        r"no space left on device|disk quota exceeded",
        "there is no space left for it",
        "free some, or name a roomier folder: KERNELBOOK_IMAGES, APPTAINER_CACHEDIR and APPTAINER_TMPDIR",
    ),
    (r"unsupported (URI|transport)|unknown transport", "apptainer knows no such kind of address", "correct {key}"),
)


class ImageError(Exception):
    """An image that cannot be found, pulled or started; the message states fact, where and remedy."""


@dataclass(frozen=True)
class Image:
    """The container of a run. where: as configured. kind: remote, definition or local. file: its path on disk."""

    where: str
    kind: str
    file: Path
    source: Path | None = None

    @property
    def name(self) -> str:
        """The file's name, with other characters than letters, digits, dots, dashes and underscores replaced."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.file.name)

    def state(self) -> str:
        """Its state in a few words: on disk, missing, to be pulled or to be built."""
        if self.file.exists():
            return "image on disk"
        if self.kind == "local" or (self.source and not self.source.is_file()):
            return "no such file: the run will be lost"
        return "to be pulled" if self.kind == "remote" else "to be built"


@dataclass(frozen=True)
class Identity:
    """SHA-256 of the image file (None for a folder), and its digest in the registry if known."""

    file_digest: str | None
    registry_digest: str | None = None

    @property
    def digest(self) -> str | None:
        """The registry's digest if known, since a new pull makes another file with the same content."""
        return self.registry_digest or self.file_digest


def image_of(where: str, store: Path, source: Path) -> Image:
    """The image of a run, from an address, a definition file or an image file.

    store: folder of pulled and built images. source: the file that `where` names, unless it is an address. The name of
    a built image changes with its definition file, so that a changed one is built again.
    """
    if ADDRESS.match(where):
        last = re.sub(r"[^A-Za-z0-9._-]", "-", where.rstrip("/").rpartition("/")[2].partition("@")[0].replace(":", "_"))
        return Image(where, "remote", store / f"{last}-{_short(where.encode())}{IMAGE_SUFFIX}")
    if where.endswith(".def"):
        text = source.read_bytes() if source.is_file() else b""
        return Image(where, "definition", store / f"{source.stem}-{_short(text)}{IMAGE_SUFFIX}", source)
    return Image(where, "local", source)


def stamp_of(file: Path, python: str = "python3") -> str:
    """A text that changes when the file is replaced or the folder changed; `absent` if there is none.

    python: the run's Python, next to which its packages are in a folder.
    """
    try:
        status = file.stat()
    except OSError:
        return "absent"
    if file.is_dir():
        return folder_stamp(file, python)
    return f"{status.st_size}-{status.st_mtime_ns}"


def runtime() -> str:
    """Name of the program that starts containers, the same that Snakemake uses. Raises ImageError if there is none."""
    for program in ("apptainer", "singularity"):
        if shutil.which(program):
            return program
    raise ImageError(
        "neither apptainer nor singularity is installed on this machine: "
        "install Apptainer, or load its module (module load apptainer)"
    )


def obtain(image: Image, key: str) -> Identity:
    """Pull or build the image if it is missing, and return its digests.

    key: the place in the configuration that names it, for messages. Concurrent callers do the work once.
    Raises ImageError if it cannot be pulled, built or found.
    """
    if image.kind == "local":
        if not image.file.exists():
            raise ImageError(f"no image file {image.where}: correct {key}, or put the file there")
        return Identity(_digest(image.file))
    if image.kind == "definition" and not (image.source and image.source.is_file()):
        raise ImageError(f"no definition file {image.where}: correct {key}")
    try:
        with _alone(image.file):
            return _note_of(image) if image.file.exists() else _fetched(image, key)
    except OSError as error:
        raise ImageError(
            f"{image.file.parent}: {error.strerror}: name another folder for images by the key `images` "
            "of the configuration or by KERNELBOOK_IMAGES"
        ) from error


def _fetched(image: Image, key: str) -> Identity:
    """Pull or build the image; it gets its name when it is complete."""
    part = image.file.with_name(f".{image.file.name}.part")
    registry_digest = None
    if image.kind == "remote":
        address, registry_digest = pinned_address(image.where)
        command = [runtime(), "pull", "--force", os.fspath(part), address]
    else:
        command = [runtime(), "build", "--force", os.fspath(part), os.fspath(image.source or image.where)]
    done, lines = _run_and_log(command)
    if done != 0:
        part.unlink(missing_ok=True)
        raise ImageError(_why(image, key, lines))
    part.replace(image.file)
    identity = Identity(_digest(image.file), registry_digest)
    note = {"source": without_secrets(image.where), "stamp": stamp_of(image.file), **vars(identity)}
    _note_file(image).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    return identity


def _run_and_log(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run a command and copy its output to stderr; returns its exit status and the lines that are not empty."""
    secrets = passwords_in(command[-1])
    print(without_secrets(f"{' '.join(command[:2])}: {command[-1]}", secrets), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PULL_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, [f"stopped after {PULL_LIMIT_S // 3600} hours"]
    text = without_secrets(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode("utf-8", "replace")), secrets)
    print(text, file=sys.stderr, flush=True)
    return done.returncode, [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def _why(image: Image, key: str, lines: Sequence[str]) -> str:
    last = last_words(lines)
    if image.kind == "definition":
        message = next((line for line in reversed(lines[:-1]) if not line.startswith(("INFO", "WARNING", "+ "))), "")
        message = f" after {message!r}" if message else ""
        return f"{image.where} cannot be built ({last}{message}): correct the definition file; the log has all it said"
    text = "\n".join(lines)
    for pattern, fact, remedy in PULL_FAILURES:
        if re.search(pattern, text, re.IGNORECASE):
            return f"{image.where} cannot be pulled: {fact} ({last}): {remedy.format(key=key)}"
    return f"{image.where} cannot be pulled ({last}): correct {key}, or pull it by hand to {image.file}"


def _note_file(image: Image) -> Path:
    return image.file.with_name(f"{image.file.name}.json")


def _note_of(image: Image) -> Identity:
    """The digests noted when the image was fetched, if the file has not changed since; else the digest of the file."""
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(_note_file(image).read_text(encoding="utf-8"))
        if note["stamp"] == stamp_of(image.file):
            return Identity(note["file_digest"], note["registry_digest"])
    return Identity(_digest(image.file))


def _digest(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _short(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:8]


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold a lock on making `file`; the system releases it if the process dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_name(f".{file.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
