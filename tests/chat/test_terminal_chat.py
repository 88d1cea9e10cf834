"""The program as a user starts it: in a terminal, with a keyboard, and killed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from socket import create_connection

import httpx
import pytest

from tenfold.apps.agent.factory import AgentOptions
from tenfold.apps.chat.app import run_chat as program
from tenfold.apps.cli.main import run
from tenfold.errors import NotFoundError
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import create_session
from tests.chat.terminal import CTRL_D, END, ENTER, ESCAPE, PAGE_DOWN, THE_END, UP, Terminal
from tests.models.loopback import Loopback

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
TITLE = "\x1b]0;a title\x07"
RED = "\x1b[31;1;7m"
CLEARED = "\x1b[3J"
SECRET = "sk-test-0123456789abcdefghij"  # noqa: S105 - shaped as a key, so that masking has something to find
HELD = """
import time
from pathlib import Path
from tenfold.config.extensions import Extension

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


def read_fill(terminal: Terminal) -> int:
    """The percentage in the status line."""
    found = re.search(r"\[ctx: (\d+)%\]", terminal.text)
    assert found is not None, terminal.text
    return int(found[1])


def test_a_first_conversation_without_a_key(home: Path) -> None:
    with Terminal(home, "chat", size=(80, 24)) as chat:
        chat.wait_for_text("You are talking to the built-in demonstration, which is a script", "[ctx: 0%] idle")
        chat.say("What prices are there?")
        chat.wait_for_text("* read_file path=prices.md", "→ # Prices", "I read prices.md, 41 lines", THE_END, "idle")
        chat.wait_until(lambda: read_fill(chat) > 5, "the fill grows")

        chat.say("write notes.md a [red]b")
        chat.wait_for_text("The model wants to change a file", "write notes.md: 9 bytes, a new file", "y: yes")
        assert not (home / "work" / "notes.md").exists()
        chat.press("n")
        chat.wait_for_text("you said no: write notes.md", "failed: The user said no", "idle")
        assert not (home / "work" / "notes.md").exists()
        chat.say("run echo done > made.txt")
        chat.wait_for_text("The model wants to run a command", "y: yes")
        assert "confine" not in chat.text
        chat.press("y")
        chat.wait_for_text("you said yes: run echo done", "idle")
        assert (home / "work" / "made.txt").read_text("utf-8") == "done\n"

        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0
        assert chat.get_modes() == chat.before
        assert re.search(rb"Resume with: tenfold chat --session [0-9a-f-]{18}\x1b\[0m$", chat.wrote.rstrip())
        assert chat.wrote.rfind(b"\x1b[?1049l") > chat.wrote.rfind(b"\x1b[?1049h"), "the screen of before is back"
        for sequence in (TITLE, RED, "\x1b]0;a"):
            assert sequence.encode() not in chat.wrote


def test_the_line_that_resumes_a_chat_with_a_server_of_ones_own_works(home: Path) -> None:
    """It named the session alone, and was refused: the server is not remembered."""
    with Loopback("Hello to you.") as server:
        given = (
            "--model",
            "mine",
            "--base-url",
            f"{server.url}/v1",
            "--window",
            "9000",
            "--folder",
            str(home / "work"),
        )
        with Terminal(home, "chat", *given, size=(80, 24)) as chat:
            chat.wait_for_text("idle")
            chat.say("Hello")
            chat.wait_for_text("Hello to you.", "idle")
            chat.press(CTRL_D)
            assert chat.wait_for_end() == 0
        found = re.search(rb"Resume with: tenfold (chat [^\x1b]+)\x1b", chat.wrote)
        assert found is not None
        line = shlex.split(found[1].decode())
        assert line[3:] == list(given)
        with Terminal(home, *line[:3], size=(80, 24)) as chat:
            assert chat.wait_for_end() == 2
            assert "which ran with openai:mine" in " ".join(chat.text.split())
        with Terminal(home, *line, size=(80, 24)) as chat:
            chat.wait_for_text("Hello to you.", "idle")
            chat.press(CTRL_D)
            assert chat.wait_for_end() == 0


def test_what_is_typed_while_it_loads_is_kept_and_an_empty_session_is_not(home: Path) -> None:
    with Terminal(home, "chat", size=(60, 12)) as chat:
        chat.press("What is here?")
        chat.wait_for_text("[ctx: 0%]")
        chat.wait_until(lambda: chat.lines[-1].strip() == "What is here?", "it stands in the input")
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0
        assert chat.get_modes() == chat.before
        assert "Nothing was said, so nothing is kept." in chat.text
        assert "Warning" not in chat.text
    store = SqliteStore(home / "store.db")
    assert store.list_sessions("default") == []
    store.close()


def test_where_the_locale_has_no_more_only_ascii_is_written(home: Path) -> None:
    with Terminal(home, "chat", size=(80, 40), env={"LANG": "C", "LC_ALL": "", "LC_CTYPE": ""}) as chat:
        chat.ask("What prices are there?")
        chat.say("/tree")
        chat.wait_for_text("* you are here")
        chat.press(ESCAPE)
        chat.wait_for_absence("* you are here")
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0
        assert chat.wrote.isascii()


def test_the_page_of_the_session_is_served_until_the_chat_ends(home: Path) -> None:
    with Terminal(home, "chat", size=(200, 40)) as chat:
        chat.ask("What prices are there?")
        chat.say("/inspect")
        chat.wait_until(lambda: re.search(r"http://127\.0\.0\.1:\d+/\S+", chat.text), "the address is there")
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\S+", chat.text)
        assert found is not None
        with httpx.Client(follow_redirects=True) as browser:
            page = browser.get(found[0])
        assert page.status_code == 200
        assert "What prices are there?" in page.text
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0
        with pytest.raises(ConnectionRefusedError):
            create_connection(("127.0.0.1", int(found[1])))


def test_a_long_command_is_allowed_once_its_end_was_seen(home: Path) -> None:
    with Terminal(home, "chat", size=(40, 15)) as chat:
        chat.say("run echo hello " + "\u2800" * 40 + " && echo more" * 40 + " && touch owned")
        chat.wait_for_text(
            "The model wants to run a command", "40 x U+2800", "y is taken at the end:", "PageDown or End scrolls."
        )
        assert "owned" not in chat.text
        chat.press("y", PAGE_DOWN, "y")
        chat.wait_for_text("more")
        assert not (home / "work" / "owned").exists()
        chat.press(END)
        chat.wait_for_text("touch owned", "y: yes")
        assert not (home / "work" / "owned").exists()
        chat.press("y")
        chat.wait_for_text("idle")
        chat.wait_until((home / "work" / "owned").exists, "it is run")
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0


def test_compactions_by_themselves_and_on_request(home: Path) -> None:
    work = home / "work"
    (work / "held.py").write_text(HELD, "utf-8")
    settings = work / "tenfold.toml"
    settings.write_text('[tenfold]\nextensions = ["held:extension"]\n', "utf-8")
    with Terminal(home, "chat", "--window", "8000", size=(100, 60)) as chat:
        chat.ask("What prices are there?")
        before = read_fill(chat)
        chat.say("/preview")
        chat.wait_for_text("would compact", "nothing was changed")
        (work / "hold").touch()
        chat.say("/compact the totals")
        chat.wait_for_text("compaction")
        chat.say("recall item-77")
        chat.wait_for_text("queued: recall item-77", "1 queued")
        chat.press(ESCAPE)
        chat.wait_for_text("cancelled: it was aborted")
        (work / "hold").unlink()
        chat.wait_for_text("> recall item-77", "recall_search words=item-77", "idle")
        chat.wait_for_absence("queued")

        chat.say("/compact")
        chat.wait_until(
            lambda: re.search(r"— context compacted \(\S+k → \S+k tokens\) —", chat.text), "the line is there"
        )
        chat.wait_for_text("/undo undoes it", "an after-hook raised ValueError: the extension's own [bold]fault[/bold]")
        chat.wait_until(lambda: read_fill(chat) < before, "the fill falls")
        chat.say("/expand")
        chat.wait_for_text("messages behind", "q: close")
        chat.press("q")
        chat.wait_for_absence("q: close")
        chat.say("/undo")
        chat.wait_for_text("undone: Block")
        chat.say("/search item-77")
        chat.wait_until(lambda: re.search(r"\d+ found", chat.text), "hits")
        settings.write_text('[tenfold]\npolicy = "tail"\n', "utf-8")
        chat.say("/settings")
        chat.wait_for_text("policy tail", "settings: tenfold.toml", "window 8,000 tokens")
        chat.say("/model")
        chat.wait_for_text("the model is demonstration")
        settings.write_text('[tenfold]\npolicy = "tenfold"\n', "utf-8")
        for n in range(2):
            chat.ask(f"Which prices end in {n}?")
        chat.wait_until(lambda: chat.text.count("— context compacted") >= 1, "it compacts by itself")
        chat.say("/quit")
        assert chat.wait_for_end() == 0


def test_a_killed_chat_goes_on_and_its_tree_is_walked(home: Path) -> None:
    with Terminal(home, "chat", size=(80, 30)) as first:
        first.ask("What prices are there?")
        first.kill()
    with Terminal(home, "chat", "--session", "last", size=(80, 30), env={"NO_COLOR": "1"}) as chat:
        chat.wait_for_text("> What prices are there?", "* read_file path=prices.md", THE_END)
        chat.ask("And item-5?")
        chat.say("/tree")
        chat.wait_for_text("2 messages of yours, 1 branch", "◆ you are here")
        chat.press(UP, ENTER)
        chat.wait_for_text("Say this differently: And item-5?", "y: summarize")
        chat.press("y")
        chat.wait_for_text("a summary of the branch you left", "you came here from another branch")
        chat.wait_until(lambda: chat.lines[-1].strip() == "And item-5?", "the text is in the input")
        chat.press(" Or item-6?", ENTER)
        chat.wait_for_text("> And item-5? Or item-6?")
        chat.wait_until(lambda: "idle" in chat.text, "answered")
        chat.say("/tree")
        chat.wait_for_text("○ And item-5?", "● And item-5? Or item-6?", "└─", "2 branches")
        chat.press(ESCAPE)
        chat.wait_for_absence("2 branches")
        assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|9[0-7]|[34]8;)[0-9;]*m", chat.wrote), "no colour is sent"
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0


def test_an_old_session_does_not_command_the_terminal_and_tells_no_secrets(home: Path) -> None:
    store = SqliteStore(home / "store.db")
    said = f"{RED}Look{TITLE} at \x9b2J[@click=app.quit]this[/] \u202e{CLEARED}and {SECRET}"
    create_session(store, said, f"{said} I see.")
    store.close()
    model = ("--model", "openai:gpt-4o-mini", "--base-url", "http://127.0.0.1:9/v1")  # nobody asks it
    with Terminal(home, "chat", "--session", "new", *model, size=(200, 60)) as chat:
        chat.wait_for_text("> Look at [@click=app.quit]this[/] and [redacted]", "[redacted] I see.")
        chat.say("/search this")
        chat.wait_for_text("2 found")
        chat.say("/expand")
        chat.say("/tree")
        chat.wait_for_text("● Look at [@click=app.quit]this[/]")
        chat.press("q")
        chat.wait_for_absence("● Look at")
        chat.press(CTRL_D)
        assert chat.wait_for_end() == 0
        for sequence in (RED, TITLE, CLEARED, "\x9b2J", "\u202e", SECRET, SECRET[:14]):
            assert sequence.encode() not in chat.wrote


def test_without_a_terminal_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chat"]) == 2
    assert "needs a terminal; without one, use `tenfold run --task TEXT`" in capsys.readouterr().err


def test_what_cannot_be_opened_is_said_before_the_screen_is_taken(home: Path) -> None:
    with pytest.raises(NotFoundError, match="the store holds no session yet"):
        program(SqliteStore(":memory:"), AgentOptions(home, session="nowhere"))


def test_the_line_to_resume_shows_no_password(home: Path) -> None:
    with Loopback("Hello to you.") as server:
        address = f"{server.url}/v1".replace("://", "://someone:hunter2@")
        with Terminal(home, "chat", "--model", "mine", "--base-url", address, "--window", "9000") as chat:
            chat.wait_for_text("idle")
            chat.say("Hello")
            chat.wait_for_text("Hello to you.", "idle")
            chat.press(CTRL_D)
            assert chat.wait_for_end() == 0
        assert f"--base-url {server.url}/v1".encode() in chat.wrote.replace(b"\r\n", b" ")
        assert b"hunter2" not in chat.wrote
