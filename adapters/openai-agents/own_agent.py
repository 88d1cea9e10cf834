"""The agent of examples/integrations/openai_agents_agent.py with what the OpenAI Agents SDK has of its own.

It has `OpenAIResponsesCompactionSession`, which asks OpenAI's server to compact. Without that server there are a
session that gives back its last items, and a filter that shortens old results of tools.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession, function_tool
from agents.extensions import ToolOutputTrimmer

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))
ITEM_TOKENS = 400


@function_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = Agent("worker", instructions="You read the parts of a program.", tools=[read_file], model=MODEL)
name, task = sys.argv[1:]
config = RunConfig(
    session_settings=SessionSettings(limit=int(0.4 * WINDOW) // ITEM_TOKENS),
    call_model_input_filter=ToolOutputTrimmer(recent_turns=1),
)
done = Runner.run_sync(agent, task, session=SQLiteSession(name, "session.db"), run_config=config, max_turns=500)
print(done.final_output)
