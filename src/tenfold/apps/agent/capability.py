"""A Tenfold session as a capability of pydantic-ai: one line in `capabilities=[...]` of an agent that you already have.

Before every call, the agent's list is synced with the session and replaced by the session's view, compacted if the
policy says so. After the call, the answer is appended to the log before any of its tools runs. If the provider refuses
a request as too long, the session is compacted and the request is made once more.
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
from pydantic_ai.toolsets import FunctionToolset

from tenfold.apps.agent.pydantic_messages import MessageReader, encode_messages, encode_overhead
from tenfold.compaction.engine.call import Call
from tenfold.compaction.summarize.writer import ArchiveWriter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.errors import ContextOverflow, UnrelatedList
from tenfold.events import RequestOverflow
from tenfold.models.overflow import is_overflow
from tenfold.models.provider import resolve_window
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools, describe_tools
from tenfold.session import AsyncSession, Session
from tenfold.session.compact_tool import CompactTool
from tenfold.session.concurrency import run_uninterrupted
from tenfold.store.ids import get_current_time

DEFAULT_OUTPUT_RESERVE = 4_096
"""Tokens kept free for an answer if the request sets no maximum. pydantic-ai itself asks this number of those Anthropic
models that count the answer into the window (`_LEGACY_DEFAULT_MAX_TOKENS`). In a small window it is a sixteenth of the
window instead."""
_FINISH_REASON_PROVIDERS = frozenset({"anthropic", "bedrock", "google", "google-cloud", "groq", "mistral"})
"""Providers that say at the end of every answer why it ended. Few servers that speak OpenAI's protocol do not; those
report at least the usage at the end."""


def get_output_reserve(settings: ModelSettings | None, window: int | None) -> int:
    """Returns the tokens to keep free for an answer: the maximum in the settings, else `DEFAULT_OUTPUT_RESERVE`."""
    return (settings or {}).get("max_tokens") or min(DEFAULT_OUTPUT_RESERVE, (window or 0) // 16)


class _ToolResultQueue:
    """Collects the results of one answer's tool calls, and appends them in the order of the calls.

    The next request lists them in that order too.
    """

    def __init__(self, calls: tuple[str, ...] = ()) -> None:
        self._call_ids = list(calls)
        self._parts: dict[str, ToolReturnPart] = {}
        self._lock = threading.Lock()

    def add(self, part: ToolReturnPart) -> None:
        """Adds a result."""
        self._parts[part.tool_call_id] = part

    def append(self, session: Session, run: str, *, final: bool = False) -> None:
        """Appends the results up to the first call that has none yet. With `final`, appends all there are."""
        with self._lock:
            ready: list[ModelMessage] = []
            while self._call_ids and (final or self._call_ids[0] in self._parts):
                part = self._parts.pop(self._call_ids.pop(0), None)
                ready += [ModelRequest([part])] if part is not None else []
            session.append(*MessageReader().read(ready)[0], run=run)


@dataclass
class Memory(AbstractCapability[Any]):
    """Keeps the conversation of a pydantic-ai agent in a session.

    A run that is given no history goes on from the session: the model sees its view, and then the prompt.

    `window` is the model's context window in tokens, needed where pydantic-ai does not know it. The model is offered a
    search, two ways to read, and `compact`; stubs and summaries name these tools. `has_run_end_check` says that you run
    the check at the end of a run yourself. `answer` is the text of the newest answer.
    """

    session: Session
    window: int | None = None
    has_run_end_check: bool = False
    answer: str = field(init=False, repr=False, default="")
    _is_streaming: bool = field(init=False, repr=False, default=False)
    _async_session: AsyncSession = field(init=False, repr=False)
    _messages: list[ModelMessage] = field(init=False, repr=False, default_factory=list)
    _result_queue: _ToolResultQueue = field(init=False, repr=False)
    _tool_texts: set[str] = field(init=False, repr=False, default_factory=set)
    _reader: MessageReader = field(init=False, repr=False)
    _floor_cache: dict[bytes, Counted] = field(init=False, repr=False, default_factory=dict)
    _reporting_providers: set[str | None] = field(
        init=False, repr=False, default_factory=lambda: set(_FINISH_REASON_PROVIDERS)
    )

    def __post_init__(self) -> None:
        self._async_session = AsyncSession(self.session)
        self._reader = MessageReader(self.session.requests.is_own_summary)
        self._result_queue = _ToolResultQueue()

    def start_run(self, *, window: int | None, is_streaming: bool) -> None:
        """Starts a run with a model of this window. In a streamed run, an answer that was cut off is an error."""
        self.window, self._is_streaming, self.answer = window, is_streaming, ""

    # -- before and after each call ------------------------------------------------------------------------------------

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Syncs the agent's list with the session, compacts if that is due, and sends the view."""
        self._messages = ctx.messages
        self.session.compactor.use_model(request_context.model.model_name)
        received, objects = await asyncio.to_thread(self._reader.read, request_context.messages)
        received = [self._correct_origin(message) for message in received]
        call, is_checked = self.build_call(request_context), self.has_run_end_check
        try:
            messages = await self._async_session.sync_and_compact(received, call, has_run_end_check=is_checked)
        except UnrelatedList:  # a run without the history goes on from the session, as in a new process
            received = [*self.session.view.get_messages(), *received]
            messages = await self._async_session.sync_and_compact(received, call, has_run_end_check=is_checked)
            messages = received if messages is None else messages
        if messages is None:
            return replace(request_context, messages=self._reader.get_sendable(request_context.messages))
        native_messages = await asyncio.to_thread(encode_messages, messages, objects)
        ctx.messages[:] = native_messages  # the run goes on from what the model sees; the log holds what is hidden
        return replace(request_context, messages=native_messages)

    def _correct_origin(self, message: Message) -> Message:
        """Corrects the origin of text that a tool returned beside its result.

        pydantic-ai puts such text into a user prompt, but the user did not write it.
        """
        if message.origin == "human" and get_text(message) in self._tool_texts:
            return msgspec.structs.replace(message, origin="tool")
        return message

    def build_call(self, request: ModelRequestContext) -> Call:
        """Builds what the session must know of a request: window, tokens sent beside the list, output reserve."""
        policy = self.session.policy
        window = self.window or policy.choose_window(resolve_window(request.model))
        output_reserve = get_output_reserve(request.model_settings, window)
        floor = self._count_floor(request)
        return Call(window=window, floor=floor, output_reserve=output_reserve, recall="tool")

    def _count_floor(self, request: ModelRequestContext) -> Counted:
        """Counts the tokens of the instructions and the tool definitions."""
        key = encode_overhead(request.model_request_parameters)
        if key not in self._floor_cache:
            self._floor_cache = {key: Counted(sum(self.session.policy.counter.count([key.decode()])))}
        return self._floor_cache[key]

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Records the reported usage, and appends the answer before its tool calls are run."""
        usage, name = response.usage, request_context.model.model_name
        if usage.input_tokens:
            cache_tokens = usage.cache_read_tokens, usage.cache_write_tokens
            model = self.session.compactor.model or response.model_name or name
            self.session.requests.record_usage(
                Usage.build(usage.input_tokens, usage.output_tokens, *cache_tokens, model)
            )
        if self._is_streaming and self._is_cut_off(response):
            ctx.messages.append(replace(response, state="interrupted"))
            raise ModelConnectionError(
                name, "the answer broke off: the stream ended without a reason to end", phase="read"
            )
        self.answer = response.text or ""
        self._result_queue = _ToolResultQueue(tuple(call.tool_call_id for call in response.tool_calls))
        await self._async_session.append(*MessageReader().read([response])[0], run=response.run_id or "")
        return response

    def _is_cut_off(self, response: ModelResponse) -> bool:
        """Returns whether a streamed answer was cut off before its end.

        A provider known to say why each answer ended has not said so for this one. One that has never said it may be
        one that never does; then an answer without a report of the usage, which comes last, was cut off. Clients fill
        in "stop" for both. A model of this process (no provider's name) reports nothing and is not cut off.
        """
        if (response.provider_details or {}).get("finish_reason"):
            self._reporting_providers.add(response.provider_name)
            return False
        is_reporting = response.provider_name in self._reporting_providers
        is_reported = response.provider_name is None or bool(response.usage.output_tokens)
        return response.finish_reason in {None, "stop"} and (is_reporting or not is_reported)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:  # noqa: ANN401 - a tool gives anything
        """Appends a tool's result as soon as it and the results of the calls before it are there.

        Without this they would be appended only with the next request.
        """
        del tool_def
        try:
            result = await handler(args)
        except (ToolFailedError, ToolRetryError) as exc:  # the model gets this in place of a result
            part = exc.tool_failed if isinstance(exc, ToolFailedError) else exc.tool_retry
            await self._record_result(part, ctx.run_id)
            raise
        content = result.return_value if isinstance(result, ToolReturn) else result
        if isinstance(result, ToolReturn) and result.content:
            extra_content = [result.content] if isinstance(result.content, str) else result.content
            extra_text = get_text(Message("user", tuple(Text(t) for t in extra_content if isinstance(t, str)), "tool"))
            self._tool_texts |= {extra_text} if extra_text else set()
        await self._record_result(ToolReturnPart(call.tool_name, content, call.tool_call_id), ctx.run_id)
        return result

    async def _record_result(self, part: ToolReturnPart | RetryFeedbackPart, run: str | None) -> None:
        if isinstance(part, ToolReturnPart):
            results, session = self._result_queue, self.session
            results.add(part)
            await run_uninterrupted(lambda: results.append(session, run or ""))

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Saves what a failed or cancelled run leaves behind.

        That is the beginning of an answer that was cut off, and all tool results that have arrived.
        """
        self._messages, self._result_queue = [], _ToolResultQueue()
        try:
            return await handler()
        except BaseException:
            last = self._messages[-1] if self._messages else None
            run = ctx.run_id or ""
            self._result_queue.append(self.session, run, final=True)  # synchronously: a cancelled task may not await
            if isinstance(last, ModelResponse) and last.state == "interrupted":
                self.session.append(*MessageReader().read([last])[0], run=run)
            raise

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Compacts if the provider refused the request as too long, and has the request made once more.

        Raises any other error again, and `ContextOverflow` if nothing makes the request fit.
        """
        del ctx
        status = error.status_code if isinstance(error, ModelHTTPError) else None
        error_text = str(error.body) if isinstance(error, ModelHTTPError) else str(error)
        if not isinstance(error, ModelAPIError) or not is_overflow(error_text, status=status):
            raise error
        session, call, name = self.session, self.build_call(request_context), request_context.model.model_name
        before = sum(session.conversation.get_message_sizes().values(), NO_TOKENS)
        if request_context.attempt == 1 and call.window is not None:
            tokens = before + call.floor
            await session.compactor.answerer.anotify(
                RequestOverflow(session.address.session, name, tokens, get_current_time())
            )
            demand = msgspec.structs.replace(
                session.compactor.build_call(window=call.window, floor=call.floor),
                demand="overflow",
                output_reserve=call.output_reserve,
                recall="tool",
            )
            if (await self.compact(demand)).status == "compacted":
                raise RetryModelRequest from error
        why = session.outcome.reason if session.outcome is not None else "its window is not known"
        raise ContextOverflow(
            f"{name} refused a request of {before:,} tokens and {call.floor:,} for "
            f"instructions and tools as too long, on try {request_context.attempt} of 2; the last compaction: {why}. "
            "Use a model with a larger window, or make the newest messages smaller"
        ) from error

    async def compact(self, call: Call) -> Outcome:
        """Compacts the session. Its `outcome` is then the result."""
        outcome = await self._async_session.compact(call)
        self.session.compactor.outcome = outcome
        return outcome

    def abort(self) -> None:
        """Cancels the compaction in progress, if any. Nothing of it is appended, and the run goes on."""
        self._async_session.abort()

    # -- tools ---------------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any]:
        """Builds the tools to search, read and compact. Each limits the size of its answers."""
        place, count = self.session.address, self.session.policy.counter.count
        recall = RecallTools(place.store, place.namespace, place.session, count=count, head=place.head)

        async def search(words: str) -> str:
            return await asyncio.to_thread(recall.handle, SEARCH, {"words": words})

        async def read(entry: str, around: int = 0, part: int = 1) -> str:
            return await asyncio.to_thread(recall.handle, READ, {"entry": entry, "around": around, "part": part})

        async def expand(block: str, part: int = 1) -> str:
            return await asyncio.to_thread(recall.handle, EXPAND, {"block": block, "part": part})

        async def compact(focus: str = "") -> str:
            return await CompactTool(self.session, window=self.window).ahandle(self._async_session, {"focus": focus})

        tools: FunctionToolset[Any] = FunctionToolset()
        descriptions = describe_tools()
        for name, tool in ((SEARCH, search), (READ, read), (EXPAND, expand)):
            tools.add_function(tool, name=name, description=descriptions[name])
        writer = self.session.policy.writer
        if isinstance(writer, ArchiveWriter):  # its text names this tool
            tools.add_function(search, name=writer.search_tool, description=descriptions[SEARCH])
        tools.add_function(compact, name=CompactTool.name, description=CompactTool.description)
        return tools
