"""From a case to a forward: finds the workload's function, makes its inputs, sets its mode."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from workloads import Context, Unsupported, Workload, gpu_remedy


def find_workload(name: str) -> Callable[..., Any]:
    """The function that a workload's name stands for.

    name: `attention` (a file of this package and the function of that name), `package.module:function`, or
        `path/to/file.py:function`; `function` may be nested (`Blocks.make`).

    Raises ValueError, which says what is missing and what there is.
    """
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        module, attribute = _built_in(name), name
    elif module_name.endswith(".py"):
        module = _from_file(Path(module_name))
    else:
        module = importlib.import_module(module_name)
    target: Any = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            there = ", ".join(sorted(key for key in vars(target) if not key.startswith("_"))) or "nothing"
            raise ValueError(f'workload "{name}" has no "{part}": it has {there}')
        target = getattr(target, part)
    if not callable(target):
        raise ValueError(f'workload "{name}" must be a function, got {type(target).__name__}')
    return target


def _built_in(name: str) -> ModuleType:
    folder = Path(__file__).resolve().parents[1]
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "sdpa_backends"))
    if name not in names:
        raise ValueError(f'there is no workload "{name}": use {", ".join(names)}, or path/to/file.py:function')
    return importlib.import_module(f"workloads.{name}")


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f'there is no file "{path}": the path of a workload is relative to the folder you start in')
    # Registered in sys.modules, so that the file may define dataclasses and be pickled.
    spec = importlib.util.spec_from_file_location(f"workload_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f'"{path}" is no Python file: its name must end in .py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def in_order(function: Callable[..., Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters in the order of the function's signature, any others last."""
    taken = [key for key in inspect.signature(function).parameters if key in params]
    return {key: params[key] for key in dict.fromkeys([*taken, *params])}


def build(case: dict[str, Any], params: dict[str, Any], device: torch.device) -> Workload:
    """Find the workload's function and call it. Raises what `find_workload` and `call` raise."""
    return call(find_workload(case["workload"]), case, params, device)


def call(
    function: Callable[..., Any],
    case: dict[str, Any],
    params: dict[str, Any],
    device: torch.device,
    rank: int = 0,
    world_size: int = 1,
) -> Workload:
    """Seed torch, the same on every rank, then make the workload's inputs on the device.

    Raises ValueError for parameters that the function does not take, TypeError if it returns something else.
    """
    context = Context(case["variant"], device, getattr(torch, case["dtype"]), case["seed"], rank, world_size)
    signature = inspect.signature(function)
    try:
        signature.bind(context, **params)
    except TypeError as error:
        takes = ", ".join(list(signature.parameters)[1:]) or "none"
        raise ValueError(f'params of workload "{case["workload"]}": {error}; it takes {takes}') from error
    _set_tf32(case.get("tf32"))
    torch.manual_seed(case["seed"])
    made = function(context, **params)
    if isinstance(made, tuple) and not isinstance(made, Workload) and 2 <= len(made) <= 3:
        made = Workload(*made)
    if not isinstance(made, Workload):
        raise TypeError(f'workload "{case["workload"]}" must return a Workload, got {type(made).__name__}')
    return made


def in_mode(case: dict[str, Any], workload: Workload, device: torch.device) -> Callable[..., Any]:
    """The forward in the case's mode: as it is; through `torch.compile` with compile_options; or as a CUDA graph."""
    if case["mode"] == "compile":
        return torch.compile(workload.forward, **case["compile_options"])
    if case["mode"] == "graph":
        if device.type != "cuda":
            raise Unsupported(f"CUDA graphs run on a GPU alone and the device is {device.type}: {gpu_remedy()}")
        return _graphed(workload)
    return workload.forward


def _graphed(workload: Workload) -> Callable[..., Any]:
    """A function that replays one forward on the workload's inputs; its first call records the graph.

    As in torch's notes on CUDA graphs: warm up on a side stream, then capture.
    """
    graph = torch.cuda.CUDAGraph()
    results: list[Any] = []

    def record() -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                workload.forward(*workload.inputs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            results.append(workload.forward(*workload.inputs))

    def replay(*_: Any) -> Any:
        if not results:
            record()
        graph.replay()
        return results[0]

    return replay


def _set_tf32(allowed: bool | None) -> None:
    """Let fp32 products and convolutions use TF32, or forbid it; None leaves torch's default."""
    if allowed is not None:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed
