"""Why Inductor did not fuse nodes of its graph: its log `fusion` (TORCH_LOGS=fusion), heard while it compiles.

The logger of that artifact neither prints nor propagates unless TORCH_LOGS asks for it, so listening changes no output.
Graphs that come from Inductor's cache are not scheduled again, and log nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

LOGGER = "torch._inductor.scheduler.__fusion"
#: Inductor's class of these messages, and the start of the message before each graph, in torch 2.2 to 2.13.
REFUSAL, NEXT_GRAPH = "WhyNoFuse", "===== attempting fusion (1/"
#: A reason that costs nothing: fusing such nodes would spare no traffic.
UNRELATED = "no shared data"
MOST_REASONS, LONGEST = 200, 300


class _Listener(logging.Handler):
    """Keeps the distinct reasons of each graph: one list a graph, in the order of compiling."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.graphs: list[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if type(record.msg).__name__ == REFUSAL:
            self._keep(record.getMessage())
        elif isinstance(record.msg, str) and record.getMessage().startswith(NEXT_GRAPH):
            self.graphs.append([])

    def _keep(self, message: str) -> None:
        reason = " ".join(message.split())[:LONGEST]
        if not self.graphs:
            self.graphs.append([])
        kept = self.graphs[-1]
        if len(kept) < MOST_REASONS and not reason.endswith(UNRELATED) and reason not in kept:
            kept.append(reason)


@contextlib.contextmanager
def listening() -> Iterator[list[list[str]]]:
    """Collect for each graph that Inductor schedules meanwhile why it did not fuse nodes."""
    listener, logger = _Listener(), logging.getLogger(LOGGER)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        yield listener.graphs
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
