"""An agent of OpenAI's SDK with two tools. `python agent.py TASK`; the session is in session.db of the folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agents import Agent, ModelSettings, RunConfig, Runner, SQLiteSession, function_tool, set_tracing_disabled

set_tracing_disabled(disabled=True)


@function_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


@function_tool
def shell(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


agent = Agent("worker", "You read the parts of a program.", tools=[read_file, shell], model="gpt-5")
agent.model_settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
done = Runner.run_sync(
    agent, sys.argv[1], session=SQLiteSession("one", "session.db"), max_turns=200, run_config=RunConfig()
)
print(done.final_output)
