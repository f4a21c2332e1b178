"""What a forward does beside computing: it changes its inputs, is random, works unevenly, returns nothing, is wrong."""

from __future__ import annotations

import collections
import math

import pytest

torch = pytest.importorskip("torch")

from workloads import Context, Workload  # noqa: E402
from workloads.harness import accuracy, building, judging, originals, repeats, values  # noqa: E402
from workloads.harness.notebook import Notebook  # noqa: E402

pytestmark = pytest.mark.torch
FILE = "tests/measure/fixtures/behaviours.py:"
CPU = torch.device("cpu")


@pytest.fixture
def judged(tmp_path):
    """The record of a workload of the fixtures, or of one given, called five times before it is judged."""

    def judge(workload, dtype="float32", averages=(), **params):
        if isinstance(workload, str):
            context = Context("plain", CPU, getattr(torch, dtype), 0)
            torch.manual_seed(0)
            workload = building.find_workload(FILE + workload)(context, **params)
        notebook = Notebook(tmp_path / "notes.json", "a-case")
        notebook.record |= {"key_averages": list(averages), "profiled_forwards": 10}
        case = {"dtype": dtype}
        with torch.set_grad_enabled(workload.grad):
            kept = judging.keep_originals(workload, notebook)
            for _ in range(5):
                workload.forward(*workload.inputs)
            judging.judge(case, workload, workload.forward, CPU, kept, notebook)
        return notebook.record

    return judge


def codes(record):
    return {warning["code"]: (warning["count"], warning["message"]) for warning in record["warnings"]}


# --- inputs and state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_forward_that_changes_its_input_is_compared_from_fresh_copies(judged, dtype):
    """Times 4 is exact in binary: any error would be that of a reference which started from something else."""
    record = judged("multiplies_its_input", dtype)
    assert record["relative_error"] == 0
    assert set(codes(record)) == {"changes_inputs"}
    count, message = codes(record)["changes_inputs"]
    assert (count, "(argument 1 of 1)" in message) == (1, True)


def test_a_change_that_later_calls_do_not_repeat_is_a_change(judged):
    record = judged("clamps_its_input")
    assert set(codes(record)) == {"changes_inputs"}
    assert record["relative_error"] == 0


def test_a_container_that_grows_is_a_changed_input(judged):
    """Each check starts from the two rows that were given: 3 rows are summed, not 3 + 5."""
    record = judged("grows_a_cache")
    assert set(codes(record)) == {"changes_inputs"}
    assert "(argument 2 of 2)" in codes(record)["changes_inputs"][1]
    assert record["relative_error"] < 1e-6


def test_an_input_that_is_written_to_is_changed(judged):
    record = judged("writes_into_the_second")
    assert set(codes(record)) == {"changes_inputs"}
    assert "(argument 2 of 2)" in codes(record)["changes_inputs"][1]


def test_inputs_that_stay_as_they_are_are_not_called_changed(judged):
    with_nan = torch.tensor([1.0, math.nan])
    expanded = torch.ones(1, 3).expand(4, 3)
    made = Workload(lambda x, y, z, t: (x + 1, y * 2, z["a"]), (with_nan, expanded, {"a": torch.ones(2)}, "text"))
    assert not {"changes_inputs", "keeps_state"} & set(codes(judged(made)))


def test_of_a_large_input_a_part_is_kept_and_writes_to_the_rest_are_seen(judged, monkeypatch):
    monkeypatch.setattr(originals, "HEAD_BYTES", 64)
    still = judged(Workload(lambda x: x + 1, (torch.ones(100, 4),)))
    assert (codes(still), still["relative_error"]) == ({}, 0)
    changed = judged(Workload(lambda x: x[50:].add_(1), (torch.ones(100, 4),)))
    assert "changes_inputs" in codes(changed)
    assert changed["relative_error"] is None
    assert any("no copy of all of it was kept" in note for note in changed["notes"])
    assert originals.Kept(torch.ones(100, 4)).head.shape == (4, 4)  # 16 bytes a row


def test_buffers_of_a_model_are_its_state(judged):
    """Batch norm in training: its result does not depend on the running figures, so there is an error."""
    record = judged("forgets_eval")
    count, message = codes(record)["keeps_state"]
    assert count == 3
    assert "1.running_mean, 1.running_var, 1.num_batches_tracked" in message
    assert set(codes(record)) == {"keeps_state"}
    assert record["relative_error"] < 1e-6


def test_a_state_that_goes_into_the_result(judged):
    record = judged("accumulates")
    assert set(codes(record)) == {"keeps_state", "varying_result"}
    assert record["relative_error"] is None


@pytest.mark.parametrize("what", [None, "its loss"])
def test_a_training_step_may_change_its_weights_and_return_nothing(judged, what):
    """Its loss is another one each time: there is nothing to compare it with."""
    layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1.0)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return what and loss.detach()

    record = judged(Workload(step, (x,), grad=True))
    assert (codes(record), record["relative_error"], record["notes"]) == ({}, None, [])


def test_a_training_step_with_a_reference_is_compared_from_the_same_weights(judged):
    """The loss is that of the weights before the step, for which the reference is asked first."""
    weight, x = torch.full((8,), 2.0, requires_grad=True), torch.ones(8)

    def step(x):
        loss = (weight * x).square().sum()
        weight.grad = None
        loss.backward()
        with torch.no_grad():
            weight.sub_(0.1 * weight.grad)
        return loss.detach()

    made = Workload(step, (x,), lambda x: (weight.detach().double() * x.double()).square().sum(), grad=True)
    record = judged(made)
    assert record["relative_error"] < 1e-6
    assert codes(record) == {}


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", ["random_dropout", "random_by_python"])
def test_a_random_forward_has_no_error_and_says_why(judged, workload):
    record = judged(workload)
    assert set(codes(record)) == {"random"}
    assert record["relative_error"] is None
    assert record["notes"] == [f"no relative error: {codes(record)['random'][1]}"]


def test_dropout_that_is_off_is_not_random(judged):
    assert codes(judged("random_dropout", p=0.0)) == {}


def test_a_generator_of_its_own_is_another_result_at_each_call(judged):
    assert set(codes(judged("random_by_its_own_generator"))) == {"varying_result"}


def test_sums_in_another_order_are_no_other_result(judged):
    """As atomics on a GPU: results that differ by rounding alone."""
    calls = []

    def forward(x):
        calls.append(1)
        return x * (1 + 1e-6 * (len(calls) % 2))

    assert codes(judged(Workload(forward, (torch.ones(8),)))) == {}


def test_work_that_differs_from_call_to_call(judged):
    record = judged("more_adds_at_each_call")
    assert set(codes(record)) == {"varying_result", "varying_work"}
    assert record["relative_error"] is None
    assert "aten::add" in codes(record)["varying_work"][1]
    wasted = judged("wasted_work_at_each_second_call")
    assert set(codes(wasted)) == {"varying_work"}
    assert "aten::m" in codes(wasted)["varying_work"][1]
    assert wasted["relative_error"] < 1e-6


def test_work_that_differs_within_the_profile(judged):
    rows = [{"name": "aten::add", "count": 20}, {"name": "aten::mul", "count": 13}, {"name": "other", "count": 7}]
    record = judged(Workload(lambda x: x + 1, (torch.ones(2),)), averages=rows)
    assert codes(record)["varying_work"] == (
        1, "the 10 profiled forwards do not all do the same work: aten::mul 13 times",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "code", "word"),
    [
        ("returns_none", "no_result", "returns nothing"),
        ("is_a_generator", "result_not_computed", "returns a generator"),
        ("is_a_coroutine", "result_not_computed", "returns a coroutine"),
        ("hides_a_map", "result_not_computed", "returns a map"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_result_that_is_none(judged, workload, code, word):
    record = judged(workload)
    assert set(codes(record)) == {code}
    assert word in codes(record)[code][1]
    assert record["relative_error"] is None


@pytest.mark.parametrize("kind", ["dataclass", "slots", "named tuple", "mapping", "object", "nested"])
def test_results_in_containers_are_looked_into(judged, kind):
    record = judged("contained", kind=kind)
    assert 0 < record["relative_error"] < 1e-5
    assert record["output_bytes"] == 8 * 8 * 4
    assert codes(record) == {}
    infinite = judged("contained", kind=kind, factor=math.inf)
    assert codes(infinite)["not_finite"][0] == 64


def test_a_wrong_result_has_its_error_and_its_bound(judged):
    record = judged("three_times")
    assert record["relative_error"] == pytest.approx(2.0)
    assert record["error_bound"] == 1e-4


# --- the parts --------------------------------------------------------------------------------------------------------


def test_leaves_of_a_value_that_holds_itself():
    inner = {"a": torch.ones(1)}
    inner["self"] = inner
    assert len(list(values.tensors([inner, inner]))) == 2  # in two places, and no endless descent


def test_copies_share_what_was_shared():
    x = torch.ones(2)
    first, (second, named) = values.copied((x, [x, {"x": x}]), torch.clone)
    assert first is second is named["x"]
    assert first is not x


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1.0, math.nan], [1.0, math.nan], True),
        ([1.0, 2.0], [1.0, 2.01], True),  # 0.4 % in norm
        ([1.0, 2.0], [1.0, 2.2], False),
        ([1.0, 2.0], [1.0], False),
        ([0.0, 0.0], [0.0, 1e-30], False),
    ],
)
def test_what_is_alike(one, other, same):
    assert repeats.alike([torch.tensor(one)], [torch.tensor(other)], 2e-2) is same


def test_what_is_recorded_of_a_call():
    call = repeats.recorded(lambda: torch.ones(3, 2) @ torch.ones(2, 4), 0)
    assert isinstance(call.work, collections.Counter)
    assert call.work["aten::mm", "[[3, 2], [2, 4]]"] == 1


@pytest.mark.parametrize(
    ("dtype", "allowed", "bound"),
    [
        ("bfloat16", False, 2e-2),
        ("float16", True, 5e-3),
        ("float32", False, 1e-4),
        ("float32", True, 5e-3),
        ("float64", True, 1e-10),
    ],
)
def test_the_bound_of_a_dtype(dtype, allowed, bound):
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        assert accuracy.error_bound(dtype, CPU) == bound
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
