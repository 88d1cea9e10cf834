"""`keep_in_window`, with the agents, crews, tools and LLMs of CrewAI."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}
pytest.importorskip("crewai", reason="make adapters installs it")

from crewai import Agent, Crew, Task
from crewai.hooks.llm_hooks import model_call_hooks_dispatched
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from msgspec.structs import replace

import tenfold
from tenfold.apps.adapters.crewai import CONVERTER, keep_in_window
from tenfold.errors import BadInput, UsageError
from tenfold.store.location import open_store
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

Json = dict[str, Any]
WINDOW = 4_000
TOO_LONG = "This model's maximum context length is 3000 tokens. However, your messages resulted in 4000 tokens."


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
        """What the messages of each request say behind the system prompt."""
        return [
            [str(message["content"]).strip() for message in got.body["messages"] if message["role"] != "system"]
            for got in self.requests
        ]


class Watched(OpenAICompletion):
    """OpenAI's client. It keeps the lists that it was given."""

    def call(self, messages: Any, *args: Any, **rest: Any) -> Any:  # noqa: ANN401 - as CrewAI has it
        """Keeps the list, and sends it."""
        GIVEN.append(messages)
        return super().call(messages, *args, **rest)


class Wordy(OpenAICompletion):
    """An LLM that calls tools in words."""

    def supports_function_calling(self) -> bool:
        """It cannot."""
        return False


class Rebuilt(OpenAICompletion):
    """An LLM that is copied as LiteLLM's is: by building a new one."""

    def __copy__(self) -> OpenAICompletion:
        return Rebuilt(model=self.model, base_url=self.base_url, api_key=self.api_key)


GIVEN: list[list[Json]] = []


@tool
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


def build_agent(provider: Provider, *, llm: type[OpenAICompletion] = Watched, **fields: object) -> Agent:
    named = {"role": "Reader", "goal": "Read.", "backstory": "You read.", "tools": [look], "max_iter": 99, **fields}
    return Agent(llm=llm(model="gpt-4o", base_url=f"{provider.url}/v1", api_key="none", max_retries=0), **named)


def keep(agent: Agent, store: Path, **options: Any) -> Agent:  # noqa: ANN401 - those of keep_in_window
    return keep_in_window(agent, **{"session": "s1", "window": WINDOW, "store": str(store), **options})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


# -- messages ----------------------------------------------------------------------------------------------------------


def test_messages_are_read_without_what_crewai_notes_for_itself() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    for message in (
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": "red"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]},
    ):
        (item,) = CONVERTER.read({"cache_breakpoint": True, **message, "raw_tool_call_parts": [object()]})
        assert list(item.items()) == list(message.items())  # in this order, or the provider's cache misses
        assert CONVERTER.build([item]) == [message]


@pytest.mark.parametrize("content", ["See", [{"type": "text", "text": "See"}], None])
def test_attached_files_are_named(content: object) -> None:
    (item,) = CONVERTER.read({"role": "user", "content": content, "files": {"chart.png": object()}})
    said = [part["text"] for part in item["content"]]
    assert said == (["See", "[file chart.png]"] if content else ["[file chart.png]"])


@pytest.mark.parametrize("wrong", ["Hello", {"content": "Hello"}])
def test_something_else_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput, match="is no message of CrewAI: it is a dict with a role"):
        CONVERTER.read(wrong)


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_one_long_task_stays_in_the_window_and_crewai_keeps_all_of_it(store: Path) -> None:
    GIVEN.clear()
    with Provider(call_until(25)) as provider:
        agent = keep(build_agent(provider), store)
        task = Task(description="Look at all places.", expected_output="A word.", agent=agent)
        result = Crew(agents=[agent], tasks=[task]).kickoff()
    assert result.raw == "Done."
    assert max(got.size // 4 for got in provider.requests) <= WINDOW
    assert len(provider.requests) == 26  # none was refused
    own = agent.agent_executor.messages
    assert [message["role"] for message in own].count("tool") == 25
    assert all("word" in message["content"] for message in own if message["role"] == "tool")
    sent, known = GIVEN[-1], set(map(id, own))
    assert any(id(message) not in known for message in sent)  # a summary, or a shortened result
    assert all(id(message) in known for message in (sent[0], *sent[-2:]))  # the rest are CrewAI's own
    assert list_sessions(store) == ["s1"]


def test_a_new_process_goes_on_with_what_was_said(store: Path) -> None:
    with Provider(lambda _: Served("The password is plum.")) as provider:
        keep(build_agent(provider), store).kickoff("Tell it.")
        keep(build_agent(provider), store).kickoff("Go on.")
    first, answer, second = provider.texts[-1]
    assert first.endswith("Tell it.")
    assert answer == "The password is plum."
    assert second.endswith("Go on.")


def test_a_task_that_begins_like_the_one_before_does_not_replace_it(store: Path) -> None:
    answers = iter(["First.", "Second.", "Third."])
    with Provider(lambda _: Served(next(answers))) as provider:
        agent = keep(build_agent(provider), store)
        for words in ("Begin.", "Go on.", "Go on."):
            agent.kickoff(words)
    assert [text.split(": ")[-1] for text in provider.texts[-1]] == ["Begin.", "First.", "Go on.", "Second.", "Go on."]


def test_tasks_are_apart_without_a_name(store: Path) -> None:
    with Provider(lambda _: Served("Yes.")) as provider:
        agent = keep(build_agent(provider), store, session="")
        agent.kickoff("One?")
        agent.kickoff("Two?")
    assert [len(texts) for texts in provider.texts] == [1, 1]
    assert [name.partition("/")[0] for name in list_sessions(store)] == [str(agent.id)] * 2


def test_the_agents_of_a_crew_have_sessions_of_their_own(store: Path) -> None:
    with Provider(lambda _: Served("Yes.")) as provider:
        agents = [build_agent(provider, role=role) for role in ("Reader", "Writer")]
        tasks = [
            Task(description=f"Ask the {agent.role}.", expected_output="A word.", agent=agent, tools=[look])
            for agent in agents
        ]
        crew = keep_in_window(Crew(agents=agents, tasks=tasks), session="s1", window=WINDOW, store=str(store))
        crew.kickoff()
    assert list_sessions(store) == ["s1/Reader", "s1/Writer"]
    for got, role in zip(provider.requests, ("Reader", "Writer"), strict=True):
        assert role in got.prompt
        names = [each["function"]["name"] for each in got.body["tools"]]
        assert sorted(names) == ["look", "recall_expand", "recall_read", "recall_search"]
    assert [len(texts) for texts in provider.texts] == [1, 1]


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    steps = call_until(25)

    def answer(body: Json) -> Served:
        told = steps(body)
        if told.text == "Done." and "word1x7" not in json.dumps(body["messages"][-1]):
            return Served("", "tool", call=("find", "recall_search", {"words": "word1x7"}))
        return told

    with Provider(answer) as provider:
        keep(build_agent(provider), store, session="").kickoff("Look at all places.")
    assert "recall_read" in str(provider.texts[-1])  # what was left out says how to see it again
    assert "word1x7" in provider.texts[-1][-1]
    assert "(message)" in provider.texts[-1][-1]  # a hit, and not an error


def test_nothing_is_looked_up_in_what_a_copy_does_at_the_same_time(store: Path) -> None:
    def answer(body: Json) -> Served:
        said = json.dumps(body["messages"])
        if "Task one" not in said or "recall_search" in said:
            return Served("Done.")
        agent.copy().kickoff("Task two is about a plum.")
        return Served("", "tool", call=("find", "recall_search", {"words": "plum"}))

    with Provider(answer) as provider:
        agent = keep(build_agent(provider), store, session="")
        agent.kickoff("Task one is about a pear.")
    assert provider.texts[-1][-1] == "nothing in this conversation holds 'plum'"
    assert len(list_sessions(store)) == 2


def test_no_tools_are_offered_without_recall(store: Path) -> None:
    with Provider(call_until(25)) as provider:
        keep(build_agent(provider), store, recall=False).kickoff("Look.")
    assert [each["function"]["name"] for each in provider.requests[0].body["tools"]] == ["look"]
    assert "recall_read" not in str(provider.texts[-1])


def test_an_llm_that_calls_tools_in_words_stays_in_the_window(store: Path) -> None:
    made = iter(range(1, 26))

    def answer(_: Json) -> Served:
        at = next(made, 0)
        if at:
            return Served(f'Thought: next.\nAction: look\nAction Input: {{"at": {at}}}')
        return Served("Thought: I know.\nFinal Answer: Done.")

    with Provider(answer) as provider:
        agent = keep(build_agent(provider, llm=Wordy), store)
        assert agent.kickoff("Look at all places.").raw == "Done."
        agent.kickoff("And now?")
    assert len(provider.requests) == 27  # none was refused
    assert any(f"{name}(" in str(provider.texts[25]) for name in ("recall_read", "recall_expand"))
    assert provider.texts[-1][-2].endswith("Final Answer: Done.")
    (row,) = open_store(store).list_sessions("default")
    assert row.entry_count == tenfold.open_session("s1", store=str(store)).view.length  # no answer was replaced


def test_a_last_answer_that_crewai_forces_is_asked_for_in_the_window(store: Path) -> None:
    steps = call_until(14)
    with Provider(lambda body: steps(body) if body.get("tools") else Served("Enough.")) as provider:
        agent = keep(build_agent(provider, max_iter=12), store)
        assert agent.kickoff("Look at all places.").raw == "Enough."
    assert max(got.size // 4 for got in provider.requests) <= WINDOW
    assert provider.texts[-1][-1] != provider.texts[-2][-1]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refusal_as_too_long_is_answered_by_something_shorter(store: Path, *, is_async: bool) -> None:
    def answer(body: Json) -> Served:
        return Served(status=400, error=TOO_LONG) if len(json.dumps(body)) > 8_000 else Served("Done.")

    called = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Json] = [{"role": "system", "content": "Look."}, {"role": "user", "content": "All."}]
    for number in range(9):
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{number}", **called}]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": look.run(at=number)},
        ]
    with Provider(answer, window=9 * WINDOW) as provider, model_call_hooks_dispatched():
        llm = keep(build_agent(provider), store, window=9 * WINDOW).llm
        said = asyncio.run(llm.acall(messages)) if is_async else llm.call(messages)
    assert said == "Done."
    sizes = [len(json.dumps(got.body)) for got in provider.requests]
    assert len(sizes) == 2
    assert sizes[1] <= 8_000 < sizes[0]
    shown = tenfold.open_session("s1", store=str(store)).view.get_messages()
    assert shown[-1].role == "assistant"  # the answer was kept


def test_other_errors_are_crewais(store: Path) -> None:
    with Provider(lambda _: Served(status=400, error="no such thing")) as provider, model_call_hooks_dispatched():
        llm = keep(build_agent(provider), store).llm
        with pytest.raises(Exception, match="no such thing"):
            llm.call([{"role": "user", "content": "Look."}])
    assert len(provider.requests) == 1


def test_what_an_agent_asks_besides_its_task_is_in_no_session(store: Path) -> None:
    with Provider(lambda _: Served("A title")) as provider:
        llm = keep(build_agent(provider), store).llm
        assert llm.call("Name it.") == "A title"
        assert llm.call([{"role": "user", "content": "Name it."}]) == "A title"
    assert list_sessions(store) == []


def test_usage_is_reported_to_the_session(store: Path) -> None:
    with Provider(call_until(2)) as provider:
        keep(build_agent(provider), store).kickoff("Look.")
    opened = tenfold.open_session("s1", store=str(store))
    assert opened.take_reading(window=WINDOW).tokens >= provider.requests[-1].size // 4


@pytest.mark.parametrize("llm", [Watched, Rebuilt])
def test_copies_are_kept_in_the_window_too(store: Path, llm: type[OpenAICompletion]) -> None:
    with Provider(call_until(25)) as provider:
        agent = keep(build_agent(provider, llm=llm), store)
        assert type(copy(agent.llm)) is type(agent.llm)
        assert isinstance(agent.llm, llm)
        agent.copy().kickoff("Look at all places.")
    assert len(provider.requests) == 26  # none was refused


def test_a_wrong_object_gets_a_clear_error(store: Path) -> None:
    with Provider(lambda _: Served("Yes.")) as provider:
        agent = keep(build_agent(provider), store)
        pair = Crew(agents=[build_agent(provider), build_agent(provider)], tasks=[])
    with pytest.raises(UsageError, match="Reader, Reader: with a session, each needs its own role"):
        keep_in_window(pair, session="s1")
    with pytest.raises(UsageError, match="the agent 'Reader' is kept in its window already"):
        keep_in_window(agent)
    with pytest.raises(UsageError, match="keep_in_window takes an Agent or a Crew of CrewAI, and not str"):
        keep_in_window("gpt-4o")
