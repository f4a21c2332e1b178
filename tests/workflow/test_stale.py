"""What makes a measurement stale, and what does not: files, images, surroundings, keys of a case."""

from __future__ import annotations

import json
import os
import sys

import pytest

from kernelbook.config.loading import load_config
from kernelbook.containers.images import stamp_of
from kernelbook.containers.launching import thread_limits
from kernelbook.plan import surroundings
from kernelbook.plan.planning import make_plan
from kernelbook.sources.fingerprint import folder_stamp
from tests.helpers.snakemake import WorkingFolder

CASE = {"workload": "w/own.py:forward"}
RUNS = {"host": {"host": True}, "image": {"container": "box"}}


def write(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def stale(root, tmp_path, monkeypatch):
    """What makes the case `a` of a run stale, after the files were written and keys of the configuration changed."""
    monkeypatch.setattr("kernelbook.plan.planning.runtime", lambda: "apptainer")
    monkeypatch.setattr(surroundings, "NVIDIA", tmp_path / "no-driver")
    monkeypatch.setattr(surroundings.shutil, "which", lambda name: None)

    def of(files=None, case=None, run="host", **changes):
        write(tmp_path, files or {})
        surroundings.gpu.cache_clear()
        raw = {"runs": RUNS, "cases": {"a": CASE | (case or {}), "b": {"workload": "linear"}},
               "report": {"headline": ["a", "b"]}} | changes  # fmt: skip
        plan = make_plan(load_config(raw, root / "workflow" / "schemas"), tmp_path, root, containers_on=True)
        return plan.makes_stale(run, "a", 1)

    return of


MEASURED = {
    "runs": {"host": {"host": True}},
    "cases": {"a": CASE},
    "measure": {"samples": 3, "warmup": 1, "schedule": {"active": 2}, "dtype": "float32"},
    "report": {"headline": ["a", "a"]},
    "device": "cpu",
}


@pytest.mark.torch
@pytest.mark.slow
def test_snakemake_measures_again_what_is_stale_and_nothing_else(tmp_path):
    folder = WorkingFolder(tmp_path)

    def snakemake(changes, *arguments, **environment):
        folder.configure(MEASURED | changes)
        return folder.snakemake(*arguments, **environment)

    own = "from pack.net import scale\ndef forward(context):\n    return (lambda x: x * scale), (context.random(4),)\n"
    write(tmp_path, {"w/own.py": own, "w/pack/__init__.py": "", "w/pack/net.py": "from .deep import scale\n"})
    write(tmp_path, {"w/pack/deep.py": "scale = 2\n"})
    assert "Measuring a" in snakemake({}, TRITON_INTERPRET="0")
    assert folder.measurement("host", "a")["environment"]["variables"]["TRITON_INTERPRET"] == "0"
    harmless = {"device": "auto", "cases": {"a": CASE | {"timeout_s": 44, "note": "n"}}}
    said = snakemake(harmless, "-n", TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES="", TRITON_CACHE_DIR="/elsewhere")
    assert "Measuring" not in said
    assert "Measuring a" in snakemake({}, "-n", TRITON_INTERPRET="1")
    assert "Measuring a" in snakemake({}, "-n", TRITON_INTERPRET="0", NVIDIA_TF32_OVERRIDE="0")
    write(tmp_path, {"w/pack/deep.py": "scale = 2  # two\n"})
    assert "Measuring" not in snakemake({}, "-n", TRITON_INTERPRET="0")
    write(tmp_path, {"w/pack/deep.py": "scale = 3\n"})
    assert "Measuring a" in snakemake({}, "-n", TRITON_INTERPRET="0")


OWN = "def forward(context):\n    return f, ()\n"
# name -> the source of w/own.py, other files, and the file whose change must be noticed
FILES = {
    "from .net import f": ("import pack", {"w/pack/__init__.py": "from .net import f", "w/pack/net.py": "f = 1"},
                           "w/pack/net.py"),
    "from . import x": ("import pack", {"w/pack/__init__.py": "from . import x", "w/pack/x.py": "1"}, "w/pack/x.py"),
    "from .. import y": (
        "from pack.sub import f",
        {"w/pack/__init__.py": "", "w/pack/y.py": "1", "w/pack/sub/__init__.py": "from .. import y"},
        "w/pack/y.py",
    ),
    "init on the way": ("import pack.net", {"w/pack/__init__.py": "1", "w/pack/net.py": ""}, "w/pack/__init__.py"),
    "in a function": ("def g():\n    from pack import net", {"w/pack/__init__.py": "", "w/pack/net.py": "1"},
                      "w/pack/net.py"),
    "as": ("import pack.net as n", {"w/pack/__init__.py": "", "w/pack/net.py": "1"}, "w/pack/net.py"),
    "namespace": ("import space.net", {"w/space/net.py": "1"}, "w/space/net.py"),
    "star": ("from pack import *", {"w/pack/__init__.py": "__all__ = ['net']", "w/pack/net.py": "1"}, "w/pack/net.py"),
    "import_module": ("import importlib\nimportlib.import_module('lit')", {"w/lit.py": "1"}, "w/lit.py"),
    "working folder": ("import beside", {"beside.py": "1"}, "beside.py"),
    "circle": ("import a1", {"w/a1.py": "import a2", "w/a2.py": "import a1"}, "w/a2.py"),
    "open": ("open('n.txt')", {"n.txt": "1"}, "n.txt"),
    "beside the file": ("Path(__file__).parent / 'n.txt'", {"w/n.txt": "1"}, "w/n.txt"),
    "in parts": ("os.path.join(HERE, 'data', 'n.txt')", {"w/data/n.txt": "1"}, "w/data/n.txt"),
    "formatted": ("open(f'{HERE}/n.txt')", {"w/n.txt": "1"}, "w/n.txt"),
    "above": ("Path(__file__).parents[1] / 'data' / 'n.txt'", {"data/n.txt": "1"}, "data/n.txt"),
    "suffix": ("Path(__file__).with_suffix('.json')", {"w/own.json": "1"}, "w/own.json"),
    "pattern": ("glob('data/*.bin')", {"w/data/1.bin": "1"}, "w/data/1.bin"),
    "of a helper": ("import beside", {"beside.py": "torch.load('weights.pt')", "weights.pt": "1"}, "weights.pt"),
    "source by name": ("runpy.run_path('w/other.py')", {"w/other.py": "import deep", "w/deep.py": "1"}, "w/deep.py"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_change_of_a_file_behind_a_workload_makes_it_stale(stale, kind):
    source, files, changed = FILES[kind]
    before = stale({"w/own.py": f"{source}\n{OWN}"} | files)
    assert stale() == before
    assert stale({changed: "x = 2"}) != before


def test_a_package_named_with_dots_is_followed(stale):
    case = {"workload": "mine.models:forward"}
    files = {"mine/__init__.py": "1", "mine/models.py": f"from .net import f\n{OWN}", "mine/net.py": "f = 1"}
    before = stale(files, case)
    assert stale({"mine/net.py": "f = 2"}, case) != before
    assert stale({"mine/net.py": "f = 1", "mine/__init__.py": "2"}, case) != before


def test_an_older_file_put_in_place_of_a_newer_one_is_noticed(stale, tmp_path):
    before = stale({"w/own.py": f"import beside\nopen('n.txt')\n{OWN}", "w/beside.py": "1", "n.txt": "1"})
    for name in ("w/beside.py", "n.txt"):
        write(tmp_path, {name: "2"})
        os.utime(tmp_path / name, (1, 1))
        assert stale() != before
        write(tmp_path, {name: "1"})
        assert stale() == before


def test_a_package_installed_from_a_folder_of_its_own_is_followed(stale, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    before = stale({"w/own.py": f"import elsewhere_kb\n{OWN}", "src/elsewhere_kb/__init__.py": "1"})
    assert stale({"src/elsewhere_kb/__init__.py": "2"}) != before


def test_data_named_by_parameters_and_files_is_followed(stale):
    case = {"params": {"weights": "w.pt"}, "files": ["data"]}
    before = stale({"w/own.py": OWN, "w.pt": "1", "data/deep/x.bin": "1"}, case)
    assert stale({"w.pt": "2"}, case) != before
    assert stale({"w.pt": "1", "data/deep/x.bin": "2"}, case) != before


def test_what_a_workload_writes_does_not_make_it_stale(stale):
    source = "open('seen.log', 'a').write('x')\ntorch.save(1, 'out.pt')\nopen('results/latest/x')\n"
    source += "COUNT = Path(__file__).with_name('count')\nwith open(COUNT, mode='a') as stream: pass\n"
    names = ("seen.log", "out.pt", "results/latest/x", "w/count")
    before = stale({"w/own.py": source + OWN} | dict.fromkeys(names, "1"))
    assert stale(dict.fromkeys(names, "2")) == before


def test_what_is_read_and_written_in_one_folder_is_told_apart(stale):
    source = "DATA = HERE / 'data'\nw = torch.load('w.pt')\ntorch.save(w, DATA / 'out.pt')\nopen(DATA / 'in.bin')\n"
    names = ("w/data/in.bin", "w.pt", "w/data/out.pt")
    before = stale({"w/own.py": source + OWN} | dict.fromkeys(names, "1"))
    assert stale({"w/data/out.pt": "2"}) == before
    assert len({before, stale({"w/data/in.bin": "2"}), stale({"w.pt": "2"})}) == 3


def test_what_cannot_change_a_figure_makes_nothing_stale(stale):
    before = stale({"w/own.py": OWN})
    assert stale({"w/own.py": f"# a comment\n\n{OWN}"}) == before
    for harmless in ({"timeout_s": 7}, {"retries": 0}, {"note": "n"}, {"expect": {"kernels": 1}}, {"samples": 50}):
        assert stale(case=harmless) == before
    assert stale(device="cpu") == stale(device="auto") == before


@pytest.mark.parametrize("change", [{"samples": 51}, {"warmup": 0}, {"seed": 1}, {"tf32": True}, {"mode": "compile"}])
def test_what_can_change_a_figure_makes_it_stale(stale, change):
    assert stale({"w/own.py": OWN}, change) != stale()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        *((name, True) for name in ("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", "TORCHINDUCTOR_MAX_AUTOTUNE",
          "TRITON_INTERPRET", "CUBLAS_WORKSPACE_CONFIG", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_COMPILE_DISABLE",
          "CUDNN_LOGINFO_DBG", "KMP_AFFINITY", "LD_LIBRARY_PATH")),
        *((name, False) for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TMPDIR", "TORCH_HOME", "CUDA_HOME",
          "CUDA_VISIBLE_DEVICES", "HOME", "PATH", "USER", "NVIDIA_API_KEY")),
    ],
)  # fmt: skip
def test_variables_that_torch_reads_make_stale_and_caches_do_not(stale, monkeypatch, name, counts):
    before, in_container = stale({"w/own.py": OWN}), stale(run="image")
    monkeypatch.setenv(name, "/changed")
    assert (stale() != before) is counts
    assert stale(run="image") == in_container
    monkeypatch.setenv(f"APPTAINERENV_{name}", "/changed")
    assert (stale(run="image") != in_container) is counts


def test_both_sides_of_the_wall_know_the_same_variables(root):
    source = (root / "scripts/workloads/harness/environment.py").read_text()
    texts = "".join(line.strip().removeprefix('r"').removesuffix('"') for line in source.splitlines() if 'r"' in line)
    assert surroundings.READ.pattern in texts
    assert f'"{surroundings.SECRET.pattern}"' in source


def test_cpu_threads_are_as_configured_or_as_the_user_has_set_them():
    assert thread_limits(0, {"OMP_NUM_THREADS": "3"}).endswith("-u NUMEXPR_NUM_THREADS OMP_NUM_THREADS=3")
    assert "OMP_NUM_THREADS=2" in thread_limits(2, {"OMP_NUM_THREADS": "3"}).split()


def driver(folder, model, version):
    gpu = f"Model: \t\t {model}\nGPU UUID: \t GPU-{os.urandom(4).hex()}\n"
    kernel = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Wed\n"
    write(folder, {"version": kernel, "gpus/0000:01:00.0/information": gpu})


def test_model_and_driver_make_stale_and_another_gpu_of_the_same_kind_does_not(stale, tmp_path):
    cpu = stale({"w/own.py": OWN})
    driver(tmp_path / "no-driver", "NVIDIA H200", "580.95.05")
    before = stale()
    assert before != cpu
    assert stale(device="cuda") == before
    assert stale(device="cpu") == cpu
    driver(tmp_path / "no-driver", "NVIDIA H200", "580.95.05")  # with another UUID
    assert stale() == before
    driver(tmp_path / "no-driver", "NVIDIA H200", "580.95.06")
    assert stale() != before
    driver(tmp_path / "no-driver", "NVIDIA A100-SXM4-80GB", "580.95.05")
    assert stale() != before


def test_a_machine_whose_driver_tells_no_model_is_asked_by_nvidia_smi(tmp_path, monkeypatch):
    write(tmp_path, {"bin/nvidia-smi": "#!/bin/sh\necho 'NVIDIA H200, 580.95.05'\necho 'NVIDIA A30, 580.95.05'\n"})
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    monkeypatch.setattr(surroundings, "NVIDIA", tmp_path / "absent")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    surroundings.gpu.cache_clear()
    assert surroundings.gpu("1") == "NVIDIA A30, driver 580.95.05"
    assert surroundings.gpu(None) == "NVIDIA A30, NVIDIA H200, driver 580.95.05"
    assert surroundings.gpu("") is None


def test_a_machine_without_a_driver_keeps_what_was_measured_on_a_gpu(stale, tmp_path):
    folder = tmp_path / "results/latest/host"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"device": "NVIDIA H200, driver 580.95.05"}))
    assert json.loads(stale({"w/own.py": OWN}))["device"] == "NVIDIA H200, driver 580.95.05"


def test_versions_of_the_host_packages_make_stale(stale, tmp_path, monkeypatch):
    before = stale({"w/own.py": OWN})
    (tmp_path / "site" / "triton-3.9.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    assert stale() != before


BOX = {
    "usr/bin/python3": "", "usr/lib/python3/dist-packages/torch/version.py": "__version__ = '2.13.0'",
    "opt/venv/bin/python3": "", "opt/venv/lib/python3.12/site-packages/torch/version.py": "__version__ = '2.13.0'",
    "opt/venv/lib/python3.12/site-packages/torch/_inductor/deep/config.py": "1",
    "opt/venv/lib/python3.12/site-packages/numpy-2.1.dist-info/METADATA": "",
    "srv/own/env/lib/python3.11/site-packages/torch/version.py": "1",
    "usr/local/cuda-13.0/version.json": "{}", ".singularity.d/env/90-environment.sh": "",
}  # fmt: skip


@pytest.mark.parametrize("changed", [name for name in BOX if name.endswith((".py", ".json", ".sh", "METADATA"))])
def test_an_image_that_is_a_folder_is_another_when_changed_in_place(tmp_path, changed):
    box = tmp_path / "box"
    write(box, BOX)
    python = "/srv/own/env/bin/python"
    before, times = stamp_of(box, python), os.stat(box)
    assert stamp_of(box, python) == before
    write(box, {changed: "__version__ = '9.9.9'"})
    os.utime(box, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert stamp_of(box, python) != before


def test_what_running_an_image_leaves_in_it_changes_nothing(tmp_path):
    write(tmp_path, BOX)
    before = folder_stamp(tmp_path)
    write(tmp_path, {"opt/venv/lib/python3.12/site-packages/torch/__pycache__/version.pyc": "x", "tmp/x": "1"})
    assert folder_stamp(tmp_path) == before
