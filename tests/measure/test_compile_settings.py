"""What the child's environment says to torch.compile: as little beside the case's own kernels as can be."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from workloads.harness import inductor
from workloads.harness.startup import child_environment

SPARING = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in (*SPARING, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_compiled_ahead_or_beside(tmp_path):
    environment = child_environment(tmp_path, compiled=True)
    assert {name: environment[name] for name in SPARING} == SPARING
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
    assert environment["TRITON_CACHE_DIR"] == str(tmp_path / "triton")


@pytest.mark.parametrize("name", SPARING)
def test_what_is_set_already_stands(name, monkeypatch):
    monkeypatch.setenv(name, "7")
    assert child_environment(None, compiled=True)[name] == "7"
    assert "TRITON_CACHE_DIR" not in child_environment(None, compiled=True)


def test_a_cache_folder_is_cold_only_where_it_is_empty(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    assert inductor.before_compiling() == "cold"
    (tmp_path / "inductor").mkdir()
    assert inductor.before_compiling() == "cold"
    (tmp_path / "inductor" / "of-another-case").touch()
    assert inductor.before_compiling() == "unknown"


@pytest.mark.parametrize(
    ("counted", "state"),
    [
        ({"fxgraph_cache_hit": 1}, "shared"),
        ({"fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}, "cold"),
        ({"fxgraph_cache_miss": 1}, "cold"),
        ({}, "unknown"),  # as of a torch that counts nothing: what was known before stays
    ],
)
def test_hits_and_misses_say_what_a_filled_folder_does_not(monkeypatch, counted, state):
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters={"inductor": counted}))
    assert inductor.after_compiling("unknown") == state
