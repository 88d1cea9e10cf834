"""Says what a host passed in place of messages: its type, what it looks like, and what turns it into messages."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from tenfold.core.record.message import Message
from tenfold.errors import BadInput


class ForeignType(Struct, frozen=True):
    """Types of another library, by the module they come from: what they are, and what turns them into messages.

    `names` are the only classes meant, all of the module's if there are none. With `converts` the library's own
    converter makes messages of them.
    """

    module: str
    title: str
    advice: str
    names: frozenset[str] = frozenset()


_AGENTS_SDK = frozenset({
    "RunResult", "RunResultStreaming", "MessageOutputItem", "ToolCallItem", "ToolCallOutputItem", "ReasoningItem",
    "HandoffCallItem", "HandoffOutputItem",
})  # fmt: skip
_CONVERT = "convert the list with tenfold.to_messages(messages), or switch on tenfold.apps.adapters.{} in the agent"
FOREIGN_TYPES: tuple[ForeignType, ...] = (
    *(
        ForeignType(module, f"a message of {title}", _CONVERT.format(adapter))
        for module, title, adapter in (
            ("llama_index", "LlamaIndex", "llama_index"),
            ("langchain_core", "LangChain", "langchain"),
            ("haystack", "Haystack", "haystack"),
            ("agno", "Agno", "agno"),
            ("smolagents", "smolagents", "smolagents"),
            ("agent_framework", "Microsoft's Agent Framework", "agent_framework"),
            ("inspect_ai", "Inspect", "inspect_ai"),
            ("openhands", "OpenHands", "openhands"),
        )
    ),
    ForeignType(
        "pydantic_ai",
        "a ModelMessage of pydantic-ai",
        "give the agent tenfold.apps.agent.capability.Memory, which compacts its messages before each call",
    ),
    ForeignType(
        "google.adk",
        "an event of Google ADK",
        "give the app tenfold.apps.adapters.google_adk.TenfoldPlugin, or pass what the events hold, "
        '[event.content for event in session.events], with format="gemini"',
    ),
    ForeignType(
        "agents",
        "what the OpenAI Agents SDK made of a run",
        "pass result.to_input_list(), or switch on tenfold.apps.adapters.openai_agents in the run",
        _AGENTS_SDK,
    ),
    ForeignType("semantic_kernel", "a message of Semantic Kernel", "pass [m.to_dict() for m in messages]"),
    ForeignType(
        "openai",
        "a whole answer of the OpenAI SDK",
        "pass the messages, of which this one is response.choices[0].message",
        frozenset({"ChatCompletion", "ParsedChatCompletion"}),
    ),
    ForeignType(
        "openai",
        "a whole answer of the OpenAI SDK",
        "pass the list of items, of which these are response.output",
        frozenset({"Response", "ParsedResponse"}),
    ),
    ForeignType("openai", "a choice of an answer of the OpenAI SDK", "pass choice.message", frozenset({"Choice"})),
    ForeignType(
        "google.genai",
        "a whole answer of the Google GenAI SDK",
        "pass the contents, of which this one is response.candidates[0].content",
        frozenset({"GenerateContentResponse"}),
    ),
    ForeignType("pandas", "a table of pandas", 'pass frame.to_dict("records")'),
    ForeignType("polars", "a table of Polars", "pass frame.to_dicts()"),
    ForeignType("datasets", "a data set of Hugging Face", 'pass the messages of one row, as in dataset[0]["messages"]'),
    ForeignType(
        "tenfold",
        "a message of Tenfold",
        "pass it to Session.append or Session.sync; `compact`, `validate` and before_model take a provider's messages",
        frozenset({"Message"}),
    ),
)
"""Objects that people pass as messages and that are none. A subclass counts as its library's."""
_LIST = "pass a list of messages, as in [{'role': 'user', 'content': 'Hello'}]"


def list_messages(value: Any) -> list[Any]:  # noqa: ANN401 - whatever a host passes
    """Returns the messages of a list, or of anything else that yields them, as a list.

    Raises `BadInput` for what holds no messages: a text, one message, a whole request, a table, None.
    """
    if isinstance(value, list):
        return value
    foreign = find_foreign_type(value)
    if foreign is not None:
        raise BadInput(f"the messages are {name_type(value)}, which is {foreign.title}: {foreign.advice}")
    if isinstance(value, Mapping):
        field = next((key for key in ("messages", "input", "contents") if isinstance(value.get(key), list)), "")
        advice = f"pass its list, request[{field!r}]" if field else f"pass [message] if it is one message; {_LIST}"
        raise BadInput(f"the messages are a {name_type(value)}, and no list: {advice}")
    if isinstance(value, str | bytes | bytearray):
        raise BadInput(
            f"the messages are a text ({name_type(value)}), and no list: {_LIST}; the messages of a file come from "
            "tenfold.read_file(path)"
        )
    if inspect.isawaitable(value) or hasattr(value, "__aiter__"):
        raise BadInput(f"the messages are a {name_type(value)}: await it first, and pass the list that it gives")
    if hasattr(value, "model_dump") or not isinstance(value, Iterable):
        raise BadInput(f"the messages are {_describe(value)}, and no list: {_LIST}")
    return list(value)


def explain_item(value: object) -> str:
    """Says of a value that is no provider's message what it is, and what turns it into one."""
    foreign = find_foreign_type(value)
    if foreign is not None:
        return f"{name_type(value)} is {foreign.title}, and no provider's message: {foreign.advice}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        advice = "it is a dataclass: pass dataclasses.asdict(message), with the provider's field names"
    elif isinstance(value, tuple):
        advice = "write a pair such as ('user', 'Hello') as {'role': 'user', 'content': 'Hello'}"
    elif isinstance(value, list):
        advice = "the list holds another list: pass its messages in one list"
    else:
        advice = "write it as {'role': ..., 'content': ...}"
    return f"a message is a dict, JSON bytes, or an SDK object with model_dump(), not {_describe(value)}; {advice}"


def list_own_messages(value: Any) -> list[Message]:  # noqa: ANN401 - whatever a host passes
    """Returns the `Message` objects of a list. Raises `BadInput`, with the method that takes it, for anything else."""
    messages = list_messages(value)
    wrong = next((each for each in messages if not isinstance(each, Message)), None)
    if wrong is None and None not in messages:
        return messages
    foreign = find_foreign_type(wrong)
    looks_like = f", which is {foreign.title}" if foreign is not None else ""
    raise BadInput(
        f"append, sync and match take tenfold.core.record.message.Message, not {_describe(wrong)}{looks_like}; give a "
        "provider's messages to before_model({'messages': [...]}), or decode them first, as in "
        "tenfold.core.wire.WIRES['openai-chat'].decode([json.dumps(message).encode()])"
    )


def find_foreign_type(value: object) -> ForeignType | None:
    """Finds the library whose type a value is of. None for plain values and for a provider's own messages."""
    for cls in type(value).__mro__:
        for each in FOREIGN_TYPES:
            is_module = cls.__module__ == each.module or cls.__module__.startswith(f"{each.module}.")
            if is_module and (not each.names or cls.__name__.partition("[")[0] in each.names):
                return each
    return None


def name_type(value: object) -> str:
    """Names the type of a value with its module, unless it is one of Python's own."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _describe(value: object) -> str:
    return "None" if value is None else f"a value of type {name_type(value)}"
