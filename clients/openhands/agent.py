"""An agent of OpenHands with its terminal and its editor. `python agent.py MODEL TASK`; the session is in `session`."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

model, task = sys.argv[1:]
url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
if model.startswith("anthropic/"):
    url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ["ANTHROPIC_API_KEY"]
agent = Agent(
    llm=LLM(model=model, base_url=url, api_key=key, usage_id="agent", max_output_tokens=1_000, num_retries=0),
    tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)],
    condenser=None,
)
conversation = Conversation(
    agent=agent,
    workspace=str(Path.cwd()),
    persistence_dir=str(Path("session").absolute()),
    conversation_id=uuid.UUID(int=1),
    visualizer=None,
    delete_on_close=False,
)
conversation.send_message(task)
conversation.run()
conversation.close()
