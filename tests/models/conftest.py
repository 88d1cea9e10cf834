"""What every test of the model rung starts from: keys that open nothing, and nothing of the machine's own settings."""

from __future__ import annotations

import os

import pytest

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
SECRET = "sk-test-0123456789abcdefghij"  # noqa: S105 - shaped as a key, so that masking has something to find


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The providers' keys are set, and no base URL is: a test that reaches beyond this machine finds no door."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
