"""mode: compile that does not run one compiled graph says so, by Dynamo's counters, the profile and torch's own log."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

from workloads.harness import dynamo  # noqa: E402

pytestmark = pytest.mark.torch
FILE = "tests/measure/fixtures/behaviours.py:"


@pytest.fixture
def compiled(measure):
    """measurement.json of a workload of the fixtures in mode compile, and its warnings by code."""

    def compile_(name, env=None, **keys):
        keys = {"dtype": "float32", "mode": "compile", "compile_options": {"backend": "captures_only"}, **keys}
        found = measure(FILE + name, env=env, **keys).measurement
        assert (found["status"], found["reason"]) == ("ok", None)
        return found, {warning["code"]: warning["message"] for warning in found["warnings"]}

    return compile_


def test_the_recompile_limit(compiled):
    """torch's limit is 8 compilations; the ninth attempt gives up and logs it."""
    found, warnings = compiled("recompiles")
    assert found["dynamo"]["graphs"] == 8
    assert found["dynamo"]["recompiles"] == 8
    assert found["dynamo"]["regions"] == 0
    assert "the forward ran eagerly: no compiled region is in the profiled forwards" in warnings["not_compiled"]
    assert "torch logged: torch._dynamo hit config." in warnings["not_compiled"]
    assert "recompilations: 8" in warnings["recompiled"]
    assert any("_limit (8)" in line for line in found["dynamo"]["log"])
    assert "/" not in found["dynamo"]["log"][0].replace("0/7", "")  # no folders of this machine


def test_graph_breaks_by_reason(compiled):
    """Two breaks make three graphs, and each of the ten profiled forwards runs all three."""
    found, warnings = compiled("breaks_twice")
    assert (found["dynamo"]["graphs"], found["dynamo"]["regions"], found["dynamo"]["recompiles"]) == (3, 30, 0)
    assert list(found["dynamo"]["graph_breaks"].values()) == [2]
    assert "graph_break()" in next(iter(found["dynamo"]["graph_breaks"]))
    assert "into 3 graphs" in warnings["graph_breaks"]


def test_dynamo_switched_off(compiled):
    found, warnings = compiled("three_times", env={"TORCHDYNAMO_DISABLE": "1"}, compile_options={})
    assert (found["dynamo"]["graphs"], found["dynamo"]["regions"]) == (0, 0)
    assert "TORCHDYNAMO_DISABLE=1" in warnings["not_compiled"]


def test_a_backend_that_fails_and_is_passed_over(compiled):
    found, warnings = compiled("backend_fails", compile_options={"backend": "broken"})
    assert found["dynamo"]["regions"] == 0
    assert "the forward ran eagerly" in warnings["not_compiled"]


def test_a_backend_that_compiles_nothing(compiled):
    _, warnings = compiled("three_times", compile_options={"backend": "eager"})
    assert warnings["not_compiled"] == "backend eager compiles nothing: it runs the captured ops one by one"


def test_a_compiled_forward_has_no_warning_and_leaves_no_headers_beside_its_cache(compiled, tmp_path):
    """In a fork of a process that set `SPARING` before it imported torch (tests/helpers/preloaded.py)."""
    cache = tmp_path / "cache"
    found, warnings = compiled("multiplies_its_input", compile_options={}, extra=["--cache-dir", str(cache)])
    assert set(warnings) == {"changes_inputs"}
    assert found["dynamo"] == {"graphs": 1, "graph_breaks": {}, "recompiles": 0, "regions": 10, "log": []}
    assert found["relative_error"] == 0
    assert list(cache.rglob("*.so"))
    assert not list(tmp_path.rglob("*.gch"))


def record(version="2.13.0", **keys):
    found = {"graphs": 1, "graph_breaks": {}, "recompiles": 0, "regions": 10, "log": [], **keys}
    return {"dynamo": found, "profiled_forwards": 10, "environment": {"torch": version}}


@pytest.mark.parametrize(
    ("version", "keys", "codes"),
    [
        ("2.13.0", {}, []),
        ("2.13.0", {"regions": 0}, ["not_compiled"]),
        ("2.13.0", {"regions": 7}, ["not_compiled"]),
        ("2.1.2", {"regions": 0}, []),  # a torch that marks no regions
        ("2.1.2", {"regions": 0, "graphs": 0}, ["not_compiled"]),
        ("2.0.1", {"regions": 0, "graphs": None, "graph_breaks": None, "recompiles": None}, []),
        ("2.13.0", {"recompiles": 3}, ["recompiled"]),
        ("2.13.0", {"graph_breaks": {"a reason": 2}, "graphs": 3, "regions": 30}, ["graph_breaks"]),
    ],
)
def test_what_is_warned_of(version, keys, codes):
    case = {"compile_options": {}}
    assert [code for code, _, _ in dynamo.judge(case, record(version, **keys))] == codes


def test_a_torch_without_counters(monkeypatch):
    monkeypatch.setitem(dynamo.sys.modules, "torch._dynamo.utils", object())
    monkeypatch.setitem(dynamo.sys.modules, "torch._dynamo.convert_frame", object())
    rows = [{"name": "Torch-Compiled Region: 0/0", "count": 4}, {"name": "aten::mm", "count": 9}]
    assert dynamo.describe(rows, []) == {
        "graphs": None, "graph_breaks": None, "recompiles": None, "regions": 4, "log": [],
    }  # fmt: skip


def test_the_log_is_kept_once_without_folders_and_source():
    with dynamo.listening() as heard:
        for _ in range(2):
            logging.getLogger("torch._dynamo.x").warning(
                "hit (%s)\n  at /home/me/a b.py:3 # secret = 1\nUser stack trace:\n x", 8
            )
        logging.getLogger("torch._dynamo.x").info("nothing of note")
    logging.getLogger("torch._dynamo.x").warning("after the end")
    assert heard == ["hit (8) at a b.py:3"]
