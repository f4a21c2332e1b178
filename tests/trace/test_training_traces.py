"""Training steps recorded on an H200, where autograd runs on a thread of its own: by hand, and by a plain count."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.expectations import judge
from kernelbook.trace import read_trace
from tests.trace import plain_forwards
from tests.trace.forwards_of import counted

FOLDER = Path(__file__).with_name("h200-training")
# CPU ops and kernels of every step, counted in the raw events: all that lies inside the step's time, on any thread
BY_HAND = {
    "training-backward": (157, 24),
    "training-adamw-loop": (277, 88),
    "training-adamw-foreach": (219, 32),
    "training-adamw-fused": (159, 26),
}


@pytest.fixture(scope="module")
def facts() -> dict[str, CaseFacts]:
    made = [tables_of(Origin("h200", case, 1, {}), {}, FOLDER / case / "1" / "measurement.json") for case in BY_HAND]
    found = {}
    for tables in made:
        found |= case_facts({("cases" if name == "case" else name): table for name, table in tables.items()})
    return {case: known for (_, case), known in found.items()}


@pytest.mark.parametrize("case", BY_HAND)
def test_every_step_has_the_work_of_both_threads(case):
    ops, kernels = BY_HAND[case]
    reading = read_trace(FOLDER / case / "1" / "trace.json.gz", "training_step")
    found = counted(reading)
    assert sorted(found) == [0, 1, 2]
    for rows, activities in found.values():
        names = Counter()
        for (kind, name, _), count in rows.items():
            names[name] += count if kind == "op" else 0
        assert (names["aten::mm"], names["aten::addmm"]) == (7, 4)
        assert rows["op", "aten::mm", True] == 7  # autograd's
        assert rows["op", "aten::addmm", False] == 4
        assert names.total() == ops
        assert activities.total() == kernels + 9  # and nine memsets
    rows = [row for row in reading.ranges.to_pylist() if row["annotation"] == "training_step"]
    assert [(row["kernels"], row["inferred"]) for row in rows] == [(kernels, True)] * 3


@pytest.mark.parametrize("case", BY_HAND)
@pytest.mark.parametrize("name", ["training_step", "forward", "backward"])
def test_a_plain_count_finds_the_same(case, name):
    path = FOLDER / case / "1" / "trace.json.gz"
    plain = plain_forwards.forwards(path, name)
    assert counted(read_trace(path, name)) == {i: (f["rows"], f["activities"]) for i, f in enumerate(plain)}
    rows = [row for row in read_trace(path).ranges.to_pylist() if row["annotation"] == name]
    assert [row["device_time_us"] for row in rows] == pytest.approx([float(f["device_time_us"]) for f in plain])


def test_the_guesses_of_the_shipped_configuration_hold(facts, root):
    config = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))["cases"]
    judged = [each for case in BY_HAND for each in judge(case, config[case]["expect"], facts[case], facts)]
    assert [(each.case, each.word, each.verdict) for each in judged] == [
        ("training-backward", "op_counts", "confirmed"),
        ("training-adamw-loop", "more_kernels_than", "confirmed"),
        ("training-adamw-foreach", "more_kernels_than", "confirmed"),
        ("training-adamw-fused", "more_kernels_than", "confirmed"),
    ]
    assert judged[0].observed == "aten::addmm: 4, aten::mm: 7"


@pytest.mark.parametrize(
    ("word", "value", "verdict"),
    [
        ("ops_present", ["aten::mm", "AddmmBackward0"], "confirmed"),
        ("ops_absent", ["aten::mm"], "broken"),
        ("ops_in_order", ["aten::addmm", "aten::mse_loss", "aten::mse_loss_backward", "aten::mm"], "confirmed"),
        ("ops_in_order", ["AddmmBackward0 > aten::mm"], "confirmed"),
        ("ops_without_kernels", ["aten::t", "aten::transpose"], "confirmed"),
        ("ops_without_kernels", ["aten::mm"], "broken"),
        ("op_counts", {"aten::mm": 6}, "broken"),
        ("fewer_cpu_ops_than", "training-adamw-fused", "confirmed"),
        ("fewer_cpu_ops_than", "training-adamw-loop", "confirmed"),
    ],
)
def test_words_about_ops_see_both_threads(facts, word, value, verdict):
    (judged,) = judge("training-backward", {word: value}, facts["training-backward"], facts)
    assert judged.verdict == verdict, judged.evidence


def test_an_op_that_launches_is_in_the_forward_of_what_it_launched(facts):
    """Every op on the path of an activity is an op of the same forward."""
    for case in facts.values():
        names = {call.name for call in case.ops}
        assert {op for activity in case.activities for op in activity.op_path} <= names
