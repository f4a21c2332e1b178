"""Kernel names, decoded: tables of real names, each expectation read off the naming scheme by hand.

``kernel_names.tsv``: name, library, family, element type, tensor cores, then ``field=value`` for every further field
that the name states; a field that is not listed must be missing. Lines with # name the scheme.
``kernel_name_facts.tsv``: many more names with the facts that users see; its head describes the columns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbook.cases import label
from kernelbook.kernel_names import FAMILIES, UNKNOWN, KernelName, built_for, decode, decode_activity
from kernelbook.kernel_names.labels import short
from kernelbook.trace.reader import EventReader
from tests.helpers import ROOT

TABLE = Path(__file__).with_name("kernel_names.tsv")
FACTS = Path(__file__).with_name("kernel_name_facts.tsv")
STATED = ("family", "element_type", "tensor_cores", "architecture", "tile", "layout")
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


def deviations(table: Path) -> list[tuple[str, str, str, object]]:
    """(name, field, expected, decoded) for every fact of a table that the decoder does not give."""
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    found = []
    for line in lines[1:]:
        name, *facts = line.split("\t")
        kernel = decode(name)
        for field, expected in zip(STATED, facts, strict=False):
            value = getattr(kernel, field)
            stated = "-" if field != "family" and value in (None, UNKNOWN) else str(value)
            if expected and stated not in expected.split("|"):
                found.append((name, field, expected, stated))
    return found


def test_many_real_names_give_the_facts_that_they_state() -> None:
    names = [line.split("\t")[0] for line in FACTS.read_text(encoding="utf-8").splitlines()]
    assert len(names) >= 650
    assert len(set(names)) == len(names)
    assert deviations(FACTS) == []


def test_names_shared_beside_the_checkout_give_the_facts_that_they_state(shared_dir: Path) -> None:
    table = shared_dir / "round2" / "kernel-names.tsv"
    if not table.is_file():
        pytest.skip("no table of names beside the checkout")
    assert deviations(table) == []


@pytest.mark.parametrize("functor", ["CUDAFunctor_add", "CUDAFunctorOnSelf_add", "CUDAFunctorOnOther_add"])
def test_a_label_has_the_op_of_a_functor_without_its_prefix(functor: str) -> None:
    name = (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, std::array<char*, 3ul>>(int)"
    )
    assert short(name) == "vectorized_elementwise_kernel · add"


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


WORDS = st.sampled_from(
    ["nvjet_", "sm90_xmma_gemm_", "cutlass_80_tensorop_", "cutlass3x_sm90_", "bmm_", "Cijk_Alik_Bljk_", "_ZN", "12",
     "I", "E", "at::native::", "elementwise_kernel<", "{lambda(", "Functor<", "float", "128x64", "_f16f16_", "<", ">",
     "(", ")", "::", "void ", "triton_red_fused_", "all_reduce", "softmax", "flash_fwd_", "_", " ", ", ", "(int)4"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=120).map("".join)))
def test_any_text_is_decoded_and_never_raises(name: str) -> None:
    kernel = decode(name)
    assert kernel.name == name
    assert kernel.family in FAMILIES


@pytest.mark.parametrize(
    "part",
    ["a", "_", "<", "1x", "a_", "aB", "cutlass_", "nvjet_", "bmm_", "f16", "N1a", "I", "::", "Tma", "{lambda(", "moe_",
     "flash_fwd_", "add_", "nccl", "reshape ", "Kernel", "PKf", "reduce_", "to_", "chunk_", "split_k "],
)  # fmt: skip
@pytest.mark.parametrize(
    "front",
    ["", "_Z", "_ZN", "cutlass_80_tensorop_s16816gemm", "sm80_xmma_gemm_", "void cutlass::device_kernel<",
     "triton_poi_fused_", "at::native::elementwise_kernel<128, "],
)  # fmt: skip
def test_long_names_of_one_repeated_part_do_not_make_a_pattern_run_away(front: str, part: str) -> None:
    assert decode(front + part * (5000 // len(part))).family in FAMILIES  # a pattern that runs away never comes back


def test_a_mangled_name_says_what_its_demangled_form_says() -> None:
    mangled = "_ZN4vllm15rms_norm_kernelIN3c108BFloat16ELi8ELb1EEEvPT_PKS2_S5_fii"
    for name in (mangled, "void vllm::rms_norm_kernel<c10::BFloat16, 8, true>(c10::BFloat16*)"):
        assert (decode(name).library, decode(name).family, decode(name).element_type) == ("vLLM", "reduction", "bf16")
    nested = (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIdEESt5arrayIPcLm1EEEEviT0_T1_",
        "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttnFwdSm90INS1_25CollectiveMainloopFwdSm90",
        "_ZN7cutlassL6KernelINS_4gemm6kernel4GemmINS1_11threadblock13MmaMultistageINS1_9GemmShapeILi256ELi128ELi64EEE",
    )
    read = [(k.family, k.element_type, k.tensor_cores, k.tile) for k in map(decode, nested)]
    assert read == [
        ("fill/mask", "fp64", "no", None),
        ("attention", UNKNOWN, "yes", None),
        ("GEMM", UNKNOWN, "yes", "256x128x64"),
    ]


def test_a_cutlass_wrapper_is_read_through_its_template() -> None:
    kernel = decode(
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<5, "
        "cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, cutlass::gemm::KernelTmaWarpSpecializedPingpong>, "
        "cute::tuple<cute::C<64>, cute::C<128>, cute::C<64> >, cutlass::half_t, cute::tuple<long, cute::C<1> > > > >"
    )
    assert (kernel.library, kernel.family, kernel.element_type, kernel.tensor_cores) == (
        "CUTLASS",
        "GEMM",
        "fp16",
        "yes",
    )
    assert (kernel.tile, kernel.architecture) == ("64x128x64", "sm90")
    name = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80_simt_sgemm::Params)"
    assert label("kernel", name) == short(name) == "cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
    attention = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Mainloop<2>>>>(Params)"
    assert label("kernel", attention) == "FlashAttnFwdSm90"
    assert label("memcpy", "Memcpy DtoD (Device -> Device)") == short("Memcpy DtoD (Device -> Device)") == "Memcpy DtoD"
    assert (
        "Kernel2" not in decode("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)").sentence
    )


def test_the_command_prints_one_object_a_name() -> None:
    names = ["nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT", "kern"]
    command = [sys.executable, str(ROOT / "scripts" / "kernel_name.py"), "--json"]
    lines = subprocess.run([*command, *names], capture_output=True, text=True, check=True).stdout.splitlines()
    known = {
        "family": "GEMM",
        "dtype": "bf16",
        "tensor_cores": "yes",
        "arch": "sm90",
        "tile": "192x8x64",
        "layout": "tnt",
    }
    assert [json.loads(line) for line in lines] == [
        {"name": names[0], **known},
        {"name": names[1], **dict.fromkeys(known), "family": "unknown"},
    ]
    piped = subprocess.run([*command, "-"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    assert piped.splitlines() == lines
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 2


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
    readers = map(EventReader, sorted(shared_dir.glob("traces/*/*.json.gz")))
    events = (event for reader in readers for batch in reader.batches() for event in batch)
    names = {event.name for event in events if str(event.cat).lower() == "kernel"}
    assert len(names) > 250
    kernels = [decode(name) for name in names]
    assert {kernel.family for kernel in kernels} <= set(FAMILIES)
    unknown = [kernel.name for kernel in kernels if kernel.family == UNKNOWN]
    assert len(unknown) / len(kernels) < 0.05, unknown
