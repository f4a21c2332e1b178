"""Missing workload files, functions, variants and parameters are reported together before anything runs."""

from __future__ import annotations

import pytest
import yaml

from kernelbook.config.loading import ConfigError, load_config
from kernelbook.sources.workload_source import Places

OWN = """
import functools
import torch
from workloads import Workload
from elsewhere import imported

VARIANTS = {"fast": 1, **dict.fromkeys(("a", "b"))}
GROWN = {"one": 1}
GROWN["two"] = 2


def rows(context, rows=4, columns=8):
    return Workload(torch.relu, (context.random(rows, columns),))


def needs(context, size, *, scale=1, bias):
    return torch.relu, ()


def chooses(context):
    build = {"plain": 1, **VARIANTS}
    return context.choose(build), ()


def grown(context):
    return context.choose(GROWN), ()


def early(context):
    if context.variant.startswith("x"):
        return torch.relu, ()
    return context.choose({"plain": 1}), ()


def anything(context, **params):
    return torch.relu, ()


@functools.cache
def decorated(context):
    return torch.relu, ()


def nothing():
    return torch.relu, ()


class Blocks:
    def make(context, n=1):
        return torch.relu, ()


class Derived(Blocks):
    pass


alias = rows
made = functools.partial(rows, rows=2)
if torch.cuda.is_available():
    def either(context, gpu): ...
else:
    def either(context, cpu): ...
"""


@pytest.fixture
def told(root, tmp_path):
    """The message about one case with this workload and these keys, without the place in front."""
    files = {"own.py": OWN, "star.py": "from elsewhere import *\n", "later.py": "globals()['f'] = 1\n",
             "odd.py": "def (", "pack/__init__.py": "", "pack/mod.py": "def f(context): ...\n",
             "pack/inner.py": "import torch\nfrom .mod import f\n"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def of(workload, runs=None, **spec):
        raw = {"runs": runs or {"host": {"host": True}}, "cases": {"a": {"workload": workload} | spec}}
        raw["report"] = {"headline": ["a", "a"]} if "sweep" not in spec else {}
        try:
            load_config(raw, root / "workflow/schemas", [], Places(tmp_path, root))
        except ConfigError as error:
            return [problem.removeprefix("config.yaml: cases.a.") for problem in error.problems]
        return []

    return of


def test_no_shipped_case_is_refused(root):
    raw = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    assert load_config(raw | {"only_cases": "*"}, root / "workflow/schemas", [], Places(root, root)).cases


@pytest.mark.parametrize(
    ("workload", "fact"),
    [
        ("attn", "workload: there is no workload 'attn': did you mean 'attention'? A file of yours: "),
        ("onw.py:rows", "workload: there is no file 'onw.py': did you mean 'own.py'?"),
        ("nowhere/x.py:f", "workload: there is no file 'nowhere/x.py': paths are relative to the folder you start in"),
        ("own.py", "workload: names no function: write own.py:FUNCTION"),
        ("own.py:", "workload: own.py has no '': there is: "),
        (":rows", "workload: names no file: write path/to/file.py:rows"),
        ("own.py:rosw", "workload: own.py has no 'rosw': did you mean 'rows'?"),
        ("own.py:Blocks.mkae", "workload: own.py has no 'Blocks.mkae'"),
        ("own.py:nothing", "workload: the function own.py:nothing takes no argument: its first is the context"),
        ("pack/inner.py:f", "workload: line 2 of pack/inner.py imports relatively, but a file is loaded without its"),
        ("pack.mod:g", "workload: pack.mod has no 'g': there is: f"),
        ("pakc.mod:f", "workload: there is no module 'pakc.mod': paths to files end in .py, as in path/to/file.py:f"),
    ],
)
def test_a_workload_that_is_not_there_is_told(told, workload, fact):
    (problem,) = told(workload)
    assert problem.startswith(fact)


@pytest.mark.parametrize(
    ("workload", "spec", "facts"),
    [
        ("attention", {"variant": "flex", "params": {"sqe": 1}},
         ["params: attention takes no 'sqe': did you mean 'seq'?"]),
        ("own.py:rows", {"cpu_params": {"row": 1}}, ["cpu_params: own.py:rows takes no 'row': did you mean 'rows'?"]),
        ("own.py:rows", {"sweep": {"colums": [1]}}, ["sweep: own.py:rows takes no 'colums': did you mean 'columns'?"]),
        ("own.py:needs", {"params": {"scale": 2}},
         ["params: own.py:needs needs 'size': add it", "params: own.py:needs needs 'bias': add it"]),
        ("own.py:needs", {"params": {"size": 2, "bias": True}}, []),
        ("own.py:Blocks.make", {"params": {"m": 2}}, ["params: own.py:Blocks.make takes no 'm': there is: n"]),
        ("ceiling", {"variant": "matmul", "params": {"sise": 2}},
         ["params: ceiling takes no 'sise': did you mean 'size'?"]),
        ("ceiling", {"variant": "copy", "params": {"bytes": 2}}, []),
        ("attention", {"variant": "sdpa-flsh"},
         ["variant: attention has no variant 'sdpa-flsh': did you mean 'sdpa-flash'?"]),
        ("training", {"variant": "adam"}, ["variant: training has no variant 'adam': there is: adamw-foreach, "
                                           "adamw-fused, adamw-loop, backward, sgd"]),
        ("linear", {"variant": "plian"}, ["variant: linear has no variant 'plian': did you mean 'plain'?"]),
        ("own.py:chooses", {"variant": "fsat"},
         ["variant: own.py:chooses has no variant 'fsat': did you mean 'fast'?"]),
        ("own.py:chooses", {"variant": "b"}, []),
        ("mlp", {"variant": "trch", "params": {"bach": 1}},
         ["variant: mlp has no variant 'trch': did you mean 'torch'?",
          "params: mlp takes no 'bach': did you mean 'batch'?"]),
    ],
)  # fmt: skip
def test_variants_and_parameters_that_are_not_there_are_told(told, workload, spec, facts):
    assert told(workload, **spec) == facts


@pytest.mark.parametrize(
    "workload",
    ["own.py:anything", "own.py:decorated", "own.py:alias", "own.py:made", "own.py:either", "own.py:imported",
     "own.py:Derived.make", "own.py:Blocks", "star.py:f", "later.py:f", "odd.py:f", "own.py:grown", "own.py:early"],
)  # fmt: skip
def test_what_a_source_does_not_tell_is_not_refused(told, workload):
    spec = {} if workload in ("own.py:grown", "own.py:early") else {"params": {"x": 1}}
    assert told(workload, variant="xyz", **spec) == []


def test_a_module_that_only_an_image_may_hold_is_not_refused(told):
    assert told("pakc.mod:f", runs={"image": {"container": "x.sif"}}) == []


def test_cases_that_are_not_measured_are_not_looked_at(told):
    assert told("onw.py:rows", runs={"old": {"recorded": "."}}) == []
    assert told("onw.py:rows", runs={"host": {"host": True, "enabled": False}, "old": {"recorded": "."}}) == []


def test_all_mistakes_are_told_at_once(told):
    assert told("attention", variant="sdpa", params={"seqs": 1}, samples=0) == [
        "samples: must be at least 1, got 0",
        "variant: attention has no variant 'sdpa': did you mean 'sdpa-math'?",
        "params: attention takes no 'seqs': did you mean 'seq'?",
    ]
