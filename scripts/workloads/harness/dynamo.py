"""What torch.compile did with a forward: graphs, graph breaks, recompilations, and whether compiled code ran at all."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

REGION = "Torch-Compiled Region"  # the range around each compiled piece of code, from torch 2.2 on
LOGGERS = ("torch", "torch._dynamo", "torch._inductor", "torch._functorch")
EAGER_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept")
SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS")
MOST_MESSAGES = 5
LONGEST = 300


class _WarningListener(logging.Handler):
    """Keeps the first warnings that torch logs, one line each."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = _one_line(record.getMessage())
        if len(self.messages) < MOST_MESSAGES and message not in self.messages:
            self.messages.append(message)


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Collect the warnings that torch.compile logs in this context; they are still printed."""
    listener = _WarningListener()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(listener)
    try:
        yield listener.messages
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(listener)


def describe(averages: Sequence[dict[str, Any]], messages: Sequence[str]) -> dict[str, Any]:
    """Dynamo's counters so far, the compiled regions in the profiled forwards, and the warnings that torch logged.

    graph_breaks: reason -> count. recompiles: compilations of a frame after its first one, including failed ones.
    A value is None if this torch does not count it.
    """
    utils, frames = sys.modules.get("torch._dynamo.utils"), sys.modules.get("torch._dynamo.convert_frame")
    counters = getattr(utils, "counters", None)
    compilations = getattr(frames, "FRAME_COMPILE_COUNTER", None)
    breaks: dict[str, int] = {}
    for reason, count in dict(counters["graph_break"]).items() if counters is not None else ():
        line = _one_line(str(reason).split("\n  Hint")[0])
        breaks[line] = breaks.get(line, 0) + count
    return {
        "graphs": None if counters is None else counters["stats"].get("unique_graphs", 0),
        "graph_breaks": None if counters is None else breaks,
        "recompiles": None if compilations is None else sum(count - 1 for count in compilations.values() if count > 1),
        "regions": sum(row["count"] for row in averages if row["name"].startswith(REGION)),
        "log": list(messages),
    }


def judge(case: dict[str, Any], record: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Warnings (code, count, message) about a case of mode compile that did not run as one compiled forward.

    record: that of the case so far, with its profile and `dynamo` (see `describe`).
    Codes: not_compiled, graph_breaks, recompiled.
    """
    compiled, forwards = record["dynamo"], record["profiled_forwards"]
    logged = f"; torch logged: {compiled['log'][0]}" if compiled["log"] else ""
    regions, backend = compiled["regions"], case["compile_options"].get("backend")
    if backend in EAGER_BACKENDS:
        yield "not_compiled", forwards, f"backend {backend} compiles nothing: it runs the captured ops one by one"
    elif compiled["graphs"] == 0 or (regions < forwards and _marks_regions(record["environment"]["torch"])):
        if regions:
            text = f"{forwards} profiled forwards ran only {regions} compiled regions: some ran eagerly"
        else:
            text = "the forward ran eagerly: no compiled region is in the profiled forwards"
        set_to = [f"{name}={os.environ[name]}" for name in SWITCHES if os.environ.get(name)]
        counted = f"{compiled['graphs']} graphs were captured, {compiled['recompiles']} compilations repeated"
        yield "not_compiled", forwards, f"{text} ({', '.join([counted, *set_to])}){logged}"
    if compiled["graph_breaks"]:
        total = sum(compiled["graph_breaks"].values())
        text = (
            f"torch.compile broke the forward into {compiled['graphs']} graphs: {'; '.join(compiled['graph_breaks'])}"
        )
        yield "graph_breaks", total, text
    if compiled["recompiles"]:
        text = f"torch.compile compiled the same code again (recompilations: {compiled['recompiles']})"
        yield "recompiled", compiled["recompiles"], f"{text}, although the inputs stay the same{logged}"


def _marks_regions(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and tuple(map(int, numbers.groups())) >= (2, 2)


def _one_line(text: str) -> str:
    """The message without its stack trace, the source lines that torch quotes after `#`, and folders of files."""
    lines = (re.sub(r"\s+#.*", "", line) for line in text.split("User stack trace")[0].splitlines())
    line = re.sub(r"(?<![\w:/])/(?:[^\s/'\"()]+/)+", "", " ".join(" ".join(lines).split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
