"""`pip install .` in a fresh environment: the command, its data files, and nothing of torch or Snakemake."""

import subprocess
import sys

import pytest

from tests.helpers import ROOT
from tests.helpers.patience import LONG


def run(*words, **options):
    command = list(map(str, words))
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(folder):
    """`pip install .` into the folder; skips where the build backend is not installed and cannot be had."""
    options = ["--quiet", "--no-deps", "--no-compile", "--target", str(folder)]
    pip = [sys.executable, "-m", "pip", "install", *options, str(ROOT)]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=LONG, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("hatchling cannot be installed: no package index")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_wheel_has_all_that_the_command_reads(tmp_path, recorded_h200):
    # beside this environment's packages, away from the checkout
    place = tmp_path / "installed"
    install(place)
    names = {path.relative_to(place).as_posix() for path in place.rglob("*")}
    package = ROOT / "scripts" / "kernelbook"
    wanted = {
        f"kernelbook/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*.*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names == set()
    assert "kernelbook/checkout/workflow/schemas/expect.schema.json" in names
    assert "kernelbook/checkout/scripts/workloads/attention.py" in names
    trace = recorded_h200 / "linear-eager" / "1"
    environment = {"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "kernelbook"]
    assert "linear_fwd" in run(*command, "summarize", trace / "trace.json.gz", env=environment, cwd=tmp_path)
    assert "report: out/index.html" in run(*command, "report", trace, "-o", "out", env=environment, cwd=tmp_path)
    (tmp_path / "mine.yaml").write_text(f"runs: {{a: {{recorded: {recorded_h200}}}}}\n")
    assert "no mistake" in run(*command, "check", "mine.yaml", env=environment, cwd=tmp_path)
