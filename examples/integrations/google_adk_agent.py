"""An agent of Google's ADK in a small window: `python google_adk_agent.py SESSION TASK`.

The line with `TenfoldPlugin` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai.types import UserContent

from tenfold.apps.adapters.google_adk import TenfoldPlugin

MODEL = os.environ.get("MODEL", "gemini-2.5-flash")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = LlmAgent(name="worker", model=MODEL, instruction="You read the parts of a program.", tools=[read_file])
app = App(name="app", root_agent=agent, plugins=[TenfoldPlugin(window=WINDOW)])


async def run_task(session: str, task: str) -> str:
    """Gives the agent a task, and returns what it says at the end."""
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    said = ""
    async for event in runner.run_async(user_id="me", session_id=session, new_message=UserContent(task)):
        said = "".join(part.text or "" for part in event.content.parts) if event.content else said
    return said


print(asyncio.run(run_task(*sys.argv[1:])))
