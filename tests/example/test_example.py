"""The committed example report is what rendering gives today: text byte by byte, Parquet as tables."""

import json

import pyarrow.parquet as pq
import pytest

from render_example import main

PUBLISHED_COUNTS = {  # kernels and memcpys per forward, published for an A100; memcpys where they were told
    "matmul-add-64-cold-eager": (2, None),
    "linear-eager": (1, None),
    "linear-compile": (1, None),
    "mlp-eager": (5, None),
    "mlp-compile": (4, None),
    "mlp-liger": (4, None),
    "attention-naive-eager": (5, 1),
    "attention-inplace-eager": (5, 0),
    "attention-naive-compile": (3, None),
    "sdpa-math-eager": (20, None),
    "sdpa-efficient-eager": (1, None),
    "sdpa-flash-eager": (1, None),
    "sdpa-cudnn-eager": (1, None),
    "attention-flex-compile": (1, None),
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    assert main(["--output", str(folder / "report")]) == 0
    return folder / "report"


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_committed_example_is_current(root, rendered):
    committed = root / "reports/example"
    assert files(committed) == files(rendered), "make example renders it anew"
    for name in files(rendered):
        old, new = committed / name, rendered / name
        if name.endswith(".parquet"):
            assert pq.read_table(old).equals(pq.read_table(new)), f"{name} is stale: make example"
        else:
            assert old.read_bytes() == new.read_bytes(), f"{name} is stale: make example"


def test_the_recorded_run_reproduces_the_published_counts(rendered):
    rows = pq.read_table(rendered / "tables/cases.parquet").to_pylist()
    seen = {row["case"]: (row["kernels"], row["memcpys"]) for row in rows if row["run"] == "h200"}
    for case, (kernels, memcpys) in PUBLISHED_COUNTS.items():
        assert seen[case][0] == kernels, case
        assert memcpys is None or seen[case][1] == memcpys, case


def test_the_headline_ratio_is_measured_beside_the_published_one(rendered):
    rows = pq.read_table(rendered / "tables/cases.parquet").to_pylist()
    times = {(row["run"], row["case"]): row["device_time_us"] for row in rows if row["process"] == 1}
    ratio = {
        run: times[run, "sdpa-math-eager"] / times[run, "attention-inplace-eager"] for run in ("h200", "a100-series")
    }
    assert ratio["a100-series"] == pytest.approx(3.70, abs=0.01)  # 7.239 / 1.955 ms
    assert ratio["h200"] == pytest.approx(2.8, abs=0.1)  # 2634 / 945 us, recorded apart from this project's run


def test_no_path_of_the_machine_is_in_the_example(root, rendered):
    for name in ("index.html", "report.md", "summary.json"):
        assert str(root) not in (rendered / name).read_text()
    assert json.loads((rendered / "summary.json").read_text())["edition"] == "example"
