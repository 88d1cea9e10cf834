"""An agent of Google's kit with two tools. `python agent.py MODEL TASK`; the session is in session.db of the folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, Part


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


def shell(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


async def run_task(name: str, task: str) -> str:
    """Gives the agent a task, and returns what it says at the end."""
    model = name if name.startswith("gemini") else LiteLlm(model=name)
    agent = LlmAgent(
        name="worker", model=model, instruction="You read the parts of a program.", tools=[read_file, shell]
    )
    sessions = SqliteSessionService("session.db")
    if await sessions.get_session(app_name="app", user_id="me", session_id="one") is None:
        await sessions.create_session(app_name="app", user_id="me", session_id="one")
    runner = Runner(app_name="app", agent=agent, session_service=sessions)
    said = ""
    message = Content(role="user", parts=[Part(text=task)])
    async for event in runner.run_async(user_id="me", session_id="one", new_message=message):
        said = "".join(part.text or "" for part in (event.content.parts or [])) if event.content else said
    return said


print(asyncio.run(run_task(*sys.argv[1:])))
