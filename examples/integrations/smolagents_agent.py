"""An agent of smolagents in a small window: `python smolagents_agent.py SESSION TASK`.

The line with `TenfoldSteps` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from smolagents import ChatMessage, LogLevel, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from tenfold.apps.adapters.smolagents import TenfoldSteps

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


class Model(OpenAIModel):
    """A model whose answer in words is the final answer."""

    def parse_tool_calls(self, message: ChatMessage) -> ChatMessage:
        """Makes the words a call of the tool for the final answer, which the agent waits for."""
        function = ChatMessageToolCallFunction({"answer": message.content}, "final_answer")
        message.tool_calls = [ChatMessageToolCall(function, "answer", "function")]
        return message


@tool
def read_file(path: str) -> str:
    """Reads a file.

    Args:
        path: The path of the file.
    """
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
agent = ToolCallingAgent([read_file], Model(MODEL), max_steps=500, verbosity_level=LogLevel.OFF)
TenfoldSteps(session, window=WINDOW).attach(agent)
print(agent.run(task))
