"""The line of a program's output that says why it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence


def last_words(lines: Sequence[str]) -> str:
    """The last line, without what container runtimes put before it."""
    prefixes = (
        r"^(FATAL|ERROR)\s*:\s*|While [a-z ]+: (?=.)|error fetching image to cache: |failed to get checksum for \S+: "
    )
    return re.sub(prefixes, "", lines[-1]) if lines else "it said nothing"
