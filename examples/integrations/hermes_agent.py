"""An agent of Hermes Agent in a small window: `python hermes_agent.py SESSION TASK`.

The plugin and its name in `config.yaml` are all that Tenfold adds. Who has a `~/.hermes` puts them there. This program
writes them to a folder of its own. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))
HOME = Path(os.environ.setdefault("HERMES_HOME", str(Path("hermes-home").absolute())))
FILES = {
    "plugins/tenfold/plugin.yaml": "name: tenfold\nversion: 1.0.0\ndescription: Compacts conversations with Tenfold\n",
    "plugins/tenfold/__init__.py": f"""\
from tenfold.apps.adapters.hermes import TenfoldEngine


def register(ctx):
    ctx.register_context_engine(TenfoldEngine(window={WINDOW}))
""",
    "config.yaml": f"""\
plugins: {{enabled: [tenfold]}}
context: {{engine: tenfold}}
model: {{context_length: {max(WINDOW, 64_000)}}}
""",
}
for name, text in FILES.items():
    (HOME / name).parent.mkdir(parents=True, exist_ok=True)
    (HOME / name).write_text(text, "utf-8")

from hermes_state import SessionDB  # noqa: E402 - it reads HERMES_HOME
from run_agent import AIAgent  # noqa: E402

session, task = sys.argv[1:]
database = SessionDB()
agent = AIAgent(
    model=MODEL,
    provider="custom",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    enabled_toolsets=["file", "context_engine"],
    session_id=session,
    session_db=database,
    max_iterations=500,
    quiet_mode=True,
    skip_memory=True,
)
history = database.get_messages_as_conversation(session)
print(agent.run_conversation(task, conversation_history=history)["final_response"])
