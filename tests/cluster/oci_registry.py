"""A real registry (Debian's docker-registry) on this machine, and a small client that pushes images made of folders."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.helpers.patience import LONG

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
PLAIN = {"Env": ["PATH=/usr/bin:/bin"]}
USER, PASSWORD = "reader", "let-me-in"
HTPASSWD = f"{USER}:$2b$04$p4fSoGRBBzqdLUfm7rYrnurcZhtJpDcLf81.l0b1S1aCbLC8bNksm\n"  # bcrypt of PASSWORD
SETTINGS = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/blobs}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@dataclass(frozen=True)
class Layer:
    """One layer: an uncompressed tar file, or a gzipped one whose content has another digest."""

    file: Path
    content_digest: str

    @property
    def kind(self) -> str:
        return f"{LAYER}+gzip" if self.file.suffix == ".gz" else LAYER


def digest_of(layer: Layer) -> str:
    """What a registry knows a layer by."""
    return f"sha256:{hashlib.sha256(layer.file.read_bytes()).hexdigest()}"


@dataclass(frozen=True)
class Registry:
    """A running registry. `host`: 127.0.0.1:port. `blobs`: where it keeps what was pushed."""

    host: str
    blobs: Path
    process: subprocess.Popen[bytes]

    def push(self, name: str, tag: str, layers: Sequence[Layer], settings: Mapping[str, object] = PLAIN) -> str:
        """Push an image, layers that are there already excepted; returns the manifest's digest."""
        about = {"architecture": "amd64", "os": "linux", "config": settings}
        about["rootfs"] = {"type": "layers", "diff_ids": [layer.content_digest for layer in layers]}
        config = json.dumps(about).encode()
        parts = [{"mediaType": CONFIG, "digest": self._push_blob(name, io.BytesIO(config)), "size": len(config)}]
        for layer in layers:
            with layer.file.open("rb") as stream:
                digest = self._push_blob(name, stream)
            parts.append({"mediaType": layer.kind, "digest": digest, "size": layer.file.stat().st_size})
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": parts[1:]}
        return self._put(f"/v2/{name}/manifests/{tag}", json.dumps(manifest).encode(), MANIFEST)

    def _push_blob(self, name: str, content: io.BufferedIOBase) -> str:
        digest = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
        try:
            self._ask("HEAD", f"/v2/{name}/blobs/{digest}")
        except urllib.error.HTTPError:
            content.seek(0, io.SEEK_END)
            length = content.tell()
            content.seek(0)
            place = self._ask("POST", f"/v2/{name}/blobs/uploads/", b"")["Location"]
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(length)}
            self._ask("PUT", f"{place}&digest={digest}", content, headers)
        return digest

    def _put(self, path: str, body: bytes, kind: str) -> str:
        return self._ask("PUT", path, body, {"Content-Type": kind})["Docker-Content-Digest"]

    def _ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None):
        url = path if path.startswith("http") else f"http://{self.host}{path}"
        request = urllib.request.Request(url, data=body, method=method, headers=dict(headers or {}))
        with urllib.request.urlopen(request, timeout=LONG) as answer:
            return answer.headers

    def forget(self, digest: str) -> None:
        """Lose a blob, as a registry does that was cleaned up wrongly: its link stays, its content goes."""
        (folder,) = self.blobs.rglob(f"blobs/sha256/*/{digest.removeprefix('sha256:')}")
        shutil.rmtree(folder)


@contextmanager
def running(folder: Path, login: bool = False) -> Iterator[Registry]:
    """A registry that keeps its files in `folder`; with `login`, one that lets nobody but USER in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.format(folder=folder, port=port)
    if login:
        (folder / "htpasswd").write_text(HTPASSWD, encoding="utf-8")
        settings += f"auth: {{htpasswd: {{realm: of the tests, path: {folder}/htpasswd}}}}\n"
    (folder / "registry.yml").write_text(settings, encoding="utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", folder / "registry.yml"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, process, folder / "log")
        yield Registry(f"127.0.0.1:{port}", folder / "blobs", process)
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=LONG).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text(encoding="utf-8"))


def layer_of(
    file: Path, root: Path | None = None, texts: Mapping[str, str] | None = None, keep: Callable[[str], bool] = bool
) -> Layer:
    """A layer written to `file` (.tar, or .tar.gz): the files of `root` whose names pass `keep`, and more by name.

    A text that begins with #! becomes a program. Names like .wh.NAME and .wh..wh..opq are whiteouts.
    """
    plain = file.with_suffix("") if file.suffix == ".gz" else file
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        if root:
            archive.add(root, arcname=".", filter=lambda entry: entry if keep(entry.name.removeprefix("./")) else None)
        for name, text in (texts or {}).items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o755 if text.startswith("#!") else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    with plain.open("rb") as stream:
        digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    if plain != file:
        with plain.open("rb") as source, gzip.GzipFile(file, "wb", compresslevel=1, mtime=0) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
    return Layer(file, digest)


@contextmanager
def dying(registry: Registry, digest: str) -> Iterator[str]:
    """A way to the registry on which it dies half-way through one blob, with all connections; yields host:port."""

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                accepted = {"Accept": self.headers.get("Accept", "*/*")}
                asked = urllib.request.Request(f"http://{registry.host}{self.path}", headers=accepted)
                answer = urllib.request.urlopen(asked, timeout=LONG)
            except urllib.error.URLError:
                self.close_connection = True
                return
            with answer:
                body = answer.read()
                self.send_response(answer.status)
                for name in ("Content-Type", "Content-Length", "Docker-Content-Digest"):
                    if answer.headers[name]:
                        self.send_header(name, answer.headers[name])
                self.end_headers()
            if self.command == "HEAD":
                return
            if self.path.endswith(digest):
                registry.process.kill()
                body = body[: len(body) // 2]
                self.close_connection = True
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
