"""An edition folder made up for tests: rows written by hand after the contract of the tables, no engine involved."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kernelbook.cases import CASE_COLUMNS
from kernelbook.edition.paths import SCHEMA

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
GEMM_B = "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT"
GEMM_FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_kernel"
MUL = "void at::native::vectorized_elementwise_kernel<8, AUnaryFunctor<MulFunctor<float>>, std::array<char*, 2ul>>(int)"
FILL = "void at::native::elementwise_kernel<128, 4, at::native::masked_fill_kernel(at::TensorIterator&)>(int, int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
WHERE = "void at::native::elementwise_kernel<128, 2, at::native::where_kernel_impl(at::TensorIterator&)>(int, int)"
MEMSET, MEMCPY = "Memset (Device)", "Memcpy DtoD (Device -> Device)"


@dataclass(frozen=True)
class Step:
    """One op of a forward and the device activities that it launches: (category, name, family, duration_us)."""

    op: str
    inner: str | None = None
    device: tuple[tuple[str, str, str | None, float], ...] = ()


@dataclass(frozen=True)
class Made:
    case: str
    workload: str
    variant: str
    mode: str
    steps: tuple[Step, ...]
    annotation: str = "attn_fwd"
    guesses: tuple[tuple[str, str, str, str, str], ...] = field(default=())


def kernel(name: str, family: str, duration: float) -> tuple[str, str, str, float]:
    return "kernel", name, family, duration


ZERO = ("memset", MEMSET, None, 1.12)
CASES = (
    Made(
        "attention-naive-eager",
        "attention",
        "naive",
        "eager",
        (
            Step("aten::transpose"),
            Step("aten::matmul", "aten::bmm", (ZERO, kernel(GEMM, "gemm", 83.4))),
            Step("aten::mul", None, (kernel(MUL, "elementwise", 129.1),)),
            Step("aten::masked_fill", "aten::copy_", (("memcpy", MEMCPY, None, 128.0),)),
            Step("aten::masked_fill_", None, (kernel(FILL, "fill", 366.0),)),
            Step("aten::softmax", "aten::_softmax", (kernel(SOFTMAX, "softmax", 283.7),)),
            Step("aten::matmul", "aten::bmm", (kernel(GEMM_B, "gemm", 82.1),)),
        ),
        guesses=(
            ("kernels", "5", "5", "confirmed", "5 kernels in each of 10 forwards"),
            ("memcpys", "1", "1", "confirmed", "Memcpy DtoD launched by aten::copy_"),
        ),
    ),
    Made(
        "attention-inplace-eager",
        "attention",
        "inplace",
        "eager",
        (
            Step("aten::transpose"),
            Step("aten::matmul", "aten::bmm", (ZERO, kernel(GEMM, "gemm", 83.4))),
            Step("aten::mul_", None, (kernel(MUL, "elementwise", 129.1),)),
            Step("aten::masked_fill_", None, (kernel(FILL, "fill", 366.0),)),
            Step("aten::softmax", "aten::_softmax", (kernel(SOFTMAX, "softmax", 283.6),)),
            Step("aten::matmul", "aten::bmm", (kernel(GEMM_B, "gemm", 82.1),)),
        ),
        guesses=(("kernels", "5", "5", "confirmed", "5 kernels in each of 10 forwards"),),
    ),
    Made(
        "sdpa-math-eager",
        "attention",
        "sdpa-math",
        "eager",
        (
            Step("aten::to", "aten::copy_", tuple(kernel(COPY, "copy", 26.0 + i / 10) for i in range(3))),
            Step("aten::mul", None, (kernel(MUL, "elementwise", 17.4),) * 2),
            Step("aten::tril", None, (kernel("void at::native::triu_tril_kernel<bool, int>", "fill", 4.16),)),
            Step("aten::matmul", "aten::bmm", (kernel(GEMM_FP32, "gemm", 540.7),)),
            Step("aten::add", None, (kernel(MUL, "elementwise", 402.2),)),
            Step("aten::_safe_softmax", "aten::_softmax", (kernel(SOFTMAX, "softmax", 282.1),)),
            Step("aten::where", None, (kernel(WHERE, "fill", 415.3),)),
            Step("aten::to", "aten::copy_", (kernel(COPY, "copy", 186.2),)),
            Step("aten::matmul", "aten::bmm", (kernel(GEMM_FP32, "gemm", 417.1),)),
        ),
        annotation="sdpa_fwd",
        guesses=(
            ("kernels", "20", "12", "broken", "12 kernels in each of 10 forwards; first: direct_copy_kernel_cuda"),
            ("slower_than", "attention-inplace-eager", "2.49 times slower", "confirmed", "2,360 µs against 945 µs"),
        ),
    ),
    Made(
        "linear-eager",
        "linear",
        "linear",
        "eager",
        (Step("aten::linear", "aten::addmm", (kernel("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "gemm", 2.72),)),),
        annotation="linear_fwd",
        guesses=(
            ("kernels", "1", "1", "confirmed", "1 kernel in each of 10 forwards"),
            ("ops_absent", "aten::add", "absent", "confirmed", "ops seen: aten::linear, aten::t, aten::addmm"),
        ),
    ),
)


EVIL = (
    '<script>window.hurt = 1</script><img src=x onerror="window.hurt = 2">' + "'`|\\n\u202egnp\u2066 ]]>-->{{ 7 * 7 }}"
)
HOSTILE = (
    Made(
        "evil</script><script>window.hurt=3</script>",
        "work</script><b>load",
        EVIL,
        EVIL,
        (
            Step(EVIL, EVIL, (kernel(EVIL, "gemm", 50.0), kernel("x" * 5000, "softmax", 20.0))),
            Step("=HYPERLINK(1)", None, (kernel("=cmd|' /C calc'!A0", "copy", 5.0),)),
        ),
        guesses=((EVIL, EVIL, EVIL, "broken", EVIL), ("kernels", "5", "3", "broken", "x" * 5000)),
    ),
    CASES[1],
)
HOSTILE_RUNS = (
    {"run": 'run"><script>window.hurt=4</script>', "kind": "container", "description": EVIL, "device": EVIL},
    {"run": "plain", "kind": "host", "description": "plain", "device": "NVIDIA H200", "reason": EVIL},
)


FINDINGS = (
    (
        "sdpa-math-eager",
        "fp32-gemm",
        "high",
        957.8,
        0.36,
        "GEMMs compute in fp32 on CUDA cores.",
        "Cast once, or use a fused backend: torch.backends.cuda." + "allow_fp16_bf16_reduction_math_sdp" * 3,
    ),
    (
        "sdpa-math-eager",
        "mask-rebuilt",
        "high",
        421.0,
        0.16,
        "The causal mask is made anew in each call.",
        "Build it once.",
    ),
    (
        "attention-naive-eager",
        "out-of-place",
        "medium",
        128.0,
        0.12,
        "masked_fill clones its input.",
        "Use masked_fill_; see torch.backends.cuda." + "allow_fp16_bf16_reduction_math_sdp" * 3,
    ),
    ("attention-naive-eager", "low-occupancy", "info", 900.0, 0.8, "A kernel for information alone.", ""),
)


SAME = {  # what all activities have in common here
    "device": 0,
    "stream": 7,
    "launch_duration_us": 5.0,
    "range": 0,
    "grid": [2, 66, 1],
    "block": [384, 1, 1],
    "registers_per_thread": 168,
    "shared_memory_bytes": 213188,
    "occupancy_percent": 19.0,
    "bytes": None,
    "graph": False,
}


def forward(steps: Sequence[Step], factor: float = 1.0) -> tuple[list[dict], list[dict]]:
    """(activities, calls) of one forward; each launch takes 6 µs of CPU, an op around it 2 µs more at either end."""
    acts: list[dict] = []
    calls: list[dict] = []
    clock, device_free = 5.0, 30.0

    def call(depth, parent, category, name, start, duration, **more):
        row = {
            "depth": depth,
            "parent": parent,
            "position": len(calls),
            "category": category,
            "name": name,
            "start_us": start,
        }
        row.update(duration_us=duration, self_us=duration, kernels=0, self_device_time_us=0.0, correlation=None)
        row.update(inputs=None)
        calls.append({**row, **more})
        return len(calls) - 1

    for step in steps:
        length = 4.0 + 6.0 * len(step.device) + (4.0 if step.inner else 0.0)
        tensors = [{"type": "float", "shape": shape} for shape in ([8, 16, 1024, 64], [8, 16, 64, 1024])]
        outer = call(0, None, "op", step.op, clock, length, inputs=tensors, self_us=4.0)
        holder, depth, inside = outer, 1, clock + 2.0
        if step.inner:
            holder = call(1, outer, "op", step.inner, clock + 2, length - 4, self_us=4.0)
            depth, inside = 2, inside + 2.0
        path = [step.op, step.inner] if step.inner else [step.op]
        for category, name, family, duration in step.device:
            correlation = 100 + len(calls)
            api = "cudaLaunchKernel" if category == "kernel" else "cudaMemsetAsync"
            call(depth, holder, "runtime", api, inside, 5.0, correlation=correlation, kernels=None)
            start = max(device_free, inside + 7.0)
            device_free = start + duration * factor + 1.0
            acts.append(
                {"position": len(acts), "category": category, "name": name, "family": family, "op_path": path}
                | {"start_us": start, "duration_us": duration * factor, "correlation": correlation}
                | {"launch_api": api, "launch_start_us": inside, "launch_delay_us": start - inside}
                | {"op": step.inner or step.op}
                | SAME
            )
            calls[holder]["kernels"] += category == "kernel"
            calls[holder]["self_device_time_us"] += duration * factor
            inside += 6.0
        clock += length + 1.5
    return acts, calls


def write_trace(path: Path, made: Made) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_trace(made.steps))


@cache
def _trace(steps: tuple[Step, ...]) -> bytes:
    """The gzipped trace of one forward."""
    acts, calls = forward(steps)
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": c["name"],
            "ts": c["start_us"],
            "dur": c["duration_us"],
            "pid": 1,
            "tid": 1,
        }
        for c in calls
    ] + [
        {
            "ph": "X",
            "cat": a["category"],
            "name": a["name"],
            "ts": a["start_us"],
            "dur": a["duration_us"],
            "pid": 0,
            "tid": 7,
        }
        for a in acts
    ]
    return gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode(), mtime=0)


def case_row(run: str, made: Made, acts: list[dict], calls: list[dict], **more) -> dict:
    device = sum(a["duration_us"] for a in acts)
    number = {c: sum(a["category"] == c for a in acts) for c in ("kernel", "memcpy", "memset")}
    row = {
        "run": run,
        "case": made.case,
        "process": 1,
        "workload": made.workload,
        "variant": made.variant,
        "mode": made.mode,
    }
    row |= {"dtype": "bfloat16", "params": {"batch": "8", "seq": "1024"}, "status": "ok", "reason": None}
    row |= {
        "kernels": number["kernel"],
        "memcpys": number["memcpy"],
        "memsets": number["memset"],
        "launches": len(acts),
    }
    row |= {"cpu_time_us": calls[-1]["start_us"] + 20.0, "device_time_us": device, "device_busy_us": device}
    row |= {"forward_time_us": device + 20, "forward_p05_us": device + 15, "forward_p95_us": device + 40}
    row |= {"first_call_us": 250000.0, "inductor_cache": None, "peak_memory_bytes": 5 * 2**28, "flops": 34359738368.0}
    row |= {
        "relative_error": 0.0021,
        "device": "NVIDIA H200",
        "device_type": "cuda",
        "torch": "2.11.0+cu130",
        "cuda": "13.0",
    }
    row |= {
        "cudnn": "91200",
        "driver": "580.95.05",
        "image": None,
        "started_utc": "2026-10-01T08:00:00Z",
        "warnings": [],
    }
    return row | {"trace_path": None} | more


RUNS = (
    {
        "run": "h200",
        "kind": "recorded",
        "description": "NVIDIA H200, recorded",
        "device": "NVIDIA H200",
        "torch": "2.11.0+cu130",
    },
    {
        "run": "a100-published",
        "kind": "published",
        "description": "Published figures",
        "device": "NVIDIA A100-SXM4-80GB",
    },
)


def run_row(given: dict) -> dict:
    row = {
        "image": None,
        "image_digest": None,
        "device_type": "cuda",
        "capability": "9.0",
        "driver": "580.95.05",
        "torch": None,
    }
    row |= {
        "cuda": "13.0",
        "cudnn": "91200",
        "environment": {"python": "3.12.3"},
        "device_properties": None,
        "reason": None,
    }
    return row | {"recorded_utc": "2026-10-01T08:00:00Z", "source": None, "status": "ok"} | given


#: The headline's cases, the slower first, and what it calls them.
LABELS = {"sdpa-math-eager": "SDPA’s math backend", "attention-inplace-eager": "In-place attention"}


def build(folder: Path, cases=CASES, runs=RUNS, edition: str = "test", factors=(1.0,), forwards: int = 3) -> Path:
    """Write an edition folder with those cases on those runs; published runs have only the headline's two figures."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[dict]] = {k: [] for k in ("cases", "activities", "calls", "ranges", "ops", "samples")}
    rows |= {"expectations": [], "published": [], "findings": _findings(cases, runs)}
    for i, run in enumerate(runs):
        for made in cases:
            if run["kind"] == "published":
                _published(rows, run["run"], made)
            else:
                _measured(rows, folder, run["run"], made, factors[i % len(factors)], forwards)
                rows["cases"][-1]["device"] = run["device"]
    for name, listed in rows.items():
        if listed:
            schema = CASE_COLUMNS if name == "cases" else None
            pq.write_table(pa.Table.from_pylist(listed, schema=schema), folder / f"{name}.parquet")
    specs = [
        {
            "case": m.case,
            "workload": m.workload,
            "variant": m.variant,
            "mode": m.mode,
            "params": {"batch": 8, "seq": 1024},
        }
        | {"cpu_params": {}, "annotation": m.annotation, "note": None, "label": LABELS.get(m.case)}
        for m in cases
    ]
    about = {
        "schema": SCHEMA,
        "edition": edition,
        "created_utc": "2026-11-29T15:00:00Z",
        "runs": [run_row(r) for r in runs],
    }
    about["report"] = {"title": "Kernelbook", "headline": [*LABELS], "baseline_run": ""}
    about |= {"left_out": [{"run": "torch-2.13", "reason": "needs --use-singularity"}], "cases": specs, "words": []}
    (folder / "edition.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


PUBLISHED = {
    "attention-inplace-eager": (5, 0, 1955.0),
    "sdpa-math-eager": (20, 0, 7239.0),
    "linear-eager": (1, 0, None),
}


def _findings(cases, runs) -> list[dict]:
    names = ("case", "rule", "severity", "time_us", "share", "text", "remedy")
    present = {made.case for made in cases}
    first = runs[0]["run"]
    return [
        {"run": first, "evidence": ""} | dict(zip(names, row, strict=True)) for row in FINDINGS if row[0] in present
    ]


def _published(rows: dict, run: str, made: Made) -> None:
    if made.case not in PUBLISHED:
        return
    kernels, memcpys, device = PUBLISHED[made.case]
    keys = {"run": run, "case": made.case}
    empty = case_row(run, made, [], [{"start_us": 0.0}])
    row = dict.fromkeys(empty) | keys | {"process": 1, "workload": made.workload, "status": "ok", "warnings": []}
    rows["cases"].append(row | {"kernels": kernels, "memcpys": memcpys, "device_time_us": device})
    source = "Profiling in PyTorch, part 3"
    rows["published"].append(
        keys | {"figure": "kernels", "value": float(kernels), "unit": "per forward", "source": source}
    )


def _measured(rows: dict, folder: Path, run: str, made: Made, factor: float, forwards: int) -> None:
    acts, calls = forward(made.steps, factor)
    keys = {"run": run, "case": made.case, "process": 1}
    trace = folder.parent / "traces" / f"{len(rows['cases'])}.json.gz"
    write_trace(trace, made)
    rows["cases"].append(case_row(run, made, acts, calls, trace_path=str(trace)))
    for index in range(forwards):
        start = 1000.0 + 5000.0 * index
        shown = index == 1 or forwards == 1
        moved = [a | {"start_us": a["start_us"] + start, "launch_start_us": a["launch_start_us"] + start} for a in acts]
        rows["activities"] += [keys | {"index": index, "representative": shown} | a for a in moved]
        rows["calls"] += [keys | {"index": index, "representative": shown} | c for c in calls]
        times = {"start_us": start, "cpu_time_us": calls[-1]["start_us"] + 20.0, "kernels": len(acts)}
        rows["ranges"].append(
            keys
            | {"annotation": made.annotation, "index": index, "representative": shown}
            | times
            | {"device_time_us": sum(a["duration_us"] for a in acts), "device_busy_us": None, "forward": True}
        )
    total = sum(a["duration_us"] for a in acts)
    times = [total + 20 + (i * 7919 % 13) for i in range(30)]
    rows["cases"][-1]["forward_times_us"] = times
    rows["samples"] += [keys | {"index": i, "forward_time_us": time} for i, time in enumerate(times)]
    for name in dict.fromkeys(c["name"] for c in calls if c["category"] == "op"):
        same = [c for c in calls if c["name"] == name and c["category"] == "op"]
        figures = {"count": len(same), "cpu_time_us": sum(c["duration_us"] for c in same)}
        figures |= {"self_cpu_time_us": sum(c["self_us"] for c in same), "device_time_us": None}
        figures |= {"self_device_time_us": sum(c["self_device_time_us"] for c in same)}
        rows["ops"].append(keys | {"name": name} | figures | {"kernels": sum(c["kernels"] for c in same)})
    for word, expected, observed, verdict, evidence in made.guesses:
        judged = {"run": run, "case": made.case, "word": word, "expected": expected, "observed": observed}
        rows["expectations"].append(judged | {"verdict": verdict, "evidence": evidence})
