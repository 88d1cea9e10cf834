"""The program as a user starts it: in a terminal, with a keyboard, and killed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tenfold.cli.main import run
from tenfold.errors import NotFound
from tenfold.log.memory import MemoryStore
from tenfold.log.sqlite import SqliteStore
from tenfold.tui.chat import Wanted
from tenfold.tui.chat import run as program
from tests.tui.recorded import new
from tests.tui.terminal import CTRL_D, ENTER, ESCAPE, THE_END, UP, Terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
TITLE = "\x1b]0;a title\x07"
RED = "\x1b[31;1;7m"
CLEARED = "\x1b[3J"
SECRET = "sk-test-0123456789abcdefghij"  # noqa: S105 - shaped as a key, so that masking has something to find
HELD = """
import time
from pathlib import Path
from tenfold.extensions import Extension

extension = Extension("held")


@extension.before
def wait(consult):
    while Path("hold").exists():
        time.sleep(0.02)


@extension.after
def raises(outcome, block):
    raise ValueError("the extension's own [bold]fault[/bold]")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with a project in it."""
    work = tmp_path / "work"
    work.mkdir()
    lines = "\n".join(f"prices line {n}: the price is {n * 37 % 101}.99, see item-{n}" for n in range(120))
    (work / "prices.md").write_text(f"# Prices {RED}{TITLE}\n{lines}\n", "utf-8")
    return tmp_path


def fill(terminal: Terminal) -> int:
    """The percentage in the status line."""
    found = re.search(r"\[ctx: (\d+)%\]", terminal.text)
    assert found is not None, terminal.text
    return int(found[1])


def test_a_first_conversation_without_a_key(home: Path) -> None:
    with Terminal(home, "chat", size=(80, 24)) as chat:
        chat.shows("The built-in demonstration answers: a script, not a language model", "[ctx: 0%] idle")
        chat.say("What prices are there?")
        chat.shows("* read_file path=prices.md", "→ # Prices", "I read prices.md, 41 lines", THE_END, "idle")
        chat.until(lambda: fill(chat) > 5, "the fill grows")

        chat.say("write notes.md a [red]b")
        chat.shows("The model wants to change a file", "write notes.md: 9 bytes, a new file", "y: yes")
        assert not (home / "work" / "notes.md").exists()
        chat.press("n")
        chat.shows("you said no: write notes.md", "failed: The user said no", "idle")
        assert not (home / "work" / "notes.md").exists()
        chat.say("run echo done > made.txt")
        chat.shows("The model wants to run a command", "y: yes")
        assert "confine" not in chat.text
        chat.press("y")
        chat.shows("you said yes: run echo done", "idle")
        assert (home / "work" / "made.txt").read_text("utf-8") == "done\n"

        chat.press(CTRL_D)
        assert chat.ended() == 0
        assert chat.modes() == chat.before
        assert chat.wrote.rstrip().endswith(b"goes on with this\x1b[0m")
        assert chat.wrote.rfind(b"\x1b[?1049l") > chat.wrote.rfind(b"\x1b[?1049h"), "the screen of before is back"
        for sequence in (TITLE, RED, "\x1b]0;a"):
            assert sequence.encode() not in chat.wrote


def test_compactions_by_themselves_and_on_request(home: Path) -> None:
    work = home / "work"
    (work / "held.py").write_text(HELD, "utf-8")
    settings = work / "tenfold.toml"
    settings.write_text('[tenfold]\nextensions = ["held:extension"]\n', "utf-8")
    with Terminal(home, "chat", "--window", "8000", size=(100, 60)) as chat:
        chat.ask("What prices are there?")
        before = fill(chat)
        chat.say("/preview")
        chat.shows("would compact", "nothing was changed")
        (work / "hold").touch()
        chat.say("/compact the totals")
        chat.shows("compaction")
        chat.say("recall item-77")
        chat.shows("queued: recall item-77", "1 queued")
        chat.press(ESCAPE)
        chat.shows("cancelled: it was aborted")
        (work / "hold").unlink()
        chat.shows("> recall item-77", "recall_search words=item-77", "idle")
        chat.hides("queued")

        chat.say("/compact")
        chat.until(lambda: re.search(r"— context compacted \(\S+k → \S+k tokens\) —", chat.text), "the line is there")
        chat.shows("/undo takes it back", "an after-hook raised ValueError: the extension's own [bold]fault[/bold]")
        chat.until(lambda: fill(chat) < before, "the fill falls")
        chat.say("/expand")
        chat.shows("messages behind")
        chat.say("/undo")
        chat.shows("undone: Block")
        chat.say("/search item-77")
        chat.until(lambda: re.search(r"\d+ found; /expand ID", chat.text), "hits")
        settings.write_text('[tenfold]\npolicy = "tail"\n', "utf-8")
        chat.say("/settings")
        chat.shows("policy tail", "settings: tenfold.toml", "window 8,000 tokens")
        chat.say("/model")
        chat.shows("the model is demonstration")
        settings.write_text('[tenfold]\npolicy = "tenfold"\n', "utf-8")
        for n in range(2):
            chat.ask(f"Which prices end in {n}?")
        chat.until(lambda: chat.text.count("— context compacted") >= 1, "it compacts by itself")
        chat.say("/quit")
        assert chat.ended() == 0


def test_a_killed_chat_goes_on_and_its_tree_is_walked(home: Path) -> None:
    with Terminal(home, "chat", size=(80, 30)) as first:
        first.ask("What prices are there?")
        first.kill()
    with Terminal(home, "chat", "--session", "last", size=(80, 30), env={"NO_COLOR": "1"}) as chat:
        chat.shows("> What prices are there?", "* read_file path=prices.md", THE_END)
        chat.ask("And item-5?")
        chat.say("/tree")
        chat.shows("2 messages of yours, 1 branch", "◆ you are here")
        chat.press(UP, ENTER)
        chat.shows("say it again, differently: And item-5?", "y: summarize")
        chat.press("y")
        chat.shows("told in a summary", "another branch was left here")
        chat.until(lambda: chat.lines[-1].strip() == "And item-5?", "the text is in the input")
        chat.press(" Or item-6?", ENTER)
        chat.shows("> And item-5? Or item-6?")
        chat.until(lambda: "idle" in chat.text, "answered")
        chat.say("/tree")
        chat.shows("○ And item-5?", "● And item-5? Or item-6?", "└─", "2 branches")
        chat.press(ESCAPE)
        chat.hides("2 branches")
        assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|9[0-7]|[34]8;)[0-9;]*m", chat.wrote), "no colour is sent"
        chat.press(CTRL_D)
        assert chat.ended() == 0


def test_an_old_session_does_not_command_the_terminal_and_tells_no_secrets(home: Path) -> None:
    store = SqliteStore(home / "store.db")
    said = f"{RED}Look{TITLE} at \x9b2J[@click=app.quit]this[/] \u202e{CLEARED}and {SECRET}"
    new(store, said, f"{said} I see.")
    store.close()
    with Terminal(home, "chat", "--session", "new", size=(200, 60)) as chat:
        chat.shows("> Look at [@click=app.quit]this[/] and [redacted]", "[redacted] I see.")
        chat.say("/search this")
        chat.shows("2 found")
        chat.say("/expand")
        chat.say("/tree")
        chat.shows("● Look at [@click=app.quit]this[/]")
        chat.press("q")
        chat.hides("● Look at")
        chat.press(CTRL_D)
        assert chat.ended() == 0
        for sequence in (RED, TITLE, CLEARED, "\x9b2J", "\u202e", SECRET, SECRET[:14]):
            assert sequence.encode() not in chat.wrote


def test_without_a_terminal_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chat"]) == 2
    assert "needs a terminal; `tenfold run --task TEXT`" in capsys.readouterr().err


def test_what_cannot_be_opened_is_said_before_the_screen_is_taken(home: Path) -> None:
    with pytest.raises(NotFound, match="the store holds no session yet"):
        program(MemoryStore(), Wanted(home, session="nowhere"))
