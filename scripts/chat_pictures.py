"""Draws the pictures of `docs/chat.md` with the program itself: `python scripts/chat_pictures.py [FOLDER]`.

The demonstration works on a copy of `examples/projects/pricing`, so the pictures are the same everywhere.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pydantic_ai
from textual.pilot import Pilot
from textual.widgets import Static

from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.chat.app import Chat
from tenfold.apps.chat.screens import QuestionScreen, TreeScreen
from tenfold.apps.chat.transcript import TranscriptItem
from tenfold.store.sqlite.store import SqliteStore

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "examples" / "projects" / "pricing"
SIZE = (100, 30)
WINDOW = 3_900
"""Small enough that the third question needs a compaction."""
QUESTIONS = ("Where is the discount applied?", "Which test covers checkout?", "How is shipping priced?")
CHANGED = (
    (PROJECT / "README.md")
    .read_text("utf-8")
    .replace("Nothing is rounded before the last step.", "Only the total is rounded, half up.")
)
MAX_LOOKS = 2_000


async def wait_until(pilot: Pilot[None], is_seen: Callable[[], object]) -> None:
    """Waits until the condition holds."""
    for _ in range(MAX_LOOKS):
        if is_seen():
            await pilot.pause()
            return
        await pilot.pause(0.01)

    raise SystemExit("the program did not come to what is to be drawn")


def get_texts(chat: Chat) -> list[str]:
    """Returns the texts in the transcript."""
    return [str(item.render()) for item in chat.transcript.children if isinstance(item, TranscriptItem)]


async def ask_question(chat: Chat, pilot: Pilot[None], text: str) -> None:
    """Sends a message and waits until the answer has ended."""
    chat.prompt.text = text
    await pilot.press("enter")
    await wait_until(pilot, lambda: f"> {text}" in get_texts(chat) and "idle" in get_status(chat))


def get_status(chat: Chat) -> str:
    """Returns the status line."""
    return chat.status_line.render().plain


async def draw_pictures(folder: Path) -> None:
    """Talks to the program and writes its pictures."""
    with TemporaryDirectory() as place:
        project = Path(place) / "pricing"
        shutil.copytree(PROJECT, project)
        wanted = AgentOptions(project, model="demonstration", window=WINDOW)
        chat = Chat(
            lambda ui, _: open_agent(
                SqliteStore(":memory:"), wanted, ui.approve, extensions=(ui.extension,), report=ui.report
            )
        )
        async with chat.run_test(size=SIZE) as pilot:
            chat.prompt.cursor_blink = False
            for question in QUESTIONS:
                await ask_question(chat, pilot, question)
            await wait_until(pilot, lambda: any("context compacted" in text for text in get_texts(chat)))
            mark = next(said for said in chat.query(TranscriptItem) if "context compacted" in str(said.render()))
            chat.transcript.scroll_to_center(mark, animate=False, force=True)
            await pilot.pause(0.2)
            save_picture(chat, folder / "chat-compacted.svg")
            await ask_approval(chat, pilot)
            save_picture(chat, folder / "chat-diff.svg")
            await pilot.press("n")
            await wait_until(pilot, lambda: "idle" in get_status(chat))
            await fork_session(chat, pilot)
            save_picture(chat, folder / "chat-tree.svg")


async def ask_approval(chat: Chat, pilot: Pilot[None]) -> None:
    """Has the demonstration change a file, and waits for the question."""
    chat.prompt.text = f"write README.md {CHANGED}"
    await pilot.press("enter")
    await wait_until(
        pilot,
        lambda: (
            isinstance(chat.screen, QuestionScreen)
            and any("n: no" in str(each.render()) for each in chat.screen.query(Static))
        ),
    )


async def fork_session(chat: Chat, pilot: Pilot[None]) -> None:
    """Goes back twice, sends another message from there, and opens the tree."""
    for ups, other in ((2, "Which module knows the coupons?"), (1, "Which coupons are refused?")):
        await open_tree(chat, pilot)
        await pilot.press(*["up"] * ups, "enter")
        await pilot.press("n")
        await wait_until(
            pilot,
            lambda: any("moved to" in text for text in get_texts(chat)) and not isinstance(chat.screen, TreeScreen),
        )
        await ask_question(chat, pilot, other)
    await open_tree(chat, pilot)


async def open_tree(chat: Chat, pilot: Pilot[None]) -> None:
    """Opens the tree, and waits until it is loaded."""
    chat.prompt.text = "/tree"
    await pilot.press("enter")
    await wait_until(
        pilot, lambda: isinstance(chat.screen, TreeScreen) and "messages of yours" in str(get_title(chat).render())
    )


def get_title(chat: Chat) -> Static:
    """Returns the title of the tree's screen."""
    return chat.screen.query_one("#title", Static)


def save_picture(chat: Chat, file: Path) -> None:
    """Writes the screen to a file, keeping its spaces and leaving out the web fonts that it names."""
    text = re.sub(r"\s*@font-face \{.*?\}", "", chat.export_screenshot(title="tenfold chat"), flags=re.DOTALL)
    file.write_text(text.replace("<svg ", '<svg xml:space="preserve" ', 1), "utf-8")


if __name__ == "__main__":
    pydantic_ai.BANNER_ENABLED = False
    for name in [name for name in os.environ if name.startswith(("TENFOLD_", "NO_COLOR"))]:
        del os.environ[name]
    asyncio.run(draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"))
