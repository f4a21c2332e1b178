"""Credentials and paths that must not be published, and every text in a folder of published files."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

#: What is planted -> the part of it that must be nowhere. Put together here, so that no scanner takes them for real.
CREDENTIALS = {
    f"docker://user:{'PASSW' + '0RD'}@registry.example.org:5000/team/torch:1": "PASSW0RD",
    f"docker://user:{'pa/ss' + 'w@rd77'}@registry.example.org/team/torch@sha256:{'a' * 64}": "rd77",
    f"bad reference user:{'PASS' + 'bare'}@registry.example.org/torch": "PASSbare",
    f"https://{'oauth' + 'tokenonly'}@git.example.org/x.git": "oauthtokenonly",
    "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx": "AbCdEfGhIjKl",
    "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345": "0123456789abcdef",
    "github_pat_" + "11ABCDEFG0_abcdefghijklmnop": "11ABCDEFG0",
    "glpat-" + "xyz-ABCDEF123456789": "xyz-ABCDEF",
    "sk-" + "proj-abcdEFGH1234abcdEFGH1234": "abcdEFGH1234",
    "sk-ant-" + "api03-wxyzWXYZ5678wxyzWXYZ": "wxyzWXYZ5678",
    "nvapi-" + "QwErTyUiOp1234567890": "QwErTyUiOp",
    "AKIA" + "IOSFODNN7EXAMPLE": "IOSFODNN7",
    "xoxb-" + "123456789012-abcdefGHIJKL": "123456789012",
    "dckr_pat_" + "ZzYyXxWwVvUuTtSs1234": "ZzYyXxWwVv",
    "Authorization: Bearer " + "mF_9.B5f-4.1JqM": "mF_9.B5f",
    "authorization=Basic " + "dXNlcjpwYXNzd29yZA==": "dXNlcjpwYXNz",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w": "eyJzdWIi",
    "password=" + "correct-horse": "correct-horse",
    "DB_PASSWORD: " + "battery-staple": "battery-staple",
    "HF_TOKEN=" + "noknownshapeatall": "noknownshapeatall",
    "{'api_key': '" + "quoted value 42'}": "quoted value 42",
    "train.py --token " + "afterablank99 --lr 1": "afterablank99",
    "https://hooks.slack.com/services/" + "T000/B000/XXXXYYYY": "XXXXYYYY",
    "-----BEGIN RSA PRIVATE KEY-----": "BEGIN RSA",
    "MIIEowIBAAKCAQEA" + "c29tZXRoaW5nIHNlY3JldCBvZiA2NCBsZXR0ZXJzLi4u" * 2: "c29tZXRoaW5n",
    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG": "wJalrXUtnFEMI",
}
PATHS = {
    "/home/alice/project/model.py": "/home/alice",
    'File "/home/alice/my project/net.py", line 3, in forward': "/home/alice",
    "/gpfs/home/alice/data.bin": "/gpfs/home",
    "/Users/alice/x.py": "/Users/alice",
    "/scratch/alice/run 7/trace.json": "/scratch/alice",
    'File "/mnt/fast disk/alice/y.py", line 4': "/mnt/fast",
    "file:///data/alice/z.bin": "/data/alice",
    "TMPDIR=/tmp/alice-job-12/x": "/tmp/alice",
    "/root/.cache/huggingface/token.txt": "/root/.cache",
    "C:\\Users\\alice\\x.py": "Users\\alice",
}
PLANTED = CREDENTIALS | PATHS


def texts(file: Path) -> Iterator[str]:
    """Every text in a published file: cells of Parquet, unpacked traces, and traces inside the page."""
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        yield " ".join(table.column_names)
        yield from strings([column.to_pylist() for column in table.columns])
        yield str(table.schema.metadata)
        return
    raw = file.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    yield text
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
        for found in strings(json.loads(block)):
            yield found
            if found.startswith("H4sI"):  # base64 of gzip
                yield gzip.decompress(base64.b64decode(found)).decode()


def strings(value: Any) -> Iterator[str]:
    """Every text in nested lists and maps."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(key)
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def leaks(folder: Path, forbidden: list[str]) -> list[tuple[str, str]]:
    """(file, what it gives away) of every file below a folder; JSON may spell a backslash twice."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = "\n".join(texts(file)).replace("\\\\", "\\")
        found += [(file.relative_to(folder).as_posix(), secret) for secret in forbidden if secret in whole]
    return found
