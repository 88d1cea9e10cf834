"""`tiers`: the table `[compaction]` as it stands, and the model that is chosen where it names none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.factory import AgentOptions, change_model, open_agent
from tenfold.config.settings import load_settings
from tenfold.designs.tiers import CompactionConfig, compact_with_summarization, summarize_messages
from tenfold.designs.tiers.policy import tiers
from tenfold.errors import UsageError
from tenfold.models.choose import AUTO
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.tiers.making import GOOD, count_total, make_chat_list, make_talk
from tests.engine.making import COUNTER, make_call, make_result
from tests.models.conftest import SECRET
from tests.models.loopback import Loopback, get_base_url

TABLE = """
[compaction]
model = ""           # empty = auto-select
auto = true          # auto-compact on threshold
protected_messages = 12
"""
"""The document's own, word for word."""
SMALL = CompactionConfig(context_window=40_000)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "OPENROUTER"):
        monkeypatch.setenv(f"{name}_API_KEY", SECRET)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tenfold.toml"
    file.write_text(TABLE)
    monkeypatch.setenv("TENFOLD_CONFIG", str(file))
    return file


async def refuse(_: Action) -> bool:
    return False


# -- the table ---------------------------------------------------------------------------------------------------------


def test_each_of_its_keys_counts(settings: Path) -> None:
    settings.write_text('[compaction]\nmodel = "openai:gpt-5-nano"\nauto = false\nprotected_messages = 4\n')
    made = load_settings(settings, environ={}).build_policy(COUNTER)
    assert made.summary.models == ("openai:gpt-5-nano",)
    assert not made.auto
    assert made.stages == tiers(COUNTER, protected_messages=4).stages
    settings.write_text("[compaction]\n")
    assert load_settings(settings, environ={}).build_policy(COUNTER).summary.models == (AUTO,), "all have defaults"


def test_what_tenfolds_own_tables_and_variables_say_wins(settings: Path) -> None:
    own = '[tenfold]\nmodel = "openai:own"\n[tenfold.presets.tiers]\nprotected_messages = 3\nsummary_role = "system"\n'
    settings.write_text(own + TABLE)
    made = load_settings(settings, environ={}).build_policy(COUNTER)
    assert (made.name, made.summary.models, made.summary.role) == ("tiers", ("openai:own",), "system")
    assert made.stages == tiers(COUNTER, protected_messages=3).stages
    environ = {"TENFOLD_MODEL": "openai:other", "TENFOLD_AUTO": "no"}
    made = load_settings(settings, environ=environ).build_policy(COUNTER)
    assert (made.summary.models, made.auto) == (("openai:other",), False)
    assert load_settings(settings, environ={"TENFOLD_POLICY": "tail"}).build_policy(COUNTER).name == "tail"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[compaction]\nprotected = 4\n", "protected"),
        ('[compaction]\nauto = "yes"\n', "auto"),
        ("compaction = 3\n", r"\[compaction\]"),
        ('[tenfold]\npolicy = "tail"\n[compaction]\nprotected_messages = 4\n', "tail"),
        ("[compactoin]\nauto = true\n", r"did you mean 'compaction'"),
        ("[compaction]\nprotected_messages = -1\n", "protected_messages"),
    ],
)
def test_what_it_cannot_mean_is_refused(settings: Path, text: str, told: str) -> None:
    settings.write_text(text)
    with pytest.raises(UsageError, match=told):
        load_settings(settings, environ={}).build_policy(COUNTER)


# -- the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session_model", "written_by"),
    [("claude-sonnet-4-5", "anthropic:claude-haiku-"), ("gpt-5", "openai:gpt-4o-mini"), ("", "own"), ("mine", "own")],
)
def test_a_session_of_the_library_chooses_by_its_model(settings: Path, session_model: str, written_by: str) -> None:
    model = ScriptedModel([GOOD])
    policy = load_settings(settings, environ={}).build_policy(COUNTER)
    place = SessionAddress(SqliteStore(":memory:"), "s")
    session = Session.create(place, policy, model=session_model, answerer=Answerer(model=model))
    session.append(*make_talk())
    assert session.compact(to=count_total(make_talk()) // 2).rung == "model"
    asked = model.asks[0].model
    assert asked.startswith(written_by) or (written_by == "own" and ":" not in asked)
    assert asked != AUTO
    session.compactor.use_model("gpt-5")
    assert session.policy.summary.models == ("openai:gpt-4o-mini", "openai:gpt-5")


def test_a_fallback_stands_behind_the_chosen_models(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\nfallbacks = ["anthropic:mine"]\n' + TABLE)
    expected = ["openai:gpt-4o-mini", "openai:gpt-5", "anthropic:mine"]
    policy = load_settings(settings, environ={}).build_policy(COUNTER)
    place = SessionAddress(SqliteStore(":memory:"), "s")
    session = Session.create(place, policy, model="gpt-5", answerer=Answerer(model=ScriptedModel([GOOD])))
    assert list(session.policy.summary.models) == expected
    session.compactor.use_model("")
    assert list(session.policy.summary.models) == ["anthropic:mine"], "no provider is known"
    agent = open_agent(SqliteStore(":memory:"), AgentOptions(tmp_path, "openai:gpt-5"), refuse)
    assert list(agent.session.policy.summary.models) == expected


def test_the_functions_choose_by_the_sessions_model(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = make_chat_list(40)
    with Loopback(GOOD) as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        for config, expected in ((SMALL, "gpt-4o-mini"), (replace(SMALL, summarization_model="openai:mine"), "mine")):
            done = asyncio.run(compact_with_summarization(messages, "openai:gpt-5", config, counter=COUNTER))
            assert done.tier_reached == "Summarized"
            assert loopback.requests[-1].body["model"] == expected
        one = asyncio.run(summarize_messages(messages, "openai:gpt-5", SMALL, counter=COUNTER))
        assert one.summary.startswith("## Task State")
        assert loopback.requests[-1].body["model"] == "gpt-4o-mini"
        configured = replace(SMALL, summarization_model="openai:mine")
        alone = asyncio.run(compact_with_summarization(messages, None, configured, counter=COUNTER))
        assert (alone.tier_reached, loopback.requests[-1].body["model"]) == ("Summarized", "mine")


def test_the_chat_chooses_by_its_agents_model_and_again_when_that_changes(tmp_path: Path, settings: Path) -> None:
    assert settings.is_file()
    agent = open_agent(SqliteStore(":memory:"), AgentOptions(tmp_path, "openai:gpt-5"), refuse)
    assert agent.session.policy.name == "tiers"
    assert agent.session.policy.summary.models == ("openai:gpt-4o-mini", "openai:gpt-5")
    change_model(agent, "anthropic:claude-opus-4-5")
    first, own = agent.session.policy.summary.models
    assert first.startswith("anthropic:claude-haiku-")
    assert own == "anthropic:claude-opus-4-5"


def test_a_model_that_is_edited_into_the_settings_without_its_provider_is_told(tmp_path: Path, settings: Path) -> None:
    """The agent's own model wrote in its place, and nobody heard of it."""
    options = AgentOptions(tmp_path, "openai:gpt-5", window=24_000)
    agent = open_agent(SqliteStore(":memory:"), options, refuse)
    agent.session.append(*make_talk(60))
    settings.write_text('[compaction]\nmodel = "no-such-model"\n')
    outcome = asyncio.run(agent.run_compaction())
    assert outcome.spent.calls <= 1
    assert "'no-such-model' names no provider" in f"{outcome.reason} {outcome.notes}"


@pytest.mark.parametrize("session_model", ["", "gpt-5"])
def test_a_session_without_a_model_to_ask_runs_tiers_1_and_2(settings: Path, session_model: str) -> None:
    policy = load_settings(settings, environ={}).build_policy(COUNTER)
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, model=session_model)
    for n in range(20):
        session.append(make_call(f"c{n}", "run"), make_result(f"c{n}", "one line of output\n" * 400, name="run"))
    outcome = session.compact(to="10%")
    assert (outcome.status, outcome.rung, outcome.spent.calls) == ("compacted", "none", 0)
    assert outcome.notes[0].startswith("no model was asked for a summary: ")
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, model=session_model)
    session.append(*make_talk())
    outcome = session.compact(to="50%")
    assert (outcome.status, len(outcome.notes)) == ("nothing", 1), "a talk has nothing that tiers 1 and 2 could shorten"


def test_a_named_model_without_a_key_leaves_tiers_1_and_2(
    tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chat refused to start, and the functions raised."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    settings.write_text('[compaction]\nmodel = "haiku"\n')
    agent = open_agent(SqliteStore(":memory:"), AgentOptions(tmp_path, "openai:gpt-5", window=40_000), refuse)
    for n in range(20):
        agent.session.append(make_call(f"c{n}", "run"), make_result(f"c{n}", "one line of output\n" * 400, name="run"))
    outcome = asyncio.run(agent.run_compaction())
    assert (outcome.status, outcome.rung) == ("compacted", "none")
    named = replace(SMALL, summarization_model="anthropic:claude-haiku-4-5")
    done = asyncio.run(compact_with_summarization(make_chat_list(40), "openai:gpt-5", named, counter=COUNTER))
    assert (done.tier_reached, done.messages) == ("None", make_chat_list(40))
    assert "ANTHROPIC_API_KEY" in done.outcome.notes[0]
    one = asyncio.run(summarize_messages(make_chat_list(40), None, named, counter=COUNTER))
    assert "ANTHROPIC_API_KEY" in one.reason


def test_a_local_model_writes_its_own_summaries(tmp_path: Path, settings: Path) -> None:
    """A conversation with a server of one's own does not go to a provider because its client has the same name."""
    assert settings.is_file()
    with Loopback(GOOD) as loopback:
        options = AgentOptions(tmp_path, "openai:qwen", get_base_url("openai:", loopback), window=24_000)
        agent = open_agent(SqliteStore(":memory:"), options, refuse)
        agent.session.append(*make_talk(60))
        assert asyncio.run(agent.run_compaction()).rung == "model"
        assert {got.body["model"] for got in loopback.requests} == {"qwen"}
    change_model(agent, "openai:gpt-5")
    assert agent.session.policy.summary.models == ("openai:gpt-4o-mini", "openai:gpt-5")
