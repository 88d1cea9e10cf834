"""The callback for LiteLLM, with LiteLLM's functions, Router, messages and keys of its proxy."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it is fetched when the module is loaded
pytest.importorskip("litellm", reason="make adapters installs it")

import litellm
from litellm import Router
from litellm.proxy._types import UserAPIKeyAuth
from litellm.types.utils import CallTypes, Message
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessage

import tenfold
from tenfold.apps.adapters.litellm import MESSAGES, TenfoldLogger
from tenfold.errors import BadInput
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

Json = dict[str, Any]
WINDOW = 4_000
MODEL = "openai/gpt-4o"
PROMPT = {"role": "system", "content": "Look at the parts."}


class Provider(Loopback):
    """OpenAI's server: it refuses what the real one refuses, and a request that is longer than the window."""

    def __init__(self, answer: Callable[[Json], Served], *, window: int = WINDOW) -> None:
        self.issued, self.answer, self.window = Issued(), answer, window
        self.refused = 0
        super().__init__(script=self._answer, sent=self.issued.note)

    def _answer(self, got: Got) -> Served:
        tokens = got.size // 4
        refusal = find_refusal(got.api, got.body, issued=self.issued, tokens=tokens, window=self.window)
        if refusal is not None:
            self.refused += 1
            return Served(status=refusal.status, body=refusal.body)
        return replace(self.answer(got.body), tokens=(tokens, 20))

    @property
    def bodies(self) -> list[list[Json]]:
        """The messages of the requests."""
        return [got.body["messages"] for got in self.requests]

    @property
    def address(self) -> Json:
        """What a request names to reach this server."""
        return {"api_base": f"{self.url}/v1", "api_key": "nothing"}


def call(number: int, name: str = "look", **arguments: object) -> Served:
    return Served(finish="tool", call=(f"{number:03}", name, arguments or {"part": number}))


def work(steps: int) -> Callable[[Json], Served]:
    """A model that looks at one part after the other, and then is done."""
    done = 0

    def answer(_: Json) -> Served:
        nonlocal done
        done += 1
        return Served(f"Done {done}.") if done % (steps + 1) == 0 else call(done)

    return answer


def look(part: int) -> str:
    return f"part {part}: " + "the total value of this result is known, " * 25 + f"and it ends with word{part}x119"


LOOK: Json = {"name": "look", "parameters": {"type": "object", "properties": {"part": {"type": "integer"}}}}
TOOLS: list[Json] = [{"type": "function", "function": LOOK}]


def run(logger: TenfoldLogger, provider: Provider, messages: list[Any], **request: Any) -> str:  # noqa: ANN401 - LiteLLM's
    """The loop of an agent, as people write it with LiteLLM."""
    request = {"model": MODEL, "messages": messages, "tools": TOOLS, **provider.address, **request}
    while True:
        answer = logger.completion(**request).choices[0].message
        messages.append(answer)
        for each in answer.tool_calls or ():
            text = logger.handle(each, **request) or look(**json.loads(each.function.arguments))
            messages.append({"role": "tool", "tool_call_id": each.id, "content": text})
        if not answer.tool_calls:
            return str(answer.content)


async def chat(ask: Callable[..., Any], count: int, **request: Any) -> list[Any]:  # noqa: ANN401 - LiteLLM's
    """Asks so many questions, each with all that was said before."""
    messages: list[Any] = []
    for number in range(count):
        messages.append({"role": "user", "content": f"Question {number}: " + "what is its value, " * 20})
        answer = await ask(messages=messages, **request)
        messages.append(answer.choices[0].message)
    return messages


def say(text: str) -> Callable[[Json], Served]:
    return lambda _: Served(text)


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


def hook(logger: TenfoldLogger, **request: Any) -> Any:  # noqa: ANN401 - LiteLLM's
    return asyncio.run(logger.async_pre_call_deployment_hook({"model": MODEL, **request}, CallTypes.acompletion))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


@pytest.fixture(autouse=True)
def _forget_callbacks() -> Iterator[None]:
    """LiteLLM keeps one callback of a class for good."""
    yield
    litellm.logging_callback_manager._reset_all_callbacks()


@pytest.fixture
def logger(store: Path) -> TenfoldLogger:
    """The callback, as LiteLLM has it."""
    logger = TenfoldLogger(store=store, window=WINDOW)
    litellm.callbacks = [logger]
    return logger


# -- messages ----------------------------------------------------------------------------------------------------------

TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"part": 1}'}}
DICTS: list[Json] = [
    PROMPT,
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is it?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
    {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "assistant", "content": "It is blue.", "reasoning_content": "Blue?"},
]


@pytest.mark.parametrize("message", DICTS)
def test_a_dict_is_read_as_it_is(message: Json) -> None:
    assert MESSAGES.read(message)[0] is message
    assert MESSAGES.build([message]) == [message]


def test_an_answer_is_read_with_all_that_it_holds() -> None:
    thought = {"type": "thinking", "thinking": "Part 1?", "signature": "c2ln"}
    message = Message(content="I look.", tool_calls=[TOOL_CALL], thinking_blocks=[thought], reasoning_content="Part 1?")
    (read,) = MESSAGES.read(message)
    assert MESSAGES.read(ChatCompletionMessage(role="assistant", content="Of OpenAI's own client."))[0]["content"]
    assert (read["role"], read["content"], read["tool_calls"]) == ("assistant", "I look.", [TOOL_CALL])
    assert (read["thinking_blocks"], read["reasoning_content"]) == ([thought], "Part 1?")
    assert Message(**MESSAGES.build([read])[0]) == message


def test_what_is_not_replaced_is_sent_as_the_same_object(logger: TenfoldLogger) -> None:
    messages: list[Any] = [*DICTS, {"role": "user", "content": "And now?"}, Message(content="Now it is red.")]
    shown = hook(logger, messages=messages, litellm_session_id="one", temperature=0.5)
    assert [*map(id, shown["messages"])] == [*map(id, messages)]
    assert shown["temperature"] == 0.5


def test_what_is_no_message_is_refused_with_the_reason(logger: TenfoldLogger) -> None:
    with pytest.raises(BadInput, match="str is no message of LiteLLM"):
        logger.completion(MODEL, ["Hello"], litellm_session_id="one")


# -- litellm.completion ------------------------------------------------------------------------------------------------


def test_a_long_loop_is_compacted_and_its_own_list_stays_whole(store: Path) -> None:
    messages: list[Any] = [PROMPT, {"role": "user", "content": "Go."}]
    with Provider(work(20)) as provider:
        logger = TenfoldLogger(store=store, window=WINDOW)
        assert run(logger, provider, messages, litellm_session_id="one") == "Done 21."
    assert provider.refused == 0
    assert all(sent[0] == PROMPT for sent in provider.bodies)
    assert "word6x119" not in json.dumps(provider.bodies[-1])
    assert "word6x119" in str(messages)
    assert len(messages) == 43
    assert list_sessions(store) == ["one"]
    assert tenfold.open_session("one", store=store).take_reading().source == "reported"


def test_a_new_process_with_a_new_list_goes_on(store: Path) -> None:
    with Provider(work(12)) as provider:
        for task in ("Go.", "Go on."):
            messages: list[Any] = [PROMPT, {"role": "user", "content": task}]
            logger = TenfoldLogger(store=store, window=WINDOW)
            run(logger, provider, messages, metadata={"session_id": "one"})
    assert provider.refused == 0
    before, after = provider.bodies[12], provider.bodies[13]
    assert after[: len(before)] == before
    assert [message["content"] for message in after[len(before) :]] == ["Done 13.", "Go on."]
    assert list_sessions(store) == ["one"]


def test_a_refusal_as_too_long_is_answered_by_a_shorter_request(store: Path) -> None:
    with Provider(work(20)) as provider:
        logger = TenfoldLogger(store=store, window=100 * WINDOW)
        run(logger, provider, [PROMPT, {"role": "user", "content": "Go."}], litellm_session_id="one")
    assert provider.refused
    sizes = [got.size for got in provider.requests]
    refused = next(at for at, size in enumerate(sizes) if size // 4 > WINDOW)
    assert sizes[refused + 1] < sizes[refused]
    assert provider.bodies[refused + 1][0] == PROMPT


def test_other_errors_are_raised_as_they_are(store: Path) -> None:
    logger = TenfoldLogger(store=store)
    with (
        Loopback(Served(status=400, error="The model does not exist.")) as provider,
        pytest.raises(litellm.BadRequestError, match="does not exist"),
    ):
        logger.completion(
            MODEL, [PROMPT, {"role": "user", "content": "Go."}], api_base=provider.url + "/v1", api_key="nothing",
            litellm_session_id="one",
        )  # fmt: skip
    assert len(provider.requests) == 1


def test_a_call_of_litellm_itself_is_warned_about(logger: TenfoldLogger, caplog: pytest.LogCaptureFixture) -> None:
    messages = [{"role": "user", "content": "Go."}]
    with Provider(say("Yes.")) as provider, caplog.at_level(logging.WARNING, "tenfold"):
        logger.completion(MODEL, messages, **provider.address)
        assert not caplog.records
        litellm.completion(MODEL, messages, **provider.address)
        litellm.completion(MODEL, messages, **provider.address)
    assert [record.message for record in caplog.records] == [
        "litellm.completion asks no callback what it sends: call completion of the TenfoldLogger"
    ]


def test_without_a_window_it_is_what_litellm_knows(store: Path) -> None:
    hook(TenfoldLogger(store=store), model="gpt-4-turbo-preview-of-mine", messages=DICTS, litellm_session_id="one")
    litellm.register_model({"openai/my-own": {"max_input_tokens": 12_345, "litellm_provider": "openai"}})
    logger = TenfoldLogger(store=store)
    with Provider(say("Yes.")) as provider:
        logger.completion("openai/my-own", DICTS, litellm_session_id="two", **provider.address)
    reading = logger._sessions.get("two").session.take_reading()
    assert reading.window == 12_345


# -- litellm.acompletion, and a Router ---------------------------------------------------------------------------------


def test_coroutines_are_compacted_by_the_callback(logger: TenfoldLogger, store: Path) -> None:
    with Provider(say("Its total value is known. " * 40)) as provider:
        asyncio.run(chat(litellm.acompletion, 30, model=MODEL, litellm_session_id="one", **provider.address))
    assert logger in litellm.callbacks
    assert provider.refused == 0
    assert "tenfold-summary" in json.dumps(provider.bodies[-1])
    session = tenfold.open_session("one", store=store)
    assert session.take_reading().source == "reported"
    assert session.search("Question 29")


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    litellm.callbacks = [logger := TenfoldLogger(store=store)]
    request = {"model": MODEL, "messages": [{"role": "user", "content": "Go."}], "litellm_session_id": "three"}
    with Provider(say("Yes.")) as provider:
        asyncio.run(chat(litellm.acompletion, 2, model=MODEL, litellm_session_id="one", **provider.address))
        asyncio.run(chat(logger.acompletion, 2, model=MODEL, litellm_session_id="two", **provider.address))
        asyncio.run(logger.async_pre_call_hook(UserAPIKeyAuth(), None, request, "acompletion"))
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_the_coroutine_of_the_object_answers_a_refusal_by_a_shorter_request(store: Path) -> None:
    with Provider(say("Its total value is known. " * 40)) as provider:
        litellm.callbacks = [logger := TenfoldLogger(store=store, window=100 * WINDOW)]
        asyncio.run(chat(logger.acompletion, 20, model=MODEL, litellm_session_id="one", **provider.address))
    assert provider.refused
    assert list_sessions(store) == ["one"]


def test_a_router_that_falls_back_sends_something_shorter(store: Path) -> None:
    with Provider(say("Its total value is known. " * 40)) as provider:
        litellm.callbacks = [TenfoldLogger(store=store, window=100 * WINDOW)]
        deployments = [{"model_name": name, "litellm_params": {"model": MODEL, **provider.address}} for name in "ab"]
        router = Router(model_list=deployments, context_window_fallbacks=[{"a": ["b"]}])
        asyncio.run(chat(router.acompletion, 20, model="a", litellm_session_id="one"))
    assert provider.refused
    refused = next(at for at, got in enumerate(provider.requests) if got.size // 4 > WINDOW)
    assert provider.requests[refused + 1].size < provider.requests[refused].size
    assert provider.bodies[refused + 1][-1] == provider.bodies[refused][-1]
    assert list_sessions(store) == ["one"]


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_stream_is_kept_and_reported_if_the_provider_counts_it(
    logger: TenfoldLogger, store: Path, *, is_counted: bool
) -> None:
    async def stream(**request: Any) -> None:  # noqa: ANN401 - LiteLLM's
        messages = [PROMPT, {"role": "user", "content": "Is it so? " * 20}]
        options = {"stream": True, "stream_options": {"include_usage": True} if is_counted else None}
        async for _ in await litellm.acompletion(MODEL, messages=messages, **options, **request):
            pass
        session = tenfold.open_session("one", store=store)
        for _ in range(500):  # LiteLLM tells it afterwards
            if session.refresh().length < 3:
                await asyncio.sleep(0.01)

    assert logger in litellm.callbacks
    with Provider(say("Yes.")) as provider:
        asyncio.run(stream(litellm_session_id="one", **provider.address))
    assert provider.requests[0].streamed
    session = tenfold.open_session("one", store=store)
    assert session.search("Yes")
    assert session.take_reading().source == ("reported" if is_counted else "estimated")


# -- whose conversation it is ------------------------------------------------------------------------------------------


def test_conversations_without_an_id_are_told_apart_by_their_beginning(logger: TenfoldLogger, store: Path) -> None:
    async def talk(**request: Any) -> None:  # noqa: ANN401 - LiteLLM's
        for name in ("Ada", "Bob"):
            messages: list[Any] = [PROMPT]
            for text in (f"I am {name}.", "Who am I?", "Am I?"):
                messages.append({"role": "user", "content": text})
                answer = await litellm.acompletion(model=MODEL, messages=messages, **request)
                messages.append(answer.choices[0].message)

    assert logger in litellm.callbacks
    with Provider(say("You are.")) as provider:
        asyncio.run(talk(**provider.address))
    names = list_sessions(store)
    assert len(names) == 2
    assert {bool(tenfold.open_session(name, store=store).search("Ada")) for name in names} == {True, False}


def test_what_is_asked_once_is_not_kept(logger: TenfoldLogger, store: Path) -> None:
    assert hook(logger, messages=[PROMPT, {"role": "user", "content": "A title?"}]) is None
    assert hook(logger, messages=[PROMPT, {"role": "user", "content": "A title?"}], metadata=None) is None
    logger_of_nothing = logger.handle(Message(tool_calls=[TOOL_CALL]).tool_calls[0], model=MODEL, messages=[])
    assert logger_of_nothing is None
    assert not store.exists()


def test_an_id_that_the_proxy_made_for_one_request_is_none(logger: TenfoldLogger, store: Path) -> None:
    made = {"session_id": "1234", "litellm_session_id_generated": True}
    assert hook(logger, messages=[{"role": "user", "content": "Go."}], metadata=made) is None
    assert not store.exists()


def test_other_kinds_of_calls_are_sent_as_they_are(logger: TenfoldLogger) -> None:
    request = {"model": MODEL, "input": "Go.", "litellm_session_id": "one"}
    assert asyncio.run(logger.async_pre_call_deployment_hook(request, CallTypes.aresponses)) is None
    assert asyncio.run(logger.async_pre_call_hook(UserAPIKeyAuth(), None, request, "aembedding")) is None


def test_keys_of_the_proxy_never_share_a_session(store: Path) -> None:
    """The proxy asks `async_pre_call_hook` with the caller's key, and LiteLLM then asks for the deployment."""
    logger = TenfoldLogger(store=store, window=WINDOW)
    for secret in ("sk-ada", "sk-bob"):
        auth = UserAPIKeyAuth(api_key=secret)
        metadata = {"session_id": "chat", "user_api_key_hash": auth.api_key}
        text = f"I have {secret}."
        data = {"model": "fast", "messages": [PROMPT, {"role": "user", "content": text}], "metadata": metadata,
                "litellm_call_id": secret}  # fmt: skip
        shown = asyncio.run(logger.async_pre_call_hook(auth, None, data, "acompletion"))
        assert [message["content"] for message in shown["messages"]] == [PROMPT["content"], text]
        assert hook(logger, **{**shown, "model": MODEL}) is None
    assert list_sessions(store) == sorted(f"{UserAPIKeyAuth(api_key=key).api_key}/chat" for key in ("sk-ada", "sk-bob"))


def test_no_caller_of_the_proxy_can_name_the_key_of_another_one(logger: TenfoldLogger, store: Path) -> None:
    metadata = {"user_api_key_hash": "hash-of-bob"}  # the proxy writes it
    others = {"user_api_key_hash": "hash-of-ada", "litellm_metadata": {"user_api_key_hash": "hash-of-ada"}}
    hook(logger, messages=DICTS, metadata=metadata, litellm_session_id="chat", **others)
    assert list_sessions(store) == ["hash-of-bob/chat"]


def test_behind_an_alias_the_window_is_the_deployments(store: Path) -> None:
    logger, auth = TenfoldLogger(store=store), UserAPIKeyAuth(api_key="sk-ada")
    data: Json = {"messages": DICTS, "litellm_session_id": "one", "litellm_call_id": "1"}
    assert asyncio.run(logger.async_pre_call_hook(auth, None, {**data, "model": "fast"}, "acompletion")) is None
    assert hook(logger, **data) == {**data, "model": MODEL}
    assert hook(logger, **data) is None
    assert tenfold.open_session("one", store=store, model=MODEL).view.length == len(DICTS)


# -- looking things up -------------------------------------------------------------------------------------------------


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    done = iter(range(1, 100))

    def answer(body: Json) -> Served:
        number = next(done)
        if number == 21:
            assert "word6x119" not in json.dumps(body)
            return call(number, "recall_search", words="word6x119")
        return Served("Done.") if number == 22 else call(number)

    with Provider(answer) as provider:
        logger = TenfoldLogger(store=store, window=WINDOW)
        messages: list[Any] = [{"role": "user", "content": "Go."}]
        run(logger, provider, messages, litellm_session_id="one", tools=[*TOOLS, *logger.tools])
    assert provider.refused == 0
    assert "word6x119" in provider.bodies[-1][-1]["content"]
    assert "recall_read" in json.dumps(provider.bodies[-1])


def test_a_call_that_is_no_json_is_answered(logger: TenfoldLogger) -> None:
    function = {"name": "recall_search", "arguments": '{"words": '}
    each = Message(tool_calls=[{**TOOL_CALL, "function": function}]).tool_calls[0]
    found = logger.handle(each, model=MODEL, messages=[], litellm_session_id="one")
    assert found is not None
    assert found.startswith("the arguments are no JSON")


def test_without_the_tools_no_stub_names_them(store: Path) -> None:
    with Provider(work(20)) as provider:
        logger = TenfoldLogger(store=store, window=WINDOW)
        run(logger, provider, [{"role": "user", "content": "Go."}], litellm_session_id="one")
    assert "output removed" in json.dumps(provider.bodies[-1])
    assert "recall_read" not in json.dumps(provider.bodies[-1])
