"""The agent of examples/integrations/openhands_agent.py with the OpenHands SDK's own compaction.

Its condenser counts the text of the messages alone. At 0.68 of the window by that count, the provider counts 0.85. With
more, the provider refuses requests as too long, and the condenser acts after that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from openhands.sdk import LLM, Action, Agent, Conversation, Observation, Tool, ToolDefinition, register_tool
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.conversation import get_agent_final_response
from openhands.sdk.tool import ToolAnnotations, ToolExecutor

MODEL = os.environ.get("MODEL", "openai/gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


class ReadFileAction(Action):
    """What the model names."""

    path: str


class ReadFileObservation(Observation):
    """What the file holds."""


class ReadFile(ToolExecutor[ReadFileAction, ReadFileObservation]):
    """Reads a file."""

    def __call__(self, action: ReadFileAction, conversation: Any = None) -> ReadFileObservation:  # noqa: ANN401, ARG002
        """See the class."""
        return ReadFileObservation.from_text(Path(action.path).read_text("utf-8"))


class ReadFileTool(ToolDefinition[ReadFileAction, ReadFileObservation]):
    """The tool, which the model calls read_file."""

    @classmethod
    def create(cls, conv_state: Any = None) -> list[ReadFileTool]:  # noqa: ANN401, ARG003
        """See OpenHands."""
        return [
            cls(
                description="Reads a file.",
                action_type=ReadFileAction,
                observation_type=ReadFileObservation,
                executor=ReadFile(),
                annotations=ToolAnnotations(readOnlyHint=True),
            )
        ]


register_tool("read_file", ReadFileTool)
session, task = sys.argv[1:]
agent = Agent(
    llm=LLM(model=MODEL),
    system_prompt="You read the parts of a program.",
    tools=[Tool(name="read_file")],
    condenser=LLMSummarizingCondenser(llm=LLM(model=MODEL, usage_id="condenser"), max_tokens=int(0.68 * WINDOW)),
)
conversation = Conversation(
    agent, visualizer=None, persistence_dir="../conversations", conversation_id=uuid5(NAMESPACE_URL, session)
)
conversation.send_message(task)
conversation.run()
print(get_agent_final_response(conversation.state.events))
