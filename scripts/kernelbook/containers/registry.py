"""The digest that a registry knows an image by: a tag turned into a content address, so that what is pulled is known.

After the OCI distribution specification 1.1 ("Pulling manifests") and Docker's token authentication; anonymous only.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request

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
    """The address to pull and the digest that it stands for: of a tag, the one the registry gives now, None without.

    A docker:// address that bears a digest loses its tag, since the two together cannot be pulled.
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
    """host, path and tag of nvcr.io/nvidia/pytorch:26.09-py3, with Docker's own rules for what is left out."""
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
    """An anonymous token from the place that the challenge names; raises ValueError if it names none, else OSError."""
    query = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = query.pop("realm", "")
    if not realm.startswith("https://"):
        raise ValueError(f"no token service named in {challenge!r}")
    with urllib.request.urlopen(f"{realm}?{urllib.parse.urlencode(query)}", timeout=TIMEOUT_S) as answer:
        reply = json.load(answer)
    return reply.get("token") or reply.get("access_token") or ""
