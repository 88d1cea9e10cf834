"""What is no list of messages is refused in words: its type, what it looks like, and what turns it into messages."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel
from pydantic_ai.messages import ModelRequest, UserPromptPart

import tenfold
from tenfold import AsyncSession, Session, SessionAddress, TenfoldError, open_store
from tenfold.errors import BadInput, UsageError
from tenfold.store.base import Store

CHAT = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"part {n} " * 40} for n in range(40)]


class LlamaMessage(BaseModel):
    role: str = "user"
    additional_kwargs: dict[str, str] = {}
    blocks: list[dict[str, str]] = [{"block_type": "text", "text": "hello"}]


LlamaMessage.__module__ = "llama_index.core.base.llms.types"


class AdkEvent(BaseModel):
    author: str = "user"
    content: dict[str, object] = {"role": "user", "parts": [{"text": "hello"}]}


AdkEvent.__module__ = "google.adk.events.event"


class Frame:
    def to_dict(self, orient: str) -> list[dict[str, str]]:
        raise NotImplementedError(orient)


Frame.__module__ = "pandas"


@dataclasses.dataclass
class OwnMessage:
    role: str = "user"
    content: str = "hello"


async def stream() -> AsyncIterator[dict[str, str]]:
    yield {"role": "user", "content": "hello"}


WRONG: list[tuple[object, tuple[str, ...]]] = [
    ([ModelRequest(parts=[UserPromptPart("hello")])], ("ModelRequest", "pydantic-ai", "Memory")),
    ([Choice.model_construct(message=None)], ("Choice", "an answer of the OpenAI SDK", "choice.message")),
    ([AdkEvent()], ("AdkEvent", "event of Google ADK", "event.content")),
    ([OwnMessage()], ("OwnMessage", "asdict")),
    ([("user", "hello")], ("tuple", "'role': 'user'")),
    ([None], ("None", "'role'")),
    ([7], ("int", "'role'")),
    ([[{"role": "user", "content": "hello"}]], ("list", "one list")),
    (Frame(), ("pandas", 'to_dict("records")')),
    (stream(), ("async_generator", "await")),
    ("hello", ("str", "a list of messages", "read_file")),
    (b"[]", ("bytes", "a list of messages")),
    ({"messages": CHAT}, ("dict", "request['messages']")),
    ({"role": "user", "content": "hello"}, ("dict", "[message]")),
    (None, ("None", "a list of messages")),
    (7, ("int", "a list of messages")),
]


def open_session(policy: Any = "tail") -> Session:  # noqa: ANN401 - wrong ones too
    return Session.create(SessionAddress(open_store(":memory:"), "s"), policy)


def get_error(call: Callable[[], object]) -> str:
    with pytest.raises(TenfoldError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("convert", [tenfold.to_messages, lambda given: tenfold.from_messages(given, "langchain")])
@pytest.mark.parametrize("given", [None, 5, "hello", b"hello", CHAT[0], {"messages": CHAT}, [None], [5], [[CHAT[0]]]])
def test_what_is_converted_is_checked_as_what_is_compacted(convert: Callable[[Any], object], given: object) -> None:
    assert get_error(lambda: convert(given)) == get_error(lambda: tenfold.compact(cast("Any", given), to=100))


def test_a_text_among_converted_messages_is_no_message() -> None:
    assert "item 1 is no JSON object" in get_error(lambda: tenfold.from_messages([CHAT[0], "hello"], "langchain"))
    spoken = ChatCompletionMessage(role="assistant", content="hello")
    assert tenfold.from_messages([spoken, b'{"role": "user", "content": "go"}'], "langchain") == [
        AIMessage("hello"),
        HumanMessage("go"),
    ]


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (LlamaMessage(), ("llama_index", "a message of LlamaIndex", "tenfold.to_messages", "adapters.llama_index")),
        (
            HumanMessage("hello"),
            ("HumanMessage", "a message of LangChain", "tenfold.to_messages", "adapters.langchain"),
        ),
    ],
    ids=["llama-index", "langchain"],
)
def test_a_message_of_a_framework_is_answered_with_its_adapter(message: object, parts: tuple[str, ...]) -> None:
    session: Any = open_session()
    for call in (
        lambda: session.before_model({"messages": [message]}),
        lambda: tenfold.validate([message], "openai-chat"),
    ):
        error = get_error(call)
        assert all(part in error for part in parts), error
    assert session.leaf is None


@pytest.mark.parametrize(("given", "parts"), WRONG, ids=lambda value: repr(value)[:20])
def test_every_entry_point_names_what_was_given(given: object, parts: tuple[str, ...]) -> None:
    session: Any = open_session()
    hosted: Any = AsyncSession(session)
    calls: list[Callable[[], object]] = [
        lambda: tenfold.compact(given, to=100),  # type: ignore[arg-type]
        lambda: tenfold.compact(given, to=100, format="anthropic"),  # type: ignore[arg-type]
        lambda: session.before_model({"messages": given}),
        lambda: asyncio.run(hosted.before_model({"messages": given})),
    ]
    if not isinstance(given, str | bytes | dict):  # `validate` answers these with a violation
        calls.append(lambda: tenfold.validate(given, "openai-chat"))  # type: ignore[arg-type]
    for call in calls:
        error = get_error(call)
        assert all(part in error for part in parts), error
    for own in (session.sync, session.requests.match, session.append):
        get_error(lambda own=own: own(given))  # type: ignore[misc]
    assert session.leaf is None


def test_a_message_of_a_provider_is_no_message_to_append() -> None:
    session: Any = open_session()
    hosted: Any = AsyncSession(session)
    for call in (
        lambda: session.append({"role": "user", "content": "hello"}),
        lambda: session.append({"role": "user", "content": "hello"}, origin=lambda _text: None),
        lambda: session.sync([{"role": "user", "content": "hello"}]),
        lambda: asyncio.run(hosted.append({"role": "user", "content": "hello"})),
    ):
        error = get_error(call)
        assert "dict" in error
        assert "before_model" in error


@pytest.mark.parametrize("request_", [CHAT, None, "hello", 7])
def test_what_is_no_request_is_refused(request_: object) -> None:
    session: Any = open_session()
    hosted: Any = AsyncSession(session)
    assert "before_model({" in get_error(lambda: session.before_model(request_))
    assert "before_model({" in get_error(lambda: asyncio.run(hosted.before_model(request_)))


@pytest.mark.parametrize("report", ["text", 7, [1], b"{}", None])
def test_what_is_no_report_is_left_out(report: object) -> None:
    session = open_session()
    session.after_model(report)
    assert session.conversation.pending_usage is None


def test_a_generator_and_a_tuple_are_lists_of_messages() -> None:
    sizes = {
        tenfold.compact(given, to=800).outcome.tokens_after  # type: ignore[arg-type]
        for given in (CHAT, tuple(CHAT), (message for message in CHAT))
    }
    assert len(sizes) == 1
    assert tenfold.validate((m for m in CHAT), "openai-chat") == []  # type: ignore[arg-type]


def test_objects_of_a_providers_sdk_stay_messages() -> None:
    answer = ChatCompletionMessage(role="assistant", content="hi")
    assert tenfold.compact([CHAT[0], answer], to=10**6).messages[1] is answer
    converted = convert_to_openai_messages([HumanMessage("hello"), AIMessage("hi")])
    assert tenfold.compact(converted, to=10**6).messages == converted


def test_a_share_is_a_target_as_in_the_command() -> None:
    whole = tenfold.compact(CHAT, to=10**6).outcome.tokens_before
    outcome = tenfold.compact(CHAT, to="20%").outcome
    assert outcome.target == whole // 5
    session = open_session("tenfold")
    session.before_model({"messages": CHAT})
    assert session.compact(to="20%").target == session.conversation.count_uncompacted() // 5
    wrong_sizes: tuple[Any, ...] = ("110%", "many", "0%", "-5%", "", 1.5, 0, -3, True, float("nan"), "inf%", "1e999k")
    for wrong in wrong_sizes:
        with pytest.raises(UsageError, match="give tokens, as in 120000 or 120k, or a share, as in 60%"):
            tenfold.compact(CHAT, to=wrong)


@pytest.mark.parametrize("to", ["50", "0.05k", " 5_0 ", 50])
def test_tokens_mean_the_same_as_a_number_and_as_text(to: int | str) -> None:
    assert open_session("tenfold").compactor.build_call(to=to).to == 50


@pytest.mark.parametrize("to", [0.5, "0.5", "50%", " 50 %"])
def test_a_share_means_the_same_as_a_number_and_as_text(to: float | str) -> None:
    session = open_session("tenfold")
    session.before_model({"messages": CHAT})
    assert session.compactor.build_call(to=to).to == session.conversation.count_uncompacted() // 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("openai", "did you mean 'openai-chat' or 'openai-responses'?"),
        ("claude", "did you mean 'anthropic'?"),
        ("openai_chat", "did you mean 'openai-chat'?"),
        ("gemini-cli", "did you mean 'gemini'?"),
        ("responses", "did you mean 'openai-responses'?"),
        (7, "there are anthropic"),
    ],
)
def test_a_format_that_is_almost_one_is_suggested(name: Any, meant: str) -> None:  # noqa: ANN401 - wrong ones too
    assert meant in get_error(lambda: tenfold.compact(CHAT, to=100, format=name))
    assert meant in get_error(lambda: tenfold.validate(CHAT, name))
    assert meant in get_error(lambda: open_session().before_model({"messages": CHAT}, wire=name))


def test_a_policy_is_given_by_its_name() -> None:
    assert open_session("tail").policy.name == "tail"
    session = open_session("tail")
    session.compactor.use_policy("clip")
    assert session.policy.name == "clip"
    store = open_store(":memory:")
    for wrong, meant in (("tenfould", "did you mean 'tenfold'"), (None, "policy is None"), (7, "policy is 7")):
        address = SessionAddress(store, "s")
        assert meant in get_error(lambda address=address, wrong=wrong: Session.create(address, wrong))  # type: ignore[misc]
    assert list(store.list_sessions("default")) == []
    for make in (Session.create, Session):
        assert "open_store" in get_error(lambda make=make: make("here.db", "tail"))  # type: ignore[misc]


class Word(str):
    """A text of a type of its own, as numpy and pandas make them."""

    __slots__ = ()


def test_a_value_of_a_subtype_is_what_it_holds() -> None:
    listed = [{"role": Word("user"), "content": Word("go"), "weight": Fraction(1, 2)}]
    assert tenfold.compact(listed, to=100).messages == listed
    assert open_session("tenfold").before_model({"messages": listed})["messages"] == listed


class TextPart(BaseModel):
    type: str = "text"
    text: str
    note: str | None = None


class TypedMessage(BaseModel):
    role: str = "user"
    content: list[TextPart]
    name: str | None = None


def test_a_typed_message_has_the_values_that_its_class_gives_it() -> None:
    listed = [TypedMessage(content=[TextPart(text="go " * 50)]), TypedMessage(role="assistant", content=[])]
    result = tenfold.compact(listed, to=10**6)
    assert result.messages == listed
    assert result.session.view.get_messages()[0].role == "user"
    assert result.outcome.tokens_before > 20


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_no_message_is_named_with_its_place(at: int) -> None:
    listed = [*CHAT[:at], None, *CHAT[at:]]
    with pytest.raises(BadInput, match=f"item {at}: a message is"):
        tenfold.compact(listed, to=100)
    session = open_session("tenfold")
    session.before_model({"messages": CHAT[:at]})
    with pytest.raises(BadInput, match=f"item {at}: a message is"):
        session.before_model({"messages": listed})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"store": None}, "the store is None: open one first"),
        ({"store": "log.db"}, "the store is 'log.db': open one first"),
        ({"session": None}, "None is no name"),
        ({"session": 5}, "5 is no name"),
        ({"session": ""}, "'' is no name"),
        ({"head": None}, "None is no name"),
    ],
)
def test_an_address_says_what_is_wrong_with_it(given: dict[str, Any], told: str, store: Store) -> None:
    fields: dict[str, Any] = {"store": store, "session": "s", **given}
    with pytest.raises(UsageError, match=told):
        SessionAddress(**fields)


def test_a_session_is_refused_a_model_that_is_no_name(store: Store) -> None:
    with pytest.raises(UsageError, match="model is 5: it is the agent's model by name"):
        Session.create(SessionAddress(store, "s"), "tail", model=5)  # type: ignore[arg-type]
