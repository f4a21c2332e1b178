"""A registry of one image on this machine: the few answers that a pull needs (OCI distribution specification 1.1)."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image_of(root: Path) -> tuple[bytes, dict[str, bytes]]:
    """The manifest of an image whose one layer is the folder `root`, and all its blobs by digest."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        archive.add(root, arcname=".")
    layer = gzip.compress(plain.getvalue(), compresslevel=1, mtime=0)
    settings = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin:/bin"]}}
    settings["rootfs"] = {"type": "layers", "diff_ids": [digest_of(plain.getvalue())]}
    config = json.dumps(settings).encode()
    parts = [
        ("application/vnd.oci.image.config.v1+json", config),
        ("application/vnd.oci.image.layer.v1.tar+gzip", layer),
    ]
    named = [{"mediaType": kind, "digest": digest_of(blob), "size": len(blob)} for kind, blob in parts]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": named[0], "layers": named[1:]}
    return json.dumps(manifest).encode(), {digest_of(blob): blob for _, blob in parts}


@contextmanager
def serving(name: str, tag: str, root: Path) -> Iterator[tuple[str, str]]:
    """Serve `root` as name:tag; yields host:port and the manifest's digest."""
    manifest, blobs = image_of(root)
    digest = digest_of(manifest)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, with_body: bool) -> None:
            found = self._found()
            kind, content = found or ("application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", digest_of(content))
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def _found(self) -> tuple[str, bytes] | None:
            if self.path == "/v2/":
                return "application/json", b"{}"
            if self.path in (f"/v2/{name}/manifests/{tag}", f"/v2/{name}/manifests/{digest}"):
                return MANIFEST, manifest
            blob = blobs.get(self.path.removeprefix(f"/v2/{name}/blobs/"))
            return ("application/octet-stream", blob) if blob is not None else None

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", digest
    finally:
        server.shutdown()
