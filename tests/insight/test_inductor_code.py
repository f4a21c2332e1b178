"""Which ops a Triton kernel computes, by the comments in Inductor's output code of several versions of torch."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.cases import Activity, CaseFacts, ProfiledForward
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.findings.rules import Scene
from kernelbook.judge.fusions import ops_by_kernel, reasons_by_pair, source_ops
from tests.helpers import ROOT

#: As torch 2.6 to 2.13 write it; 2.5 and earlier leave out the first two words.
SORTED = """async_compile = AsyncCompile()


# kernel path: <tmp>/torchinductor_<user>/ab/cabcdef.py
# Topologically Sorted Source Nodes: [y, h, gelu, mul], Original ATen: [aten._to_copy, aten.gelu, aten.mul]
# Source node to ATen node mapping:
#   gelu => add, erf, mul, mul_1, mul_2
#   mul => mul_3
# Graph fragment:
#   %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%view_1, 0.5), kwargs = {})
triton_poi_fused__to_copy_gelu_mul_0 = async_compile.triton('triton_poi_fused__to_copy_gelu_mul_0', '''
import triton
''', device_str='cuda')


# kernel path: <tmp>/torchinductor_<user>/ef/cefghij.py
# Topologically Sorted Source Nodes: [], Original ATen: []
triton_poi_fused_1 = async_compile.triton('triton_poi_fused_1', '''
import triton
''', device_str='cuda')

def call(args):
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.mm]
    extern_kernels.mm(buf0, buf1, out=buf2)
    # Topologically Sorted Source Nodes: [add], Original ATen: [aten.add]
    triton_poi_fused__to_copy_gelu_mul_0.run(buf2, 8, grid=grid(8), stream=stream0)
"""
OLD = """
# kernel path: /tmp/cef.py
# Source Nodes: [layer_norm], Original ATen: [aten.native_layer_norm]
# layer_norm => add, add_1, mul, mul_1, rsqrt, sub, var_mean
triton_per_fused_native_layer_norm_0 = async_compile.triton('triton_', '''
"""


def test_the_ops_of_each_kernel_in_the_order_of_the_graph() -> None:
    assert ops_by_kernel(SORTED) == {
        "triton_poi_fused__to_copy_gelu_mul_0": ("aten::_to_copy", "aten::gelu", "aten::mul"),
        "triton_poi_fused_1": (),
    }
    assert ops_by_kernel(OLD) == {"triton_per_fused_native_layer_norm_0": ("aten::native_layer_norm",)}
    unsorted = OLD.replace("# Source", "# Unsorted Source")
    assert ops_by_kernel(unsorted) == ops_by_kernel(OLD)
    assert ops_by_kernel("x = 1\n# Original ATen: [aten.mm]\n") == {}


def test_a_name_that_two_graphs_use_for_different_ops_is_left_out() -> None:
    other = OLD.replace("aten.native_layer_norm", "aten.rms_norm")
    assert ops_by_kernel(OLD + OLD) == ops_by_kernel(OLD)
    assert ops_by_kernel(OLD + other) == {}


def written(path: Path, text: str) -> str:
    path.write_bytes(gzip.compress(text.encode()))
    return str(path)


def test_a_kernel_finds_its_ops(tmp_path: Path) -> None:
    names = ("nvjet_tst_64x8", "triton_per_fused_native_layer_norm_0")
    kernels = tuple(Activity(place, "kernel", name, 0.0, 1.0) for place, name in enumerate(names))
    forwards = (ProfiledForward(1, 0, 1.0, activities=kernels),)
    facts = CaseFacts("r", "c", forwards=forwards, chosen=(1, 0), output_code=written(tmp_path / "a.py.gz", OLD))
    assert source_ops(facts) == {1: ("aten::native_layer_norm",)}


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"x = 1" * 999)[:-20], None],
    ids=["empty", "no gzip", "cut short", "missing"],
)
def test_damaged_code_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "code.py.gz"
    if content is not None:
        path.write_bytes(content)
    kernel = Activity(0, "kernel", "triton_per_fused_native_layer_norm_0", 0.0, 1.0)
    facts = CaseFacts("r", "c", forwards=(ProfiledForward(1, 0, 1.0, activities=(kernel,)),), output_code=str(path))
    assert source_ops(facts) == {}


@pytest.mark.parametrize(("name", "kept"), [("output_code.py.gz", True), ("gone.py.gz", False), (None, False)])
def test_the_case_has_the_path_of_its_code(tmp_path: Path, name: str | None, kept: bool) -> None:
    folder = tmp_path / "mlp-compile" / "1"
    shutil.copytree(ROOT / "resources/recorded/h200-torch2.11/mlp-compile/1", folder)
    code = written(folder / "output_code.py.gz", OLD)
    file = folder / "measurement.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"output_code": name}))
    tables = tables_of(Origin("r", "mlp-compile", 1, {}), {}, file)
    assert tables["case"]["output_code"].to_pylist() == [code if kept else None]
    assert tables["case"]["l2_bytes"].to_pylist() == [62914560]


def test_findings_quote_the_ops_of_a_kernel(tmp_path: Path) -> None:
    code = tmp_path / "output_code.py.gz"
    code.write_bytes(gzip.compress(SORTED.encode()))
    kernel = Activity(0, "kernel", "triton_poi_fused__to_copy_gelu_mul_0", 0.0, 5.0)
    forward = ProfiledForward(1, 0, 10.0, activities=(kernel,))
    facts = CaseFacts("r", "c", output_code=str(code), forwards=(forward,), chosen=(1, 0))
    assert Scene(facts, {}).computed_ops(kernel) == " (to_copy, gelu, mul)"
    assert Scene(replace(facts, output_code=None), {}).computed_ops(kernel) == ""


#: A graph of two reductions around a product, as torch 2.6 to 2.13 write it; op2 and op3 are computed in one kernel.
UNFUSED = """# graph 1 of 1
# cannot fuse op0 with op4: numel/rnumel mismatch (reduce) 64, 4096
# cannot fuse op2_op3 with op4: invalid tiling for reduction
# cannot fuse op1 with op4: a node of another library
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
    buf4 = tl.load(in_ptr0)
''', device_str='cuda')

def call(args):
    buf0 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
    triton_poi_fused_add_0.run(arg0_1, buf0, 4096, stream=stream0)
    buf1 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
    extern_kernels.mm(buf0, arg1_1, out=buf1)
    buf2 = empty_strided_cuda((64, 1), (1, 64), torch.float32)
    buf3 = buf1; del buf1  # reuse
    buf4 = empty_strided_cuda((64, ), (1, ), torch.float32)
    buf5 = buf4; del buf4  # reuse
    triton_per_fused_softmax_1.run(buf3, buf2, 64, 64, stream=stream0)
    triton_red_fused_sum_2.run(buf0, buf3, buf5, 64, 64, stream=stream0)
"""


def test_the_kernels_of_two_nodes_are_those_that_write_their_buffers() -> None:
    apart = {
        ("triton_poi_fused_add_0", "triton_red_fused_sum_2"): ("numel/rnumel mismatch (reduce) 64, 4096",),
        ("triton_per_fused_softmax_1", "triton_red_fused_sum_2"): ("invalid tiling for reduction",),
    }
    assert reasons_by_pair(UNFUSED) == apart | {(other, one): why for (one, other), why in apart.items()}
    assert reasons_by_pair(SORTED) == reasons_by_pair("# cannot fuse op0 with op1: no code") == {}
