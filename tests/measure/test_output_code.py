"""The code that Inductor generated for a compiled case is kept beside its trace, also where it came from the cache."""

from __future__ import annotations

import getpass
import gzip
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from workloads.harness import inductor  # noqa: E402

pytestmark = pytest.mark.torch
CODECACHE = "torch._inductor.codecache"


def read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def test_a_compiled_case_keeps_its_code(measure):
    keys = {"mode": "compile", "dtype": "float32", "params": {"size": 8}, "samples": 3}
    first = measure("matmul_add", **keys)
    assert (first.measurement["status"], first.measurement["notes"]) == ("ok", [])
    assert first.measurement["output_code"] == "output_code.py.gz"
    text = read(first.output / "output_code.py.gz")
    assert text.startswith("# graph 1 of 1\n")
    assert "extern_kernels.addmm(" in text
    for secret in (
        str(first.output.parent),
        os.getcwd(),
        os.path.expanduser("~"),
        f"torchinductor_{getpass.getuser()}",
    ):
        assert secret not in text
    again = measure("matmul_add", **keys)  # in the same folder, with the same cache of torch.compile
    assert again.measurement["inductor_cache"] == "shared"
    assert "extern_kernels.addmm(" in read(again.output / "output_code.py.gz")
    plain = measure("matmul_add", **{**keys, "mode": "eager"})
    assert plain.measurement["output_code"] is None
    assert not (plain.output / "output_code.py.gz").exists()


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """Makes Inductor's cache hold modules with these texts; those in `kernels` are modules of single kernels."""

    def make(*texts, kernels=(), attribute="modules"):
        modules = []
        for place, text in enumerate((*kernels, *texts)):
            file = tmp_path / f"module{place}.py"
            file.write_text(text)
            call = {"call": print} if place >= len(kernels) else {}
            modules.append(SimpleNamespace(__file__=str(file), **call))
        loaded = modules if attribute == "modules" else {module.__file__: module for module in modules}
        monkeypatch.setitem(sys.modules, CODECACHE, SimpleNamespace(PyCodeCache=SimpleNamespace(**{attribute: loaded})))
        return modules

    return make


@pytest.mark.parametrize("attribute", ["modules", "cache"])  # from torch 2.6 on, and before
def test_each_graph_is_kept_once_and_single_kernels_are_not(generated, tmp_path, attribute):
    modules = generated("one()\n", "two()\n", kernels=["kernel()\n"], attribute=attribute)
    if attribute == "modules":
        modules.append(modules[-1])  # loaded again with other constants
    target = tmp_path / "out" / "output_code.py.gz"
    assert inductor.keep_output_code(target, lambda text: text.replace("two", "<2>")) == "output_code.py.gz"
    assert read(target) == "# graph 1 of 2\none()\n\n# graph 2 of 2\n<2>()\n"


def test_code_that_is_gone_or_unknown_to_this_torch_is_left_out(generated, tmp_path, monkeypatch):
    target = tmp_path / "output_code.py.gz"
    (module,) = generated("one()\n")
    Path(module.__file__).unlink()
    assert inductor.keep_output_code(target, str) is None
    for other in (SimpleNamespace(), SimpleNamespace(PyCodeCache=SimpleNamespace())):
        monkeypatch.setitem(sys.modules, CODECACHE, other)
        assert inductor.keep_output_code(target, str) is None
    monkeypatch.delitem(sys.modules, CODECACHE)
    assert inductor.keep_output_code(target, str) is None
    assert not target.exists()


def test_long_code_is_cut_at_a_line_and_no_user_is_named(generated, tmp_path):
    line = "# kernel path: /tmp/torchinductor_some.one/ab/cd.py\n"
    generated(line * 10_000)
    target = tmp_path / "output_code.py.gz"
    inductor.keep_output_code(target, str)
    lines = read(target).splitlines()
    assert len(read(target)) <= inductor.MOST_CHARACTERS + 100
    assert set(lines[1:-1]) == {"# kernel path: /tmp/torchinductor_<user>/ab/cd.py"}
    # "some.one" has 8 characters and "<user>" 6; the head line "# graph 1 of 1" has 15 with its end.
    assert lines[-1] == f"# cut off here: the code has {15 + 10_000 * (len(line) - 2)} characters"


class WhyNoFuse:
    """As Inductor's class of this name: a message that is formatted when it is logged."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def log(*messages):
    for message in messages:
        logging.getLogger(inductor.LOGGER).debug(message)


def test_what_inductor_logs_about_fusing_is_kept_before_the_code_of_its_graph(generated, tmp_path):
    refused = WhyNoFuse("cannot fuse op0 with op2: numel/rnumel mismatch\n (reduce)")
    with inductor.listening() as unfused:
        log("===== attempting fusion (1/10): 3 nodes =====", refused, refused)
        log(WhyNoFuse("cannot fuse op1 with op2: no shared data"), "fusing op0 with op1")
        log("===== attempting fusion (1/10): 2 nodes =====")
    log(WhyNoFuse("cannot fuse op8 with op9: too late"))
    assert unfused == [["cannot fuse op0 with op2: numel/rnumel mismatch (reduce)"], []]
    generated("one()\n", "two()\n")
    target = tmp_path / "output_code.py.gz"
    inductor.keep_output_code(target, str, unfused)
    reason = "# cannot fuse op0 with op2: numel/rnumel mismatch (reduce)\n"
    assert read(target) == f"# graph 1 of 2\n{reason}one()\n\n# graph 2 of 2\ntwo()\n"
    inductor.keep_output_code(
        target, str, unfused[:1]
    )  # a graph of the cache was not scheduled: which one is not known
    assert "cannot fuse" not in read(target)


def test_listening_to_fusions_prints_nothing_and_leaves_the_level_of_the_logger(capfd):
    logger = logging.getLogger(inductor.LOGGER)
    before = logger.level, list(logger.handlers)
    with inductor.listening() as unfused:
        log(*(WhyNoFuse(f"cannot fuse op{n} with op0: a reason {'x' * 400}") for n in range(300)))
    assert (logger.level, logger.handlers) == before
    assert len(unfused[0]) == inductor.MOST_REASONS
    assert max(map(len, unfused[0])) == inductor.LONGEST
    assert "cannot fuse" not in "".join(capfd.readouterr())
