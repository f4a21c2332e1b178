"""Kernel names, decoded: a table of real names, each expectation read off the naming scheme by hand.

``kernel_names.tsv``: name, library, family, element type, tensor cores, then ``field=value`` for every further field
that the name states; a field that is not listed must be missing. Lines with # name the scheme.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kernelbook.kernel_names import FAMILIES, UNKNOWN, KernelName, built_for, decode, decode_activity

TABLE = Path(__file__).with_name("kernel_names.tsv")
FURTHER = ("instruction_shape", "layout", "tile", "stages", "cluster", "epilogue", "architecture", "source_type")


def rows() -> list[list[str]]:
    return [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]


def test_the_table_is_large_and_has_no_name_twice() -> None:
    names = [row[0] for row in rows()]
    assert len(names) >= 120
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_real_name_gives_exactly_what_it_states(row: list[str]) -> None:
    name, library, family, element, cores, *further = row
    stated = dict(pair.split("=", 1) for pair in further)
    kernel = decode(name)
    assert (kernel.name, kernel.library, kernel.family) == (name, library, family)
    assert (kernel.element_type, kernel.tensor_cores) == (element, cores)
    found = {field: getattr(kernel, field) for field in FURTHER}
    assert {f: str(v) for f, v in found.items() if v is not None} == {f: v for f, v in stated.items() if f in FURTHER}
    assert kernel.fused_ops == tuple(filter(None, stated.get("fused_ops", "").split(",")))
    assert str(kernel.generated) == stated.get("generated", "False")
    assert kernel.sentence.endswith(".")


def test_memcpy_and_memset_are_copy_and_fill_and_no_kernels() -> None:
    copy = decode_activity("memcpy", "Memcpy DtoD (Device -> Device)")
    assert (copy.family, copy.tensor_cores, copy.what) == ("copy/cast", "no", "memcpy DtoD")
    assert decode_activity("memset", "Memset (Device)").family == "fill/mask"
    assert decode_activity("kernel", "ampere_sgemm_128x64_nn") == decode("ampere_sgemm_128x64_nn")


@pytest.mark.parametrize("name", ["", "(", "_Z", "_ZN999x", "<" * 5000, "triton_poi_fused_", "nvjet_", "\x00é<&>"])
def test_hostile_names_are_unknown_and_never_raise(name: str) -> None:
    kernel = decode(name)
    assert isinstance(kernel, KernelName)
    assert kernel.family == UNKNOWN
    assert len(kernel.sentence) < 200


def test_a_sentence_says_what_the_linear_kernel_is() -> None:
    sentence = decode("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT").sentence
    for part in ("cuBLAS", "bf16 on tensor cores", "tile 64x8x64", "16 stages", "epilogue bias", "sm90"):
        assert part in sentence
    assert "fp32 on CUDA cores" in decode(
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_"
        "execute_kernel__5x_cublas"
    ).sentence  # fmt: skip


ISNEGINF = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::isneginf_kernel_impl("
    "at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, "
    "std::array<char*, 2ul> >(int)"
)
TO_BF16 = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)
DIRECT = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, "
    "4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::"
)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (ISNEGINF, "marks the elements that are -inf"),
        (ISNEGINF.replace("isneginf", "isposinf"), "marks the elements that are +inf"),
        ("_geglu_tanh_forward_kernel", "GELU (tanh) of gate, times up, Liger"),
        ("_swiglu_forward_kernel", "SiLU of gate, times up, Liger"),
        (TO_BF16, "converts fp32 to bf16"),
        (TO_BF16.replace("bfloat16", "float16"), "converts fp32 to fp16"),
        (DIRECT + "LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)", "converts to fp32"),
        (DIRECT + "LoadWithoutCast, at::native::memory::StoreWithoutCast>(int)", "copies"),
    ],
)
def test_what_a_kernel_does_is_said_in_full(name: str, what: str) -> None:
    assert decode(name).what == what


def test_a_converting_copy_names_no_type_twice() -> None:
    assert decode(TO_BF16).sentence == "ATen: converts fp32 to bf16."
    assert (decode(TO_BF16).source_type, decode(TO_BF16).element_type) == ("fp32", "bf16")


@pytest.mark.parametrize(
    ("name", "capability", "said"),
    [
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<>)", "9.0",
         "sm80 (Ampere), runs on sm90 (Hopper)"),
        ("ampere_sgemm_128x64_nn", "9.0", "sm80 (Ampere), runs on sm90 (Hopper)"),
        ("volta_sgemm_128x64_nn", "8.9", "sm70 (Volta), runs on sm89 (Ada)"),
        ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "9.0", None),
        ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "10.0", "sm90 (Hopper), runs on sm100 (Blackwell)"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "9.0", None),  # the name does not say
        ("ampere_sgemm_128x64_nn", None, None),
        ("ampere_sgemm_128x64_nn", "gfx90a", None),
    ],
)  # fmt: skip
def test_a_kernel_built_for_an_older_architecture_is_seen(name: str, capability: str | None, said: str | None) -> None:
    assert built_for(decode(name), capability) == said


def test_every_name_of_the_shared_traces_is_read_and_few_stay_unknown(shared_dir: Path) -> None:
    names = set()
    for path in sorted(shared_dir.glob("traces/*/*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        events = data if isinstance(data, list) else data["traceEvents"]
        kernels = (e for e in events if isinstance(e, dict) and str(e.get("cat", "")).lower() == "kernel")
        names |= {event["name"] for event in kernels}
    assert len(names) > 250
    kernels = [decode(name) for name in names]
    assert {kernel.family for kernel in kernels} <= set(FAMILIES)
    unknown = [kernel.name for kernel in kernels if kernel.family == UNKNOWN]
    assert len(unknown) / len(kernels) < 0.05, unknown
