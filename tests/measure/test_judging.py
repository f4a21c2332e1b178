"""What is said of a result: how far it lies from float64, that it is finite, and the bytes it could not do without."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from workloads import Workload  # noqa: E402
from workloads.harness import accuracy, child, needs, notebook, timing  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_result_of_another_shape_is_not_stretched_to_fit():
    wanted = torch.ones(4, 1, dtype=torch.float64)
    assert accuracy.relative_error(torch.ones(4, 1), wanted) == 0
    with pytest.raises(ValueError, match=r"the result is of shape \[4\], its reference of \[4, 1\]"):
        accuracy.relative_error(torch.ones(4), wanted)
    with pytest.raises(ValueError, match=r"the result is of shape \[1\], its reference of \[4, 1\]"):
        accuracy.relative_error(torch.ones(1), wanted)


def test_a_tensor_too_few_or_too_many_is_not_dropped():
    pair = (torch.ones(2), torch.ones(3))
    assert accuracy.relative_error(pair, pair) == 0
    with pytest.raises(ValueError, match=r"of shape \[2\], its reference of \[2\] and \[3\]"):
        accuracy.relative_error(pair[0], pair)
    with pytest.raises(ValueError, match=r"of shape \[2\] and \[3\], its reference of \[2\]"):
        accuracy.relative_error(pair, pair[0])
    with pytest.raises(ValueError, match="the result holds no tensor"):
        accuracy.relative_error(None, pair)


@pytest.mark.parametrize("word", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_counted_and_not_compared(word):
    result = {"a": torch.tensor([1.0, word, word]), "b": [torch.tensor([2.0, 1.0], dtype=torch.bfloat16)]}
    assert accuracy.not_finite(result) == (2, 5)
    with pytest.raises(ValueError, match="is not finite"):
        accuracy.relative_error(result, result)


def test_whole_numbers_are_finite():
    assert accuracy.not_finite((torch.ones(3, dtype=torch.int64), None, "text")) == (0, 3)


def test_an_error_relative_to_nothing_is_refused():
    with pytest.raises(ValueError, match="the reference is zero everywhere"):
        accuracy.relative_error(torch.zeros(2), torch.zeros(2))


def test_weights_that_a_function_closes_over_are_read():
    layer, extra = torch.nn.Linear(3, 5), torch.ones(5)
    x = torch.ones(2, 3)
    made = Workload(lambda x: layer(x) + extra, (x,))
    read = 4 * (2 * 3 + 5 * 3 + 5 + 5)  # fp32: the input, weight, bias, and what is added
    assert needs.least_bytes(made, made.forward(x)) == {"input_bytes": read, "output_bytes": 4 * 2 * 5}
    assert needs.least_bytes(Workload(layer.forward, (x,)), layer(x))["input_bytes"] == read - 4 * 5


def test_what_is_given_twice_is_read_once():
    x = torch.ones(7, 3)
    made = Workload(lambda q, k, v: q + k + v, (x, x, x.clone()))
    assert needs.least_bytes(made, made.forward(*made.inputs))["input_bytes"] == 2 * 4 * 21


def test_the_least_that_a_training_step_moves_is_not_known():
    layer, x = torch.nn.Linear(3, 5), torch.ones(2, 3)
    assert needs.least_bytes(Workload(layer, (x,), grad=True), layer(x)) == {
        "input_bytes": None, "output_bytes": None,
    }  # fmt: skip


class Card:
    """Stands in for torch where there is no GPU: memory is a sum that is kept by hand, with its peak."""

    L2, INPUTS, FORWARD = 1000, 70, 7
    int8 = torch.int8
    nn = torch.nn

    def __init__(self):
        self.taken = self.highest = self.INPUTS
        self.overwritten = 0
        self.cuda = SimpleNamespace(
            get_device_properties=lambda _: SimpleNamespace(L2_cache_size=self.L2),
            reset_peak_memory_stats=lambda _: setattr(self, "highest", self.taken),
            max_memory_allocated=lambda _: self.highest,
            synchronize=lambda _: None,
            Event=lambda enable_timing: SimpleNamespace(record=lambda: None, elapsed_time=lambda _: 1.0),
        )

    def take(self, size):
        self.taken += size
        self.highest = max(self.highest, self.taken)

    def empty(self, size, dtype, device):
        self.take(size)
        zero = SimpleNamespace(zero_=lambda: setattr(self, "overwritten", self.overwritten + 1))
        return SimpleNamespace(numel=lambda: size, element_size=lambda: 1, **vars(zero))

    def step(self):
        self.take(self.FORWARD)
        self.taken -= self.FORWARD


@pytest.mark.parametrize("flush", [False, True])
def test_what_flushes_the_cache_is_no_part_of_the_peak(monkeypatch, tmp_path, flush):
    card = Card()
    monkeypatch.setattr(timing, "torch", card)
    notes = notebook.Notebook(tmp_path / "notes.json", "a-case")
    case = {"samples": 20, "flush_l2": flush}
    alone = SimpleNamespace(meet=lambda: None)
    device = SimpleNamespace(type="cuda", index=0)
    child._time(SimpleNamespace(case=case, device=device, card=None, notebook=notes, job=alone), card.step)
    assert card.overwritten == (20 if flush else 0)
    assert len(notes.record["forward_times_us"]) == 20
    assert notes.record["peak_memory_bytes"] == Card.INPUTS + Card.FORWARD
