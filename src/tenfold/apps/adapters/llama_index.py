"""Tenfold in an agent of LlamaIndex: one memory.

    await agent.run("Go on.", memory=TenfoldMemory("support-42"))

The messages go into a session, and the model sees its view. An agent keeps the steps of a run in a list of its own,
which it sends behind the memory, and hands over when the run ends. The memory takes them over after every step, so they
are compacted as well. Give the agent the tools `RECALL` too, and the model can look up what it no longer sees.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial
from itertools import takewhile
from typing import Any, Unpack, cast
from weakref import WeakValueDictionary

import msgspec

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from llama_index.core.agent.react.types import ObservationReasoningStep
    from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events.exception import ExceptionEvent
    from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
    from llama_index.core.instrumentation.events.span import SpanDropEvent
    from llama_index.core.memory import BaseMemory
    from llama_index.core.tools import FunctionTool
    from llama_index.core.workflow import Context, WorkflowRuntimeError
    from pydantic import PrivateAttr

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions, build_lookups
from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.formats.objects.llama_index import CONVERTER
from tenfold.models.overflow import is_overflow, read_provider_error
from tenfold.recall.tools import SEARCH, RecallTools
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

_NOTES = (FunctionAgent.model_fields["scratchpad_key"].default, ReActAgent.model_fields["reasoning_key"].default)
"""Where agents keep the steps of a run, in the state of its context."""
_SENT: WeakValueDictionary[int, TenfoldMemory] = WeakValueDictionary()
"""The memories by the identity of the last message that each has given: a call of a model holds the same object."""
_ASKED: WeakValueDictionary[str, TenfoldMemory] = WeakValueDictionary()
"""The memories whose messages a model is being asked with, by the id of the call."""


class TenfoldMemory(BaseMemory):
    """Keeps the messages of a conversation in a session, and gives them compacted when they grow too long.

    It is the memory of the conversation `session` in every process. Without a name it is a new one. An agent that a
    tool of another one runs has a memory of its own, unless it is given this one.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name. Once a
    model was asked with it, the memory knows what else is sent, and counts it.
    """

    session: str
    options: dict[str, Any]
    _host: HostSession[ChatMessage] | None = PrivateAttr(default=None)
    _messages: list[ChatMessage] = PrivateAttr(default_factory=list)
    _sent: list[ChatMessage] = PrivateAttr(default_factory=list)
    _fields: dict[str, Any] = PrivateAttr(default_factory=dict)
    _refusal: BaseException | None = PrivateAttr(default=None)
    _report: Any = PrivateAttr(default=None)
    _began_here: bool = PrivateAttr(default=False)

    def __init__(
        self, session: str = "", *, options: Mapping[str, Any] | None = None, **named: Unpack[SessionOptions]
    ) -> None:
        """`options` may hold what is named, as in what `to_dict` gives."""
        if not isinstance(session, str):
            raise UsageError(f'a memory is named by the id of its conversation, as "support-42", not {session!r}')
        given = {**(options or {}), **named}
        plain = {name: os.fspath(each) if isinstance(each, os.PathLike) else each for name, each in given.items()}
        super().__init__(session=session or IDS.generate(), options=plain)
        _listen()

    @classmethod
    def class_name(cls) -> str:
        """Returns the name of the class, as LlamaIndex asks for it."""
        return "TenfoldMemory"

    @classmethod
    def from_defaults(cls, session: str = "", llm: Any = None, **options: Any) -> TenfoldMemory:  # noqa: ANN401
        """Makes a memory for the model and the window of an `llm`."""
        known = {} if llm is None else {"model": llm.metadata.model_name, "window": llm.metadata.context_window}
        return cls(session, options={**known, **options})

    @property
    def tools(self) -> RecallTools:
        """The tools that `RECALL` calls."""
        return self._open().tools

    # -- what LlamaIndex asks of a memory ------------------------------------------------------------------------------

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: ANN401, ARG002
        """Returns what the model sees."""
        host, refusal = self._open(), self._refusal
        if not self._messages:
            return self._build(host.session.refresh().get_messages())
        fitted = host.fit(self._messages, **self._fields)
        if refusal is not None:
            self._refusal, fitted = None, host.shrink(refusal)
        return self._show(fitted)

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: ANN401, ARG002
        """Takes over the steps of the run, and returns what the model sees."""
        await self._take_over_steps()
        host, refusal = await asyncio.to_thread(self._open), self._refusal
        if not self._messages:
            return await asyncio.to_thread(self.get)
        fitted = await host.afit(self._messages, **self._fields)
        if refusal is not None:
            self._refusal, fitted = None, await host.ashrink(refusal)
        return self._show(fitted)

    def get_all(self) -> list[ChatMessage]:
        """Returns the whole conversation, with what other processes have added to it."""
        view = self._open().session.refresh()
        return list(self._messages) if self._began_here else self._build(m for _, m in view.path.list_messages())

    def put(self, message: ChatMessage) -> None:
        """Adds a message."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Does the same as `put`."""
        await self.aput_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Adds messages."""
        if self._add(messages):
            self._open().fit(self._messages, **self._fields)

    async def aput_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Does the same as `put_messages`."""
        if self._add(messages):
            await (await asyncio.to_thread(self._open)).afit(self._messages, **self._fields)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Takes a list in place of the one that it has. One that does not continue the session goes on from it."""
        self._messages = []
        self.put_messages(messages)

    def reset(self) -> None:
        """Removes the session from the store, with all that was ever in it."""
        self._open().remove()
        self._host, self._messages = None, []

    # -- what a call of a model tells ----------------------------------------------------------------------------------

    def note_request(self, event: LLMChatStartEvent) -> None:
        """Notes what a model is sent besides the messages: it is counted from now on."""
        first = next((at for at, message in enumerate(event.messages) if message is self._sent[0]), 0)
        system = "\n\n".join(message.content or "" for message in event.messages[:first])
        named = event.additional_kwargs
        tools = json.loads(
            json.dumps(named.get("tools") or [], default=lambda tool: str(getattr(tool, "metadata", tool)))
        )
        found = {
            "system": system,
            "tools": tools,
            "model": event.model_dict.get("model") or event.model_dict.get("model_name"),
            "max_tokens": named.get("max_tokens") or event.model_dict.get("max_tokens"),
        }
        self._fields |= {name: value for name, value in found.items() if value}
        if tools or system:
            self._fields["recall"] = "tool" if SEARCH in f"{system}{tools}" else "none"

    def note_answer(self, event: LLMChatEndEvent) -> None:
        """Notes what the request took, where the model's client says so: the session learns of it with the answer.

        LlamaIndex tells it on its event loop.
        """
        if event.response is not None:
            self._report = event.response.raw

    def note_failure(self, error: BaseException) -> None:
        """Notes that a model has refused what it was sent as too long: what `get` gives next is shorter."""
        text, status = read_provider_error(error)
        if is_overflow(text, status=status):
            self._refusal = error

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _open(self) -> HostSession[ChatMessage]:
        if self._host is None:
            options = cast("SessionOptions", self.options)
            sessions: HostSessions[ChatMessage] = HostSessions(CONVERTER, options, self.session)
            self._host = sessions.get()
            self._began_here = not self._host.session.view.length
        if self._report is not None:
            report, self._report = self._report, None
            self._host.session.after_model(report)
        return self._host

    def _add(self, messages: Iterable[ChatMessage]) -> bool:
        new = list(messages)
        for message in new:
            CONVERTER.read(message)
        self._messages = [*self._messages, *new]
        return bool(new)

    async def _take_over_steps(self) -> None:
        """Takes over what an agent has noted of its run, up to the last answer if that is not carried out yet."""
        try:
            notes = Context.get_step_context().store
        except WorkflowRuntimeError:  # outside of a run
            return
        if await notes.get("memory", default=None) is not self:
            return
        for key in _NOTES:
            noted = await notes.get(key, default=[])
            messages = [_read_note(note) for note in noted]
            open_steps = sum(1 for _ in takewhile(lambda message: message.role == "assistant", reversed(messages)))
            if len(messages) > open_steps:
                self._add(messages[: len(messages) - open_steps])
                await notes.set(key, noted[len(messages) - open_steps :])

    def _show(self, fitted: Fitted[ChatMessage]) -> list[ChatMessage]:
        """Returns the messages to send, and remembers the last one, to know the call of the model that sends them.

        What the view has added to the system prompt stands before them.
        """
        own = self._fields.get("system")
        shown = fitted.system if isinstance(fitted.system, list) else [{"text": fitted.system}]
        texts = [block["text"] for block in shown if block["text"] and block["text"] != own]
        if self._sent:
            _SENT.pop(id(self._sent[-1]), None)
        self._sent = [*(ChatMessage(role="system", content=text) for text in texts), *fitted.messages]
        _SENT[id(self._sent[-1])] = self
        return list(self._sent)

    def _build(self, messages: Iterable[Message]) -> list[ChatMessage]:
        encoded = WIRES[CONVERTER.wire].encode(list(messages))
        return CONVERTER.build([msgspec.json.decode(item.raw) for item in encoded.items])


def _read_note(note: Any) -> ChatMessage:  # noqa: ANN401 - a message, or a step of a ReActAgent
    if isinstance(note, ChatMessage):
        return note
    role = "user" if isinstance(note, ObservationReasoningStep) else "assistant"
    return ChatMessage(role=role, content=note.get_content())


class _Listener(BaseEventHandler):
    """Tells each memory of the calls of models that its messages are sent in."""

    def handle(self, event: Any, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - any event of LlamaIndex
        match event:
            case LLMChatStartEvent() if (memory := _find_memory(event.messages)) is not None:
                _ASKED[event.span_id or ""] = memory
                memory.note_request(event)
            case LLMChatEndEvent() if (memory := _ASKED.pop(event.span_id or "", None)) is not None:
                memory.note_answer(event)
            case ExceptionEvent() if (memory := _ASKED.pop(event.span_id or "", None)) is not None:
                memory.note_failure(event.exception)
            case SpanDropEvent() if (memory := _ASKED.pop(event.span_id or "", None)) is not None:
                memory.note_failure(RuntimeError(event.err_str))


def _find_memory(messages: Sequence[ChatMessage]) -> TenfoldMemory | None:
    return next((_SENT[id(message)] for message in reversed(messages) if id(message) in _SENT), None)


@cache
def _listen() -> None:
    get_dispatcher().add_event_handler(_Listener())


# -- tools -------------------------------------------------------------------------------------------------------------

_CALLED: ContextVar[RecallTools] = ContextVar("tenfold_recall")
"""The tools of the memory of the run that calls one of `RECALL`."""


def _build_recall() -> list[FunctionTool]:
    tools: list[FunctionTool] = []
    for lookup in build_lookups(_CALLED.get):
        described = FunctionTool.from_defaults(lookup, description=lookup.__doc__)
        tools.append(FunctionTool(async_fn=partial(_look_up, lookup), metadata=described.metadata))
    return tools


async def _look_up(lookup: Callable[..., str], **arguments: Any) -> str:  # noqa: ANN401 - what the model wrote
    memory = await Context.get_step_context().store.get("memory", default=None)
    if not isinstance(memory, TenfoldMemory):
        raise UsageError("RECALL looks up what a TenfoldMemory keeps: run the agent with memory=TenfoldMemory(...)")
    _CALLED.set(await asyncio.to_thread(lambda: memory.tools))
    return await asyncio.to_thread(partial(lookup, **arguments))


RECALL = _build_recall()
"""The three tools with which a model looks up what it no longer sees. They work with any `TenfoldMemory`."""
