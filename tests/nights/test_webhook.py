"""Whatever a webhook's server does: publishing ends in time with status 0, says what went wrong, never the address."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import publish_site
from kernelbook.history.site import webhook
from kernelbook.history.store import Store
from tests.helpers.patience import LONG
from tests.helpers.required import required_program

SECRET = "T0SECRET/B0SECRET"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Talk = Callable[[socket.socket], None]


def request_of(connection: socket.socket) -> bytes:
    """The whole request: its head, and as many bytes as it announces."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def server(talk: Talk, family: int = socket.AF_INET) -> Iterator[int]:
    """Calls `talk` with each connection, a thread each; yields the port."""
    listening = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=quietly, args=(connection,), daemon=True).start()

    def quietly(connection: socket.socket) -> None:
        try:
            with connection:
                talk(connection)
        except OSError:  # the client has gone
            return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()


def answering(*parts: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        request_of(connection)
        for part in parts:
            connection.sendall(part)

    return talk


def endless(first: bytes, then: bytes, pause_s: float = 0.0) -> Talk:
    """Answers with `first`, then with `then` for ever."""

    def talk(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(first)
        while True:
            connection.sendall(then)
            threading.Event().wait(pause_s)

    return talk


def silent(connection: socket.socket) -> None:
    """Never answers."""
    while connection.recv(65536):
        pass


def status(code: str, *headers: str) -> Talk:
    lines = [f"HTTP/1.1 {code}", *headers, "Content-Length: 0", "", ""]
    return answering("\r\n".join(lines).encode("latin-1"))


def post_to(address: str, monkeypatch: pytest.MonkeyPatch, limit_s: float = LONG) -> str | None:
    monkeypatch.setenv("KERNELBOOK_WEBHOOK", address)
    monkeypatch.setattr(webhook, "LIMIT_S", limit_s)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return webhook.post("news", "KERNELBOOK_WEBHOOK")


TAKEN = {
    "ok": answering(OK),
    "no content": status("204 No Content"),
    "a huge body that is not read": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
    "a body that ends early": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok"),
    "a status line that is no UTF-8": answering(b"HTTP/1.1 200 \xff\xfe\r\nContent-Length: 0\r\n\r\n"),
    "a body that trickles": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x", 1.0),
}
ANSWERED = {
    "500": (status("500 Oh"), "answered 500"),
    "429": (status("429 Slow down", "Retry-After: 100000"), "answered 429"),
    "404": (status("404 Not Found"), "answered 404"),
    "401": (status("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"'), "answered 401"),
    "301": (status("301 Moved", f"Location: /{SECRET}"), "answered 301, a redirect, which is not followed"),
    "302 to a file": (status("302 Found", "Location: file:///etc/passwd"), "answered 302, a redirect"),
    "307 to itself": (status("307 Same", f"Location: /{SECRET}"), "answered 307, a redirect"),
    "308": (status("308 Same", "Location: http://127.0.0.1:9/"), "answered 308, a redirect"),
    "101": (status("101 Switching"), "answered 101"),
    "garbage": (answering(b"\x00\xff\xfegarbage\r\n\r\n"), "could not be reached (BadStatusLine)"),
    "a number that is no status": (answering(b"HTTP/1.1 99999 x\r\n\r\n"), "could not be reached (BadStatusLine)"),
    "an empty answer": (answering(b""), "could not be reached (RemoteDisconnected)"),
    "closed at once": (lambda connection: None, "could not be reached ("),
    "a line without end": (endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536), "could not be reached (LineTooLong)"),
    "headers without end": (endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"), "could not be reached (HTTPException)"),
}
HANGING = {
    "never answers": silent,
    "one byte a second": endless(b"HTTP/1.1 ", b"2", 1.0),
    "continues without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
}
UNREACHABLE = {
    "nobody listens": f"http://127.0.0.1:9/{SECRET}",
    "no such host": f"https://hooks.invalid/{SECRET}",
    "a label too long": f"https://{'a' * 70}.invalid/{SECRET}",
    "no host": f"https:///{SECRET}",
    "no port": f"https://127.0.0.1:port/{SECRET}",
    "a port too high": f"http://127.0.0.1:99999/{SECRET}",
    "brackets left open": f"http://[::1/{SECRET}",
    "a space within": f"http://127.0.0.1:9/a b/{SECRET}",
    "letters beyond ASCII": f"http://127.0.0.1:9/ä/{SECRET}",
    "a byte that is no text": f"http://127.0.0.1:9/\udcff/{SECRET}",
    "a user in it": f"http://user:{SECRET.replace('/', '')}@127.0.0.1:9/{SECRET}",
}
NO_ADDRESS = {"a word": "nonsense", "a file": f"file:///{SECRET}", "FTP": f"ftp://127.0.0.1/{SECRET}", "data": "data:,"}


@pytest.mark.parametrize("how", TAKEN)
def test_an_answer_in_the_two_hundreds_is_all_that_is_waited_for(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(TAKEN[how]) as port:
        assert post_to(f"http://127.0.0.1:{port}/{SECRET}", monkeypatch) is None


@pytest.mark.parametrize("how", ANSWERED)
def test_any_other_answer_is_named(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, words = ANSWERED[how]
    with server(talk) as port:
        said = post_to(f"http://127.0.0.1:{port}/{SECRET}", monkeypatch)
    assert said.startswith(f"the webhook in KERNELBOOK_WEBHOOK {words}")
    assert "SECRET" not in said
    assert str(port) not in said


@pytest.mark.parametrize("how", HANGING)
def test_a_server_that_keeps_the_line_is_left_at_the_limit(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(HANGING[how]) as port:
        said = post_to(f"http://127.0.0.1:{port}/{SECRET}", monkeypatch, limit_s=3)
    assert said == "the webhook in KERNELBOOK_WEBHOOK did not answer within 3 s"


@pytest.mark.parametrize("how", UNREACHABLE)
def test_an_address_that_leads_nowhere(how: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    said = post_to(UNREACHABLE[how], monkeypatch)
    assert said.startswith("the webhook in KERNELBOOK_WEBHOOK could not be reached (")
    assert "SECRET" not in said + "".join(capfd.readouterr())


@pytest.mark.parametrize("how", NO_ADDRESS)
def test_an_address_of_another_kind_is_not_opened(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = post_to(NO_ADDRESS[how], monkeypatch)
    assert said == "the webhook in KERNELBOOK_WEBHOOK has no address that begins with http:// or https://"


def test_no_address_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    assert post_to(" \n", monkeypatch) is None


def test_the_message_arrives_whole_and_once_and_no_redirect_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        requests.append(request_of(connection))
        connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: /{SECRET}\r\nContent-Length: 0\r\n\r\n".encode())

    with server(talk) as port:
        post_to(f"  http://127.0.0.1:{port}/{SECRET}\n", monkeypatch)
    (request,) = requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(f"POST /{SECRET} HTTP/1.1\r\n".encode())
    assert b"Content-Type: application/json" in head
    assert json.loads(body) == {"text": "news"}


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_server_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(answering(OK), socket.AF_INET6) as port:
        assert post_to(f"http://[::1]:{port}/{SECRET}", monkeypatch) is None


def test_a_server_that_speaks_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(lambda connection: connection.sendall(b"no TLS\r\n")) as port:
        said = post_to(f"https://127.0.0.1:{port}/{SECRET}", monkeypatch)
    assert "could not be reached (" in said
    assert "SECRET" not in said


def test_a_certificate_that_nobody_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = required_program("openssl")
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", "key.pem"]
    subprocess.run([openssl, *new, "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            request_of(wrapped)
            wrapped.sendall(OK)

    with server(talk) as port:
        said = post_to(f"https://127.0.0.1:{port}/{SECRET}", monkeypatch)
    assert said == "the webhook in KERNELBOOK_WEBHOOK could not be reached (SSLCertVerificationError)"


def test_a_process_that_cannot_be_started_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook.sys, "executable", "/nowhere/python")
    said = post_to(f"http://127.0.0.1:9/{SECRET}", monkeypatch)
    assert said == "the webhook in KERNELBOOK_WEBHOOK could not be called (FileNotFoundError)"


def test_publishing_ends_well_whatever_the_server_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """publish_site.py itself, with a night that has something to tell."""
    failed = {"run": "host", "case": "linear-eager", "reason": "it broke", "processes": 1}
    judged = {"schema": 1, "edition": "2026-01-02", "exit_status": 4, "events": [], "failed": [failed]}
    Store(tmp_path / "history").write_events("2026-01-02", judged)
    monkeypatch.setattr(webhook, "LIMIT_S", 3)
    arguments = ["--history", str(tmp_path / "history"), "--tell", "2026-01-02", "--receipt", str(tmp_path / "receipt")]
    arguments += ["--publish", json.dumps({"folder": str(tmp_path / "site")})]
    with server(silent) as port:
        monkeypatch.setenv("KERNELBOOK_WEBHOOK", f"http://127.0.0.1:{port}/{SECRET}")
        assert publish_site.main(arguments) == 0
    assert (tmp_path / "receipt").is_file()
    said = "".join(capfd.readouterr())
    assert "did not answer within 3 s: the site is published all the same" in said
    assert "SECRET" not in said
