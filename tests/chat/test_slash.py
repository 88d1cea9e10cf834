"""What the commands of the chat do, over a recorded session in SQLite and without a terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from tenfold.apps.agent import Agent
from tenfold.apps.chat.slash_commands import COMMANDS, CommandReply, execute_command, parse_command
from tenfold.core.record.entry import BranchSummary
from tenfold.core.record.message import get_text
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import UsageError
from tenfold.session.tree import build_rows
from tenfold.store.base import Store
from tenfold.store.ids import shorten_id
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import create_session, make_agent, store_session


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)
    for name in ("TENFOLD_CONFIG", "TENFOLD_POLICY"):
        monkeypatch.delenv(name, raising=False)
    made, _ = store_session(tmp_path)
    yield made
    made.close()


@pytest.fixture
def agent(store: Store) -> Agent:
    (row,) = store.list_sessions("default")
    return make_agent(store, row.info.id)


def run_line(agent: Agent, line: str) -> CommandReply:
    """What comes of a line that is a command."""
    found = parse_command(line)
    assert found is not None, f"{line} is a command"
    return asyncio.run(execute_command(agent, *found))


def test_a_compaction_is_previewed_made_looked_behind_and_undone(agent: Agent) -> None:
    before = agent.session.take_reading().tokens
    seen = [s.key for s in agent.session.view.get_visible_messages()]
    preview = run_line(agent, "/preview").text
    assert preview.startswith("would compact: ")
    assert "plan: " in preview
    assert [s.key for s in agent.session.view.get_visible_messages()] == seen, "a preview changes nothing"
    assert "no compaction is in force" in run_line(agent, "/expand").text

    made = run_line(agent, "/compact the totals").text
    found = re.match(r"([\d,]+) -> ([\d,]+) tokens, target [\d,]+; messages \d+ -> \d+; must-keep facts", made)
    assert found is not None, made
    assert int(found[1].replace(",", "")) == before
    assert agent.session.take_reading().tokens == int(found[2].replace(",", "")) < before
    block = re.search(r"Block (\S+):", made)
    assert block is not None

    behind = run_line(agent, "/expand").text
    assert behind == run_line(agent, f"/expand {block[1]}").text
    assert re.fullmatch(r"\d+ messages behind " + block[1], run_line(agent, "/expand").page_title)
    assert "nothing: " in run_line(agent, "/compact").text

    undone = run_line(agent, "/undo").text
    assert undone == f"undone: Block {block[1]}; the view has {before:,} tokens again, instead of {found[2]}"
    assert [s.key for s in agent.session.view.get_visible_messages()] == seen
    assert run_line(agent, "/undo").text.startswith("/undo: there is nothing to undo")


def test_undo_tells_what_is_in_force_again(agent: Agent) -> None:
    session = agent.session
    first = session.compact(to="60%").block
    assert first is not None
    session.compactor.set_aside()
    second = session.compact(to="40%").block
    assert second is not None
    told = run_line(agent, "/undo").text.splitlines()
    assert told[0].startswith(f"undone: Block {shorten_id(second)}; ")
    assert told[1:] == [f"in force again: Block {shorten_id(first)}, which it had set aside"]


def test_a_search_gives_ids_that_can_be_expanded(agent: Agent) -> None:
    found = run_line(agent, "/search parse").text
    assert re.search(r"^\d+  \w+  \([0-9a-f-]{18}\)\n    \S", found)
    assert re.search(r"\d+ found", found.splitlines()[-1])
    whole = run_line(agent, f"/expand {found.split()[0]}").text
    assert "parse" in whole
    assert run_line(agent, "/search zzyzx-nowhere").text == "no message of this conversation has 'zzyzx-nowhere'"
    assert "WORDS" in run_line(agent, "/search").text
    assert run_line(agent, "/expand 0000").text.startswith("/expand: ")


def test_the_tree_lists_what_was_said_and_leads_back_there(store: Store) -> None:
    session = create_session(store, "first", "one", "second", "two", "third", "three")
    agent = make_agent(store, "new")
    ids = [row.id for row in build_rows(session)]
    lines = run_line(agent, "/tree").text.splitlines()
    assert [line[20:] for line in lines] == ["● first", "● second", "● third", "◆ you are here, after: three"]

    went = run_line(agent, f"/tree {ids[1]}")
    assert (went.input, went.has_moved) == ("second", True)
    assert [get_text(m) for m in agent.session.view.get_messages()] == ["first", "one"]
    asyncio.run(agent.invoke("second, otherwise"))
    rows = build_rows(agent.session)
    assert [(row.lead, row.kind, row.is_active) for row in rows] == [
        ("", "said", True),
        ("├─ ", "said", False),
        ("│  ", "said", False),
        ("│  ", "end", False),
        ("└─ ", "said", True),
        ("   ", "here", True),
    ]
    back = run_line(agent, f"/tree {rows[3].id} summary")
    assert back.has_moved
    assert "a summary of the branch you left" in back.text
    assert isinstance(agent.session.view.path.get_entry(agent.session.view.length - 1), BranchSummary)
    assert "second, otherwise" in get_text(agent.session.view.get_messages()[-1])
    assert run_line(agent, f"/tree {agent.session.leaf}").text == "you are there already"
    assert "only the word 'summary'" in run_line(agent, f"/tree {ids[0]} please").text
    assert run_line(agent, "/tree 0000").text.startswith("/tree: ")


def test_before_the_first_word_the_tree_says_where_one_is(store: Store) -> None:
    session = create_session(store, "first", "one")
    agent = make_agent(store, "new")
    run_line(agent, f"/tree {build_rows(session)[0].id}")
    assert agent.session.leaf is None
    assert [row.kind for row in build_rows(agent.session)] == ["said", "end", "here"]


def test_settings_are_as_the_file_says_at_that_moment(agent: Agent, tmp_path: Path) -> None:
    first = run_line(agent, "/settings").text
    assert "policy tenfold, compacts automatically" in first
    assert "no settings file" in first
    assert "window 32,000 tokens" in first
    assert "warns at 21,000, compacts at 25,500 down to 12,000, at the latest at 30,000" in first
    assert "written by code" in first
    (tmp_path / "tenfold.toml").write_text('[tenfold]\npolicy = "tail"\n', "utf-8")
    assert "settings: tenfold.toml" in run_line(agent, "/settings").text
    (tmp_path / "tenfold.toml").write_text('[tenfold]\npolicy = "tale"\n', "utf-8")
    assert "did you mean 'tail'? There are: " in run_line(agent, "/settings").text


def test_the_model_is_shown_and_changed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_line(agent, "/model").text == "the model is demonstration (function); its window: 32,000 tokens"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghij")
    assert run_line(agent, "/model openai:gpt-4o").text.startswith(
        "the next run uses gpt-4o (openai); its window: 128,"
    )
    assert agent.model.model_name == "gpt-4o"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "OPENAI_API_KEY" in run_line(agent, "/model openai:gpt-4o-mini").text
    assert "names no provider" in run_line(agent, "/model gpt").text
    assert agent.model.model_name == "gpt-4o", "a model that cannot be opened changes nothing"
    assert "demonstration" in run_line(agent, "/model demonstration").text


def test_without_a_window_it_is_said_what_names_one(store: Store) -> None:
    model = FunctionModel(lambda *_: ModelResponse([]), model_name="unheard-of")
    agent = Agent(model, session=create_session(store, "first", "one"))
    assert "set it with --window" in run_line(agent, "/settings").text
    assert "--window" in run_line(agent, "/compact").text
    assert "--window" in run_line(agent, "/preview").text
    assert "--window" in run_line(agent, "/model").text


def test_a_busy_agent_says_so(agent: Agent) -> None:
    agent.phase = "running"
    assert "phase 'running'" in run_line(agent, "/compact").text


def test_what_is_a_command_and_what_is_said_to_the_model() -> None:
    assert parse_command("what is /compact?") is None
    assert parse_command("/etc/hosts is wrong") is None
    assert parse_command("//") is None
    for line, name, argument in (
        ("/compact", "compact", ""),
        ("/Compact the  api ", "compact", "the  api"),
        ("/search a\nb", "search", "a\nb"),
        ("/", "help", ""),
    ):
        found = parse_command(line)
        assert found is not None
        assert (found[0].name, found[1]) == (name, argument)
    with pytest.raises(UsageError, match=r"called /compat: did you mean 'compact'\? There are: allowed, compact, "):
        parse_command("/compat now")


def test_the_help_names_every_command_on_lines_that_fit_a_small_terminal(store: Store) -> None:
    create_session(store)
    text = run_line(make_agent(store, "new"), "/help").text
    assert [c.name for c in COMMANDS if f"/{c.name}" not in text] == []
    assert max(len(line) for line in text.splitlines() if line.startswith("/")) <= 76
    assert "tenfold chat --session new" in run_line(make_agent(store, "new"), "/quit").text


def test_what_waits_for_an_idle_agent() -> None:
    waiting = {c.name for c in COMMANDS if c.should_wait("")}
    assert waiting == {"compact", "undo"}
    assert {c.name for c in COMMANDS if c.should_wait("an-id")} == {"compact", "undo", "tree", "resume"}


def test_a_tree_of_a_long_session_is_rows_and_nothing_recursive() -> None:
    session = create_session(SqliteStore(":memory:"), *("word" for _ in range(6_000)))
    rows = build_rows(session)
    assert len(rows) == 3_001
    assert rows[-1].kind == "here"
    assert {row.lead for row in rows} == {""}


def test_what_a_session_holds_is_not_cleaned_twice_or_never(store: Store) -> None:
    """The commands give it as it is; the screen cleans it, and `told` is what it cleans with."""
    create_session(store, "\x1b[31mred\x1b[0m and password=hunter2hunter2", "one")
    found = run_line(make_agent(store, "new"), "/expand " + build_rows(make_agent(store, "new").session)[0].id).text
    assert "\x1b" not in sanitize(found)
    assert "hunter2" not in sanitize(found)
    assert "red and password=[redacted]" in sanitize(found)
