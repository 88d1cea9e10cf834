"""A compacted session really goes on in the client: it sends the summary, and no result without its call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.clients.real_clients import RealClient
from tests.models.loopback import Got, Loopback, Served

_CLIENTS = ("claude", "pi", "codex", "opencode", "gemini", "cline")
_STEPS = 12
_LONG_RESULT = re.compile(r"197\\+n198\\+n199")
"""What stands in the middle of every result of a call, however often its line ends are escaped."""


class _Conversation:
    """What the provider answers: some calls, then an end. Requests without tools, as for a title, are not counted."""

    def __init__(self) -> None:
        self.requests: list[Got] = []
        self.client: RealClient | None = None

    def answer(self, got: Got) -> Served:
        if not got.body.get("tools"):
            return Served(text="A title")
        self.requests.append(got)
        number = len(self.requests)
        assert self.client is not None
        if number % _STEPS == 0:
            tokens = (190_000 if number == _STEPS else 5_000, 100)
            return Served(text=f"Counted {number} times.", tokens=tokens, call=(str(number), "", {}))
        return Served(finish="tool", text=f"step {number}", call=self.client.build_call(number), tokens=(5_000, 100))


@pytest.mark.parametrize("name", _CLIENTS)
def test_client_goes_on_from_the_compacted_session(
    name: str, tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = _Conversation()
    with Loopback(script=conversation.answer) as provider:
        client = RealClient(name, tmp_path / "home", tmp_path / "work", provider.url)
        conversation.client = client
        client.start("Count for me, and never touch config.py.")
        assert len(conversation.requests) == _STEPS
        monkeypatch.setenv("HOME", str(client.home))
        monkeypatch.chdir(client.work)
        (found,) = tenfold.run_ok("find", "--here", "--json").objects
        applied = tenfold.run_json("apply", found["id"], "--to", "15%")
        assert found["id"] in applied["resume"]
        last = conversation.requests[-1]
        client.resume(found["id"], "Go on, please.", lambda: len(conversation.requests) >= 2 * _STEPS)
        resumed = conversation.requests[_STEPS]
    assert "tenfold" in resumed.prompt
    assert "never touch config.py" in resumed.prompt
    assert "Go on, please." in resumed.prompt
    history = _get_history(resumed)
    assert len(_LONG_RESULT.findall(json.dumps(_get_history(last)))) == _STEPS - 1
    assert _LONG_RESULT.findall(json.dumps(history)) == []
    assert _find_unpaired(history) == set()
    assert len(conversation.requests) == 2 * _STEPS, "it went on with calls, and compacted nothing by itself"


@pytest.mark.parametrize("name", _CLIENTS)
def test_undo_gives_the_client_its_session_back(
    name: str, tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = _Conversation()
    with Loopback(script=conversation.answer) as provider:
        client = RealClient(name, tmp_path / "home", tmp_path / "work", provider.url)
        conversation.client = client
        client.start("Count for me, and never touch config.py.")
        monkeypatch.setenv("HOME", str(client.home))
        monkeypatch.chdir(client.work)
        (found,) = tenfold.run_ok("find", "--here", "--json").objects
        tenfold.run_ok("apply", found["id"], "--to", "15%")
        tenfold.run_ok("apply", found["id"], "--undo")
        last = conversation.requests[-1]
        client.resume(found["id"], "Go on, please.", lambda: len(conversation.requests) >= 2 * _STEPS)
        resumed = conversation.requests[_STEPS]
    assert _find_ids(_get_history(last)) <= _find_ids(_get_history(resumed))


def _get_history(got: Got) -> list[Any]:
    return list(got.body.get("messages") or got.body.get("input") or got.body.get("contents") or [])


def _find_ids(history: list[Any]) -> set[str]:
    return set(re.findall(r'"(?:call_id|tool_call_id|id)": "((?:call|toolu)_\w+)"', json.dumps(history)))


def _find_unpaired(history: list[Any]) -> set[str]:
    """The ids of calls without a result, or of results without a call before them."""
    open_calls: set[str] = set()
    unpaired: set[str] = set()
    for kind, id_ in _list_calls(history):
        if kind == "call":
            open_calls.add(id_)
        elif id_ in open_calls:
            open_calls.discard(id_)
        else:
            unpaired.add(id_)
    return unpaired | open_calls


def _list_calls(history: list[Any]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for each in history:
        match each:
            case {"type": "function_call" | "custom_tool_call", "call_id": str(id_)}:
                out.append(("call", id_))
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(id_)}:
                out.append(("result", id_))
            case {"role": "user" | "assistant", "content": list(blocks)} if any("tool_" in b["type"] for b in blocks):
                out += [("call", block["id"]) for block in blocks if block["type"] == "tool_use"]
                out += [("result", block["tool_use_id"]) for block in blocks if block["type"] == "tool_result"]
            case {"role": "tool", "tool_call_id": str(id_)}:
                out.append(("result", id_))
            case {"tool_calls": list(calls)}:
                out += [("call", call["id"]) for call in calls]
            case {"parts": list(parts)}:
                for part in parts:
                    out += [("call", part["functionCall"]["name"])] if "functionCall" in part else []
                    out += [("result", part["functionResponse"]["name"])] if "functionResponse" in part else []
    return out
