"""The context engine for Hermes Agent, in Hermes' own agents with its plugins, its database and its clients."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

pytest.importorskip("agent.context_engine", reason="make adapters installs it")
os.environ["HERMES_HOME"] = mkdtemp(prefix="hermes-")  # it is read when the modules below are imported

from agent.context_engine import ContextEngine
from hermes_cli.plugins import get_plugin_manager
from hermes_state import SessionDB
from run_agent import AIAgent

import tenfold
from tenfold.apps.adapters.hermes import TenfoldEngine, find_first_session, join_users, register
from tenfold.errors import BadInput
from tenfold.store.location import open_store
from tests.models.loopback import Got, Loopback, Served

Json = dict[str, Any]
HOME = Path(os.environ["HERMES_HOME"])
WINDOW = 8_000
PLUGIN = f"""\
from tenfold.apps.adapters.hermes import TenfoldEngine


def register(ctx):
    ctx.register_context_engine(TenfoldEngine(window={WINDOW}))
"""
LONG = "Read this part and keep it in mind. " * 60


@pytest.fixture(scope="module", autouse=True)
def _home() -> Iterator[None]:
    """Removes what Hermes has written."""
    yield
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the place of the store, which the settings name."""
    place = str(tmp_path / "tenfold.db")
    monkeypatch.setenv("TENFOLD_STORE", place)
    return place


@pytest.fixture
def database(tmp_path: Path) -> SessionDB:
    """Opens a database of Hermes."""
    return SessionDB(tmp_path / "state.db")


@pytest.fixture
def provider() -> Iterator[Loopback]:
    """Serves a model that always says the same, and counts as this project's tests do."""
    with Loopback(script=lambda got: Served("It is done.", tokens=(got.size // 4, 10))) as loopback:
        yield loopback


def configure(*, in_place: bool = True) -> None:
    """Writes what a user writes: the plugin, and the settings that choose it."""
    folder = HOME / "plugins" / "tenfold"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text("name: tenfold\nversion: 1.0.0\ndescription: Compacts conversations\n")
    (folder / "__init__.py").write_text(PLUGIN)
    settings = {
        "plugins": {"enabled": ["tenfold"]},
        "context": {"engine": "tenfold"},
        "model": {"context_length": 64_000},
        "compression": {"in_place": in_place},
    }
    (HOME / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    get_plugin_manager().discover_and_load(force=True)


def build_agent(loopback: Loopback, database: SessionDB, session: str) -> AIAgent:
    """Builds an agent of Hermes with the engine from its plugins."""
    return AIAgent(
        model="gpt-4o-mini",
        provider="custom",
        base_url=f"{loopback.url}/v1",
        api_key="nothing",
        enabled_toolsets=["todo", "context_engine"],
        session_id=session,
        session_db=database,
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
    )


def converse(agent: AIAgent, *words: str, history: list[Json] | None = None) -> Json:
    """Says something to an agent, each after the answer to the one before. Returns what the last run gave."""
    result: Json = {"messages": history or []}
    for each in words:
        result = agent.run_conversation(each, conversation_history=result["messages"])
    return result


def build_engine(session: str = "s", *, window: int = 3_000, **options: Any) -> TenfoldEngine:  # noqa: ANN401 - those of it
    """Builds an engine as Hermes sets it up for a session."""
    engine = TenfoldEngine(window=window, **options)
    engine.update_model(model="gpt-4o-mini", context_length=64_000)
    engine.bind_session_state(session_db=None, session_id=session)
    engine.get_tool_schemas()
    engine.on_session_start(session, platform="cli")
    return engine


def build_messages(steps: int, *, marked: bool = False) -> list[Json]:
    """Builds a conversation as Hermes keeps it, with the fields of its own books."""
    messages: list[Json] = [{"role": "user", "content": "Read all parts. Never touch secret.toml.", "message_id": "m1"}]
    for at in range(steps):
        call = {
            "id": f"c{at}",
            "call_id": f"c{at}",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        answer = {"role": "assistant", "content": "", "reasoning": f"Part {at} is next.", "finish_reason": "tool_calls"}
        content = f"line {at} of a long file\n" * 60
        messages += [
            {**answer, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{at}", "tool_name": "look", "content": content, "timestamp": 1.5},
        ]
    return [{**each, "_db_persisted": True} for each in messages] if marked else messages


def test_it_is_an_engine_of_hermes_and_registers_itself() -> None:
    """The plugin's `register` hands it over."""
    given: list[Any] = []

    class Context:
        def register_context_engine(self, engine: Any) -> None:  # noqa: ANN401 - of Hermes' class
            given.append(engine)

    register(Context())
    assert isinstance(given[0], ContextEngine)
    assert given[0].name == "tenfold"


def test_a_list_gets_half_as_long_and_keeps_the_newest_messages(store: str) -> None:
    """What Hermes notes of a message stays, but not the mark that its database has it."""
    messages = build_messages(30, marked=True)
    before = copy.deepcopy(messages)
    engine = build_engine(store=store)
    shown = engine.compress(messages, current_tokens=9_000)
    assert messages == before
    assert len(json.dumps(shown)) < len(json.dumps(messages)) / 2
    assert shown[-2:] == build_messages(30)[-2:]
    assert not any("_db_persisted" in each for each in shown)
    assert "secret.toml" in json.dumps(shown)
    assert "recall_expand(block=" in json.dumps(shown)
    assert engine.compression_count == 1
    again = engine.compress([*shown, *build_messages(34)[-8:]], current_tokens=3_000)
    assert len(json.dumps(again)) < len(json.dumps(shown)) + 3_000
    assert "secret.toml" in json.dumps(again)
    (row,) = open_store(store).list_sessions("default")
    assert row.block_count == 2


def test_what_is_shortened_names_the_tool_that_gives_it_back(store: str) -> None:
    """Also in a window that is large enough, where Hermes alone decides."""
    assert "recall_read(entry=" in json.dumps(build_engine(store=store, window=100_000).compress(build_messages(30)))


def test_without_recall_no_tool_is_offered_or_named(store: str) -> None:
    """The model would look for tools that it does not have."""
    engine = build_engine(store=store, recall=False)
    assert engine.get_tool_schemas() == []
    assert "recall_" not in json.dumps(engine.compress(build_messages(30)))


def test_images_and_calls_of_one_answer_stay(store: str) -> None:
    """A content of parts is passed on as it is."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    calls = [{"id": f"x{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for at in range(2)]
    tail: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
        {"role": "assistant", "content": None, "tool_calls": calls, "codex_reasoning_items": [{"id": "rs_1"}]},
        *({"role": "tool", "tool_call_id": each["id"], "content": "a dot"} for each in calls),
    ]
    shown = build_engine(store=store).compress([*build_messages(30), *tail])
    assert [each for each in shown if each in tail] == tail


def test_neighbouring_user_messages_are_joined() -> None:
    """Hermes would join them itself. What the provider was sent for one of them is no longer true."""
    joined = join_users([{"role": "user", "content": "One", "api_content": "One!"}, {"role": "user", "content": "Two"}])
    assert [set(each) for each in joined] == [{"role", "content"}]
    assert join_users(joined) == joined


def test_what_was_joined_is_known_again(store: str) -> None:
    """In a new process too. A message that seems changed would bring back what was hidden."""
    messages = build_messages(8)
    joints = 0
    for at in range(8, 40, 8):
        shown = build_engine(store=store).compress(messages)
        roles = [each["role"] for each in shown]
        assert ("user", "user") not in pairwise(roles)
        joints += json.dumps(shown).count("* * *")
        messages = [*shown, {"role": "user", "content": f"Go on at {at}."}, *build_messages(at + 8)[2 * at + 1 :]]
    assert joints
    (row,) = open_store(store).list_sessions("default")
    assert set(row.heads) == {"main"}
    assert row.entry_count == len(build_messages(32)) + 3 + row.block_count


def test_a_new_process_goes_on_with_the_list_that_hermes_has_kept(store: str) -> None:
    """Hermes strips texts when it reads them again. A message that seems changed would bring back what was hidden."""
    messages: list[Json] = []
    for at in range(12):
        said = {
            "role": "user",
            "content": f"{at}: {LONG}",
            "api_content": f"{at}: {LONG}\n\nIt is Monday, {at} o'clock.",
        }
        messages += [said, {"role": "assistant", "content": " It is done. "}]
    shown = build_engine(store=store).compress(messages)
    kept = [{**each, "content": each["content"].strip()} for each in shown]
    again = build_engine(store=store).compress([*kept, {"role": "user", "content": f"12: {LONG}"}])
    assert len(json.dumps(again)) < len(json.dumps(shown)) + len(LONG)
    assert "12: Read" in json.dumps(again)
    (row,) = open_store(store).list_sessions("default")
    assert set(row.heads) == {"main"}
    assert row.entry_count == len(messages) + 1 + row.block_count


def test_what_cannot_get_shorter_is_not_tried_again(store: str) -> None:
    """Until it has grown."""
    engine = build_engine(store=store)
    messages: list[Json] = [{"role": "user", "content": "Hello"}]
    assert engine.should_compress(2_600)
    assert engine.compress(messages, current_tokens=2_600) is messages
    assert not engine.should_compress(2_650)
    assert engine.should_compress(2_800)
    assert engine.compression_count == 0


def test_a_reset_forgets_what_requests_took(store: str) -> None:
    """As Hermes' own tests demand of an engine: nothing of the session before decides about the next one."""
    engine = build_engine(store=store)
    engine.update_from_response({"prompt_tokens": 2_600, "completion_tokens": 10})
    engine.compress([{"role": "user", "content": "Hello"}], current_tokens=2_600)
    assert not engine.should_compress(2_650)
    engine.on_session_reset()
    assert engine.should_compress(2_650)
    assert not engine.should_compress()
    counted = (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_real_prompt_tokens)
    assert counted == (0, 0, 0)
    assert engine.compression_count == 0


def test_the_threshold_is_that_of_the_policy_in_the_window(store: str) -> None:
    """Hermes asks from 0.85 of the window on, and follows another model."""
    engine = TenfoldEngine(store=store)
    engine.update_model("gpt-4o-mini", 100_000, base_url="", api_key="", provider="custom", api_mode="chat_completions")
    engine.bind_session_state(None, "s")
    assert engine.threshold_tokens == 85_000
    engine.update_model(model="gpt-4o-mini", context_length=200_000)
    assert engine.threshold_tokens == 170_000
    assert open_store(store).list_sessions("default") == []
    assert not engine.should_compress(169_999)
    assert engine.should_compress(170_000)


def test_what_the_provider_counts_corrects_the_rough_count(store: str) -> None:
    """A rough count that was twice as high as the real one does not compact."""
    engine = build_engine(store=store)
    assert not engine.should_defer_preflight_to_real_usage(2_000)
    engine.update_from_response({"prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010})
    assert engine.last_prompt_tokens == engine.last_real_prompt_tokens == 1_000
    assert engine.should_defer_preflight_to_real_usage(4_000)
    assert not engine.should_defer_preflight_to_real_usage(6_000)
    engine.update_from_response({})
    assert engine.last_prompt_tokens == 1_000


def test_a_copy_for_another_agent_shares_nothing(store: str) -> None:
    """Hermes copies the engine that is registered, and a sub-agent has a session of its own."""
    engine = build_engine("caller", store=store)
    engine.compress(build_messages(30))
    other = copy.deepcopy(engine)
    other.update_model(model="gpt-4o-mini", context_length=64_000)
    other.bind_session_state(None, "sub")
    assert other.compression_count == 0
    assert "secret.toml" not in json.dumps(other.compress([{"role": "user", "content": f"Count: {LONG}"}] * 9))
    assert {row.info.id for row in open_store(store).list_sessions("default")} == {"caller", "sub"}


def test_a_wrong_object_is_refused(store: str) -> None:
    """The error says what it is, and what a message is."""
    wrong: Any = ["Hello"]
    with pytest.raises(BadInput, match="str is no message of Hermes"):
        build_engine(store=store).compress(wrong)


def test_the_model_looks_up_what_it_no_longer_sees(store: str) -> None:
    """The answer is JSON, as Hermes wants it."""
    engine = build_engine(store=store)
    engine.compress(build_messages(30))
    found = json.loads(engine.handle_tool_call("recall_search", {"words": "line 0 of a long file"}, messages=[]))
    assert "line 0 of" in found["result"]


def test_an_agent_of_hermes_goes_on_past_its_window(store: str, database: SessionDB, provider: Loopback) -> None:
    """Also in a new process, which has the list from Hermes' database."""
    configure()
    agent = build_agent(provider, database, "thread")
    assert isinstance(agent.context_compressor, TenfoldEngine)
    assert {"recall_search", "recall_read", "recall_expand"} <= agent.valid_tool_names
    assert get_plugin_manager()._context_engine is not agent.context_compressor
    converse(agent, "Never touch secret.toml.", *(f"{at}: {LONG}" for at in range(12)))
    later = build_agent(provider, database, "thread")
    history = database.get_messages_as_conversation("thread")
    converse(later, *(f"{at}: {LONG}" for at in range(12, 20)), history=history)
    assert max(got.size for got in provider.requests) < 4 * WINDOW
    newest = provider.requests[-1].prompt
    assert "tenfold-summary" in newest
    assert "secret.toml" in newest
    assert newest.count("19: Read this part") == 1
    (row,) = open_store(store).list_sessions("default")
    assert row.info.id == "thread"
    assert row.block_count >= 2
    assert "3: Read" in tenfold.open_session("thread", store=store).tools.search("3: Read this part")


def test_a_session_goes_on_where_hermes_begins_a_new_one(store: str, database: SessionDB, provider: Loopback) -> None:
    """With `in_place: false` each compaction ends a session of Hermes. A new process finds the first one."""
    configure(in_place=False)
    agent = build_agent(provider, database, "first")
    result = converse(agent, *(f"{at}: {LONG}" for at in range(12)))
    assert agent.session_id != "first"
    assert find_first_session(database, agent.session_id) == "first"
    later = build_agent(provider, database, agent.session_id)
    converse(later, *(f"{at}: {LONG}" for at in range(12, 20)), history=result["messages"])
    assert [row.info.id for row in open_store(store).list_sessions("default")] == ["first"]
    assert max(got.size for got in provider.requests) < 4 * WINDOW


@pytest.mark.usefixtures("store")
def test_a_refusal_is_answered_by_a_shorter_request(database: SessionDB) -> None:
    """The provider takes less than the window that we were told. Hermes asks for a shorter list, and tries again."""
    limit = 20_000

    def answer(got: Got) -> Served:
        said = "This model's maximum context length is 5000 tokens. Please reduce the length of the messages."
        return Served("It is done.") if got.size < limit else Served(status=400, error=said)

    configure()
    with Loopback(script=answer) as loopback:
        agent = build_agent(loopback, database, "refused")
        result = converse(agent, *(f"{at}: {LONG}" for at in range(8)))
        sizes = [got.size for got in loopback.requests]
    refused = next(at for at, size in enumerate(sizes) if size >= limit)
    assert sizes[refused + 1] < limit
    assert result["final_response"] == "It is done."
    assert agent.context_compressor.threshold_tokens == 4_250


@pytest.mark.usefixtures("store")
def test_an_agent_calls_the_tools(database: SessionDB) -> None:
    """They are answered from the session of the agent that calls them."""

    def answer(got: Got) -> Served:
        asked = got.body["messages"][-1]
        is_asked = asked["role"] == "user" and "locker" in str(asked["content"])
        call = ("1", "recall_search", {"words": "locker zebra"})
        tokens = (got.size // 4, 10)
        return Served("I look.", "tool", tokens=tokens, call=call) if is_asked else Served("It is done.", tokens=tokens)

    configure()
    with Loopback(script=answer) as loopback:
        agent = build_agent(loopback, database, "looking")
        words = ("Note: zebra-17 has number 5.", *(f"{at}: {LONG}" for at in range(12)), "Which locker?")
        result = converse(agent, *words)
    (found,) = [each for each in result["messages"] if each["role"] == "tool" and "result" in str(each["content"])]
    assert "zebra-17" in found["content"]
