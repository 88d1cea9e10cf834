"""`TenfoldReAct`, with DSPy's own modules and adapters, and its model clients against a provider on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dspy", reason="make adapters installs it")

import dspy

import tenfold
from tenfold.apps.adapters.dspy import CONVERTER, Inputs, Part, Step, TenfoldReAct
from tenfold.core.wire.marks import render_summary
from tenfold.errors import BadInput, UsageError
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served

WINDOW = 8_000
BYTES_PER_TOKEN = 3
TASK = "Look at all parts. Never touch config/secret.toml."
Choose = Callable[[str], tuple[str, dict[str, Any]]]
"""Chooses a tool and its arguments by the prompt."""


def look(part: int) -> str:
    """Looks at a part."""
    return f"part {part} " + " ".join(f"word{part}x{n}" for n in range(120))


def work(steps: int) -> Choose:
    """A model that looks at one part after the other, and then is done."""
    done = 0

    def choose(_: str) -> tuple[str, dict[str, Any]]:
        nonlocal done
        done += 1
        if done > steps:
            done = 0
            return "finish", {}
        return "look", {"part": done}

    return choose


def follow(made: list[tuple[str, dict[str, Any]]]) -> Choose:
    """A model that makes these calls, the last one first."""
    return lambda _: made.pop()


class Provider(Loopback):
    """A provider whose model answers in DSPy's fields. It refuses what is longer than `limit` bytes."""

    def __init__(self, choose: Choose, *, limit: int = 10**9) -> None:
        super().__init__(script=self._answer)
        self.choose, self.limit = choose, limit
        self.refused = 0

    @property
    def prompts(self) -> list[str]:
        """What the model has seen of each request that asks for a step."""
        return [get_prompt(got) for got in self.requests if "[[ ## next_thought ## ]]" in got.prompt]

    def _answer(self, got: Got) -> Served:
        if got.size > self.limit:
            self.refused += 1
            message = f"This model's maximum context length is {self.limit // BYTES_PER_TOKEN} tokens."
            error = {"message": message, "type": "invalid_request_error", "param": "messages"}
            return Served(status=400, body={"error": {**error, "code": "context_length_exceeded"}})
        tokens = (got.size // BYTES_PER_TOKEN, 10)
        if "[[ ## next_thought ## ]]" not in got.prompt:
            return Served(render({"reasoning": "All was seen.", "answer": "Done."}), tokens=tokens)
        name, arguments = self.choose(get_prompt(got))
        thought = f"I call {name} with {json.dumps(arguments)}."
        fields = {"next_thought": thought, "next_tool_name": name, "next_tool_args": json.dumps(arguments)}
        return Served(render(fields), tokens=tokens)


def render(fields: dict[str, str]) -> str:
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in (*fields.items(), ("completed", "")))


def get_prompt(got: Got) -> str:
    return str(got.body["messages"][-1]["content"])


def list_fields(prompt: str) -> list[str]:
    return re.findall(r"\[\[ ## (\w+) ## \]\]\n", prompt)


def use(provider: Provider) -> Any:  # noqa: ANN401 - a context of DSPy
    lm = dspy.LM("openai/gpt-4.1-mini", api_base=f"{provider.url}/v1", api_key="nothing", cache=False, num_retries=0)
    return dspy.context(lm=lm)


def make_agent(store: Path, **settings: Any) -> TenfoldReAct:  # noqa: ANN401 - those of the agent
    options = {"tools": [look], "max_iters": 100, "window": WINDOW, **settings}
    return TenfoldReAct("question -> answer", store=store, **options)


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(work(40)) as served:
        yield served


# -- trajectories ------------------------------------------------------------------------------------------------------

PARTS: list[Part] = [
    Step("run_1", ("I think.", "look", {"part": [1, "ü"]}, "out")),
    Step("run_2", ("", "look", {}, "")),
    Step("run_3", ("I see.", "look", {}, dspy.Image(url="https://a.example/i.png"))),
]


def test_steps_are_converted_and_back() -> None:
    items = [item for part in PARTS for item in CONVERTER.read(part)]
    assert CONVERTER.build(json.loads(json.dumps(items))) == PARTS


@pytest.mark.parametrize(
    ("observed", "read"),
    [
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (None, "null"),
        (3, "3"),
        (dspy.Code(code="x = 1"), str(dspy.Code(code="x = 1"))),
        (
            dspy.Image(url="https://a.example/i.png"),
            [{"type": "image_url", "image_url": {"url": "https://a.example/i.png"}}],
        ),
    ],
)
def test_what_was_observed_is_read_as_text_or_an_image(observed: object, read: object) -> None:
    _, result = CONVERTER.read(Step("run_1", ("", "look", {}, observed)))
    assert result["content"] == read


def test_what_the_agent_was_called_with_is_the_users_message() -> None:
    assert CONVERTER.read(Inputs({"question": TASK})) == [{"role": "user", "content": TASK}]
    (both,) = CONVERTER.read(Inputs({"question": TASK, "count": 3}))
    assert both["content"] == f"question: {TASK}\ncount: 3"


SUMMARY = render_summary("01a2", "They looked at parts.")


def test_what_is_no_step_is_text() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"part": 1'}}
    parts = CONVERTER.build(
        [
            {"role": "user", "content": [{"type": "text", "text": SUMMARY}]},
            {"role": "assistant", "content": "Seen.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "first"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "second"},
            {"role": "tool", "tool_call_id": "b", "content": "late"},
            {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}]},
        ]
    )
    first, second = (
        Step("a", (thought, "look", '{"part": 1', seen)) for thought, seen in (("Seen.", "first"), ("", "second"))
    )
    assert parts == [SUMMARY, first, second, "late", Inputs({"": "see\n[image_url]"})]


@pytest.mark.parametrize("wrong", [None, {"role": "user", "content": "text"}, "text"])
def test_a_wrong_part_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput, match="no part of a trajectory of DSPy"):
        CONVERTER.read(wrong)


# -- the agent ---------------------------------------------------------------------------------------------------------


def test_while_all_fits_the_model_sees_what_dspy_shows_it(store: Path) -> None:
    def see() -> dict[str, list[int]]:
        """Sees something."""
        return {"seen": [1, 2]}

    seen = []
    for settings in ({}, {"recall": False, "store": store}):
        made: list[tuple[str, dict[str, Any]]] = [
            ("finish", {}),
            ("look", {"wrong": 2}),
            ("see", {}),
            ("look", {"part": 1}),
        ]
        react: Any = TenfoldReAct if settings else dspy.ReAct
        with Provider(follow(made)) as provider, use(provider):
            react("question, size: int -> answer", [look, see], 9, **settings)(question=TASK, size=3)
        seen.append([got.body for got in provider.requests])
    assert len(seen[0]) == 5
    assert seen[0] == seen[1]


def test_the_window_is_kept_and_the_trajectory_is_whole(store: Path, provider: Provider) -> None:
    with use(provider):
        answer = make_agent(store)(question=TASK)
    assert answer.answer == "Done."
    assert len(answer.trajectory) == 4 * 41
    assert answer.trajectory["observation_0"] == look(1)
    assert max(got.size for got in provider.requests) < WINDOW * BYTES_PER_TOKEN
    last = list_fields(provider.prompts[-1])
    assert last[:2] == ["question", "trajectory"]
    assert [each for each in last if each.endswith("_0") and each != "earlier_0"] == [
        "thought_0",
        "tool_name_0",
        "tool_args_0",
        "observation_0",
    ]
    assert "earlier_0" in last
    assert len(last) == len(set(last))
    assert look(40) in provider.prompts[-1]
    assert look(12) not in provider.prompts[-1]
    assert "Never touch config/secret.toml" in provider.prompts[-1]
    assert len(list_sessions(store)) == 1
    assert open_store(store).search("default", "word3x17")


def test_an_agent_in_asyncio_is_the_same(store: Path, provider: Provider) -> None:
    with use(provider):
        answer = asyncio.run(make_agent(store).acall(question=TASK))
    assert len(answer.trajectory) == 4 * 41
    assert max(got.size for got in provider.requests) < WINDOW * BYTES_PER_TOKEN
    assert "earlier_0" in list_fields(provider.prompts[-1])


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    with Provider(work(2)) as provider, use(provider):
        asyncio.run(TenfoldReAct("question -> answer", tools=[look], store=store).acall(question=TASK))
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_what_is_no_longer_seen_is_looked_up(store: Path, provider: Provider) -> None:
    steps = work(30)

    def choose(prompt: str) -> tuple[str, dict[str, Any]]:
        if "recall_search" in re.findall(r"tool_name_\d+ ## \]\]\n(\w+)", prompt):
            return "finish", {}
        made = steps(prompt)
        if made[0] != "finish":
            return made
        assert "word2x17" not in prompt
        return "recall_search", {"words": "word2x17"}

    provider.choose = choose
    with use(provider):
        answer = make_agent(store)(question=TASK)
    assert "word2x17" in answer.trajectory["observation_30"]


def test_without_recall_no_tools_are_offered(store: Path, provider: Provider) -> None:
    with use(provider):
        make_agent(store, recall=False)(question=TASK)
    assert not any("recall" in got.prompt for got in provider.requests)


def test_a_named_session_goes_on_in_another_process(store: Path, provider: Provider) -> None:
    with use(provider):
        make_agent(store, session="mine")(question=TASK)
        first = len(provider.requests)
        make_agent(store, session="mine")(question="Go on.")
    assert list_sessions(store) == ["mine"]
    _, before, answer, begun = (message["content"] for message in provider.requests[first].body["messages"])
    assert "Go on." in begun.partition("[[ ## trajectory ## ]]")[0]
    assert TASK in before.partition("[[ ## trajectory ## ]]")[0]
    assert look(40) in before
    assert "earlier_0" in list_fields(before)
    assert "finish" in answer
    assert max(got.size for got in provider.requests) < WINDOW * BYTES_PER_TOKEN


def test_an_earlier_call_is_read_from_the_cache(store: Path, provider: Provider) -> None:
    """The new question stood before the old steps, so nothing of them was."""
    provider.choose = work(4)
    with use(provider):
        make_agent(store, session="mine")(question=TASK)
        make_agent(store, session="mine")(question="Go on.")
    asked = [got.body["messages"] for got in provider.requests if "[[ ## next_thought ## ]]" in got.prompt]
    before, begun = asked[4], asked[5]
    assert begun[1 : len(before)] == before[1:], "the last request of the first call"
    assert [message["role"] for message in begun[len(before) :]] == ["assistant", "user"]
    assert "Go on." in begun[-1]["content"]
    assert not provider.refused


def test_an_earlier_call_that_ends_in_a_summary_stands_in_the_trajectory(store: Path, provider: Provider) -> None:
    with use(provider):
        agent = make_agent(store, session="mine", window=WINDOW)
        agent(question=TASK)
        agent(question="Go on.")
        agent(question="And on.")
    newest = provider.prompts[-1]
    assert "And on." in newest.partition("[[ ## trajectory ## ]]")[0]
    assert look(40) in newest
    assert "Never touch config/secret.toml" in str(provider.requests[-1].body)


def test_without_a_name_each_call_has_a_session_of_its_own(store: Path, provider: Provider) -> None:
    def choose(prompt: str) -> tuple[str, dict[str, Any]]:
        (number,) = set(re.findall(r"Look at (\d+)", prompt))
        return ("finish", {}) if f"part {number} " in prompt else ("look", {"part": int(number)})

    provider.choose = choose
    agent = make_agent(store)
    with use(provider):
        calls = [(agent, dspy.Example(question=f"Look at {n}").with_inputs("question")) for n in range(6)]
        answers = dspy.Parallel(num_threads=3, disable_progress_bar=True)(calls)
    assert [answer.trajectory["observation_0"] for answer in answers] == [look(n) for n in range(6)]
    assert len(list_sessions(store)) == 6


def test_an_agent_that_another_one_runs_is_apart(store: Path, provider: Provider) -> None:
    inner = make_agent(store, session="inner")

    def ask(question: str) -> str:
        """Asks another agent."""
        return str(inner(question=question).trajectory["observation_0"])

    def choose(prompt: str) -> tuple[str, dict[str, Any]]:
        if "Search" in prompt[:40]:
            return ("finish", {}) if "observation_0" in prompt else ("recall_search", {"words": "secret"})
        if "observation_0" not in prompt:
            return "ask", {"question": "Search"}
        return ("finish", {}) if "observation_1" in prompt else ("recall_search", {"words": "secret"})

    provider.choose = choose
    with use(provider):
        answer = make_agent(store, session="outer", tools=[ask])(question=TASK)
    assert answer.trajectory["observation_0"] == "nothing in this conversation holds 'secret'"
    assert "Never touch config/secret.toml" in answer.trajectory["observation_1"]
    assert list_sessions(store) == ["inner", "outer"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refused_request_is_sent_again_shorter(store: Path, *, is_async: bool) -> None:
    limit = 16_000
    with Provider(work(30), limit=limit) as provider, use(provider):
        agent = make_agent(store, window=1_000_000)
        answer = asyncio.run(agent.acall(question=TASK)) if is_async else agent(question=TASK)
    sizes = [got.size for got in provider.requests]
    assert provider.refused
    assert all(sizes[at + 1] < limit for at, size in enumerate(sizes) if size > limit)
    assert answer.answer == "Done."
    assert len(answer.trajectory) == 4 * 31


def test_what_cannot_be_made_shorter_is_refused_as_dspy_says_it(store: Path) -> None:
    with Provider(work(1), limit=1) as provider, use(provider), pytest.raises(dspy.ContextWindowExceededError):
        make_agent(store)(question=TASK)


def test_another_error_of_the_provider_is_raised(store: Path) -> None:
    with Loopback(Served(status=401, error="no such key")) as provider:
        lm = dspy.LM("openai/gpt-4.1-mini", api_base=f"{provider.url}/v1", api_key="nothing", num_retries=0)
        with dspy.context(lm=lm), pytest.raises(dspy.LMAuthError):
            make_agent(store)(question=TASK)
    assert len(provider.requests) == 1


def test_what_was_used_is_counted_here_and_by_dspy(store: Path, provider: Provider) -> None:
    provider.choose = work(3)
    with use(provider), dspy.track_usage() as tracker:
        make_agent(store, session="mine")(question=TASK)
    assert tenfold.open_session("mine", store=store).take_reading().source == "reported"
    (used,) = tracker.get_total_tokens().values()
    assert used["completion_tokens"] == 10 * 5


def test_an_agent_is_copied_and_saved_as_dspy_does_it(
    tmp_path: Path, store: Path, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.choose = work(2)
    agent = make_agent(store, session="mine")
    with caplog.at_level(logging.WARNING), use(provider):
        agent.deepcopy()(question=TASK)
        agent.save(tmp_path / "program", save_program=True)
        dspy.load(tmp_path / "program", allow_pickle=True)(question="Go on.")
    assert "copy" not in caplog.text
    assert list_sessions(store) == ["mine"]


def test_a_wrong_session_is_refused() -> None:
    with pytest.raises(UsageError, match="pass the session's id"):
        make_agent(Path("nowhere"), session=3)
