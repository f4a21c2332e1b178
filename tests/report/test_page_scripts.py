"""The page's scripts that need no page, run by node: the same numbers as Python, and alignments counted by hand."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pytest

from kernelbook.report import page, text


@pytest.fixture(scope="module")
def node(missing):
    """node(expression) -> value, with format.js and align.js loaded."""
    program = shutil.which("node")
    if program is None:
        missing("node is not installed")
    source = "\n".join((page.HERE / "assets" / name).read_text(encoding="utf-8") for name in ("format.js", "align.js"))

    def run(expression: str, given: object = None):
        script = f"{source}\nconst given = {json.dumps(given)};\nprocess.stdout.write(JSON.stringify({expression}));"
        done = subprocess.run([str(program), "-e", script], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    return run


def test_durations_read_the_same_in_the_page_as_in_its_twin(node):
    generator = random.Random(1)
    values = [10 ** generator.uniform(-2, 8) for _ in range(2000)] + [0, 1, 999.4, 1000, 1e6]
    assert node("given.map(duration)", values) == [text.duration(value) for value in values]
    assert node("given.map(ratio)", values) == [text.ratio(value) for value in values]


def test_names_read_the_same_in_the_page_as_in_its_twin(node):
    names = ["a\u202eb", "line\nbreak", "naïve", "x\x00y", "\u200f\u2066", "plain", "tab\there", "\u2028"]
    assert node("given.map(visible)", names) == [text.visible(name) for name in names]
    long = ["head" + "x" * 300 + "tail", "short"]
    assert node("given.map((name) => clip(name, 40))", long) == [text.clip(name, 40) for name in long]


def test_copied_cells_are_safe(node):
    cells = ["=1+1", "@x", "-5", "-5.5 µs", "+1", 'a"b', "a,b", "1,234"]
    assert node("given.map(csvCell)", cells) == ["'=1+1", "'@x", "-5", "'-5.5 µs", "+1", '"a""b"', '"a,b"', '"1,234"']
    assert node("markdownCell(given)", "a|b`c<d>\n_e_") == r"a\|b\`c\<d\> \_e\_"


def kernels(*rows: tuple[str, str, float]) -> list[dict]:
    return [{"name": name, "family": family, "category": "kernel", "part": part} for name, family, part in rows]


def test_equal_kernels_are_paired_and_the_rest_by_family(node):
    left = kernels(("a", "gemm", 0.4), ("gelu", "elementwise", 0.2), ("mul", "elementwise", 0.1), ("b", "gemm", 0.3))
    right = kernels(("a", "gemm", 0.5), ("fused", "elementwise", 0.2), ("b", "gemm", 0.3))
    pairs = node("align(given[0], given[1]).map(([x, y]) => [x && x.name, y && y.name])", [left, right])
    assert pairs == [["a", "a"], ["gelu", "fused"], ["mul", None], ["b", "b"]]


def test_a_long_kernel_is_paired_with_a_long_one(node):
    left = kernels(("fill", "fill", 0.4))
    right = kernels(("tiny", "fill", 0.001), ("where", "fill", 0.2))
    pairs = node("align(given[0], given[1]).map(([x, y]) => [x && x.name, y && y.name])", [left, right])
    assert pairs == [[None, "tiny"], ["fill", "where"]]


def test_nothing_is_lost_in_an_alignment(node):
    generator = random.Random(2)
    for _ in range(5):
        sides = [
            kernels(*((generator.choice("abcd"), generator.choice("xy"), 0.1) for _ in range(generator.randint(0, 12))))
            for _ in range(2)
        ]
        pairs = node("align(given[0], given[1])", sides)
        assert [pair[0] for pair in pairs if pair[0]] == sides[0]
        assert [pair[1] for pair in pairs if pair[1]] == sides[1]


def test_ticks_are_round_and_within(node):
    found = node("niceTicks(given[0], given[1], 5)", [0, 2.6])
    assert found["ticks"] == [0, 1, 2]


def test_scripts_and_styles_are_laid_out_by_prettier(npm_packages):
    program = npm_packages / ".bin" / "prettier"
    files = [str(path) for path in sorted((page.HERE / "assets").iterdir())]
    done = subprocess.run(
        [str(program), "--print-width", "120", "--check", *files],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
