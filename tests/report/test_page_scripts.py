"""The page's scripts that need no page, run by node: the same numbers as Python, and alignments counted by hand."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from kernelbook.cases import Activity
from kernelbook.judge.alignment import paired
from kernelbook.kernel_names import labels
from kernelbook.report import styles
from kernelbook.report.families import family_of
from kernelbook.text import formatting
from tests.helpers.patience import LONG
from tests.helpers.required import required_program

SCRIPTS = ("format.js", "align.js", "lanes_model.js")


@pytest.fixture(scope="module")
def node():
    """node(expression) -> value, with format.js, align.js and lanes_model.js loaded."""
    program = required_program("node")
    source = "\n".join((styles.ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)

    def run(expression: str, given: object = None):
        script = f"{source}\nconst given = {json.dumps(given)};\nprocess.stdout.write(JSON.stringify({expression}));"
        done = subprocess.run([program, "-"], input=script, capture_output=True, text=True, timeout=LONG, check=True)
        return json.loads(done.stdout)

    return run


def test_durations_read_the_same_in_the_page_as_in_its_twin(node):
    generator = random.Random(1)
    edges = [0, 1, 0.9994, 0.9997, 9.997, 99.97, 999.4, 999.7, 1000, 999_400, 999_600, 1e6]
    values = [10 ** generator.uniform(-2, 8) for _ in range(2000)] + edges
    assert node("given.map(duration)", values) == [formatting.duration(value) for value in values]
    assert node("given.map(ratio)", values) == [formatting.ratio(value) for value in values]


def test_names_read_the_same_in_the_page_as_in_its_twin(node):
    names = ["a\u202eb", "line\nbreak", "naïve", "x\x00y", "\u200f\u2066", "plain", "tab\there", "\u2028"]
    assert node("given.map(visible)", names) == [formatting.visible(name) for name in names]
    long = ["head" + "x" * 300 + "tail", "short"]
    assert node("given.map((name) => clip(name, 40))", long) == [formatting.clip(name, 40) for name in long]


def test_copied_cells_are_safe(node):
    cells = ["=1+1", "@x", "-5", "-5.5 µs", "+1", 'a"b', "a,b", "1,234"]
    assert node("given.map(csvCell)", cells) == ["'=1+1", "'@x", "-5", "'-5.5 µs", "+1", '"a""b"', '"a,b"', '"1,234"']
    cells = [
        "a|b`c<d>\n_e_f_g",
        "-5 &amp;",
        "http://www.x",
        "{: onclick=x}",
        "~a^b$c\\",
        "aten::add_",
        "µs_é_",
        "__a__b",
    ]
    assert node("given.map(markdownCell)", cells) == [formatting.markdown(cell) for cell in cells]


def kernels(*rows: tuple[str, str]) -> list[dict]:
    """Kernels as the page has them: (name, family key)."""
    return [{"name": name, "family": {"key": key}, "category": "kernel", "ops": ""} for name, key in rows]


NAMES = "align(given[0], given[1]).map(([x, y]) => [x && x.name, y && y.name])"


def test_equal_kernels_are_paired_and_the_rest_by_family(node):
    left = kernels(("a", "gemm"), ("gelu", "elementwise"), ("mul", "elementwise"), ("b", "gemm"))
    right = kernels(("a", "gemm"), ("fused", "elementwise"), ("b", "gemm"))
    pairs = node(NAMES, [left, right])
    assert pairs == [["a", "a"], ["gelu", None], ["mul", "fused"], ["b", "b"]]
    assert node(NAMES, [kernels(("a", "gemm")), kernels(("b", "softmax"))]) == [[None, "b"], ["a", None]]


def shown(act: Activity) -> dict:
    known = labels.kernel_label(act.category, act.name)
    key = family_of(act.category, known.family).key
    told = {"name": act.name, "category": act.category, "family": {"key": key}, "ops": ",".join(known.ops)}
    return told | {"path": act.launched_by}


@pytest.mark.parametrize("lengths", [(12, 12), (30, 7), (0, 5), (1100, 1090)])  # the last are aligned within a band
def test_the_page_aligns_just_as_the_comparisons_do(node, root, lengths):
    table = (root / "tests" / "insight" / "kernel_names.tsv").read_text(encoding="utf-8")
    known = [line.split("\t")[0] for line in table.splitlines() if line and not line.startswith("#")]
    generator = random.Random(sum(lengths))
    add, alone = ("aten::add", "aten::add"), (("aten::mul",), ("my_annotation",))
    paths = ((), add, ("Region 0/0", *add), *alone)
    sides = [
        [
            Activity(i, "kernel", generator.choice(known[::6]), float(i), 1.0, op_path=generator.choice(paths))
            for i in range(length)
        ]
        for length in lengths
    ]
    sides[0] += [Activity(len(sides[0]), "memcpy", "Memcpy DtoD (Device -> Device)", 0.0, 1.0)]
    sides[1][2:2] = [Activity(len(sides[1]), "memset", "Memset (Device)", 0.0, 1.0)]
    some = ((), (1,), (4096,), (4096, 64), (16384, 64), (1 << 27, 1 << 20))
    sizes = [{act.position: generator.choice(some) for act in side} for side in sides]
    for known_sizes in (sizes, [{}, {}]):
        pairs = paired(*sides, *known_sizes)
        wanted = [[i if i is None else sides[0][i].name, j if j is None else sides[1][j].name] for i, j in pairs]
        given = [
            [shown(act) | {"sizes": list(of.get(act.position, ()))} for act in side]
            for side, of in zip(sides, known_sizes, strict=True)
        ]
        assert node(NAMES, given) == wanted
    assert any(None not in pair and pair[0] != pair[1] for pair in wanted) or min(lengths) == 0


def test_lanes_have_rows_for_each_thread(node):
    """An op and its launch on the forward's own thread; on another one, an op in an op."""
    rows = [
        # name, depth, parent, category, thread, correlation
        ("aten::addmm", 0, None, "op", 0, None),
        ("cudaLaunchKernel", 1, 0, "runtime", 0, 1),
        ("AddmmBackward0", 0, None, "op", 1, None),
        ("aten::mm", 1, 2, "op", 1, None),
    ]
    names = ("name", "depth", "parent", "category", "thread", "correlation")
    calls = [
        dict(zip(names, row, strict=True)) | {"position": i, "start": i, "duration": 1} for i, row in enumerate(rows)
    ]
    activities = [{"correlation": 1, "start": 5, "duration": 1, "device": 0, "stream": 7, "short": "gemm"}]
    model = "lanesModel(given)"
    given = {"calls": calls, "activities": activities}
    told = node(f"{model}.rows.map((row) => [row.label, ...row.items.map((item) => item.label)])", given)
    assert told == [
        ["CPU", "aten::addmm"],
        ["", "cudaLaunchKernel"],
        ["CPU, other thread 1 (inferred)", "AddmmBackward0"],
        ["", "aten::mm"],
        ["GPU 0 · stream 7", "gemm"],
    ]
    assert node(f"{model}.cpuCount", given) == 4


def test_overhead_of_cupti_is_no_op_that_launches_nothing(node):
    call = {"name": "Command Buffer Full", "category": "overhead", "position": 0, "start": 0, "duration": 1}
    assert node("callItem(given, new Set(), new Set()).kind", call) == "note"


def test_work_of_earlier_forwards_is_named(node):
    given = {"calls": [], "activities": [], "earlier": [[0, 1000], [1200, 1700]]}
    assert node("lanesModel(given).earlier", given) == [{"from": 0, "to": 1000}, {"from": 1200, "to": 1700}]
    caption = node("lanesCaption(lanesModel(given))", given)
    assert caption.startswith("Before this forward the GPU still runs earlier ones for 1.50 ms (grey)")
    assert node("lanesCaption(lanesModel(given))", {"calls": [], "activities": []}) == ""


def test_ticks_are_round_and_within(node):
    found = node("niceTicks(given[0], given[1], 5)", [0, 2.6])
    assert found["ticks"] == [0, 1, 2]


def test_scripts_and_styles_are_laid_out_by_prettier(npm_packages):
    program = npm_packages / ".bin" / "prettier"
    files = [str(path) for path in sorted(styles.ASSETS.iterdir())]
    done = subprocess.run(
        [str(program), "--print-width", "120", "--check", *files],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
