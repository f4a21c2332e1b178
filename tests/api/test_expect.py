"""`kernelbook.expect` and its pytest fixture. What needs a GPU is judged on made traces; the rest runs on the CPU."""

import subprocess
import sys

import pytest

import kernelbook
from kernelbook.api.expectation import NotJudged, Result, judge_trace, raise_broken
from tests.helpers import ROOT
from tests.helpers.forks import forking
from tests.helpers.patience import LONG
from tests.trace.made_trace import forward, op, write


def judged(tmp_path, **guess):
    """What `expect` does once the block has run, with a forward of a memset and two kernels as its trace."""
    result = Result()
    result.facts, result.judgements = judge_trace(write(tmp_path / "made.json", forward()), guess, "step")
    raise_broken(result)
    return result


def test_a_guess_that_holds_passes(tmp_path):
    assert judged(tmp_path, kernels=2, memcpys=0, memsets=1, launches=3).kernels == 2


def test_a_broken_guess_fails_with_the_strip(tmp_path):
    with pytest.raises(kernelbook.BrokenGuess) as error:
        judged(tmp_path, kernels=4, memcpys=0)
    lines = str(error.value).splitlines()
    assert lines[:2] == ["kernels: guessed 4, saw 2", "2 kernels, 0 memcpys, 1 memset; 31.0 µs of device time"]
    assert "gemm" in lines[3]
    assert "aten::addmm" in lines[3]
    assert "20.0 µs" in lines[3]
    assert isinstance(error.value, AssertionError)


def test_a_guess_about_a_device_that_was_not_used(tmp_path):
    result = Result()
    trace = write(tmp_path / "made.json", [dict(forward()[0]), op("aten::mm", 1001, 5)])
    result.facts, result.judgements = judge_trace(trace, {"kernels": 2}, "step")
    with pytest.raises(kernelbook.NotJudged, match="kernels: nothing ran on a GPU"):
        raise_broken(result)


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        ({}, "no guess: say for instance kernels=5"),
        ({"kernel": 5}, "unknown word 'kernel': did you mean 'kernels'"),
        ({"kernels": "many"}, "kernels: must be"),
    ],
)
def test_a_wrong_guess_is_refused_before_the_block_runs(guess, message):
    ran = []
    with pytest.raises(ValueError, match=message), kernelbook.expect(**guess):
        ran.append(1)
    assert ran == []


def test_without_torch_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with (
        pytest.raises(kernelbook.NotJudged, match=r"kernelbook\.expect needs torch: install it"),
        kernelbook.expect(kernels=1),
    ):
        pass


@pytest.mark.torch
def test_ops_are_judged_on_the_cpu():
    import torch

    x = torch.ones(4, 4)
    with kernelbook.expect(op_counts={"aten::mm": 2}, ops_absent=["aten::relu"]):
        (x @ x) @ x
    with (
        pytest.raises(kernelbook.BrokenGuess, match=r"op_counts: guessed .*, saw aten::mm: 1"),
        kernelbook.expect(op_counts={"aten::mm": 2}),
    ):
        x @ x


@pytest.mark.torch
def test_an_exception_of_the_block_passes_through():
    with pytest.raises(KeyError, match="mine"), kernelbook.expect(op_counts={"aten::mm": 2}):
        raise KeyError("mine")


MADE = """
import torch
def test_holds(kernelbook_expect):
    with kernelbook_expect(op_counts={"aten::add": 1}) as seen:
        torch.ones(2) + 1
    assert seen.facts.status == "ok"
def test_breaks(kernelbook_expect):
    with kernelbook_expect(op_counts={"aten::add": 3}):
        torch.ones(2) + 1
def test_counts(kernelbook_expect):
    with kernelbook_expect(kernels=1):
        torch.ones(2) + 1
"""


def run_pytest(folder, text):
    (folder / "test_made.py").write_text(text)
    options = ["-p", "kernelbook.api.pytest_plugin", "-p", "no:cacheprovider", "-q", "-rs"]
    variables = forking()
    command = [variables["FORK_PYTHON"], "-m", "pytest", *options, folder]
    environment = {"PYTHONPATH": str(ROOT / "scripts"), "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder)} | variables
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    return done.stdout


@pytest.mark.torch
def test_the_fixture_in_a_test_suite_skips_what_cannot_be_judged(tmp_path):
    out = run_pytest(tmp_path, MADE)
    assert "1 failed, 1 passed, 1 skipped" in out
    assert "op_counts: guessed aten::add: 3, saw aten::add: 1" in out
    assert "not judged: kernels: nothing ran on a GPU" in out


def test_a_block_inside_another_profiler_is_not_judged():
    """torch has one profiler at a time: the inner one would end the outer one, whose counts would be too small."""
    torch = pytest.importorskip("torch")
    with (
        pytest.raises(NotJudged, match=r"another torch\.profiler is running"),
        kernelbook.expect(kernels=0),
        kernelbook.expect(kernels=0),
    ):
        pass
    with (
        torch.profiler.profile() as outer,
        pytest.raises(NotJudged, match="end it before the block"),
        kernelbook.expect(kernels=0),
    ):
        pass
    assert outer.key_averages() is not None
