"""What a case may ask of its workload: gradients, precision, a graph, another optimizer."""

import pytest

torch = pytest.importorskip("torch")

from workloads import Unsupported  # noqa: E402 - only where there is torch
from workloads.harness import building, needs  # noqa: E402
from workloads.harness.case_file import DEFAULTS  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
SMALL = {"batch": 4, "dim": 8, "hidden": 16, "layers": 2}


def case(**keys):
    return {**DEFAULTS, "case": "a-case", "annotation": "step", "dtype": "float32", **keys}


def weights(step):
    """The weights of the model that a training step closes over."""
    return [p for cell in step.__closure__ if isinstance(cell.cell_contents, torch.nn.Module)
            for p in cell.cell_contents.parameters()]  # fmt: skip


@pytest.mark.parametrize("variant", ["sgd", "adamw-loop", "adamw-foreach", "adamw-fused"])
def test_a_training_step_moves_every_weight(variant):
    made = building.build(case(workload="training", variant=variant), SMALL, CPU)
    before = [p.detach().clone() for p in weights(made.forward)]
    with torch.set_grad_enabled(made.grad):
        made.forward(*made.inputs)
    assert len(before) == 2 * 2 * 2
    assert all(not torch.equal(old, new) for old, new in zip(before, weights(made.forward), strict=True))


def test_a_backward_alone_leaves_gradients_and_the_weights():
    made = building.build(case(workload="training", variant="backward"), SMALL, CPU)
    before = [p.detach().clone() for p in weights(made.forward)]
    with torch.set_grad_enabled(made.grad):
        made.forward(*made.inputs)
    assert all(torch.equal(old, new) for old, new in zip(before, weights(made.forward), strict=True))
    assert all(p.grad is not None for p in weights(made.forward))


def test_the_operations_of_a_training_step_are_those_counted_by_hand():
    made = building.build(case(workload="training", variant="sgd"), SMALL, CPU)
    product = 2 * 4 * 8 * 16  # each linear is one product forward and two backward; the input needs no gradient
    with torch.set_grad_enabled(True):
        assert needs.flops(made, made.inputs) == (4 * product * 3 - product, "counter")


def test_tf32_is_allowed_forbidden_or_left_alone():
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    left = [flag.allow_tf32 for flag in flags]
    for allowed in (True, False):
        building.build(case(workload="linear", variant="plain", tf32=allowed), {"batch": 2}, CPU)
        assert [flag.allow_tf32 for flag in flags] == [allowed, allowed]
    for flag, value in zip(flags, left, strict=True):
        flag.allow_tf32 = value
    building.build(case(workload="linear", variant="plain"), {"batch": 2}, CPU)
    assert [flag.allow_tf32 for flag in flags] == left


def test_a_graph_needs_a_gpu_and_says_so():
    made = building.build(case(workload="linear", variant="plain"), {"batch": 2}, CPU)
    with pytest.raises(Unsupported, match="CUDA graphs run on a GPU alone"):
        building.in_mode(case(mode="graph"), made, CPU)


def test_options_of_torch_compile_are_handed_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(torch, "compile", lambda forward, **options: seen.update(options) or forward)
    made = building.build(case(workload="linear", variant="plain"), {"batch": 2}, CPU)
    building.in_mode(case(mode="compile", compile_options={"mode": "reduce-overhead", "dynamic": False}), made, CPU)
    assert seen == {"mode": "reduce-overhead", "dynamic": False}
