"""From a report beside a recorded trace to the tables, the trust section, findings, page data and report.md."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from kernelbook.config.loading import load_config
from kernelbook.counters import KernelCounters
from kernelbook.edition.collect import collect
from kernelbook.edition.model import Edition, edition_of
from kernelbook.extraction.arrow_files import write_tables
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.findings.rules import Scene
from kernelbook.judge.findings.slow_kernels import slow_pointwise
from kernelbook.plan.plan_texts import plan_json
from kernelbook.plan.planning import Plan, make_plan
from kernelbook.report import counters_section
from kernelbook.report.rendering import render_report
from tests.counters.made_report import ATTENTION, report
from tests.helpers import ROOT
from tests.helpers.schemas import validate

RECORDED = ROOT / "resources" / "recorded" / "h200-torch2.11"
CASE = "attention-inplace-eager"
#: Bytes of the tensors: scores are 8 x 16 x 1024 x 1024 bf16 (256 MiB), the mask 1 MiB, q, k, v and output 16 MiB each.
SCORES, MASK, SMALL = 268_435_456, 1_048_576, 16_777_216
MODELLED = (SCORES + 2 * SMALL, 2 * SCORES, 2 * SCORES + MASK, 2 * SCORES, SCORES + 2 * SMALL)


def copy_of(case: str, folder: Path) -> Path:
    """Process 1 of a recorded case, without its own counters."""
    target = folder / "recorded" / case / "1"
    shutil.copytree(RECORDED / case / "1", target, ignore=shutil.ignore_patterns("counters.csv.gz"))
    file = target / "measurement.json"
    measurement = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(measurement | {"counters": None, "counter_pass": None}), encoding="utf-8")
    return target


def collected(folder: Path, text: str | None, name: str = "ncu.csv") -> tuple[Edition, Path]:
    """An edition of the recorded case with this report beside its trace, and of the ceilings."""
    for case in (CASE, "ceiling-copy", "ceiling-matmul"):
        copy_of(case, folder)
    if text is not None:
        (folder / "recorded" / CASE / "1" / name).write_text(text)
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    runs = {"h200": {"recorded": str(folder / "recorded")}}
    config = load_config({"runs": runs, "cases": shipped["cases"]}, ROOT / "workflow" / "schemas")
    plan, results = make_plan(config, folder, ROOT, containers_on=False), folder / "results"
    extract(plan, results)
    files = collect(json.loads(plan_json(plan)), results)
    files.write(results / "edition")
    return edition_of(files), results / "edition"


def extract(plan: Plan, results: Path) -> None:
    for run, case, process in plan.rows():
        status = {"run": run, "status": "ok", "reason": None, "image_digest": None}
        spec = json.loads(plan.case_json(run, case, process))
        tables = tables_of(Origin(run, case, process, status), spec, plan.measurement_of(run, case, process))
        write_tables(tables, results / run / case / str(process))
        (results / run / "run.json").write_text(json.dumps(status), encoding="utf-8")


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> tuple[Edition, Path]:
    return collected(tmp_path_factory.mktemp("counted"), report())


def rows_of(edition: Edition) -> list[KernelCounters]:
    return [row for row in edition.counters if row.case == CASE]


def test_modelled_against_measured_bytes(counted):
    rows = rows_of(counted[0])
    assert [row.status for row in rows] == ["joined"] * 5
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]  # a memset of cuBLAS comes first
    assert [row.modelled_bytes for row in rows] == list(MODELLED)
    assert rows[2].bytes_ratio == pytest.approx((2 * SCORES + MASK) / (224_424_960 + 243_772_672))
    assert [row.agrees for row in rows] == [True, True, False, False, True]
    assert [row.modelled_limiter for row in rows] == ["memory"] * 5


def test_measured_intensity_beside_the_compulsory_one(counted):
    """2 x 128 x 1024 x 1024 x 64 FLOPs of the first product over 33,621,248 + 241,797,120 bytes."""
    rows = rows_of(counted[0])
    assert rows[0].intensity == pytest.approx(2 * 128 * 1024 * 1024 * 64 / 275_418_368)
    assert rows[1].intensity is None
    costs = counted[0].kernel_costs["h200", CASE]
    assert costs[1].measured_intensity == pytest.approx(rows[0].intensity)
    assert costs[3].dram_bytes == 468_197_632


def test_trust_has_the_medians(counted):
    """Ratios 1.0965, 1.0475, 1.1489, 1.0384, 1.0193: the median is that of mul."""
    trust = next(row for row in counted[0].trust if row.case == CASE)
    assert (trust.counted_kernels, trust.limiters_compared, trust.limiters_agree) == (5, 5, 3)
    assert trust.bytes_ratio == pytest.approx(2 * SCORES / (268_452_096 + 244_086_016))
    other = next(row for row in counted[0].trust if row.case == "ceiling-copy")
    assert (other.counted_kernels, other.bytes_ratio) == (None, None)


def test_sentences_of_the_trust_section(counted):
    first, second = (one.sentence for one in counters_section.statements(counted[0].counters))
    assert first.startswith("Modelled bytes are 1.05× the DRAM bytes that Nsight Compute measured, in the median of 5 ")
    assert "They differ most for elementwise_kernel [masked_fill] in attention-inplace-eager, 1.15×: " in first
    assert first.endswith("part of what it moved stayed in the L2 cache.")
    assert second.startswith("For 3 of 5 kernels the model and the counters name the same limit")
    assert second.endswith("memory by the model, compute by the counters.")


def slow_masks(edition: Edition) -> list[str]:
    """Texts of slow-pointwise about masked_fill, before findings with the same cause go before them."""
    facts = edition.by_key()["h200", CASE]
    others = {case: each for (_, case), each in edition.by_key().items()}
    return [finding.text for finding in slow_pointwise(Scene(facts, others)) if "masked_fill" in finding.text]


def test_a_finding_gives_the_measured_bytes_and_says_so(counted):
    """468,197,632 bytes are 446.5 MiB; with those of mul and softmax 1,497,750,528, which are 1,428.4 MiB."""
    (mask,) = slow_masks(counted[0])
    assert "447 MiB of DRAM traffic (measured by Nsight Compute; 513 MiB by its tensors)" in mask
    assert "Instructions are the limit: the SMs at 62 % of their peak, DRAM at 28 %." in mask
    (chain,) = (finding.text for finding in counted[0].findings if finding.rule == "unfused-chain")
    assert chain.endswith("They move 1,428 MiB of DRAM traffic (measured by Nsight Compute).")


def test_memory_that_is_busy_is_not_called_slow(tmp_path):
    """A mask that moves more than its tensors: DRAM at 90 % of its peak."""
    name, grid, block, read, written, ns, sm, _ = ATTENTION[2]
    busy = (*ATTENTION[:2], (name, grid, block, read, written, ns, sm, 90.0), *ATTENTION[3:])
    edition, _ = collected(tmp_path, report(busy))
    assert not slow_masks(edition)


def test_page_report_and_summary(counted, tmp_path):
    render_report(counted[1], tmp_path / "report", None)
    markdown = (tmp_path / "report" / "details.md").read_text(encoding="utf-8")
    assert "What Nsight Compute measured on h200" in markdown
    assert "Memory is the limit: DRAM at 86 % of its peak, the SMs at 18 %." in markdown
    summary = json.loads((tmp_path / "report" / "summary.json").read_text(encoding="utf-8"))
    validate(summary, "report/summary.schema.json")
    assert len(summary["counters"]) == 5
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    sentence = "Instructions are the limit: the SMs at 62 % of their peak, DRAM at 28 %."
    assert f'["compute","{sentence}",[61.54,null,null,28.2],[]]' in page


def test_a_damaged_report_is_a_refused_row(tmp_path):
    edition, _ = collected(tmp_path, "==ERROR== nothing here\n")
    (row,) = rows_of(edition)
    assert (row.status, row.position) == ("refused", None)
    assert row.reason.startswith("ncu.csv: there is no table of kernels in it: export it with ncu --import")
    (statement,) = counters_section.statements(edition.counters)
    assert statement.sentence.startswith("No counters: ncu.csv: ")
    assert edition.by_key()["h200", CASE].status == "ok"


def test_without_a_report_there_are_no_rows(tmp_path):
    edition, _ = collected(tmp_path, None)
    assert edition.counters == ()
    assert counters_section.statements(edition.counters) == ()


def test_the_refusal_of_a_measurement_reaches_its_row(tmp_path):
    folder = copy_of(CASE, tmp_path)
    measurement = json.loads((folder / "measurement.json").read_text(encoding="utf-8"))
    reason = "there is no ncu (Nsight Compute): use an image that has it"
    measurement |= {"counters": None, "counter_pass": {"status": "refused", "reason": reason, "seconds": 0.01}}
    (folder / "measurement.json").write_text(json.dumps(measurement), encoding="utf-8")
    made = tables_of(Origin("h200", CASE, 1, {}), {}, folder / "measurement.json")
    assert made["ncu"].select(["number", "reason", "seconds"]).to_pylist() == [
        {"number": None, "reason": reason, "seconds": 0.01}
    ]


def test_the_file_that_a_measurement_names_is_read(tmp_path):
    folder = copy_of(CASE, tmp_path)
    (folder / "own.csv").write_text(report())
    measurement = json.loads((folder / "measurement.json").read_text(encoding="utf-8"))
    measurement |= {"counters": "own.csv", "counter_pass": {"status": "ok", "reason": None, "seconds": 8.5}}
    (folder / "measurement.json").write_text(json.dumps(measurement), encoding="utf-8")
    made = tables_of(Origin("h200", CASE, 1, {}), {}, folder / "measurement.json")
    assert made["ncu"]["seconds"].to_pylist() == [8.5] * 5


def test_a_bare_trace_has_its_report_beside_it(tmp_path):
    trace = tmp_path / "own.pt.trace.json.gz"
    shutil.copy(RECORDED / CASE / "1" / "trace.json.gz", trace)
    (tmp_path / "own.pt.trace.ncu.csv").write_text(report())
    made = tables_of(Origin("mine", "own", 1, {}), {"annotation": "attn_fwd"}, trace)
    assert made["ncu"].num_rows == 5
