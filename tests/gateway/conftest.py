"""What every test of the gateway needs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official clients want a key in the environment. The servers of these tests take any."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "only-for-this-server")
