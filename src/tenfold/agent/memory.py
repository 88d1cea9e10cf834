"""Tenfold as a capability of pydantic-ai: one line in `capabilities=[...]` of an agent that somebody has already.

Before every call the agent's list is brought level with the session and sent as its view, compacted where the policy
says so; after it the answer goes to the log before any tool of it runs. A call that the provider refuses as too long
is compacted for and made once more.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from pydantic_ai.capabilities import AbstractCapability, ValidatedToolArgs, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    RetryModelRequest,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from tenfold.agent.messages import Reader, encoded
from tenfold.aio import AsyncSession, to_its_end
from tenfold.designs.tiers import CompactTool
from tenfold.engine import Call
from tenfold.errors import ContextOverflow
from tenfold.events import Overflowed
from tenfold.llm.overflow import is_overflow
from tenfold.log.ids import now
from tenfold.meter.windows import window_of
from tenfold.plan.draft import Recall
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools
from tenfold.record.entry import Usage
from tenfold.record.message import Message, Text, text_of
from tenfold.session import Session

ANSWER = 4_096
"""Tokens kept free for an answer whose request names no most: what pydantic-ai then asks of Anthropic's models that
count it into the window (`_LEGACY_DEFAULT_MAX_TOKENS`); in small windows a sixteenth."""
_SAYING = frozenset({"anthropic", "bedrock", "google", "google-cloud", "groq", "mistral"})
"""Providers that say at the end of every answer why it ended. Of servers that speak OpenAI's language not all do."""


def room(settings: ModelSettings | None, window: int | None) -> int:
    """Tokens kept free for an answer: the most that the settings allow one, else `ANSWER`."""
    return (settings or {}).get("max_tokens") or min(ANSWER, (window or 0) // 16)


class _Results:
    """The results of one answer's calls, given on in the order of the calls: so the next request lists them."""

    def __init__(self, calls: tuple[str, ...] = ()) -> None:
        self._waiting = list(calls)
        self._there: dict[str, ToolReturnPart] = {}
        self._one = threading.Lock()

    def came(self, part: ToolReturnPart) -> None:
        """Notes a result."""
        self._there[part.tool_call_id] = part

    def append(self, session: Session, run: str, *, whole: bool = False) -> None:
        """Appends the results up to the first call without one; all that are there where no more will come."""
        with self._one:
            ready: list[ModelMessage] = []
            while self._waiting and (whole or self._waiting[0] in self._there):
                part = self._there.pop(self._waiting.pop(0), None)
                ready += [ModelRequest([part])] if part is not None else []
            session.append(*Reader().read(ready)[0], run=run)


@dataclass
class Memory(AbstractCapability[Any]):
    """The session that an agent's conversation is kept in. `window`: the model's, where pydantic-ai does not know it.

    `tools` offers the model a search, two ways to read, and `compact`; stubs and summaries then name them.
    """

    session: Session
    window: int | None = None
    tools: bool = True
    _aside: AsyncSession = field(init=False, repr=False)
    ends: bool = field(init=False, repr=False, default=False)
    streams: bool = field(init=False, repr=False, default=False)
    answer: str = field(init=False, repr=False, default="")
    _messages: list[ModelMessage] = field(init=False, repr=False, default_factory=list)
    _results: _Results = field(init=False, repr=False)
    _beside: set[str] = field(init=False, repr=False, default_factory=set)
    _reader: Reader = field(init=False, repr=False)
    _floors: dict[bytes, int] = field(init=False, repr=False, default_factory=dict)
    _saying: set[str | None] = field(init=False, repr=False, default_factory=lambda: set(_SAYING))

    def __post_init__(self) -> None:
        self._aside = AsyncSession(self.session)
        self._reader = Reader(self.session.ours)
        self._results = _Results()

    # -- before and after each call ------------------------------------------------------------------------------------

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Syncs what the agent holds, compacts if that is due, and sends the view."""
        self._messages = ctx.messages
        self.session.model = request_context.model.model_name
        given, objects = await asyncio.to_thread(self._reader.read, request_context.messages)
        given = [self._labelled(message) for message in given]
        messages = await self._aside.before_call(given, self.call(request_context), ends=self.ends)
        if messages is None:
            return request_context
        sent = await asyncio.to_thread(encoded, messages, objects)
        ctx.messages[:] = sent  # the run goes on from what the model sees: what is hidden stands in the log
        return replace(request_context, messages=sent)

    def _labelled(self, message: Message) -> Message:
        """pydantic-ai puts what a tool gives beside its result into a prompt: those are not the user's words."""
        if message.origin == "human" and text_of(message) in self._beside:
            return msgspec.structs.replace(message, origin="tool")
        return message

    def call(self, request: ModelRequestContext) -> Call:
        """What the session must know of a request: its window, what is sent beside the list, room for the answer."""
        known = self.window or request.model.context_window or window_of(request.model.model_name)
        recall: Recall = "tool" if self.tools else "none"
        reserve = room(request.model_settings, known)
        return Call(window=known, floor=self._floor(request), output_reserve=reserve, recall=recall)

    def _floor(self, request: ModelRequestContext) -> int:
        """Tokens of the instructions and the tools' definitions."""
        given = request.model_request_parameters
        tools = [(t.name, t.description, t.parameters_json_schema) for t in given.function_tools]
        texts = [part.content for part in given.instruction_parts or ()]
        key = msgspec.json.encode([texts, tools])
        if key not in self._floors:
            self._floors = {key: sum(self.session.policy.counter.count([key.decode()]))}
        return self._floors[key]

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Notes what the provider counted, and appends the answer: its calls are in the log before they are run."""
        used = response.usage
        if used.input_tokens:
            cached = used.cache_read_tokens, used.cache_write_tokens
            name = response.model_name or request_context.model.model_name
            self.session.used(Usage(used.input_tokens, used.output_tokens, *cached, self.session.model or name))
        if self.streams and self._cut(response):
            ctx.messages.append(replace(response, state="interrupted"))
            name = request_context.model.model_name
            raise ModelConnectionError(name, "the stream ended before the answer was complete", phase="read")
        self.answer = response.text or ""
        self._results = _Results(tuple(call.tool_call_id for call in response.tool_calls))
        await self._aside.append(*Reader().read([response])[0], run=response.run_id or "")
        return response

    def _cut(self, response: ModelResponse) -> bool:
        """Whether a streamed answer has no end: its provider says why one ended, and clients do not miss that.

        A provider that was never heard to say it may be one that says nothing; clients then put "stop".
        """
        if (response.provider_details or {}).get("finish_reason"):
            self._saying.add(response.provider_name)
            return False
        return response.finish_reason in {None, "stop"} and response.provider_name in self._saying

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:  # noqa: ANN401 - a tool gives anything
        """Appends a tool's result once it is there and those of the calls before it are, not first at the next call."""
        del tool_def
        try:
            result = await handler(args)
        except (ToolFailedError, ToolRetryError) as exc:  # what the model is told in place of a result
            await self._done(exc.tool_failed if isinstance(exc, ToolFailedError) else exc.tool_retry, ctx.run_id)
            raise
        content = result.return_value if isinstance(result, ToolReturn) else result
        if isinstance(result, ToolReturn) and result.content:
            beside = [result.content] if isinstance(result.content, str) else result.content
            said = text_of(Message("user", tuple(Text(t) for t in beside if isinstance(t, str)), "tool"))
            self._beside |= {said} if said else set()
        await self._done(ToolReturnPart(call.tool_name, content, call.tool_call_id), ctx.run_id)
        return result

    async def _done(self, part: ToolReturnPart | RetryFeedbackPart, run: str | None) -> None:
        if isinstance(part, ToolReturnPart):
            results, session = self._results, self.session
            results.came(part)
            await to_its_end(lambda: results.append(session, run or ""))

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Keeps the beginning of an answer that broke off, or that nobody waited for, and results after a lost one."""
        self._messages, self._results = [], _Results()
        try:
            return await handler()
        except BaseException:
            last = self._messages[-1] if self._messages else None
            run = ctx.run_id or ""
            self._results.append(self.session, run, whole=True)  # at once: a cancelled task may not wait
            if isinstance(last, ModelResponse) and last.state == "interrupted":
                self.session.append(*Reader().read([last])[0], run=run)
            raise

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Makes room where the provider says that the request is too long, and has it made once more."""
        del ctx
        status = error.status_code if isinstance(error, ModelHTTPError) else None
        told = str(error.body) if isinstance(error, ModelHTTPError) else str(error)
        if not isinstance(error, ModelAPIError) or not is_overflow(told, status=status):
            raise error
        call = self.call(request_context)
        before = sum(self.session.sizes().values())
        if request_context.attempt == 1 and call.window is not None:
            self.session.answerer.tell(
                Overflowed(self.session.place.session, request_context.model.model_name, before + call.floor, now())
            )
            known = self.session.call(window=call.window, floor=call.floor)
            demand = msgspec.structs.replace(
                known, demand="overflow", output_reserve=call.output_reserve, recall=call.recall
            )
            self.session.outcome = await self._aside.compact(demand)
            if self.session.outcome.status == "compacted":
                raise RetryModelRequest from error
        why = self.session.outcome.reason if self.session.outcome is not None else "its window is not known"
        raise ContextOverflow(
            f"{request_context.model.model_name} refused a request of {before:,} tokens and {call.floor:,} for "
            f"instructions and tools as too long, on try {request_context.attempt} of 2; the last compaction: {why}. "
            "Use a model with a larger window, or make the newest messages smaller"
        ) from error

    def abort(self) -> None:
        """Cancels the compaction under way, if any: nothing of it is appended, and the run goes on."""
        self._aside.abort()

    # -- tools ---------------------------------------------------------------------------------------------------------

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """Search, reading and compacting for the model; None where the agent is to have none of them."""
        return self.toolset() if self.tools else None

    def toolset(self) -> FunctionToolset[Any]:
        """The tools, each bounded in what it answers."""
        place, count = self.session.place, self.session.policy.counter.count
        recall = RecallTools(place.store, place.namespace, place.session, count=count)
        compacting = CompactTool(self.session, window=self.window)

        async def recall_search(words: str) -> str:
            return await asyncio.to_thread(recall.handle, SEARCH, {"words": words})

        async def recall_read(entry: str, part: int = 1) -> str:
            return await asyncio.to_thread(recall.handle, READ, {"entry": entry, "part": part})

        async def recall_expand(block: str, part: int = 1) -> str:
            return await asyncio.to_thread(recall.handle, EXPAND, {"block": block, "part": part})

        async def memory_read(words: str) -> str:
            return await asyncio.to_thread(recall.handle, SEARCH, {"words": words})

        async def compact(focus: str = "") -> str:
            return await compacting.ahandle(self._aside, {"focus": focus})

        made: FunctionToolset[Any] = FunctionToolset()
        told = recall.described()
        for tool in (recall_search, recall_read, recall_expand):
            made.add_function(tool, name=tool.__name__, description=told[tool.__name__])
        if self.session.policy.name == "clip":
            made.add_function(memory_read, name="memory_read", description=told[SEARCH])
        made.add_function(compact, name=compacting.name, description=compacting.description)
        return made
