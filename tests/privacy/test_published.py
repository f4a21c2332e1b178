"""Credentials and paths planted wherever text enters an edition are in nothing that is published."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import collect_edition
import detect_changes
import extract_run
import probe_run
import publish_site
import record_night
import render_report
from kernelbook.config.loading import load_config
from kernelbook.containers import probe
from kernelbook.containers.images import ImageError
from kernelbook.history.site.webhook import message
from kernelbook.history.store import Store
from kernelbook.plan.plan_texts import inputs_json, plan_json
from kernelbook.plan.planning import make_plan
from tests.privacy.planted import CREDENTIALS, PATHS, PLANTED, leaks, texts

NIGHT = "2026-11-29"
RECORDED = "resources/recorded/h200-torch2.11"
ADDRESS = next(iter(CREDENTIALS))
IN_ENVIRONMENT = "environment" + "-value-of-no-shape"
ALL = "; ".join(PLANTED)
LINES = [*PLANTED, ALL, f"it printed {IN_ENVIRONMENT}"]


def plant_in_trace(source: Path, target: Path) -> None:
    """The recorded trace with planted names of processes, ops, kernels, ranges and arguments."""
    events = json.loads(gzip.decompress(source.read_bytes()))
    for number, (event, line) in enumerate(zip(events["traceEvents"], LINES * 99, strict=False)):
        event.setdefault("args", {})["planted"] = line
        if event.get("cat") in ("cpu_op", "kernel", "gpu_memcpy", "cuda_runtime") and number % 3 == 0:
            event["name"] = f"{event['name']} {line}"
    first = events["traceEvents"][0]
    events["traceEvents"] += [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": line}} for line in LINES
    ]
    events["traceEvents"] += [first | {"cat": "user_annotation", "name": line} for line in LINES]
    events["trace_name"] = str(target)
    target.write_bytes(gzip.compress(json.dumps(events).encode()))


def plant_in_measurement(source: Path, target: Path, failed: bool) -> None:
    found = json.loads(source.read_text(encoding="utf-8"))
    found["environment"] |= {f"variable {number}": line for number, line in enumerate(LINES)}
    found["environment"] |= {"packages": dict.fromkeys(LINES, "1"), "HOME": os.getcwd()}
    found["notes"] = LINES
    found["warnings"] = [{"code": "planted", "count": 1, "message": line} for line in LINES]
    found["other_gpu_processes"] = [{"pid": 7, "name": line} for line in LINES]
    found["params_used"] |= {"file": ALL}
    found["key_averages"] = [row | {"name": f"{row['name']} {ALL}"} for row in found["key_averages"]]
    found["sdpa_backends"] = {"math": {"usable": False, "reason": ALL}}
    found["clocks"]["before"]["throttle_reasons"] = [ALL]
    if failed:
        found |= {"status": "failed", "reason": ALL, "log_tail": LINES, "trace": None}
    target.write_text(json.dumps(found), encoding="utf-8")


@pytest.fixture(scope="module")
def work(root: Path, tmp_path_factory: pytest.TempPathFactory):
    """A night published from such measurements: its working folder, and the text for the webhook."""
    folder = tmp_path_factory.mktemp("work of alice")
    elsewhere = tmp_path_factory.mktemp("measured elsewhere") / "h200"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder.parent))
        patch.setenv("SOME_SERVICE_TOKEN", IN_ENVIRONMENT)
        patch.setattr("kernelbook.plan.planning.runtime", lambda: "apptainer")
        patch.setattr(probe, "obtain", refuse)
        yield SimpleNamespace(folder=folder, elsewhere=elsewhere, told=run_night(root, folder, elsewhere))


def refuse(*_: object) -> None:
    raise ImageError(f"{ADDRESS} cannot be pulled: {ALL}")


def run_night(root: Path, folder: Path, elsewhere: Path) -> str:
    own = folder / "results" / NIGHT / "host"
    for place in (own, elsewhere):
        for number, case in enumerate(("linear-eager", "mlp-eager")):
            target = place / case / "1"
            shutil.copytree(root / RECORDED / case / "1", target)
            plant_in_trace(root / RECORDED / case / "1/trace.json.gz", target / "trace.json.gz")
            plant_in_measurement(
                root / RECORDED / case / "1/measurement.json", target / "measurement.json", number == 1
            )
    workload = {"params": {"file": ALL}, "note": ALL}
    config = {
        "edition": NIGHT,
        "runs": {
            "host": {"host": True, "description": ALL},
            "image": {"container": ADDRESS, "description": ALL},
            "h200": {"recorded": str(elsewhere)},
            "gone": {"recorded": str(folder / "no such folder")},
        },
        "cases": {
            "linear-eager": {"workload": "linear"} | workload,
            "mlp-eager": {"workload": f"{folder}/own.py:mlp"} | workload,
        },
        "report": {"title": ALL, "headline": ["linear-eager", "mlp-eager"]},
    }
    plan = make_plan(load_config(config, root / "workflow" / "schemas"), folder, root, containers_on=True)
    results = folder / plan.results
    (results / "plan.json").write_text(plan_json(plan), encoding="utf-8")
    for run in plan.runs:
        at = ["--output", str(results / run.name / "run.json")]
        assert probe_run.main(["--run-spec", plan.run_json(run.name), *at]) == 0
    for run in plan.runs_with_cases():
        at, logs = results / run.name, folder / "logs" / run.name
        (at / "inputs.json").write_text(inputs_json(plan, run.name), encoding="utf-8")
        given = ["--inputs", str(at / "inputs.json"), "--run-file", str(at / "run.json"), "--logs", str(logs)]
        assert extract_run.main([*given, "--output", str(at)]) == 0
    edition, history, report = str(results / "edition"), str(folder / "history"), folder / "reports" / NIGHT
    assert (
        collect_edition.main(
            ["--plan", str(results / "plan.json"), "--results", str(plan.results), "--output", edition]
        )
        == 0
    )
    assert render_report.main(["--edition-dir", edition, "--output", str(report)]) == 0
    assert record_night.main(["--edition-dir", edition, "--history", history]) == 0
    assert detect_changes.main(["--history", history]) == 0
    assert publish_site.main(["--history", history, "--reports", str(folder / "reports")]) == 0
    judged, _ = Store(folder / "history").read_events()
    return message(judged[NIGHT], "Nights", None) or ""


@pytest.fixture(scope="module")
def forbidden(work) -> list[str]:
    machine = [str(work.folder), str(work.folder.parent), str(work.elsewhere)]
    return [*PLANTED.values(), IN_ENVIRONMENT, *machine]


@pytest.mark.parametrize("folder", ["reports", "history", "site"])
def test_nothing_that_is_published_has_any_of_it(work, forbidden, folder):
    published = work.folder / folder
    assert len(list(published.resolve().rglob("*"))) > 5 or folder == "history"
    assert leaks(published.resolve(), forbidden) == []


def test_the_webhook_and_the_tables_of_the_edition_have_none_of_it(work, forbidden):
    assert "mlp-eager" in work.told
    assert not [secret for secret in forbidden if secret in work.told]
    tables = work.folder / "results" / NIGHT / "edition"
    assert [leak for leak in leaks(tables, forbidden) if leak[0] != "edition.json"] == []


def test_the_plan_and_the_states_of_the_runs_hold_no_password(work):
    for name in ("plan.json", "image/run.json", "host/inputs.json"):
        (text,) = texts(work.folder / "results" / NIGHT / name)
        assert "PASSW0RD" not in text, name


def test_what_was_planted_is_there_with_words_in_its_place(work):
    """The rows, reasons and lines are published, only without what is secret in them."""
    rows = pq.read_table(work.folder / "reports" / NIGHT / "tables/cases.parquet").to_pylist()
    failed = {(row["run"], row["case"]): row for row in rows if row["status"] == "failed"}
    assert {run for run, _ in failed} == {"host", "image", "h200"}
    reason = failed["image", "linear-eager"]["reason"]
    assert "docker://registry.example.org:5000/team/torch:1 cannot be pulled" in reason
    log = failed["host", "mlp-eager"]["log_tail"]
    assert len(log) == len(LINES)
    assert {"password=<secret>", "<home>/project/model.py", "it printed <secret>"} <= set(log)
    assert 'File "<home>/my project/net.py", line 3, in forward' in log


def test_both_traces_travel_with_the_report_whole(work):
    """One of them lies in a folder elsewhere, which the published table does not name."""
    html = (work.folder / "reports" / NIGHT / "index.html").read_text(encoding="utf-8")
    traces = [text for text in texts(work.folder / "reports" / NIGHT / "index.html") if '"traceEvents"' in text[:9999]]
    files = [gzip.decompress(file.read_bytes()) for file in (work.folder / "reports").rglob("traces/*/*.json.gz")]
    assert html
    counts = {len(json.loads(text)["traceEvents"]) for text in (*traces, *files)}
    original = work.elsewhere / "linear-eager/1/trace.json.gz"
    assert counts == {len(json.loads(gzip.decompress(original.read_bytes()))["traceEvents"])}
    assert len(traces) + len(files) == 2


def test_a_trace_without_any_of_it_travels_as_the_same_bytes(root, tmp_path):
    from kernelbook.report.attached_traces import _copy
    from kernelbook.text.scrubbing import Scrubber

    source = root / RECORDED / "linear-eager/1/trace.json.gz"
    _copy(source, tmp_path / "copy.json.gz", Scrubber())
    assert (tmp_path / "copy.json.gz").read_bytes() == source.read_bytes()


def test_the_search_finds_what_is_planted(work):
    """In the files that the night was made of, so that an empty search means something."""
    found = {secret for _, secret in leaks(work.elsewhere, list(PLANTED.values()))}
    assert found == set(PLANTED.values())
    assert PATHS
