"""An agent of LangChain with two tools. `python agent.py PROVIDER TASK`; its messages are in messages.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, messages_from_dict, messages_to_dict

MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-opus-4-6"}
STATE = Path("messages.json")


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


def shell(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


provider, task = sys.argv[1:]
model = init_chat_model(f"{provider}:{MODELS[provider]}", max_tokens=1_000)
agent = create_agent(model, [read_file, shell], system_prompt="You read the parts of a program.")
earlier = messages_from_dict(json.loads(STATE.read_text("utf-8"))) if STATE.exists() else []
state = agent.invoke({"messages": [*earlier, HumanMessage(task)]}, {"recursion_limit": 500})
STATE.write_text(json.dumps(messages_to_dict(state["messages"])), "utf-8")
print(state["messages"][-1].text)
