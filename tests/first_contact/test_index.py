"""Whether pip can reach an index, decided before .venv is made: scripts/check_index.py and the rule that calls it."""

import importlib.util
import socket
import subprocess
import sys

import pytest

from tests.helpers import ROOT

SCRIPT = ROOT / "scripts/check_index.py"


@pytest.fixture
def check(monkeypatch):
    """The script as a module, with none of pip's settings and no proxy from around the tests."""
    spec = importlib.util.spec_from_file_location("check_index", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "PROXY"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(module, "getproxies", dict)
    return module


@pytest.fixture
def refused(check, monkeypatch):
    """No host can be reached; returns the list of those that were tried."""
    tried = []

    def refuse(target, timeout):
        tried.append(target)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(check.socket, "create_connection", refuse)
    return tried


def test_the_packages_of_a_requirements_file(check, tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("# a comment\n-r other.txt\n\nPyYAML==6.0.4\nruamel.yaml>=1; python_version > '3.9'\nJinja2\n")
    assert check.required(file) == {"pyyaml", "ruamel-yaml", "jinja2"}


@pytest.mark.parametrize(
    ("settings", "tried"),
    [
        ({}, [("pypi.org", 443)]),
        ({"index-url": "http://mirror:8080/simple"}, [("mirror", 8080)]),
        ({"index-url": "http://mirror/simple", "extra-index-url": "https://b/x"}, [("b", 443), ("mirror", 80)]),
        ({"find-links": "https://wheels.example/torch"}, [("pypi.org", 443), ("wheels.example", 443)]),
        ({"proxy": "user:word@proxy.example:3128"}, [("proxy.example", 3128)]),
        ({"no-index": "1", "find-links": "/nonexistent"}, []),
        ({"no-index": "0"}, [("pypi.org", 443)]),
        ({"index-url": "file:///nonexistent/simple"}, []),
    ],
)
def test_what_pip_would_connect_to(check, refused, settings, tried):
    problem = check.unreachable({"numpy"}, settings)
    assert sorted(refused) == tried
    assert (problem is None) == (not tried)
    for host, port in tried:
        assert f"{host}:{port}: Connection refused" in problem
    assert "word" not in (problem or "")


def test_a_proxy_of_the_environment_is_tried_instead(check, refused, monkeypatch):
    monkeypatch.setattr(check, "getproxies", lambda: {"https": "http://proxy.example:3128"})
    assert "proxy.example:3128" in check.unreachable({"numpy"}, {})
    assert refused == [("proxy.example", 3128)]


def test_folders_that_hold_all_packages_need_no_network(check, refused, tmp_path):
    wheels, index = tmp_path / "wheels", tmp_path / "index"
    (index / "mkdocs-material").mkdir(parents=True)
    wheels.mkdir()
    (wheels / "PyYAML-6.0.4-cp311-cp311-linux_x86_64.whl").touch()
    settings = {"find-links": str(wheels), "extra-index-url": f"file://{index}"}
    assert check.unreachable({"pyyaml", "mkdocs-material"}, settings) is None
    assert not refused
    assert check.unreachable({"pyyaml", "numpy"}, settings) == "pypi.org:443: Connection refused"


def test_one_index_that_answers_is_enough(check):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = {"index-url": "http://127.0.0.1:9/simple", "extra-index-url": f"http://127.0.0.1:{port}/simple"}
        assert check.unreachable({"numpy"}, settings) is None


def test_an_index_that_does_not_answer_is_left_to_pip(check, monkeypatch):
    def wait(target, timeout):
        raise TimeoutError

    monkeypatch.setattr(check.socket, "create_connection", wait)
    assert check.unreachable({"numpy"}, {}) is None


def test_the_environment_goes_before_the_file(check, monkeypatch, tmp_path):
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://a/simple\nfind_links = x\n[install]\nindex-url = https://b/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    settings = check.pip_settings()
    assert (settings["index-url"], settings["find-links"]) == ("https://b/simple", "x")
    monkeypatch.setenv("PIP_INDEX_URL", "https://c/simple")
    assert check.pip_settings()["index-url"] == "https://c/simple"


def test_make_says_so_before_it_makes_an_environment(tmp_path):
    for name in ("Makefile", "requirements.txt", "constraints.txt", "requirements-torch.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/check_index.py").write_bytes(SCRIPT.read_bytes())
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin"}
    command = ["make", "report", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("127.0.0.1:9: Connection refused\nmake: the packages of requirements.txt could")
    assert "PIP_INDEX_URL=URL" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / ".venv").exists()
