"""Moments as text."""

from __future__ import annotations

import datetime


def utc_now() -> str:
    """This second as 2026-11-29T15:00:00Z."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
