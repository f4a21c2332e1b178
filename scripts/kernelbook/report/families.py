"""Kernel families: their labels and colours in the report, in the order of the legend.

Colour is never the only sign: wide segments have the label, every segment has details, and memcpys and memsets are
hatched.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    key: str
    label: str
    light: str
    dark: str
    hatched: bool = False

    @property
    def inks(self) -> tuple[str, str]:
        """The ink for text on the light and on the dark theme's colour."""
        return ink(self.light), ink(self.dark)


def luminance(colour: str) -> float:
    """WCAG 2 relative luminance of `#rrggbb`, 0 to 1."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio, 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink(colour: str) -> str:
    """White if its contrast with the colour is at least 4.5, else near black."""
    return "#ffffff" if contrast(colour, "#ffffff") >= 4.5 else "#10131a"


FAMILIES = (
    Family("gemm", "GEMM", "#2f66a3", "#5b93d3"),
    Family("attention", "attention", "#2a9d8f", "#3fb8a9"),
    Family("softmax", "softmax", "#e3a13a", "#e8b05a"),
    Family("elementwise", "elementwise", "#aab6c5", "#8f9db0"),
    Family("copy", "copy / cast", "#c4522f", "#e27a58"),
    Family("fill", "fill / mask", "#85639f", "#a989c4"),
    Family("reduction", "reduction", "#8a9a3c", "#aaba5c"),
    Family("communication", "communication", "#b83a6f", "#db6797"),
    Family("other", "other", "#86694d", "#b19678"),
    Family("memcpy", "memcpy", "#c4522f", "#e27a58", hatched=True),
    Family("memset", "memset", "#5d6675", "#8b94a3", hatched=True),
    Family("unknown", "unknown", "#6d6f76", "#989aa2"),
)
BY_KEY = {family.key: family for family in FAMILIES}


def family_of(category: str, family: str | None) -> Family:
    """The family of an activity; memcpys and memsets form separate families. `copy/cast` has the key `copy`."""
    if category in ("memcpy", "memset"):
        return BY_KEY[category]
    key = (family or "unknown").lower().split("/")[0].strip()
    return BY_KEY.get(key, BY_KEY["unknown"])
