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

from textual.pilot import Pilot
from textual.widgets import Static

from tenfold.agent.opening import Wanted, opened
from tenfold.log.memory import MemoryStore
from tenfold.tui.chat import Chat
from tenfold.tui.widgets import Prompt, Rows, Said, StatusLine, Transcript

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "examples" / "projects" / "pricing"
SIZE = (100, 30)
WINDOW = 3_900
"""Small enough that the third question needs a compaction."""
QUESTIONS = ("Where is the discount applied?", "Which test covers checkout?", "How is shipping priced?")
LOOKS = 2_000


async def until(pilot: Pilot[None], seen: Callable[[], object]) -> None:
    """Waits until the condition holds."""
    for _ in range(LOOKS):
        if seen():
            await pilot.pause()
            return
        await pilot.pause(0.01)

    raise SystemExit("the program did not come to what is to be drawn")


def texts(chat: Chat) -> list[str]:
    """Returns the texts in the transcript."""
    return [str(said.render()) for said in chat.screen_stack[0].query_one(Transcript).query(Said)]


async def asked(chat: Chat, pilot: Pilot[None], text: str) -> None:
    """Sends a message and waits until the answer has ended."""
    prompt = chat.screen_stack[0].query_one(Prompt)
    prompt.text = text
    await pilot.press("enter")
    await until(pilot, lambda: f"> {text}" in texts(chat) and "idle" in status(chat))


def status(chat: Chat) -> str:
    """Returns the status line."""
    return chat.screen_stack[0].query_one(StatusLine).render().plain


async def drawn(folder: Path) -> None:
    """Talks to the program and writes its pictures."""
    with TemporaryDirectory() as place:
        project = Path(place) / "pricing"
        shutil.copytree(PROJECT, project)
        wanted = Wanted(project, model="demonstration", window=WINDOW)
        chat = Chat(lambda ui: opened(MemoryStore(), wanted, ui.approve, extensions=(ui.extension,), report=ui.report))
        async with chat.run_test(size=SIZE) as pilot:
            chat.query_one(Prompt).cursor_blink = False
            for question in QUESTIONS:
                await asked(chat, pilot, question)
            await until(pilot, lambda: any("context compacted" in text for text in texts(chat)))
            mark = next(said for said in chat.query(Said) if "context compacted" in str(said.render()))
            chat.query_one(Transcript).scroll_to_center(mark, animate=False, force=True)
            await pilot.pause(0.2)
            saved(chat, folder / "chat-compacted.svg")
            await forked(chat, pilot)
            saved(chat, folder / "chat-tree.svg")


async def forked(chat: Chat, pilot: Pilot[None]) -> None:
    """Goes back twice, sends another message from there, and opens the tree."""
    for ups, other in ((2, "Which module knows the coupons?"), (1, "Which coupons are refused?")):
        await opened_tree(chat, pilot)
        await pilot.press(*["up"] * ups, "enter")
        await pilot.press("n")
        await until(pilot, lambda: any("went to" in text for text in texts(chat)) and not chat.screen.query(Rows))
        await asked(chat, pilot, other)
    await opened_tree(chat, pilot)


async def opened_tree(chat: Chat, pilot: Pilot[None]) -> None:
    """Opens the tree, and waits until it is loaded."""
    chat.screen_stack[0].query_one(Prompt).text = "/tree"
    await pilot.press("enter")
    await until(pilot, lambda: chat.screen.query(Rows) and "messages of yours" in str(title(chat).render()))


def title(chat: Chat) -> Static:
    """Returns the title of the tree's screen."""
    return chat.screen.query_one("#title", Static)


def saved(chat: Chat, file: Path) -> None:
    """Writes the screen to a file, keeping its spaces and leaving out the web fonts that it names."""
    text = re.sub(r"\s*@font-face \{.*?\}", "", chat.export_screenshot(title="tenfold chat"), flags=re.DOTALL)
    file.write_text(text.replace("<svg ", '<svg xml:space="preserve" ', 1), "utf-8")


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("TENFOLD_", "NO_COLOR"))]:
        del os.environ[name]
    asyncio.run(drawn(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"))
