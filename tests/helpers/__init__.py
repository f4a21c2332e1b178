"""What tests of several folders share."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def default_cases() -> set[str]:
    """Cases of config.yaml that are on by default. The recorded H200 run also has others."""
    cases = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["cases"]
    return {name for name, case in cases.items() if case.get("enabled", True)}
