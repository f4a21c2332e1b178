"""Nothing here may reach the network or a real secret."""

import pytest


@pytest.fixture(autouse=True)
def _no_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELBOOK_WEBHOOK", raising=False)
