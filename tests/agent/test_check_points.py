"""Where an agent's context is checked: at the soft points of its policy; before every call against the hard limit."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from tenfold.apps.agent import Agent
from tenfold.config.policies import POLICIES
from tenfold.core.record.block import Block
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.token_reading import ProviderTokens
from tests.agent.working import look, make_session

WINDOW = 16_000
STEPS = 4
UNCOUNTED = RequestUsage(output_tokens=10)
"""Says nothing about the prompt, so our own count holds."""
SOFT = {"tail": {"assistant"}, "tiers": {"tool"}, "clip": {"user"}}
"""Who spoke last before a soft check, where a policy does not check before each call: "assistant" ends a run."""


def answer_with_steps(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks at so many parts for each thing the user says, whatever was compacted in between."""
    del info
    kinds = [part.part_kind for message in messages for part in message.parts]
    steps = kinds[::-1].index("user-prompt") // 2 if "user-prompt" in kinds else STEPS
    if steps >= STEPS:
        return ModelResponse([TextPart("All of it is done.")], usage=UNCOUNTED)
    return ModelResponse([ToolCallPart("look", {"path": f"src/part{len(kinds)}.py"})], usage=UNCOUNTED)


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_soft_checks_are_made_at_the_points_of_the_policy_only(policy: str) -> None:
    log = make_session(policy)
    made = Agent(FunctionModel(answer_with_steps), session=log, window=WINDOW, tools=[look])
    for number in range(16):
        assert asyncio.run(made.invoke(f"Round {number}: look at every part.")) == "All of it is done."
    path = log.view.path
    entries = [path.get_entry(position) for position in range(path.length)]
    hard = log.policy.trigger.get_limits(WINDOW, output_reserve=0, floor=ProviderTokens(0)).hard
    last, soft = "", set()
    for entry in entries:
        match entry:
            case MessageEntry(message=message):
                last = message.role
            case Block(tokens_before=tokens) if int(tokens) <= hard:
                soft.add(last)
    assert soft
    assert soft <= SOFT.get(policy, {"user", "tool"})
