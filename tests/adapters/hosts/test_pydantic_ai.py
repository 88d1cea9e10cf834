"""The capability for pydantic-ai, with its own agents. tests/agent has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai", reason="make adapters installs it")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import tenfold
from tenfold.apps.agent.capability import Memory


class Scripted:
    """Answers by a text, and keeps what it saw."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[list[ModelMessage]] = []

    def answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Answers a request."""
        self.seen.append(list(messages))
        return ModelResponse([TextPart(self.text)])


def run(path: Path, scripted: Scripted, text: str) -> str:
    session = tenfold.open_session("one", model="gpt-4o", store=path / "s.db")
    memory = Memory(session, window=50_000)
    return Agent(FunctionModel(scripted.answer), capabilities=[memory]).run_sync(text).output


def test_a_new_process_without_the_history_goes_on_from_the_session(tmp_path: Path) -> None:
    run(tmp_path, Scripted("Noted."), "The code of the safe is 7731.")
    second = Scripted("It is 7731.")
    assert run(tmp_path, second, "Which code was it?") == "It is 7731."
    assert "7731" in str(second.seen[0])
    assert str(second.seen[0]).index("7731") < str(second.seen[0]).index("Which code was it?")
    path = tenfold.open_session("one", store=tmp_path / "s.db").view.path
    assert path.length == 4
