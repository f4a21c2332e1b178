"""Nothing that is written names the machine, and nothing else is rewritten for it."""

from __future__ import annotations

import json
import socket

import pytest

from workloads.harness.files import MachineScrubber

TRACE = {
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel", "args": {"stream": 7}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::node", "args": {"node": 1, "file": "/net/HOST/site/my.py:3"}},
        {"ph": "X", "cat": "kernel", "name": "kernel", "args": {"graph node": "node-7"}},
    ]
}


@pytest.fixture(params=["kernel", "node", "cpu_op", "ph", "node-7", "gpu12.example.org"])
def host(request, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: request.param)
    return request.param


def test_a_trace_keeps_its_keys_categories_and_names_whatever_the_machine_is_called(host):
    text = json.dumps(TRACE)
    assert MachineScrubber().trace(text.replace("HOST", host)) == text.replace("HOST", "<host>")


def test_a_message_keeps_common_words(host):
    scrub = MachineScrubber()
    assert scrub("a kernel of the node touched memory") == "a kernel of the node touched memory"
    assert scrub(f"see /net/{host}/log and user@{host}:22") == "see /net/<host>/log and user@<host>:22"


def test_a_telling_name_is_hidden_wherever_a_message_has_it(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu12.example.org")
    assert MachineScrubber()("lost gpu12.example.org, again") == "lost <host>, again"
    assert MachineScrubber()("rank-gpu12.example.org-x") == "rank-gpu12.example.org-x"


def test_a_machine_without_a_name_hides_nothing(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "")
    assert MachineScrubber().trace("a/b") == MachineScrubber()("a/b") == "a/b"
