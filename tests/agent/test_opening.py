"""Opening an agent: which model, which session, which settings, and who writes the summaries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.demonstration import DEMONSTRATION, DEMONSTRATION_WINDOW
from tenfold.apps.agent.factory import PROVIDER_KEYS, AgentOptions, change_model, choose_model, open_agent
from tenfold.config.extensions import Extension
from tenfold.core.meter.counters import choose_counter
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import Outcome
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.events import CompactionEnd, Event, RunEnd
from tenfold.formats.importer import import_sessions
from tenfold.formats.session_files import read_file
from tenfold.models.provider import open_client
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tests.models.loopback import ANSWERS, Got, Loopback, Served, get_base_url
from tests.shape.scan import ROOT

OPENAI, ANTHROPIC = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
LONG = "Remember the price list. " + "The price of an item is what is paid for it. " * 120
heard: list[Event] = []
listening = Extension("listening")
listening.on(RunEnd)(heard.append)


async def refuse(action: Action) -> bool:
    del action
    return False


def open_at(folder: Path, model: str = "", base_url: str = "", *, store: Store | None = None, **wanted: Any) -> Agent:  # noqa: ANN401 - fields of the options
    """Opens an agent for this folder."""
    further = {name: wanted.pop(name) for name in ("report", "extensions") if name in wanted}
    options = AgentOptions(folder, model, base_url, **wanted)
    return open_agent(store or SqliteStore(":memory:"), options, refuse, **further)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any key."""
    for variable in {row.variable for row in PROVIDER_KEYS}:
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file in force."""
    file = tmp_path / "settings.toml"
    file.write_text("[tenfold]\n")
    monkeypatch.setenv("TENFOLD_CONFIG", str(file))
    return file


# -- the model ---------------------------------------------------------------------------------------------------------


def test_without_any_key_it_is_the_demonstration_in_a_small_window(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    del bare
    made = open_at(tmp_path)
    assert (made.model.model_name, made.window) == (DEMONSTRATION, DEMONSTRATION_WINDOW)
    assert open_at(tmp_path, window=9_000).window == 9_000


@pytest.mark.parametrize("row", PROVIDER_KEYS, ids=lambda row: row.variable)
def test_a_key_that_is_there_chooses_its_providers_model(bare: pytest.MonkeyPatch, row: object) -> None:
    (key,) = [one for one in PROVIDER_KEYS if one is row]
    bare.setenv(key.variable, "none")
    name, model = choose_model(AgentOptions(Path()))
    assert name == key.model
    assert model.model_name == key.model.partition(":")[2]
    assert model.context_window or find_window(key.model), "its window is known"


def test_the_first_key_of_the_table_wins_and_an_asked_model_before_it(tmp_path: Path) -> None:
    assert choose_model(AgentOptions(tmp_path))[0] == PROVIDER_KEYS[0].model
    assert choose_model(AgentOptions(tmp_path, OPENAI))[0] == OPENAI
    assert choose_model(AgentOptions(tmp_path, DEMONSTRATION))[0] == DEMONSTRATION


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (AgentOptions(Path(), "gpt-4o"), "write PROVIDER:MODEL"),
        (AgentOptions(Path(), "nobody:gpt-4o"), "no provider is called 'nobody'"),
        (AgentOptions(Path(), "groq:llama-3.3-70b-versatile"), "set the environment variable GROQ_API_KEY"),
        (AgentOptions(Path(), base_url="http://127.0.0.1:9/v1"), "name it with --model"),
        (AgentOptions(Path(), DEMONSTRATION, "http://127.0.0.1:9/v1"), "name it with --model"),
        (AgentOptions(Path(), OPENAI, policy="tenfolt"), "did you mean 'tenfold'"),
    ],
)
def test_what_cannot_be_opened_says_what_to_do(bare: pytest.MonkeyPatch, wanted: AgentOptions, told: str) -> None:
    bare.setenv("OPENAI_API_KEY", "none")
    store = SqliteStore(":memory:")
    with pytest.raises(UsageError, match=told):
        open_agent(store, wanted, refuse)
    assert store.list_sessions("default") == [], "nothing is left behind"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such folder"):
        open_at(tmp_path / "nope", DEMONSTRATION)


def test_a_model_without_a_known_window_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    made = open_at(tmp_path, "mine", "http://127.0.0.1:9/v1", report=said.append)
    assert made.window is None
    assert "openai:mine is unknown" in said[0]


@pytest.mark.parametrize("model", ANSWERS)
def test_it_is_told_of_its_folder_and_offered_its_tools(tmp_path: Path, model: str) -> None:
    with Loopback("Fine.") as loopback:
        made = open_at(tmp_path, model, get_base_url(model, loopback))
        assert asyncio.run(made.invoke("Hello")) == "Fine."
        (got,) = loopback.requests
    assert f"the folder '{tmp_path.name}'" in got.prompt
    assert str(tmp_path.parent) not in got.prompt, "and not where it lies"
    for tool in ("read_file", "list_files", "search_files", "write_file", "edit_file", "run_command", "recall_search"):
        assert f'"{tool}"' in got.prompt


# -- the session -------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_with_the_model_it_was_recorded_with(tmp_path: Path) -> None:
    store = SqliteStore(":memory:")
    first = open_at(tmp_path, OPENAI, store=store)
    asked = open_at(tmp_path, session="last", store=store)
    assert asked.session.address.session == first.session.address.session
    assert asked.model.model_name == "gpt-4o-mini"
    beginning = first.session.address.session[:-2]
    other = open_at(tmp_path, ANTHROPIC, session=beginning, store=store)
    assert other.model.model_name == "claude-haiku-4-5"
    assert open_at(tmp_path, session="last", store=store).model.model_name == "claude-haiku-4-5"


def test_a_recorded_model_whose_key_is_gone_is_told_of_and_another_goes_on(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    store = SqliteStore(":memory:")
    bare.setenv("OPENAI_API_KEY", "none")
    open_at(tmp_path, OPENAI, store=store)
    bare.delenv("OPENAI_API_KEY")
    made = open_at(tmp_path, session="last", store=store, report=said.append)
    assert made.model.model_name == DEMONSTRATION
    assert "set the environment variable OPENAI_API_KEY" in said[0]


def test_a_session_begun_as_a_demonstration_takes_the_key_that_is_there_now(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = SqliteStore(":memory:")
    first = open_at(tmp_path, store=store)
    asyncio.run(first.invoke("What is this?"))
    bare.setenv("OPENAI_API_KEY", "none")
    made = open_at(tmp_path, session="last", store=store)
    assert f"openai:{made.model.model_name}" == PROVIDER_KEYS[1].model
    assert len(made.session.view.get_messages()) >= 4


def test_a_session_that_is_not_there_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="holds no session yet"):
        open_at(tmp_path, DEMONSTRATION, session="last")
    store = SqliteStore(":memory:")
    open_at(tmp_path, DEMONSTRATION, store=store)
    with pytest.raises(NotFoundError, match="`tenfold sessions` lists them"):
        open_at(tmp_path, DEMONSTRATION, session="zz", store=store)


@pytest.mark.parametrize("file", ["pricing.claude-code.jsonl", "logs.pi.jsonl"])
def test_a_session_of_another_tool_goes_on_and_is_not_taken_for_a_rewrite(tmp_path: Path, file: str) -> None:
    store = SqliteStore(":memory:")
    import_sessions(
        read_file(ROOT / "examples" / "sessions" / file), store, "default", choose_counter(DEMONSTRATION).counter
    )
    with Loopback(script=serve_summary) as loopback:
        options = AgentOptions(tmp_path, OPENAI, get_base_url(OPENAI, loopback), window=16_000, session="last")
        made = open_agent(store, options, refuse)
        assert asyncio.run(made.invoke("What is this?")) == "Fine."
    path = made.session.view.path
    assert made.session.view.state.live_blocks, "it did not fit the window"
    assert path.length == len(store.read_entries("default", made.session.address.session))


def test_a_script_never_goes_on_with_a_session_of_a_real_model(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a key it answered, and its answers stayed in the session."""
    del bare
    store = SqliteStore(":memory:")
    file = ROOT / "examples" / "sessions" / "logs.pi.jsonl"
    (id_,) = import_sessions(read_file(file), store, "default", choose_counter(DEMONSTRATION).counter)
    count = len(store.read_entries("default", id_))
    for model in ("", DEMONSTRATION):
        with pytest.raises(UsageError, match=r"is a script .* name one with --model "):
            open_at(tmp_path, model, session="last", store=store)
    assert len(store.read_entries("default", id_)) == count


# -- the settings ------------------------------------------------------------------------------------------------------


def test_the_settings_are_read_live_and_an_unusable_edit_leaves_the_last_good_ones(
    tmp_path: Path, settings: Path
) -> None:
    said: list[str] = []
    made = open_at(tmp_path, DEMONSTRATION, report=said.append)
    assert made.session.policy.name == "tenfold"
    settings.write_text('[tenfold]\npolicy = "tiers"\n')
    assert made.session.policy.name == "tiers"
    settings.write_text('[tenfold]\npolicy = "tiersss"\n')
    assert made.session.policy.name == "tiers"
    assert len(said) == 1
    assert "the ones before stay in force" in said[0]


def test_an_asked_policy_comes_before_the_settings(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\npolicy = "tiers"\n')
    assert open_at(tmp_path, DEMONSTRATION, policy="clip").session.policy.name == "clip"


def test_extensions_of_the_settings_and_given_ones_are_told(tmp_path: Path, settings: Path) -> None:
    settings.write_text(f'[tenfold]\nextensions = ["{__name__}:listening"]\n')
    given = Extension("given")
    told: list[Event] = []
    given.on(RunEnd)(told.append)
    heard.clear()
    asyncio.run(open_at(tmp_path, DEMONSTRATION, extensions=(given,)).invoke("What is this?"))
    assert len(heard) == len(told) == 1


# -- the summaries -----------------------------------------------------------------------------------------------------


def serve_summary(got: Got) -> Served:
    return Served(
        "It was said that prices are paid." if not got.body.get("tools") else "Fine.", tokens=(len(got.prompt) // 4, 10)
    )


def fill_window(made: Agent) -> None:
    """Says so much that its window is outgrown."""
    for _ in range(14):
        asyncio.run(made.invoke(LONG))


def outgrow_window(wanted: AgentOptions) -> tuple[list[Outcome], Agent]:
    """An agent whose window was outgrown, and the Outcomes of its compactions."""
    done: list[Outcome] = []
    listener = Extension("outgrown")
    listener.on(CompactionEnd)(lambda event: done.append(event.outcome))
    made = open_agent(SqliteStore(":memory:"), wanted, refuse, extensions=(listener,))
    fill_window(made)
    assert done
    return done, made


def test_the_agents_own_model_writes_the_summaries(tmp_path: Path) -> None:
    with Loopback(script=serve_summary) as loopback:
        done, _ = outgrow_window(AgentOptions(tmp_path, OPENAI, get_base_url(OPENAI, loopback), window=16_000))
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert {got.body["model"] for got in loopback.requests} == {"gpt-4o-mini"}


def test_the_settings_models_come_before_it(tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.write_text(f'[tenfold]\nmodel = "{ANTHROPIC}"\n')
    with Loopback(script=serve_summary) as loopback:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", loopback.url)
        done, made = outgrow_window(AgentOptions(tmp_path, OPENAI, get_base_url(OPENAI, loopback), window=16_000))
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert {got.body["model"] for got in loopback.requests if got.api == "messages"} == {"claude-haiku-4-5"}
        settings.write_text('[tenfold]\nmodel = "groq:llama-3.3-70b-versatile"\n')  # no key: told, and code writes
        done.clear()
        made.session.compactor.preparation = None  # what the earlier model was preparing may still be taken
        fill_window(made)
        assert {outcome.rung for outcome in done} <= {"extractive", "mechanical"}
        assert done


def test_a_model_of_the_settings_without_its_key_is_an_error_at_once(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\nmodel = "groq:llama-3.3-70b-versatile"\n')
    with pytest.raises(UsageError, match="GROQ_API_KEY"):
        open_at(tmp_path, OPENAI)


def test_auto_chooses_by_the_agents_model(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\nmodel = "auto"\n')
    made = open_at(tmp_path, "openai:gpt-4o")
    assert made.session.policy.summary.models == ("openai:gpt-4o-mini", "openai:gpt-4o")
    assert open_at(tmp_path, DEMONSTRATION).session.policy.summary.models == ()


def test_the_demonstration_is_summarized_by_code_alone(tmp_path: Path) -> None:
    done, _ = outgrow_window(AgentOptions(tmp_path, DEMONSTRATION))
    assert all(outcome.spent.calls == 0 for outcome in done)


# -- another model on the way ------------------------------------------------------------------------------------------


def test_a_change_of_the_model_is_recorded_and_it_writes_the_summaries_too(tmp_path: Path) -> None:
    done, made = outgrow_window(AgentOptions(tmp_path, DEMONSTRATION))
    store = made.session.address.store
    with Loopback(script=serve_summary) as loopback:
        change_model(made, OPENAI, base_url=get_base_url(OPENAI, loopback), window=16_000)
        assert asyncio.run(made.invoke("And now?")) == "Fine."
        done.clear()
        fill_window(made)
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert made.window == 16_000
    assert store.list_sessions("default")[0].info.model == OPENAI
    with pytest.raises(UsageError, match="is a script"):
        change_model(made, DEMONSTRATION)


def test_a_change_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(":memory:")
    made = open_at(tmp_path, OPENAI, store=store)
    with pytest.raises(UsageError, match="GROQ_API_KEY"):
        change_model(made, "groq:llama-3.3-70b-versatile")
    assert made.model.model_name == open_client(OPENAI).model_name
    assert store.list_sessions("default")[0].info.model == OPENAI
