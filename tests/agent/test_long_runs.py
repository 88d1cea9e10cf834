"""Hundreds of steps through the real clients, under every policy, in a small window and in a large one.

The server holds each request against the rules of the real APIs, which know nothing of this project.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from pydantic_ai.run import AgentRunResultEvent

from tenfold.apps.agent import Agent
from tenfold.config.policies import POLICIES
from tests.agent.working import (
    CLIENTS,
    DONE,
    RULE,
    TASK,
    Provider,
    assert_log_complete,
    get_blocks,
    make_agent,
    make_session,
)
from tests.models.conftest import SECRET
from tests.models.loopback import Got
from tests.thorough import IS_THOROUGH

pytestmark = pytest.mark.costly(12)

CHAT, RESPONSES, ANTHROPIC, GOOGLE = CLIENTS
SEVERAL = 20
SMALL, LARGE = 32_000, 200_000
SHAPES = {SMALL: (300, 4, 150, 600), LARGE: (300, 2, 250, 4_000) if IS_THOROUGH else (150, 2, 500, 8_000)}
"""Steps, bytes that count as a token, lines of a tool's result, bytes said with each step. All of it is more than 1.5
times the large window; bytes cost time, and many short steps cost the clients more of it than few long ones."""
LONGER = {RESPONSES: 2}
"""Times as many lines: OpenAI's client of the Responses API takes time for each item of a list, whatever its length."""
RUNS = (
    # What a run takes is the client's time, for each item of the view: 4 s by Anthropic's, 6 s by Google's and OpenAI's
    # of Chat, 9 s by that of the Responses API where the policy keeps few items, and two minutes where it keeps many
    # (`tiers`). A stream takes half as much again.
    ("tenfold", SMALL, ANTHROPIC, "invoke"),
    ("tenfold", LARGE, ANTHROPIC, "invoke"),
    ("tiers", SMALL, ANTHROPIC, "invoke"),
    ("tiers", LARGE, ANTHROPIC, "invoke"),
    ("blocks", SMALL, ANTHROPIC, "invoke"),
    ("blocks", LARGE, ANTHROPIC, "invoke"),
    ("tail", SMALL, ANTHROPIC, "stream"),
    ("tail", LARGE, CHAT, "invoke"),
    ("threshold", SMALL, RESPONSES, "stream"),
    ("threshold", LARGE, GOOGLE, "invoke"),
    ("sliding", SMALL, GOOGLE, "stream"),
    ("sliding", LARGE, RESPONSES, "invoke"),
    ("clip", SMALL, CHAT, "stream"),
    ("clip", LARGE, ANTHROPIC, "invoke"),
)


@pytest.fixture(autouse=True)
def google_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)


async def stream_prompt(agent: Agent, prompt: str) -> str:
    """What the last event of a streamed run holds."""
    events: AsyncIterator[object] = agent.stream(prompt)
    output = ""
    async for event in events:
        if isinstance(event, AgentRunResultEvent):
            output = event.result.output
    return output


def make_look_tool(lines: int) -> Callable[[str], str]:
    """The tool, whose results have so many lines."""

    def look(path: str) -> str:
        """Reads a file.

        Args:
            path: Which one.
        """
        return f"# {path}\n" + "".join(f"line {n} of what stands there: value = {n * 37 % 101}\n" for n in range(lines))

    return look


def test_every_policy_and_every_client_is_in_both_windows_and_every_client_in_both_forms() -> None:
    assert {(policy, window) for policy, window, _, _ in RUNS} == {(p, w) for p in POLICIES for w in (SMALL, LARGE)}
    assert {(client, window) for _, window, client, _ in RUNS} == {(c, w) for c in CLIENTS for w in (SMALL, LARGE)}
    assert {(client, form) for _, _, client, form in RUNS} == {(c, f) for c in CLIENTS for f in ("invoke", "stream")}


@pytest.mark.parametrize(("policy", "window", "client", "form"), RUNS)
def test_hundreds_of_steps(policy: str, window: int, client: str, form: str) -> None:
    steps, per, lines, says = SHAPES[window]
    lines *= LONGER.get(client, 1)
    forgotten: list[int] = []
    came_back: list[int] = []

    def watch_request(done: int, got: Got) -> None:
        if done % 25:
            return
        request = got.prompt
        if RULE not in request:
            forgotten.append(done)
        if "signed-" in request or "c2lnbmVk" in request:  # the same in base64
            came_back.append(done)
        assert "c2tpcF90aG91Z2h0" not in request, "no placeholder of a signature"

    memory = make_session(policy)
    with Provider(
        steps, window, also=watch_request, per=per, says=says, thinks=True, several=SEVERAL, kept=1
    ) as provider:
        agent = make_agent(provider, client, memory=memory, tools=[make_look_tool(lines)])
        run = agent.invoke(TASK) if form == "invoke" else stream_prompt(agent, TASK)
        assert asyncio.run(run) == DONE
        newest = provider.newest_prompt
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows == 0
        assert len(provider.requests) == steps + 1
        assert window * 0.35 < max(provider.sizes) <= window - 1_000, "the answer asked for has room beside it"
        assert provider.told > 1.5 * window
    assert forgotten == []
    assert RULE in newest
    assert_log_complete(memory, steps + 2 * (steps // SEVERAL))
    assert len(get_blocks(memory)) >= 3
    assert agent.phase == "idle"
    assert came_back or client == CHAT, "what was signed came back"
