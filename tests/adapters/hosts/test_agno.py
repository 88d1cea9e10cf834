"""`keep_in_window` and its converter, with the agents, teams, messages and model clients of agno."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agno", reason="make adapters installs it")

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.media import Audio, File, Image, Video
from agno.models.message import Message
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.team import Team
from msgspec.structs import replace

import tenfold
from tenfold.apps.adapters.agno import keep_in_window
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.agno import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

Json = dict[str, Any]
WINDOW = 4_000
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
TOO_LONG = "This model's maximum context length is 3000 tokens. However, your messages resulted in 4000 tokens."
PIXEL = b"\x89PNG\r\n\x1a\n"


class Provider(Loopback):
    """OpenAI's server: it refuses what the real one refuses, and a request that is longer than the window."""

    def __init__(self, answer: Callable[[Json], Served], *, window: int = WINDOW) -> None:
        self.issued, self.answer, self.window = Issued(), answer, window
        super().__init__(script=self._answer, sent=self.issued.note)

    def _answer(self, got: Got) -> Served:
        tokens = got.size // 4
        refusal = find_refusal(got.api, got.body, issued=self.issued, tokens=tokens, window=self.window)
        if refusal is not None:
            return Served(status=refusal.status, body=refusal.body)
        return replace(self.answer(got.body), tokens=(tokens, 20))

    @property
    def texts(self) -> list[list[str]]:
        """What the messages of each request say."""
        return [[str(message["content"]) for message in got.body["messages"]] for got in self.requests]


class Watched(OpenAIChat):
    """OpenAI's client. It keeps the lists that it was given."""

    def invoke(self, messages: list[Message], **rest: Any) -> Any:  # noqa: ANN401 - as agno has it
        """Keeps the list, and sends it."""
        GIVEN.append(messages)
        return super().invoke(messages=messages, **rest)


GIVEN: list[list[Message]] = []


def look(at: int) -> str:
    """Looks at a place."""
    return f"place {at}: " + " ".join(f"word{at}x{n}" for n in range(120))


def call_until(steps: int) -> Callable[[Json], Served]:
    """A model that looks so many times at a place each, and then says that it is done."""
    made = iter(range(1, steps + 1))

    def answer(_: Json) -> Served:
        at = next(made, 0)
        return Served(f"Look {at}.", "tool", call=(f"c{at}", "look", {"at": at})) if at else Served("Done.")

    return answer


def build_agent(provider: Provider, store: object, *, recall: bool = True, **fields: object) -> Agent:
    model = Watched("gpt-4o", base_url=f"{provider.url}/v1", api_key="none", retries=0)
    agent = Agent(model=model, telemetry=False, **{"tools": [look], **fields})
    return keep_in_window(agent, recall=recall, window=WINDOW, store=str(store))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "items"),
    [
        (Message(role="system", content="Be brief."), [{"role": "system", "content": "Be brief."}]),
        (Message(role="user", content="Hello", name="ann"), [{"role": "user", "content": "Hello", "name": "ann"}]),
        (
            Message(role="assistant", content="I look.", tool_calls=[CALL], reasoning_content="Hm."),
            [{"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL]}],
        ),
        (
            Message(role="tool", content="it is red", tool_call_id="call_1", tool_name="look"),
            [{"role": "tool", "content": "it is red", "tool_call_id": "call_1", "name": "look"}],
        ),
        (
            Message(role="user", content="See", images=[Image(url="https://a.example/b.png", detail="low")]),
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "See"},
                        {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}},
                    ],
                }
            ],
        ),
    ],
)
def test_messages_of_each_kind_come_back(message: Message, items: list[Json]) -> None:
    assert CONVERTER.read(message) == items
    (built,) = CONVERTER.build(items)
    assert CONVERTER.read(built) == items
    names = ("role", "content", "name", "tool_name", "tool_call_id", "tool_calls", "reasoning_content")
    assert [getattr(built, name) for name in names] == [getattr(message, name) for name in names]


def test_media_of_each_kind_come_back_or_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    message = Message(
        role="user",
        content="See",
        images=[Image(content=PIXEL)],
        audio=[Audio(content=b"RIFF", format="wav"), Audio(url="https://a.example/b.mp3")],
        files=[File(filepath=tmp_path / "a.pdf"), File(url="https://a.example/c.pdf")],
        videos=[Video(url="https://a.example/d.mp4")],
    )
    (built,) = CONVERTER.build(CONVERTER.read(message))
    assert [image.content for image in built.images or ()] == [PIXEL]
    assert [audio.content for audio in built.audio or ()] == [b"RIFF"]
    assert [(file.filename, file.content) for file in built.files or ()] == [("a.pdf", b"%PDF")]
    assert all(name in str(built.content) for name in ("See", "b.mp3", "c.pdf", "d.mp4"))


def test_an_older_message_with_two_results_is_two_messages() -> None:
    results = [{"tool_call_id": f"call_{n}", "tool_name": "look", "content": f"r{n}"} for n in (1, 2)]
    items = CONVERTER.read(Message(role="tool", content=["r1", "r2"], tool_calls=results))
    assert [(item["tool_call_id"], item["content"]) for item in items] == [("call_1", "r1"), ("call_2", "r2")]


def test_something_else_is_refused() -> None:
    with pytest.raises(BadInput, match=r"dict is no message of agno: pass agno\.models\.message\.Message"):
        CONVERTER.read({"role": "user", "content": "Hello"})


# -- runs --------------------------------------------------------------------------------------------------------------


def test_one_long_run_stays_in_the_window_and_agno_keeps_all_of_it(store: Path) -> None:
    with Provider(call_until(25)) as provider:
        result = build_agent(provider, store).run("Look at all places.", session_id="s1")
    assert result.content is not None
    assert result.content.endswith("Done.")
    assert max(got.size // 4 for got in provider.requests) <= WINDOW
    assert len(provider.requests) == 26  # none was refused
    assert [m.role for m in result.messages or ()].count("tool") == 25
    assert all("word" in str(m.content) for m in result.messages or () if m.role == "tool")
    assert [row.info.id for row in open_store(store).list_sessions("default")] == ["s1"]


def test_what_was_not_replaced_is_sent_as_agnos_own_object(store: Path) -> None:
    GIVEN.clear()
    with Provider(call_until(25)) as provider:
        result = build_agent(provider, store, instructions="Be brief.").run("Look at all places.", session_id="s1")
    own = {id(message) for message in result.messages or ()}
    sent = GIVEN[-1]
    assert len(sent) < len(result.messages or ())
    assert any(id(message) not in own for message in sent)  # a summary, or a shortened result
    assert [id(message) in own for message in (sent[0], *sent[-2:])] == [True] * 3


@pytest.mark.parametrize("words", ["Go on.", "Look at it."])
def test_a_new_process_goes_on_with_what_was_said(store: Path, words: str) -> None:
    with Provider(lambda _: Served("The password is plum.")) as provider:
        build_agent(provider, store).run("Tell it.", session_id="s1")
        build_agent(provider, store).run(words, session_id="s1")
    assert provider.texts[-1] == ["Tell it.", "The password is plum.", words]


def test_a_run_that_begins_like_the_one_before_does_not_replace_it(store: Path) -> None:
    answers = iter(["First.", "Second.", "Third."])
    with Provider(lambda _: Served(next(answers))) as provider:
        agent = build_agent(provider, store)
        for words in ("Begin.", "Go on.", "Go on."):
            agent.run(words, session_id="s1")
    assert provider.texts[-1] == ["Begin.", "First.", "Go on.", "Second.", "Go on."]


def test_agnos_own_history_is_not_doubled(store: Path) -> None:
    with Provider(lambda _: Served("Yes.")) as provider:
        agent = build_agent(provider, store, db=InMemoryDb(), add_history_to_context=True, num_history_runs=9)
        for words in ("One?", "Two?", "Three?"):
            agent.run(words, session_id="s1")
    assert provider.texts[-1] == ["One?", "Yes.", "Two?", "Yes.", "Three?"]


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    steps = call_until(25)

    def answer(body: Json) -> Served:
        told = steps(body)
        if told.text == "Done." and "word1x7" not in json.dumps(body["messages"][-1]):
            return Served("", "tool", call=("find", "recall_search", {"words": "word1x7"}))
        return told

    with Provider(answer) as provider:
        build_agent(provider, store).run("Look at all places.", session_id="s1")
    offered = {tool["function"]["name"] for tool in provider.requests[0].body["tools"]}
    assert offered == {"look", "recall_search", "recall_read", "recall_expand"}
    assert "word1x7" in provider.texts[-1][-1]


def test_no_tools_are_offered_without_recall(store: Path) -> None:
    with Provider(call_until(1)) as provider:
        build_agent(provider, store, recall=False).run("Look.", session_id="s1")
    assert [tool["function"]["name"] for tool in provider.requests[0].body["tools"]] == ["look"]


def run_once(agent: Agent, way: str, words: str) -> str:
    """Runs an agent in one of the four ways, and returns what it says last."""
    match way:
        case "run":
            return str(agent.run(words, session_id="s1").content)
        case "arun":
            return str(asyncio.run(agent.arun(words, session_id="s1")).content)
        case "stream":
            return "".join(str(event.content or "") for event in agent.run(words, session_id="s1", stream=True))
        case _:

            async def collect() -> str:
                events = agent.arun(words, session_id="s1", stream=True)
                return "".join([str(event.content or "") async for event in events])

            return asyncio.run(collect())


@pytest.mark.parametrize("way", ["arun", "astream"])
def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path, way: str) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    with Provider(call_until(2)) as provider:
        model = OpenAIChat("gpt-4o", base_url=f"{provider.url}/v1", api_key="none", retries=0)
        agent = keep_in_window(Agent(model=model, telemetry=False, tools=[look]), recall=False, store=store)
        assert "Done." in run_once(agent, way, "Look.")
    assert store.askers
    assert threading.get_ident() not in store.askers


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
def test_a_refusal_as_too_long_is_answered_by_something_shorter(store: Path, way: str) -> None:
    steps, refused = call_until(6), list[int]()

    def answer(body: Json) -> Served:
        if len(json.dumps(body)) > 8_000 and not refused:
            refused.append(len(json.dumps(body)))
            return Served(status=400, error=TOO_LONG)
        return steps(body)

    with Provider(answer, window=9 * WINDOW) as provider:
        said = run_once(build_agent(provider, store), way, "Look at all places.")
        again = run_once(build_agent(provider, store), way, "And now?")
    assert "Done." in said
    assert "Done." in again
    sizes = [len(json.dumps(got.body)) for got in provider.requests]
    assert sizes[sizes.index(refused[0]) + 1] < refused[0]
    assert provider.texts[-1][-2:] == ["Done.", "And now?"]  # the last answer was kept


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
def test_other_errors_are_agnos(store: Path, way: str) -> None:
    with Provider(lambda _: Served(status=400, error="no such model")) as provider:
        agent = build_agent(provider, store)
        try:
            said = run_once(agent, way, "Look.")
        except Exception as exc:  # noqa: BLE001 - agno's own, of whatever kind
            said = str(exc)
    assert "no such model" in said
    assert len(provider.requests) == 1


def test_the_members_of_a_team_have_sessions_of_their_own(store: Path) -> None:
    def answer(body: Json) -> Served:
        names = {tool["function"]["name"]: tool for tool in body.get("tools") or ()}
        asked = sum(message["role"] == "tool" for message in body["messages"])
        if "delegate_task_to_member" in names and asked < 2:
            wanted = {"member_id": "reader", "task": f"Read page {asked}."}
            return Served("", "tool", call=(f"d{asked}", "delegate_task_to_member", wanted))
        return Served("Both were read." if "delegate_task_to_member" in names else "The page is red.")

    with Provider(answer) as provider:
        reader = build_agent(provider, store, id="reader", name="reader", role="Reads pages", tools=[])
        leader = Team(members=[reader], model=OpenAIChat("gpt-4o", base_url=f"{provider.url}/v1", api_key="none"))
        leader = keep_in_window(leader, window=WINDOW, store=str(store))
        leader.telemetry = False
        leader.run("Read both.", session_id="s1")
    sessions = [row.info.id for row in open_store(store).list_sessions("default")]
    assert sorted(name.rpartition("/")[0] for name in sessions) == ["", "s1/reader", "s1/reader"]
    tasks = [texts for texts in provider.texts if any(text.startswith("Read page") for text in texts)]
    assert [sum(text.startswith("Read page") for text in texts) for texts in tasks] == [1, 1]


def test_what_agno_asks_outside_of_a_run_is_in_no_session(store: Path) -> None:
    with Provider(lambda _: Served("A title")) as provider:
        agent = build_agent(provider, store)
        assert agent.model is not None
        assert agent.model.response(messages=[Message(role="user", content="Name it.")]).content == "A title"
    assert open_store(store).list_sessions("default") == []
    assert "tools" not in provider.requests[0].body


def test_usage_is_reported_to_the_session(store: Path) -> None:
    with Provider(call_until(2)) as provider:
        build_agent(provider, store).run("Look.", session_id="s1")
    opened = tenfold.open_session("s1", store=str(store))
    assert opened.take_reading(window=WINDOW).tokens >= provider.requests[-1].size // 4


def test_copies_and_other_classes_of_models_stay_what_they_are(store: Path) -> None:
    model = OpenAIResponses("gpt-5-mini", api_key="none")
    agent = keep_in_window(Agent(model=model, telemetry=False), window=WINDOW, store=str(store))
    kept = agent.model
    assert isinstance(kept, OpenAIResponses)
    assert type(kept).__name__ == "OpenAIResponses"
    assert model.use_previous_response_id
    assert not kept.use_previous_response_id  # else OpenAI would go on from its own copy of the conversation
    assert deepcopy(kept).keeper is kept.keeper


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("gpt-4o", "keep_in_window takes an Agent or a Team of agno, and not str"),
        (OpenAIChat("gpt-4o"), "keep_in_window takes an Agent or a Team of agno, and not "),
        (Agent(), "this agent has no model yet"),
        (keep_in_window(Agent(model=OpenAIChat("gpt-4o"))), "kept in its window"),
    ],
)
def test_a_wrong_object_gets_a_clear_error(wrong: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        keep_in_window(wrong)
