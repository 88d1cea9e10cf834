"""The conversation manager for Strands, with the agents, session managers, tools and model clients of Strands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="make adapters installs it")

from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models import Model
from strands.models.bedrock import BedrockModel
from strands.models.openai import OpenAIModel
from strands.session import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException, EventLoopException
from strands.vended_plugins.context_injector import ContextInjector

import tenfold
from tenfold.apps.adapters.host_sessions import HostSession
from tenfold.apps.adapters.strands import TenfoldConversationManager
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import BadInput
from tenfold.formats.objects.strands import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import find_refusal

Json = dict[str, Any]
PNG = b"\x89PNG\r\n\x1a\n" + b"\xfb\xff\xfe" * 20
WINDOW = 4_000
COUNTER = choose_counter(None).counter


class Scripted(Model):
    """A model that keeps what it is sent. `answer` gives the blocks of its answer, or raises what a client raises.

    It reports the tokens of the messages, and `tokens` besides for what nobody else sees.
    """

    def __init__(self, answer: Callable[[list[Json]], list[Json]], *, tokens: int = 0) -> None:
        self.answer, self.tokens = answer, tokens
        self.sent: list[list[Json]] = []
        self.systems: list[Any] = []
        self.tools: list[str] = []

    def update_config(self, **_: object) -> None:
        """Has nothing to update."""

    def get_config(self) -> Json:
        """Returns the window that the tests use."""
        return {"model_id": "scripted", "context_window_limit": WINDOW}

    async def structured_output(self, *_: object, **__: object) -> AsyncIterator[Any]:
        """Is never called."""
        empty: list[Any] = []
        for each in empty:
            yield each

    async def stream(
        self,
        messages: list[Json],
        tool_specs: list[Json] | None = None,
        system_prompt: str | None = None,
        **more: object,
    ) -> AsyncIterator[Json]:
        """Yields the blocks of the answer."""
        self.sent.append(messages)
        self.systems.append(more.get("system_prompt_content") or system_prompt)
        self.tools = [spec["name"] for spec in tool_specs or ()]
        blocks = self.answer(messages)
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            use = block.get("toolUse")
            named = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}} if use else {}
            yield {"contentBlockStart": {"start": named}}
            delta = {"toolUse": {"input": json.dumps(use["input"])}} if use else {"text": block["text"]}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if any("toolUse" in b for b in blocks) else "end_turn"}}
        used = self.tokens and self.tokens + COUNTER.count([render(messages)])[0]
        usage = {"inputTokens": used, "outputTokens": 10, "totalTokens": used + 10}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def look(part: int) -> str:
    """Looks at a part."""
    return f"part {part} " + " ".join(f"word{part}x{n}" for n in range(120))


def call(number: int, name: str = "look", **arguments: object) -> Json:
    return {"toolUse": {"toolUseId": f"call{number}", "name": name, "input": arguments or {"part": number}}}


def work(steps: int) -> Callable[[list[Json]], list[Json]]:
    """A model that looks at one part after the other, and then is done."""
    done = 0

    def answer(_: list[Json]) -> list[Json]:
        nonlocal done
        done += 1
        if done > steps:
            done = 0
            return [{"text": "Done."}]
        return [{"text": f"I look at part {done}."}, call(done)]

    return answer


def make_agent(model: Model, store: Path, **settings: Any) -> Agent:  # noqa: ANN401 - those of an Agent
    manager = settings.pop("manager", None) or TenfoldConversationManager(store=store)
    return Agent(model, tools=[look], conversation_manager=manager, callback_handler=None, **settings)


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    agent = Agent(
        Scripted(lambda _: [{"text": "Yes."}], tokens=900),
        conversation_manager=TenfoldConversationManager(store=store),
        callback_handler=None,
    )

    async def work() -> int:
        for text in ("Go.", "On."):
            await agent.invoke_async(text)
        return threading.get_ident()

    loop = asyncio.run(work())
    assert store.askers
    assert loop not in store.askers


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


def render(messages: object) -> str:
    return json.dumps(messages, default=str)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


# -- messages ----------------------------------------------------------------------------------------------------------

BLOCKS: list[Json] = [
    {"text": "Hello"},
    {"toolUse": {"toolUseId": "call1", "name": "look", "input": {"part": 1}}},
    {"toolUse": {"toolUseId": "call1", "name": "look", "input": {}, "reasoningSignature": "c2ln"}},
    {"toolResult": {"toolUseId": "call1", "status": "success", "content": [{"text": "one"}, {"text": "two"}]}},
    {"toolResult": {"toolUseId": "call1", "status": "error", "content": [{"json": {"a": [1, "ü"]}}]}},
    {
        "toolResult": {
            "toolUseId": "call1",
            "status": "success",
            "content": [{"image": {"format": "png", "source": {"bytes": PNG}}}],
            "structuredContent": {"some": "words that nobody else has"},
        }
    },
    {"reasoningContent": {"reasoningText": {"text": "I think.", "signature": "c2ln"}}},
    {"reasoningContent": {"reasoningText": {"text": "I think."}}},
    {"reasoningContent": {"redactedContent": b"\x00\xff"}},
    {"image": {"format": "jpeg", "source": {"bytes": PNG}}},
    {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": "s3://a/b", "bucketOwner": "12"}}}},
    {
        "document": {
            "format": "pdf",
            "name": "a",
            "source": {"bytes": PNG},
            "context": "c",
            "citations": {"enabled": True},
        }
    },
    {"document": {"format": "md", "name": "a", "source": {"bytes": b"# words\nmore"}}},
    {"document": {"format": "txt", "name": "a", "source": {"bytes": b"\xff\xfe"}}},
    {"document": {"format": "xlsx", "name": "a", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}},
    {"video": {"format": "three_gp", "source": {"bytes": PNG}}},
    {"audio": {"format": "x-aac", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}},
    {"guardContent": {"text": {"text": "Guarded words", "qualifiers": ["query"]}}},
    {
        "citationsContent": {
            "content": [{"text": "It says "}, {"text": "so."}],
            "citations": [
                {"title": "A title", "sourceContent": [{"text": "so it is"}], "location": {"web": {"url": "u"}}}
            ],
        }
    },
    {"somethingNew": {"bytes": b"\x00\xff", "words": "of a later version"}},
]
"""Every kind of block that Strands has, and one that it has not."""
CACHE = {"cachePoint": {"type": "default", "ttl": "1h"}}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: next(iter(block)))
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_every_kind_of_block_is_converted_and_back(block: Json, role: str) -> None:
    for content in ([block], [{"text": "Before"}, block, CACHE], [CACHE, block]):
        message = {"role": role, "content": content}
        items = CONVERTER.read({**message, "tracking_id": "1", "metadata": {"custom": {}}})
        assert CONVERTER.build(json.loads(json.dumps(items))) == [message]


def test_blocks_that_anthropic_has_are_its_own() -> None:
    uses = {"role": "assistant", "content": [BLOCKS[6], *BLOCKS[:2]]}
    results = {"role": "user", "content": [BLOCKS[3], BLOCKS[0], BLOCKS[9], CACHE]}
    read = [item for message in (uses, results) for item in CONVERTER.read(message)]
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}, *read]}
    assert find_refusal("messages", body) is None
    assert [block["type"] for block in read[0]["content"]] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in read[1]["content"]] == ["tool_result", "text", "image"]
    assert read[1]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_text_documents_are_read_as_text() -> None:
    (item,) = CONVERTER.read({"role": "user", "content": [BLOCKS[12]]})
    assert item["content"][0]["source"] == {"type": "text", "media_type": "text/markdown", "data": "# words\nmore"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("Hello", "str is no message of Strands: pass"),
        ({"role": "user", "content": "Hello"}, "a dict with 'role', 'content' is no message of Strands: pass"),
        ({"role": "system", "content": []}, "is no message of Strands: pass"),
        ({"role": "user", "content": ["Hello"]}, "str is no block of Strands: pass a dict such as"),
    ],
)
def test_what_is_no_message_is_named(wrong: object, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        CONVERTER.read(wrong)


def test_messages_of_every_kind_stay_the_same_objects_and_are_kept(store: Path) -> None:
    """Three times, so that a session that understood none of them would refuse the list."""
    messages: list[Json] = [{"role": "user", "content": [{"text": "Begin."}]}]
    for turn in range(3):
        for number, block in enumerate(BLOCKS):
            name = f"{turn}-{number}"
            if "toolUse" in block:
                continue
            if "toolResult" in block:
                messages.append(
                    {"role": "assistant", "content": [{"toolUse": {**call(1)["toolUse"], "toolUseId": name}}]}
                )
                answer: Json = {"toolResult": {**block["toolResult"], "toolUseId": name}}
            else:
                messages.append({"role": "assistant", "content": [{"text": "Go on."}]})
                answer = block
            messages.append({"role": "user", "content": [answer]})
    host: HostSession[Json] = HostSession(partial(tenfold.open_session, "all", store=store, window=100_000), CONVERTER)
    sent = host.fit(messages).messages
    assert list(map(id, sent)) == list(map(id, messages))
    text = render([each.message for each in host.session.view.get_visible_messages()])
    assert all(words in text for words in ("Guarded words", "It says so.", "# words", "of a later version"))


# -- an agent ----------------------------------------------------------------------------------------------------------


def test_a_short_conversation_goes_out_as_it_is(store: Path) -> None:
    model = Scripted(work(2))
    manager = TenfoldConversationManager(store=store, window=100_000)
    agent = make_agent(model, store, manager=manager, messages=[{"role": "user", "content": BLOCKS[9:13]}])
    agent("Begin.")
    bare = [{"role": message["role"], "content": message["content"]} for message in agent.messages]
    assert [{"role": m["role"], "content": m["content"]} for m in model.sent[-1]] == bare[:-1]


def test_a_long_conversation_is_compacted_and_the_list_stays_whole(store: Path) -> None:
    model = Scripted(work(30))
    prompt = [{"text": "You look at parts."}, {"cachePoint": {"type": "default"}}]
    agent = make_agent(model, store, system_prompt=prompt)
    assert str(agent("Look at all. Never touch the secret.")).strip() == "Done."
    assert len(agent.messages) == 62
    assert "word1x60" in render(agent.messages)
    assert "word1x60" not in render(model.sent[-1])
    assert "Never touch the secret" in render(model.sent[-1])
    assert "recall_read" in render(model.sent[-1])
    assert [m["content"] for m in model.sent[-1][-2:]] == [m["content"] for m in agent.messages[-3:-1]]
    for sent in model.sent:
        roles = [message["role"] for message in sent]
        assert all(before != after for before, after in pairwise(roles))
        assert len(render(sent)) / 4 < WINDOW
    assert all(system == prompt for system in model.systems)
    assert list_sessions(store) == [agent.messages[0]["tracking_id"]]


@pytest.mark.parametrize("prompt", ["You look at parts.", [{"text": "You look at parts."}, CACHE]])
def test_a_policy_may_put_its_summary_into_the_system_prompt(store: Path, prompt: str | list[Json]) -> None:
    model = Scripted(work(40))
    policy = "clip" if "clip" in tenfold.POLICIES else "tenfold.designs.clip.policy:clip"
    manager = TenfoldConversationManager(store=store, policy=policy)
    assert str(make_agent(model, store, manager=manager, system_prompt=prompt)("Look at all.")).strip() == "Done."
    own = [{"text": prompt}] if isinstance(prompt, str) else prompt
    assert all(system[: len(own)] == own for system in model.systems)
    assert "Context Summary" in render(model.systems[-1])
    assert all(set(block) in ({"text"}, {"cachePoint"}) for block in model.systems[-1])


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    model = Scripted(work(30))
    agent = make_agent(model, store)
    agent("Look at all.")
    assert model.tools == ["look", "recall_search", "recall_read", "recall_expand"]
    found = iter([[call(99, "recall_search", words="word2x77")], [{"text": "Found."}]])
    model.answer = lambda _: next(found)
    agent("What did part 2 say?")
    assert "word2x77" in render(model.sent[-1][-1]["content"][0]["toolResult"]["content"])


def test_recall_can_be_turned_off(store: Path) -> None:
    model = Scripted(work(30))
    make_agent(model, store, manager=TenfoldConversationManager(store=store, recall=False))("Look at all.")
    assert model.tools == ["look"]
    assert "recall_read" not in render(model.sent[-1])


def test_what_was_used_is_reported(store: Path) -> None:
    """The counts of the provider say that the window is nearly full, those of the texts do not."""
    for tokens in (0, 2_700):
        model = Scripted(work(4), tokens=tokens)
        make_agent(model, store)("Look at all.")
        assert ("recall_" in render(model.sent[-1])) == bool(tokens)


def test_what_is_added_for_one_call_is_sent_last_and_not_kept(store: Path) -> None:
    model, calls = Scripted(work(20)), iter(range(100))
    injector = ContextInjector(lambda _: f"<now>{next(calls)}</now>", trigger="everyTurn")
    agent = make_agent(model, store, plugins=[injector])
    agent("Look at all.")
    for number, sent in enumerate(model.sent):
        assert sent[-1]["content"][-1]["text"].strip() == f"<now>{number}</now>"
        assert render(sent).count("<now>") == 1
    session = tenfold.open_session(agent.messages[0]["tracking_id"], store=store)
    assert not session.search("now")
    assert session.view.path.length >= 41


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("places", "count"), [(("kept", "kept"), 52), (("first", "second"), 26)])
def test_a_restart_with_its_list_and_without_it_goes_on(
    store: Path, tmp_path: Path, places: tuple[str, str], count: int
) -> None:
    for task, place in zip(("Look at all. The password is plover.", "Go on."), places, strict=True):
        model = Scripted(work(12))
        agent = make_agent(
            model, store, session_manager=FileSessionManager("support-42", storage_dir=str(tmp_path / place))
        )
        agent(task)
    assert list_sessions(store) == ["support-42"]
    assert len(agent.messages) == count
    assert "plover" in render(model.sent[0])
    assert "plover" in render(model.sent[-1])
    assert all(len(render(sent)) / 4 < WINDOW for sent in model.sent)
    assert tenfold.open_session("support-42", store=store).search("word3x7")


def test_a_session_of_another_manager_is_taken_over_whole(store: Path, tmp_path: Path) -> None:
    for manager in (SlidingWindowConversationManager(window_size=8), TenfoldConversationManager(store=store)):
        files = FileSessionManager("support-42", storage_dir=str(tmp_path / "sessions"))
        agent = make_agent(Scripted(work(12)), store, manager=manager, session_manager=files, agent_id="reader")
        agent("Look at all.")
    assert len(agent.messages) == 52
    assert list_sessions(store) == ["support-42/reader"]
    assert tenfold.open_session("support-42/reader", store=store).search("word1x7")


def test_the_tool_calls_of_a_sub_agent_are_sessions_apart(store: Path) -> None:
    manager = TenfoldConversationManager(store=store)
    inner = Scripted(work(2))
    helper = Agent(inner, tools=[look], conversation_manager=manager, callback_handler=None, name="helper")
    asks = iter([[call(1, "helper", input="First secret")], [call(2, "helper", input="Second")], [{"text": "Done."}]])
    outer = Scripted(lambda _: next(asks))
    agent = Agent(outer, tools=[helper], conversation_manager=manager, callback_handler=None)
    agent("Begin.")
    assert len(list_sessions(store)) == 3
    assert "First secret" in render(inner.sent[2])
    assert "First secret" not in render(inner.sent[3:])
    assert "word1x7" not in render(outer.sent)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refuse_once(error: Exception, steps: int) -> Callable[[list[Json]], list[Json]]:
    answer, refused = work(steps), list[Exception]()

    def refuse(messages: list[Json]) -> list[Json]:
        if len(messages) > 12 and not refused:
            refused.append(error)
            raise error
        return answer(messages)

    return refuse


@pytest.mark.parametrize("said", ["Input is too long for requested model", "it exceeds the max_model_len of 3000"])
def test_a_refusal_is_answered_by_a_shorter_request(store: Path, said: str) -> None:
    model = Scripted(refuse_once(ContextWindowOverflowException(said), 10))
    agent = make_agent(model, store, manager=TenfoldConversationManager(store=store, window=100_000))
    assert str(agent("Look at all.")).strip() == "Done."
    at = next(n for n, sent in enumerate(model.sent) if len(sent) > 12)
    assert len(render(model.sent[at + 1])) < len(render(model.sent[at])) / 1.3
    assert len(agent.messages) == 22


@pytest.mark.parametrize("error", [ValueError("no such model"), ContextWindowOverflowException("prompt is too long")])
def test_other_errors_and_a_second_refusal_are_raised(store: Path, error: Exception) -> None:
    def refuse(_: list[Json]) -> list[Json]:
        if len(model.sent) > 6:
            raise error
        return [call(len(model.sent))]

    model = Scripted(refuse)
    with pytest.raises((EventLoopException, ContextWindowOverflowException)) as raised:
        make_agent(model, store)("Look at all.")
    assert str(error) in str(raised.value)
    assert len(model.sent) == (7 if isinstance(error, ValueError) else 8)


def test_the_client_of_openai_is_refused_and_goes_on(store: Path) -> None:
    error = "This model's maximum context length is 3000 tokens. However, your messages resulted in 3500 tokens."
    refused = list[int]()

    def answer(got: Got) -> Served:
        number = len(provider.requests)
        if got.size > 9_000 and not refused:
            refused.append(number - 1)
            return Served(status=400, body={"error": {"message": error, "code": "context_length_exceeded"}})
        return Served("Done.") if number > 15 else Served(finish="tool", call=(f"{number}", "look", {"part": number}))

    with Loopback(script=answer) as provider:
        settings = {"base_url": f"{provider.url}/v1", "api_key": "none", "max_retries": 0}
        agent = make_agent(OpenAIModel(client_args=settings, model_id="gpt-4o-mini"), store)
        assert str(agent("Look at all.")).strip() == "Done."
    (at,) = refused
    assert provider.requests[at + 1].size < provider.requests[at].size
    assert len(agent.messages) == 30


def test_bedrock_gets_turns_that_alternate(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")

    def answer(_: Got) -> Served:
        number = len(provider.requests)
        return Served("Done.") if number > 20 else Served(finish="tool", call=(f"{number}", "look", {"part": number}))

    with Loopback(script=answer) as provider:
        model = BedrockModel(
            model_id="amazon.nova-lite-v1:0", region_name="eu-west-1", endpoint_url=provider.url, streaming=False
        )
        manager = TenfoldConversationManager(store=store, window=WINDOW)
        assert str(make_agent(model, store, manager=manager)("Look at all.")).strip() == "Done."
    assert "tenfold-summary" in provider.requests[-1].prompt
    for got in provider.requests:
        roles = [message["role"] for message in got.body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_a_wrong_message_is_named_by_the_agent(store: Path) -> None:
    agent = make_agent(Scripted(work(1)), store, messages=[{"role": "user", "content": [{}]}])
    with pytest.raises(BadInput, match="dict is no block of Strands"):
        agent("Begin.")
