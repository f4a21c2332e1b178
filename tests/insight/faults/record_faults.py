"""Record common performance faults on a CUDA GPU, each beside a healthy counterpart that does the same work.

Usage: record_faults.py FOLDER [NAME...]. Each case writes NAME.json.gz, a torch.profiler trace of four forwards named
`fwd`, and a line of times.tsv: name, counterpart or "-", median of 20 unprofiled forwards in µs.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's docs write it
from torch import nn

BF16 = torch.bfloat16
Forward = Callable[[], object]
CASES: dict[str, tuple[str, Callable[[], Forward]]] = {}


def case(healthy: str = "-") -> Callable[[Callable[[], Forward]], Callable[[], Forward]]:
    """Register the builder of a forward under its name. healthy: the counterpart of a fault."""

    def register(build: Callable[[], Forward]) -> Callable[[], Forward]:
        CASES[build.__name__] = (healthy, build)
        return build

    return register


def rand(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def product(m: int, n: int, k: int, dtype: torch.dtype = BF16) -> Forward:
    x, layer = rand(m, k, dtype=dtype), nn.Linear(k, n, bias=False, device="cuda", dtype=dtype)
    return lambda: layer(x)


@case("gemm_vocab_padded")
def gemm_vocab_odd() -> Forward:
    return product(4096, 50257, 2048)


@case()
def gemm_vocab_padded() -> Forward:
    return product(4096, 50304, 2048)


@case("gemm_fp16_k_even")
def gemm_fp16_k_odd() -> Forward:
    return product(8192, 4096, 1023, torch.float16)


@case()
def gemm_fp16_k_even() -> Forward:
    return product(8192, 4096, 1024, torch.float16)


@case("gemm_tf32")
def gemm_fp32_no_tf32() -> Forward:
    torch.backends.cuda.matmul.allow_tf32 = False
    return product(4096, 4096, 4096, torch.float32)


@case()
def gemm_tf32() -> Forward:
    forward = product(4096, 4096, 4096, torch.float32)

    def run():
        torch.backends.cuda.matmul.allow_tf32 = True
        out = forward()
        torch.backends.cuda.matmul.allow_tf32 = False
        return out

    return run


@case("gemm_fp32_intended")
def gemm_fp64_by_accident() -> Forward:
    x, w = rand(2048, 2048, dtype=torch.float32), rand(2048, 2048, dtype=torch.float64)
    return lambda: x.double() @ w


@case()
def gemm_fp32_intended() -> Forward:
    return product(2048, 2048, 2048, torch.float32)


@case("gemm_full_wave")
def gemm_tail_wave() -> Forward:
    return product(133 * 128, 256, 8192)


@case()
def gemm_full_wave() -> Forward:
    return product(132 * 128, 256, 8192)


@case("casts_none")
def casts_up_and_down() -> Forward:
    x, w = rand(16384, 4096), rand(4096)

    def run():
        y = x
        for _ in range(4):
            y = (y.float() * w.float()).to(BF16)
            y = F.silu(y.float()).to(BF16)
        return y

    return run


@case()
def casts_none() -> Forward:
    x, w = rand(16384, 4096), rand(4096)

    def run():
        y = x
        for _ in range(4):
            y = F.silu(y * w)
        return y

    return run


def layers(dtype: torch.dtype) -> nn.Module:
    return nn.Sequential(*[nn.Linear(4096, 4096, bias=False, device="cuda", dtype=dtype) for _ in range(6)])


@case("bf16_weights")
def autocast_fp32_weights() -> Forward:
    model, x = layers(torch.float32), rand(256, 4096, dtype=torch.float32)

    def run():
        with torch.autocast("cuda", BF16):
            return model(x)

    return run


@case()
def bf16_weights() -> Forward:
    model, x = layers(BF16), rand(256, 4096)
    return lambda: model(x)


def convolutions(memory_format: torch.memory_format) -> Forward:
    model = nn.Sequential(*[nn.Conv2d(256, 256, 3, padding=1, bias=False) for _ in range(4)])
    model = model.to("cuda", BF16).to(memory_format=memory_format)
    x = rand(32, 256, 56, 56).to(memory_format=memory_format)
    return lambda: model(x)


@case("conv_channels_last")
def conv_nchw() -> Forward:
    return convolutions(torch.contiguous_format)


@case()
def conv_channels_last() -> Forward:
    return convolutions(torch.channels_last)


@case("strided_views")
def contiguous_copies() -> Forward:
    x, w = rand(8, 16, 2048, 128), rand(16, 128, 128)

    def run():
        y = x
        for _ in range(3):
            y = torch.matmul(y.transpose(1, 2).contiguous().transpose(1, 2).contiguous(), w)
        return y

    return run


@case()
def strided_views() -> Forward:
    x, w = rand(8, 16, 2048, 128), rand(16, 128, 128)

    def run():
        y = x
        for _ in range(3):
            y = torch.matmul(y, w)
        return y

    return run


@case("rmsnorm_fused")
def rmsnorm_by_hand() -> Forward:
    x, w = rand(16384, 4096), rand(4096)
    return lambda: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(BF16) * w


@case()
def rmsnorm_fused() -> Forward:
    x, w = rand(16384, 4096), rand(4096)
    compiled = torch.compile(lambda x, w: F.rms_norm(x, (4096,), w, 1e-6))
    return lambda: compiled(x, w)


@case("softmax_fused")
def softmax_by_hand() -> Forward:
    x = rand(16384, 4096)

    def run():
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    return run


@case()
def softmax_fused() -> Forward:
    x = rand(16384, 4096)
    return lambda: F.softmax(x, -1)


@case("gelu_fused")
def gelu_by_hand() -> Forward:
    x = rand(16384, 4096)
    return lambda: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@case()
def gelu_fused() -> Forward:
    x = rand(16384, 4096)
    return lambda: F.gelu(x, approximate="tanh")


@case("loss_fused")
def loss_by_hand() -> Forward:
    x, target = rand(8192, 32000, dtype=torch.float32), torch.randint(32000, (8192,), device="cuda")

    def run():
        p = torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)
        return -torch.log(p.gather(1, target[:, None])).mean()

    return run


@case()
def loss_fused() -> Forward:
    x, target = rand(8192, 32000, dtype=torch.float32), torch.randint(32000, (8192,), device="cuda")
    return lambda: F.cross_entropy(x, target)


def adam(**options: bool) -> Forward:
    parameters = [nn.Parameter(rand(512, 512, dtype=torch.float32)) for _ in range(24)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, **options)
    return optimizer.step


@case("adam_fused")
def adam_loop() -> Forward:
    return adam(foreach=False, fused=False)


@case()
def adam_fused() -> Forward:
    return adam(fused=True)


@case("stays_on_gpu")
def cpu_in_forward() -> Forward:
    x, w = rand(4096, 4096), rand(4096, 4096)

    def run():
        y = x @ w
        scale = y[:64].float().cpu().abs().mean()
        return (y * scale.to("cuda")) @ w

    return run


@case()
def stays_on_gpu() -> Forward:
    x, w = rand(4096, 4096), rand(4096, 4096)

    def run():
        y = x @ w
        return (y * y[:64].float().abs().mean()) @ w

    return run


@case("copy_pinned_non_blocking")
def copy_pinned_blocking() -> Forward:
    host, w = torch.randn(64, 1024, 1024, dtype=BF16).pin_memory(), rand(4096, 4096)

    def run():
        y = w @ w
        x = host.to("cuda")
        return y.sum() + x[0, 0, 0]

    return run


@case()
def copy_pinned_non_blocking() -> Forward:
    host, w = torch.randn(64, 1024, 1024, dtype=BF16).pin_memory(), rand(4096, 4096)

    def run():
        y = w @ w
        x = host.to("cuda", non_blocking=True)
        return y.sum() + x[0, 0, 0]

    return run


def small_ops() -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    w = [rand(256, 256) for _ in range(30)]

    def forward(x: torch.Tensor) -> torch.Tensor:
        for weight in w:
            x = F.relu(x @ weight) * 0.1 + x
        return x

    return forward, rand(64, 256)


@case("small_kernels_graph")
def small_kernels() -> Forward:
    forward, x = small_ops()
    return lambda: forward(x)


@case()
def small_kernels_graph() -> Forward:
    forward, x = small_ops()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            forward(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward(x)
    return graph.replay


@case("compiled_once")
def recompiles() -> Forward:
    torch._dynamo.config.recompile_limit = 64
    compiled = torch.compile(lambda x: F.gelu(x * 2 + 1).sum(-1), dynamic=False)
    sizes = iter(range(512, 100000, 8))
    return lambda: compiled(rand(next(sizes), 1024))


@case()
def compiled_once() -> Forward:
    compiled = torch.compile(lambda x: F.gelu(x * 2 + 1).sum(-1), dynamic=False)
    return lambda: compiled(rand(512, 1024))


@case("one_graph")
def graph_breaks() -> Forward:
    w = [rand(1024, 1024) for _ in range(12)]

    def forward(x):
        for weight in w:
            x = torch.tanh(x @ weight)
            torch._dynamo.graph_break()
        return x

    compiled, x = torch.compile(forward), rand(1024, 1024)
    return lambda: compiled(x)


@case()
def one_graph() -> Forward:
    w = [rand(1024, 1024) for _ in range(12)]

    def forward(x):
        for weight in w:
            x = torch.tanh(x @ weight)
        return x

    compiled, x = torch.compile(forward), rand(1024, 1024)
    return lambda: compiled(x)


@case("compile_is_compiled")
def compile_is_eager() -> Forward:
    compiled = torch.compile(lambda x: F.gelu(x * 2 + 1, approximate="tanh") * x, backend="eager")
    x = rand(16384, 4096)
    return lambda: compiled(x)


@case()
def compile_is_compiled() -> Forward:
    compiled = torch.compile(lambda x: F.gelu(x * 2 + 1, approximate="tanh") * x)
    x = rand(16384, 4096)
    return lambda: compiled(x)


@case()
def cudagraphs_used() -> Forward:
    ws = [rand(256, 256) for _ in range(20)]

    def forward(x):
        for w in ws:
            x = torch.tanh(x @ w)
        return x

    compiled, x = torch.compile(forward, mode="reduce-overhead"), rand(64, 256)
    return lambda: compiled(x)


def attention(dtype: torch.dtype, masked: bool) -> Forward:
    q, k, v = (rand(8, 16, 2048, 64, dtype=dtype) for _ in range(3))
    mask = torch.ones(2048, 2048, dtype=torch.bool, device="cuda").tril() if masked else None
    return lambda: F.scaled_dot_product_attention(q, k, v, mask, is_causal=not masked)


@case("sdpa_causal")
def sdpa_dense_mask() -> Forward:
    return attention(BF16, True)


@case()
def sdpa_causal() -> Forward:
    return attention(BF16, False)


@case("sdpa_causal")
def sdpa_fp32() -> Forward:
    return attention(torch.float32, False)


@case("no_unused_product")
def unused_product() -> Forward:
    x, w = rand(8192, 4096), rand(4096, 4096)

    def run():
        x @ w.t()  # nothing reads it
        return F.gelu(x @ w)

    return run


@case()
def no_unused_product() -> Forward:
    x, w = rand(8192, 4096), rand(4096, 4096)
    return lambda: F.gelu(x @ w)


@case("no_synchronize")
def synchronize_in_forward() -> Forward:
    x, w = rand(1024, 1024), rand(1024, 1024)

    def run():
        y = x
        for _ in range(12):
            y = y @ w
            torch.cuda.synchronize()
        return y

    return run


@case()
def no_synchronize() -> Forward:
    x, w = rand(1024, 1024), rand(1024, 1024)

    def run():
        y = x
        for _ in range(12):
            y = y @ w
        return y

    return run


@case("no_python_between")
def python_between_launches() -> Forward:
    x, w = rand(1024, 1024), rand(1024, 1024)

    def run():
        y = x
        for _ in range(8):
            y = y @ w
            sum(i * i for i in range(8000))
        return y

    return run


@case()
def no_python_between() -> Forward:
    x, w = rand(1024, 1024), rand(1024, 1024)

    def run():
        y = x
        for _ in range(8):
            y = y @ w
        return y

    return run


@case("data_ready")
def slow_data_loader() -> Forward:
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            time.sleep(0.0005)
            return torch.randn(4096)

    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=16))
    w = rand(4096, 4096, dtype=torch.float32)
    return lambda: next(batches).to("cuda") @ w


@case()
def data_ready() -> Forward:
    batch, w = rand(16, 4096, dtype=torch.float32), rand(4096, 4096, dtype=torch.float32)
    return lambda: batch @ w


@case("qkv_together")
def qkv_apart() -> Forward:
    x = rand(2048, 1024)
    ws = [rand(1024, 1024) for _ in range(3)]
    return lambda: [x @ w for w in ws]


@case()
def qkv_together() -> Forward:
    x, w = rand(2048, 1024), rand(1024, 3072)
    return lambda: (x @ w).chunk(3, -1)


COLD = ("recompiles",)


def record(name: str, folder: Path) -> float:
    """Record one case; return the median of 20 unprofiled forwards in µs (nan for cases that are cold by nature)."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        forward = CASES[name][1]()
        median = float("nan")
        if name not in COLD:
            for _ in range(5):
                forward()
            torch.cuda.synchronize()
            times = []
            for _ in range(20):
                start = time.perf_counter()
                forward()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - start) * 1e6)
            median = statistics.median(times)
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        wait = 0 if name in COLD else 2
        schedule = torch.profiler.schedule(wait=0, warmup=wait, active=4, repeat=1)
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True) as profiler:
            for _ in range(wait + 4):
                with torch.profiler.record_function("fwd"):
                    forward()
                torch.cuda.synchronize()
                profiler.step()
        plain = folder / f"{name}.json"
        profiler.export_chrome_trace(str(plain))
    with gzip.GzipFile(folder / f"{name}.json.gz", "wb", 9, mtime=0) as file:
        file.write(plain.read_bytes())
    plain.unlink()
    return median


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    folder.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in names:
        median = record(name, folder)
        with (folder / "times.tsv").open("a") as file:
            file.write(f"{name}\t{CASES[name][0]}\t{median:.2f}\n")
        print(name, round(median, 2), (folder / f"{name}.json.gz").stat().st_size, flush=True)


if __name__ == "__main__":
    main()
