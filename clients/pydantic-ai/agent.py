"""An agent of pydantic-ai with two tools. `python agent.py MODEL TASK`; its messages are in messages.json."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter, UsageLimits

STATE = Path("messages.json")
model, task = sys.argv[1:]
agent = Agent(model, instructions="You read the parts of a program.", model_settings={"max_tokens": 1_000})


@agent.tool_plain
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


@agent.tool_plain
def shell(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


earlier = ModelMessagesTypeAdapter.validate_json(STATE.read_bytes()) if STATE.exists() else []
done = agent.run_sync(task, message_history=earlier, usage_limits=UsageLimits(request_limit=None))
STATE.write_bytes(done.all_messages_json())
print(done.output)
