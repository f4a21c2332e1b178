"""Every variant of a workload computes the same function, judged against float64 written out here."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from workloads import Context, Unsupported  # noqa: E402
from workloads.harness import accuracy, building, needs, timing  # noqa: E402
from workloads.harness.case_file import DEFAULTS  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
FAULTS = Path(__file__).parent / "fixtures" / "faults.py"
SHAPE = {"batch": 2, "heads": 3, "seq": 33, "head_dim": 16}


def make(workload: str, variant: str = "plain", dtype: str = "float32", **params):
    case = {**DEFAULTS, "workload": workload, "variant": variant, "dtype": dtype, "seed": 3}
    return building.build(case, params, CPU)


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.double() - wanted).norm() / wanted.norm())


def test_parameters_are_kept_in_the_order_of_the_function():
    """The report shows sizes in this order; a case file has its keys in order of the alphabet."""
    params = {"batch": 8, "head_dim": 64, "heads": 16, "seq": 1024, "unknown": 1}
    ordered = building.in_order(building.find_workload("attention"), params)
    assert list(ordered) == ["batch", "heads", "seq", "head_dim", "unknown"]
    assert ordered == params


def attention_by_loops(q, k, v):
    """Causal attention one row at a time."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    for batch in range(q.shape[0]):
        for head in range(q.shape[1]):
            for row in range(q.shape[2]):
                seen = k[batch, head, : row + 1].double()
                weights = torch.exp(seen @ q[batch, head, row].double() / math.sqrt(q.shape[3]))
                out[batch, head, row] = (weights / weights.sum()) @ v[batch, head, : row + 1].double()
    return out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("variant", ["naive", "inplace", "flex", "sdpa-math", "sdpa-flash", "sdpa-auto"])
@torch.no_grad()
def test_attention(variant, dtype):
    made = make("attention", variant, dtype, **SHAPE)
    wanted = attention_by_loops(*made.inputs[:3])
    before = [tensor.clone() for tensor in made.inputs]
    if made.pinned:
        with made.pinned:
            got = made.forward(*made.inputs)
    else:
        got = made.forward(*made.inputs)
    assert got.dtype == getattr(torch, dtype)
    assert distance(got, wanted) < {"float32": 1e-5, "bfloat16": 1e-2}[dtype]
    assert distance(made.reference(*made.inputs), wanted) < 1e-12
    assert all(torch.equal(old, new) for old, new in zip(before, made.inputs, strict=True))


@torch.no_grad()
def test_the_mlp():
    made = make("mlp", "torch", "float32", batch=2, seq=5, dim=12, hidden=20)
    (x,) = made.inputs
    model = made.forward
    gate = torch.nn.functional.linear(x.double(), model.gate_proj.weight.double())
    up = torch.nn.functional.linear(x.double(), model.up_proj.weight.double())
    hidden = torch.nn.functional.gelu(gate, approximate="tanh") * up
    wanted = torch.nn.functional.linear(hidden, model.down_proj.weight.double())
    assert distance(made.forward(x), wanted) < 1e-5
    assert distance(made.reference(x), wanted) < 1e-12
    assert [name for name, _ in model.named_parameters()] == [
        "gate_proj.weight", "up_proj.weight", "down_proj.weight",
    ]  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_linear(bias):
    made = make("linear", batch=7, in_features=5, out_features=3, bias=bias)
    (x,) = made.inputs
    wanted = torch.stack(
        [sum(x[:, i].double() * w for i, w in enumerate(row)) for row in made.forward.weight.double()], 1
    )
    if bias:
        wanted = wanted + made.forward.bias.double()
    assert distance(made.forward(x), wanted) < 1e-6
    assert distance(made.reference(x), wanted) < 1e-12


@torch.no_grad()
def test_matmul_add():
    made = make("matmul_add", size=6)
    a, b, c = made.inputs
    wanted = torch.tensor(
        [[sum(float(a[i, k]) * float(b[k, j]) for k in range(6)) for j in range(6)] for i in range(6)]
    )
    assert distance(made.forward(a, b, c), wanted.double() + c.double()) < 1e-6


@torch.no_grad()
def test_ceilings():
    product = make("ceiling", "matmul", size=8)
    assert distance(product.forward(*product.inputs), product.inputs[0].double() @ product.inputs[1].double()) < 1e-6
    copy = make("ceiling", "copy", "bfloat16", bytes=4096)
    (source,) = copy.inputs
    result = copy.forward(source)
    assert torch.equal(result, source)
    assert needs.least_bytes(copy, result) == {"input_bytes": 4096, "output_bytes": 4096}


@torch.no_grad()
def test_the_ceiling_of_the_l2_cache_copies_again_and_again(monkeypatch):
    copies = []
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, source: copies.append(1) or self.set_(source.clone()))
    made = make("ceiling", "copy-l2", "bfloat16", bytes=4096, times=3)
    result = made.forward(*made.inputs)
    assert len(copies) == 3
    assert torch.equal(result, made.inputs[0])
    assert made.reference(*made.inputs) is made.inputs[0]
    assert needs.least_bytes(made, result) == {"input_bytes": 4096, "output_bytes": 4096}


@torch.no_grad()
def test_the_copy_in_l2_fills_half_of_the_cache(monkeypatch):
    monkeypatch.setattr(Context, "need_cuda", lambda context, what: None)
    properties = SimpleNamespace(L2_cache_size=4 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    made = make("ceiling", "copy-l2", "bfloat16", times=1)
    assert needs.least_bytes(made, made.forward(*made.inputs)) == {"input_bytes": 2**20, "output_bytes": 2**20}
    properties.L2_cache_size = None
    with pytest.raises(Unsupported, match="does not report the size of the L2 cache: set the bytes"):
        make("ceiling", "copy-l2", "bfloat16", times=1)


@pytest.mark.parametrize(("variant", "what"), [("matmul-fp8", "the fp8 product"), ("copy-l2", "a copy of the size")])
def test_ceilings_that_need_a_gpu_are_unsupported_on_a_cpu(variant, what):
    with pytest.raises(Unsupported, match=f"{what}.* runs on a GPU alone"):
        make("ceiling", variant, "bfloat16")


@pytest.mark.parametrize(("capability", "hip"), [((8, 0), None), ((9, 4), "6.2")])
def test_a_gpu_without_e4m3_is_unsupported(monkeypatch, capability, hip):
    monkeypatch.setattr(Context, "need_cuda", lambda context, what: None)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with pytest.raises(Unsupported, match=r"8\.9 or later"):
        make("ceiling", "matmul-fp8", "bfloat16")


@torch.no_grad()
def test_the_fp8_ceiling_multiplies_e4m3(monkeypatch):
    """torch multiplies e4m3 on a CPU too, slowly."""
    monkeypatch.setattr(Context, "need_cuda", lambda context, what: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    made = make("ceiling", "matmul-fp8", "bfloat16", size=32)
    a, b, one = made.inputs
    assert (a.dtype, b.dtype, float(one)) == (torch.float8_e4m3fn, torch.float8_e4m3fn, 1.0)
    assert made.flops == 2 * 32**3
    wanted = a.double() @ b.double().t()
    assert distance(made.reference(*made.inputs), wanted) == 0
    try:
        result = made.forward(*made.inputs)
    except RuntimeError as error:
        pytest.skip(f"this torch has no e4m3 product on a CPU: {error}")
    assert result.dtype == torch.bfloat16
    assert distance(result, wanted) < accuracy.BOUNDS["bfloat16"]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_inplace_attention_refuses_inputs_that_require_grad(which):
    made = make("attention", "inplace", **SHAPE)
    made.inputs[which].requires_grad_()
    with pytest.raises(ValueError, match="backward would read scores that were overwritten"):
        made.forward(*made.inputs)


@torch.no_grad()
def test_inplace_attention_makes_fewer_tensors_than_naive():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = {}
    for variant in ("naive", "inplace"):
        made, names = make("attention", variant, **SHAPE), []
        with Calls():
            made.forward(*made.inputs)
        seen[variant] = names
    assert any("masked_fill_." in name for name in seen["inplace"])
    assert not any("clone" in name for name in seen["inplace"])
    assert len(seen["inplace"]) <= len(seen["naive"])


def test_inputs_are_seeded_random_and_never_zeros():
    first, again = make("matmul_add", size=16), make("matmul_add", size=16)
    assert all(torch.equal(a, b) for a, b in zip(first.inputs, again.inputs, strict=True))
    assert all(0.7 < float(tensor.std()) < 1.3 for tensor in first.inputs)
    assert not torch.equal(first.inputs[0], first.inputs[1])


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (f"{FAULTS}:absent", 'has no "absent": it has Nested'),
        (f"{FAULTS}:Nested.outer", 'has no "outer": it has inner'),
        (f"{FAULTS}:not_a_function", "must be a function, got int"),
        ("no/such/file.py:x", 'there is no file "no/such/file.py"'),
        ("matmul-add", "matmul_add, mlp, training, or path/to/file.py:function"),
    ],
)
def test_a_workload_that_is_not_there_says_what_is(workload, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        building.find_workload(workload)


def test_a_workload_may_be_nested_and_may_return_a_pair():
    made = make(f"{FAULTS}:Nested.inner", size=4)
    assert torch.equal(made.forward(*made.inputs), made.inputs[0] + 1)
    made = make(f"{FAULTS}:returns_a_pair")
    assert torch.equal(made.forward(*made.inputs), made.inputs[0] * 2)


def test_compile_options_are_passed_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(torch, "compile", lambda forward, **options: seen.update(options) or forward)
    options = {"mode": "max-autotune", "dynamic": True, "fullgraph": True, "backend": "inductor"}
    case = {**DEFAULTS, "mode": "compile", "compile_options": options}
    building.in_mode(case, make("matmul_add", size=2), CPU)
    assert seen == options


def test_a_workload_must_return_a_workload():
    with pytest.raises(TypeError, match="must return a Workload, got NoneType"):
        make(f"{FAULTS}:returns_nothing")


@torch.no_grad()
def test_backends_of_a_cpu():
    made = make("attention", "inplace", "bfloat16", **SHAPE)
    backends = made.facts()["sdpa_backends"]
    assert {name: found["usable"] for name, found in backends.items()} == {
        "math": True, "flash": True, "efficient": False, "cudnn": False,
    }  # fmt: skip
    assert backends["cudnn"]["reasons"] == ["there is no such kernel for the CPU"]


def test_an_unknown_variant_lists_the_known_ones():
    with pytest.raises(ValueError, match='no variant "fast" here: use one of flex, hub-flash, inplace, naive'):
        make("attention", "fast", **SHAPE)


@pytest.mark.parametrize(("workload", "variant"), [("attention", "hub-flash"), ("mlp", "hub-liger"), ("mlp", "liger")])
def test_what_needs_a_gpu_says_so(workload, variant):
    with pytest.raises(Unsupported, match="the device is cpu"):
        make(workload, variant)


class Hub:
    """Stands in for the package `kernels`: the hub's kernels as they are called, computed by torch."""

    class layers:  # noqa: N801
        class LigerGEGLUMLP(torch.nn.Module):
            def __init__(self, config):
                super().__init__()
                assert config.hidden_act == "gelu_pytorch_tanh"
                wide, narrow = config.intermediate_size, config.hidden_size
                self.gate_proj = torch.nn.Linear(narrow, wide, bias=False)
                self.up_proj = torch.nn.Linear(narrow, wide, bias=False)
                self.down_proj = torch.nn.Linear(wide, narrow, bias=False)

            def forward(self, x):
                gate = torch.nn.functional.gelu(self.gate_proj(x), approximate="tanh")
                return self.down_proj(gate * self.up_proj(x))

    @staticmethod
    def get_kernel(name, version):
        assert name in ("kernels-community/liger-kernels", "kernels-community/flash-attn2")
        return Hub

    @staticmethod
    def flash_attn_func(q, k, v, causal):
        assert q.shape == (SHAPE["batch"], SHAPE["seq"], SHAPE["heads"], SHAPE["head_dim"])
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out.transpose(1, 2)


@torch.no_grad()
def test_the_hubs_kernels_are_called_as_they_want_to_be(monkeypatch):
    monkeypatch.setitem(sys.modules, "kernels", Hub)
    monkeypatch.setattr(Context, "need_cuda", lambda self, what: None)
    for made in (
        make("mlp", "hub-liger", batch=2, seq=5, dim=12, hidden=20),
        make("attention", "hub-flash", **SHAPE),
    ):
        assert distance(made.forward(*made.inputs), made.reference(*made.inputs)) < 1e-5


def test_a_missing_package_says_how_to_get_it():
    context = Context("plain", CPU, torch.float32, 0)
    with pytest.raises(Unsupported, match="pip install left-pad"):
        context.package("left_pad_is_not_here", "left-pad")


@torch.no_grad()
def test_flops():
    # Two products of (heads · seq · head_dim · seq) multiply-adds each, per batch entry.
    made = make("attention", "sdpa-flash", **SHAPE)
    assert needs.flops(made, made.inputs) == (2 * 2 * (2 * 3) * 33 * 33 * 16, "formula")
    made = make("mlp", "torch", batch=2, seq=5, dim=12, hidden=20)
    assert needs.flops(made, made.inputs) == (3 * 2 * 10 * 12 * 20, "counter")
    made = make("ceiling", "copy", bytes=64)
    assert needs.flops(made, made.inputs) == (None, None)


def test_relative_error_is_the_ratio_of_norms():
    assert accuracy.relative_error(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("times", "falling", "rising"),
    [
        ([10.0] * 50, False, False),
        ([20.0] * 10 + [10.0] * 40, True, False),
        ([10.5] * 10 + [10.0] * 40, False, False),
        ([10.0] * 10 + [10.5] * 40, False, False),
        ([100.0] + [10.0] * 49, False, False),  # one slow forward is no trend
        ([10.0] * 49 + [100.0], False, False),
        ([8.0] * 10 + [10.0] * 40, False, True),
        ([10.0 + number for number in range(50)], False, True),
    ],
)
def test_warmup_check(times, falling, rising):
    found = timing.warmup_check(times)
    assert (found["still_falling"], found["rising"]) == (falling, rising)
    assert ("raise warmup" in (found["message"] or "")) is falling
    assert ("keeps something from call to call" in (found["message"] or "")) is rising


def test_how_far_times_rise_is_in_the_message():
    """The first fifth has the median 10, the second half 25."""
    assert "took 2.50 times as long" in timing.warmup_check([10.0] * 10 + [15.0] * 15 + [25.0] * 25)["message"]


def test_warmup_check_needs_enough_times():
    assert timing.warmup_check([10.0] * 19) is None
