"""Modules that commands must not load, since loading each takes longer than reading a small trace."""

import os
import subprocess
import sys

import pytest

from tests.collectives.made_job import folder_of_pair
from tests.helpers.patience import LONG

RUN = (
    "import sys; sys.path.insert(0, {scripts!r}); from kernelbook.cli import main; main({words!r});"
    "print(*(name for name in {names!r} if name in sys.modules), file=sys.stderr)"
)
DRAWING = ("matplotlib", "scipy", "jinja2", "jsonschema")
TABLES = ("pandas", "pyarrow", "rich", "yaml")


def loaded(root, words, names):
    """(what the command prints, which of the modules it loads)."""
    code = RUN.format(scripts=str(root / "scripts"), words=words, names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG, check=True)
    return done.stdout, done.stderr.split()


@pytest.fixture
def trace(recorded_h200):
    return str(recorded_h200 / "attention-naive-eager" / "1" / "trace.json.gz")


@pytest.mark.parametrize(("options", "names"), [((), (*DRAWING, "pandas")), (("--json",), (*DRAWING, *TABLES))])
def test_a_summary_is_made_without_drawing_or_data_frames(root, trace, options, names):
    out, modules = loaded(root, ["summarize", *options, trace], names)
    assert "attn_fwd" in out
    assert modules == []


@pytest.mark.parametrize("words", [["check"], ["top"], ["top", "--json"], ["summarize"], ["summarize", "--json"]])
def test_traces_of_one_process_are_read_without_arrow_tables_cases_and_ranks(root, trace, words):
    names = ("pandas", "pyarrow", "kernelbook.cases", "kernelbook.collectives.rank")
    assert loaded(root, [*words, trace], names)[1] == []


def test_numpy_starts_no_threads_for_a_command(root, trace):
    """Nothing multiplies matrices, and each thread takes CPU time when NumPy is imported."""
    code = RUN.format(scripts=str(root / "scripts"), words=["summarize", "--json", trace], names=())
    alone = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    code += "; import os; print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG, env=alone)
    assert done.stderr.split() == ["1"]


def test_two_traces_are_compared_without_reading_editions_or_configs(root, trace):
    names = ("kernelbook.edition.model", "kernelbook.judge.findings", "kernelbook.config.loading")
    out, modules = loaded(
        root, ["diff", trace, trace], (*names, "kernelbook.containers", "jsonschema", "yaml", "pandas")
    )
    assert "attn_fwd" in out
    assert modules == []


def test_an_edition_is_collected_and_rendered_without_data_frames(root, recorded_h200, tmp_path):
    """`report` does what collect_edition.py and render_report.py do, for a measured case and a job of two ranks."""
    names = ("pandas", "pyarrow.dataset", "scipy", "matplotlib")
    folders = (recorded_h200 / "linear-eager", folder_of_pair(tmp_path / "job"))
    words = ["report", *map(str, folders), "--output", str(tmp_path / "report")]
    _, modules = loaded(root, words, names)
    assert (tmp_path / "report" / "index.html").is_file()
    assert modules == []
