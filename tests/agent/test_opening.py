"""Opening an agent: which model, which session, which settings, and who writes the summaries."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenfold.agent import Agent
from tenfold.agent.demonstration import NAME
from tenfold.agent.opening import KEYS, WINDOW, Wanted, change, model_of, opened
from tenfold.agent.workbench import Kind
from tenfold.errors import BadInput, NotFound, UsageError
from tenfold.events import Ended, Event, RunEnded
from tenfold.extensions import Extension
from tenfold.llm.provider import client_for
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import counter_for
from tenfold.meter.windows import window_of
from tenfold.record.ask import Outcome
from tenfold.transcripts.files import read_file
from tenfold.transcripts.load import load
from tests.llm.loopback import ANSWERS, Got, Loopback, Served, base_of
from tests.shape.scan import ROOT

OPENAI, ANTHROPIC = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
LONG = "Remember the price list. " + "The price of an item is what is paid for it. " * 120
heard: list[Event] = []
listening = Extension("listening")
listening.on(RunEnded)(heard.append)


async def no(line: str, kind: Kind) -> bool:
    del line, kind
    return False


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any key."""
    for variable in {row.variable for row in KEYS}:
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
    made = opened(MemoryStore(), Wanted(tmp_path), no)
    assert (made.model.model_name, made.window) == (NAME, WINDOW)
    assert opened(MemoryStore(), Wanted(tmp_path, window=9_000), no).window == 9_000


@pytest.mark.parametrize("row", KEYS, ids=lambda row: row.variable)
def test_a_key_that_is_there_chooses_its_providers_model(bare: pytest.MonkeyPatch, row: object) -> None:
    (key,) = [one for one in KEYS if one is row]
    bare.setenv(key.variable, "none")
    name, model = model_of(Wanted(Path()))
    assert name == key.model
    assert model.model_name == key.model.partition(":")[2]
    assert model.context_window or window_of(key.model), "its window is known"


def test_the_first_key_of_the_table_wins_and_an_asked_model_before_it(tmp_path: Path) -> None:
    assert model_of(Wanted(tmp_path))[0] == KEYS[0].model
    assert model_of(Wanted(tmp_path, OPENAI))[0] == OPENAI
    assert model_of(Wanted(tmp_path, NAME))[0] == NAME


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(Path(), "gpt-4o"), "write PROVIDER:MODEL"),
        (Wanted(Path(), "nobody:gpt-4o"), "no provider is called 'nobody'"),
        (Wanted(Path(), "groq:llama-3.3-70b-versatile"), "set the environment variable GROQ_API_KEY"),
        (Wanted(Path(), base_url="http://127.0.0.1:9/v1"), "name it with --model"),
        (Wanted(Path(), NAME, "http://127.0.0.1:9/v1"), "name it with --model"),
        (Wanted(Path(), OPENAI, policy="tenfolt"), "did you mean 'tenfold'"),
    ],
)
def test_what_cannot_be_opened_says_what_to_do(bare: pytest.MonkeyPatch, wanted: Wanted, told: str) -> None:
    bare.setenv("OPENAI_API_KEY", "none")
    store = MemoryStore()
    with pytest.raises(UsageError, match=told):
        opened(store, wanted, no)
    assert store.sessions("default") == [], "nothing is left behind"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such folder"):
        opened(MemoryStore(), Wanted(tmp_path / "nope", NAME), no)


def test_a_model_without_a_known_window_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    made = opened(MemoryStore(), Wanted(tmp_path, "mine", "http://127.0.0.1:9/v1"), no, report=said.append)
    assert made.window is None
    assert "openai:mine is not known" in said[0]


@pytest.mark.parametrize("model", ANSWERS)
def test_it_is_told_of_its_folder_and_offered_its_tools(tmp_path: Path, model: str) -> None:
    with Loopback("Fine.") as loopback:
        made = opened(MemoryStore(), Wanted(tmp_path, model, base_of(model, loopback)), no)
        assert asyncio.run(made.invoke("Hello")) == "Fine."
        (got,) = loopback.got
    assert f"the folder '{tmp_path.name}'" in got.prompt
    assert str(tmp_path.parent) not in got.prompt, "and not where it lies"
    for tool in ("read_file", "list_files", "search_files", "write_file", "edit_file", "run_command", "recall_search"):
        assert f'"{tool}"' in got.prompt


# -- the session -------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_with_the_model_it_was_recorded_with(tmp_path: Path) -> None:
    store = MemoryStore()
    first = opened(store, Wanted(tmp_path, OPENAI), no)
    asked = opened(store, Wanted(tmp_path, session="last"), no)
    assert asked.session.place.session == first.session.place.session
    assert asked.model.model_name == "gpt-4o-mini"
    beginning = first.session.place.session[:-2]
    other = opened(store, Wanted(tmp_path, ANTHROPIC, session=beginning), no)
    assert other.model.model_name == "claude-haiku-4-5"
    assert opened(store, Wanted(tmp_path, session="last"), no).model.model_name == "claude-haiku-4-5"


def test_a_recorded_model_whose_key_is_gone_is_told_of_and_another_goes_on(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    store = MemoryStore()
    bare.setenv("OPENAI_API_KEY", "none")
    opened(store, Wanted(tmp_path, OPENAI), no)
    bare.delenv("OPENAI_API_KEY")
    made = opened(store, Wanted(tmp_path, session="last"), no, report=said.append)
    assert made.model.model_name == NAME
    assert "set the environment variable OPENAI_API_KEY" in said[0]


def test_a_session_begun_as_a_demonstration_takes_the_key_that_is_there_now(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = MemoryStore()
    first = opened(store, Wanted(tmp_path), no)
    asyncio.run(first.invoke("What is this?"))
    bare.setenv("OPENAI_API_KEY", "none")
    made = opened(store, Wanted(tmp_path, session="last"), no)
    assert f"openai:{made.model.model_name}" == KEYS[1].model
    assert len(made.session.view.messages()) >= 4


def test_a_session_that_is_not_there_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no session yet"):
        opened(MemoryStore(), Wanted(tmp_path, NAME, session="last"), no)
    store = MemoryStore()
    opened(store, Wanted(tmp_path, NAME), no)
    with pytest.raises(NotFound, match="`tenfold sessions` lists them"):
        opened(store, Wanted(tmp_path, NAME, session="zz"), no)


@pytest.mark.parametrize("file", ["pricing.claude-code.jsonl", "logs.pi.jsonl"])
def test_a_session_of_another_tool_goes_on_and_is_not_taken_for_a_rewrite(tmp_path: Path, file: str) -> None:
    store = MemoryStore()
    load(read_file(ROOT / "examples" / "sessions" / file), store, "default", counter_for(NAME).counter)
    made = opened(store, Wanted(tmp_path, NAME, session="last"), no)
    assert "scripted demonstration" in asyncio.run(made.invoke("What is this?"))
    path = made.session.view.path
    assert made.session.view.marks.live, "it did not fit the window"
    assert path.length == len(store.original("default", made.session.place.session))


# -- the settings ------------------------------------------------------------------------------------------------------


def test_the_settings_are_read_live_and_an_unusable_edit_leaves_the_last_good_ones(
    tmp_path: Path, settings: Path
) -> None:
    said: list[str] = []
    made = opened(MemoryStore(), Wanted(tmp_path, NAME), no, report=said.append)
    assert made.session.policy.name == "tenfold"
    settings.write_text('[tenfold]\npolicy = "tiers"\n')
    assert made.session.policy.name == "tiers"
    settings.write_text('[tenfold]\npolicy = "tiersss"\n')
    assert made.session.policy.name == "tiers"
    assert len(said) == 1
    assert "the ones before stay in force" in said[0]


def test_an_asked_policy_comes_before_the_settings(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\npolicy = "tiers"\n')
    assert opened(MemoryStore(), Wanted(tmp_path, NAME, policy="clip"), no).session.policy.name == "clip"


def test_extensions_of_the_settings_and_given_ones_are_told(tmp_path: Path, settings: Path) -> None:
    settings.write_text(f'[tenfold]\nextensions = ["{__name__}:listening"]\n')
    given = Extension("given")
    told: list[Event] = []
    given.on(RunEnded)(told.append)
    heard.clear()
    asyncio.run(opened(MemoryStore(), Wanted(tmp_path, NAME), no, extensions=(given,)).invoke("What is this?"))
    assert len(heard) == len(told) == 1


# -- the summaries -----------------------------------------------------------------------------------------------------


def summarizing(got: Got) -> Served:
    return Served(
        "It was said that prices are paid." if not got.body.get("tools") else "Fine.", tokens=(len(got.prompt) // 4, 10)
    )


def filled(made: Agent) -> None:
    """Says so much that its window is outgrown."""
    for _ in range(14):
        asyncio.run(made.invoke(LONG))


def outgrown(wanted: Wanted) -> tuple[list[Outcome], Agent]:
    """An agent whose window was outgrown, and the Outcomes of its compactions."""
    done: list[Outcome] = []
    listener = Extension("outgrown")
    listener.on(Ended)(lambda event: done.append(event.outcome))
    made = opened(MemoryStore(), wanted, no, extensions=(listener,))
    filled(made)
    assert done
    return done, made


def test_the_agents_own_model_writes_the_summaries(tmp_path: Path) -> None:
    with Loopback(script=summarizing) as loopback:
        done, _ = outgrown(Wanted(tmp_path, OPENAI, base_of(OPENAI, loopback), window=16_000))
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert {got.body["model"] for got in loopback.got} == {"gpt-4o-mini"}


def test_the_settings_models_come_before_it(tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.write_text(f'[tenfold]\nmodel = "{ANTHROPIC}"\n')
    with Loopback(script=summarizing) as loopback:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", loopback.url)
        done, made = outgrown(Wanted(tmp_path, OPENAI, base_of(OPENAI, loopback), window=16_000))
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert {got.body["model"] for got in loopback.got if got.api == "messages"} == {"claude-haiku-4-5"}
        settings.write_text('[tenfold]\nmodel = "groq:llama-3.3-70b-versatile"\n')  # no key: told, and code writes
        done.clear()
        made.session.ahead = None  # what the earlier model was preparing may still be taken
        filled(made)
        assert {outcome.rung for outcome in done} <= {"extractive", "mechanical"}
        assert done


def test_a_model_of_the_settings_without_its_key_is_an_error_at_once(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\nmodel = "groq:llama-3.3-70b-versatile"\n')
    with pytest.raises(UsageError, match="GROQ_API_KEY"):
        opened(MemoryStore(), Wanted(tmp_path, OPENAI), no)


def test_auto_chooses_by_the_agents_model(tmp_path: Path, settings: Path) -> None:
    settings.write_text('[tenfold]\nmodel = "auto"\n')
    made = opened(MemoryStore(), Wanted(tmp_path, "openai:gpt-4o"), no)
    assert made.session.policy.summary.models == ("openai:gpt-4o-mini", "openai:gpt-4o")
    assert opened(MemoryStore(), Wanted(tmp_path, NAME), no).session.policy.summary.models == ()


def test_the_demonstration_is_summarized_by_code_alone(tmp_path: Path) -> None:
    done, _ = outgrown(Wanted(tmp_path, NAME))
    assert all(outcome.spent.calls == 0 for outcome in done)


# -- another model on the way ------------------------------------------------------------------------------------------


def test_a_change_of_the_model_is_recorded_and_it_writes_the_summaries_too(tmp_path: Path) -> None:
    done, made = outgrown(Wanted(tmp_path, NAME))
    store = made.session.place.store
    with Loopback(script=summarizing) as loopback:
        change(made, OPENAI, base_url=base_of(OPENAI, loopback), window=16_000)
        assert asyncio.run(made.invoke("And now?")) == "Fine."
        done.clear()
        filled(made)
        assert any(outcome.spent.calls >= 1 for outcome in done)
        assert made.window == 16_000
    assert store.sessions("default")[0].info.model == OPENAI
    change(made, NAME)
    assert (made.model.model_name, made.window) == (NAME, WINDOW)
    assert "scripted demonstration" in asyncio.run(made.invoke("And now?"))


def test_a_change_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    made = opened(store, Wanted(tmp_path, OPENAI), no)
    with pytest.raises(UsageError, match="GROQ_API_KEY"):
        change(made, "groq:llama-3.3-70b-versatile")
    assert made.model.model_name == client_for(OPENAI).model_name
    assert store.sessions("default")[0].info.model == OPENAI
