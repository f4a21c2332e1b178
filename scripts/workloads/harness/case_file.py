"""The case file that `profile_case.py` reads, checked and with its defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DEFAULTS: dict[str, Any] = {
    "variant": "plain",
    "mode": "eager",
    "compile_options": {},
    "params": {},
    "cpu_params": {},
    "dtype": "bfloat16",
    "warmup": 3,
    "schedule": {"wait": 1, "warmup": 1, "active": 10},
    "samples": 50,
    "timeout_s": 300,
    "seed": 0,
    "retries": 1,
    "flush_l2": False,
    "tf32": None,
    "ranks": None,
    "counters": False,
    "ncu": None,
}
COMPILE_OPTIONS = ("backend", "dynamic", "fullgraph", "mode", "options")
MODES = ("eager", "compile", "graph")
DTYPES = ("bfloat16", "float16", "float32", "float64")


class CaseError(ValueError):
    """The case file has mistakes; the message lists each one with its remedy."""


def load_case(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the case as written, the case with its defaults).

    Raises CaseError if the file cannot be read, is not JSON or has mistakes.
    """
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseError(f"{path}: cannot be read ({error.strerror}): name an existing case file") from error
    except ValueError as error:
        raise CaseError(f"{path}: is not JSON ({error})") from error
    if not isinstance(written, dict):
        raise CaseError(f"{path}: must hold one JSON object, got {type(written).__name__}")
    case = {**DEFAULTS, **written}
    mistakes = list(_mistakes(case))
    if mistakes:
        raise CaseError("\n".join(f"{path}: {mistake}" for mistake in mistakes))
    case["schedule"] = {**DEFAULTS["schedule"], **case["schedule"]}
    return written, case


def _mistakes(case: dict[str, Any]) -> Any:
    for key in ("case", "workload", "variant", "annotation"):
        if not isinstance(case.get(key), str) or not case[key]:
            yield f"{key}: must be a text, got {json.dumps(case.get(key))}"
    for key in ("params", "cpu_params", "compile_options", "schedule"):
        if not isinstance(case[key], dict):
            yield f"{key}: must be an object, got {json.dumps(case[key])}"
    if case["mode"] not in MODES:
        yield f"mode: must be one of {', '.join(MODES)}, got {json.dumps(case['mode'])}"
    if case["tf32"] not in (None, True, False):
        yield f"tf32: must be true or false, got {json.dumps(case['tf32'])}"
    if not isinstance(case["counters"], bool):
        yield f"counters: must be true or false, got {json.dumps(case['counters'])}"
    if not isinstance(case["ncu"], (str, type(None))):
        yield f"ncu: must be a path, got {json.dumps(case['ncu'])}"
    if case["dtype"] not in DTYPES:
        yield f"dtype: must be one of {', '.join(DTYPES)}, got {json.dumps(case['dtype'])}"
    yield from _number_mistakes(case)


def _number_mistakes(case: dict[str, Any]) -> Any:
    least = {"warmup": 0, "samples": 1, "retries": 0, "seed": 0}
    for key, minimum in least.items():
        if not _whole(case[key], minimum):
            yield f"{key}: must be a whole number, at least {minimum}, got {json.dumps(case[key])}"
    if case["ranks"] is not None and not _whole(case["ranks"], 1):
        yield f"ranks: must be a whole number, at least 1, got {json.dumps(case['ranks'])}"
    seconds = case["timeout_s"]
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        yield f"timeout_s: must be seconds above 0, got {json.dumps(seconds)}"
    if isinstance(case["schedule"], dict):
        for key, value in case["schedule"].items():
            if key not in DEFAULTS["schedule"]:
                yield f"schedule.{key}: is not known; use wait, warmup, active"
            elif not _whole(value, 1 if key == "active" else 0):
                yield f"schedule.{key}: must be a whole number, got {json.dumps(value)}"
    if isinstance(case["compile_options"], dict):
        for key in sorted(set(case["compile_options"]) - set(COMPILE_OPTIONS)):
            yield f"compile_options.{key}: is not known; use {', '.join(COMPILE_OPTIONS)}"


def _whole(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum
