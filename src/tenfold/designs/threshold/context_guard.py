"""The design behind the presets `threshold` and `sliding`, under its own names.

    plugin = new(registry).add("assistant", llm, with_max_tokens(128_000)).plugin_config()
    plugin.before_model(context, request)     # shortens the message list of a provider's keyword arguments
    plugin.after_model(context, response)

A guard keeps one `Session` for each agent and conversation, and the hooks call its `before_model` and `after_model`.
The functions at the end are the design's formulas; the settings themselves belong to the preset.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.core.meter.counters import CharacterCounter, Counter
from tenfold.core.meter.windows import find_window_row
from tenfold.core.record.ask import Answer, ConsultAsk
from tenfold.core.record.message import Document, Image, Message, Text, Thinking, ToolCall, ToolResult, get_tool_calls
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.text.json_text import decode_json
from tenfold.designs.threshold.estimator import correct_by_ratio
from tenfold.designs.threshold.guard_state import export_state, restore_session, restore_stored_log
from tenfold.designs.threshold.host_objects import Context, read_context, read_fields, write_fields, write_state
from tenfold.designs.threshold.policy import DEFAULT_FACTOR, MAX_ATTEMPTS, MAX_TURNS, sliding, threshold
from tenfold.designs.threshold.stages import KeepRecentStage
from tenfold.designs.threshold.trigger import EntryKind, find_entry_split, get_buffer, get_text_limit
from tenfold.designs.threshold.writer import WORDS_PER_TOKEN, render_todos
from tenfold.models.model import Model
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.session.requests import read_request
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore

_LOG = logging.getLogger("tenfold.contextguard")
DEFAULT_CONTEXT_WINDOW = 128_000
DEFAULT_MAX_TOKENS = 4_096
"""The published values for an unknown model."""


# -- models ------------------------------------------------------------------------------------------------------------


class Registry(Protocol):
    """Looks up the limits of models by id."""

    def context_window(self, model: str) -> int:
        """Returns the context window in tokens, 0 or less if it is unknown."""
        ...

    def default_max_tokens(self, model: str) -> int:
        """Returns the largest answer in tokens, 0 or less if it is unknown."""
        ...


class BuiltinRegistry(Struct, frozen=True):
    """A registry from the rows of `meter.windows`, with the published values for unknown models. Needs no network."""

    def context_window(self, model: str) -> int:
        """Returns the model's context window in tokens, 128,000 if it is unknown."""
        row = find_window_row(model)
        return row.window if row else DEFAULT_CONTEXT_WINDOW

    def default_max_tokens(self, model: str) -> int:
        """Returns the model's largest answer in tokens, 4,096 if it is unknown."""
        row = find_window_row(model)
        return (row.max_output if row else 0) or DEFAULT_MAX_TOKENS


# -- options and strategies --------------------------------------------------------------------------------------------


class _Options(Struct, frozen=True):
    turns: int | None = None
    max_tokens: int = 0
    attempts: int = MAX_ATTEMPTS
    factor: float | None = None


Option = Callable[[_Options], _Options]


def with_sliding_window(turns: int) -> Option:
    """Uses the strategy `sliding_window`: acts when more entries than this follow the summary (0 or less: 20)."""
    return lambda options: replace(options, turns=turns if turns > 0 else MAX_TURNS)


def with_max_tokens(tokens: int) -> Option:
    """Sets the window in tokens, instead of the registry's (0 or less: the registry's)."""
    return lambda options: replace(options, max_tokens=max(0, tokens))


def with_max_compaction_attempts(attempts: int) -> Option:
    """Sets how many times in all a summary is requested if it is too long (0 or less: 3)."""
    return lambda options: replace(options, attempts=attempts if attempts > 0 else MAX_ATTEMPTS)


def with_default_factor(factor: float) -> Option:
    """Sets the tokens per counted token until usage is reported. Use 2.5 if none is ever reported.

    The default is 2.0 for the guard's own counter, and for a model's vocabulary what is known of its family.
    """
    return lambda options: replace(options, factor=factor)


class Strategy:
    """Keeps one agent's conversations within the window, each in its own session.

    While a model writes a summary, only the conversation that waits for it is locked.
    """

    def __init__(self, policy: Policy, llm: Model | None, *, max_tokens: int, registry: Registry, store: Store) -> None:
        """Sets up the strategy of one agent; `ContextGuard.add` does this."""
        self.policy, self.max_tokens = policy, max_tokens
        self._llm, self._registry, self._store = llm, registry, store
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], tuple[Session, _TodoHook]] = {}

    @property
    def name(self) -> str:
        """`threshold` or `sliding_window`."""
        return "sliding_window" if self.policy.name == "sliding" else "threshold"

    def get_window(self, model: str) -> int:
        """Returns the window in tokens for requests to this model."""
        if self.max_tokens > 0:
            return self.max_tokens
        return _ask_registry(self._registry, model) or DEFAULT_CONTEXT_WINDOW

    def get_session(self, context: Context) -> Session:
        """Returns the session of this agent's conversation; creates it on first use."""
        return self._get_session_and_todos(context)[0]

    def _get_session_and_todos(self, context: Context) -> tuple[Session, _TodoHook]:
        key = (context.agent, context.session)
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._create_session(context, self._store)
            return self._sessions[key]

    def _create_session(self, context: Context, store: Store) -> tuple[Session, _TodoHook]:
        todos = _TodoHook()
        answerer = Answerer(model=self._llm, before_hooks=(todos,))
        address = SessionAddress(store, f"{context.agent}/{context.session}")
        return Session.create(address, self.policy, answerer=answerer), todos

    def compact(self, context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the request to send instead of this one. Raises what `Session.before_model` raises."""
        return self._send(self._get_session_and_todos(context), context, request)

    def rescue(self, context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """Does the same as `compact` in memory, where the conversation then stays: its store cannot be used."""
        made = self._create_session(context, SqliteStore(":memory:"))
        sent = self._send(made, context, request)
        with self._lock:
            self._sessions[context.agent, context.session] = made
        return sent

    def _send(self, found: tuple[Session, _TodoHook], context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """Takes what the host's state holds, and returns the request to send.

        That is its to-do list, and for a new session what an earlier one knew. What cannot be read is logged: it must
        not keep the conversation from being compacted.
        """
        (session, todos), window = found, self.get_window(str(request.get("model") or ""))
        with _FailureLog(context.agent):
            todos.text = render_host_todos(context.state.get("todos") or ())
        for restore in (restore_stored_log, restore_session):
            with _FailureLog(context.agent), self._lock:
                if session.leaf is None:
                    restore(session, context, request, window)
        return session.before_model(request, window=window)


class _TodoHook:
    """A before-hook that passes the host's to-do list to the summariser."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, consult: ConsultAsk) -> Answer | None:
        return Answer(focus="\n".join(t for t in (consult.focus, self.text) if t)) if self.text else None


# -- the guard ---------------------------------------------------------------------------------------------------------


class PluginConfig(Struct, frozen=True):
    """The hooks that a host calls around each model call. All of them return None, and none raises.

    `before_model(context, request)` and `after_model(context, response)` are plain functions. The other two are their
    coroutines with the names and keywords of ADK: `Agent(before_model_callback=config.before_model_callback, ...)`.
    """

    before_model: Callable[[Any, Any], None]
    after_model: Callable[[Any, Any], None]
    before_model_callback: Callable[..., Coroutine[Any, Any, None]]
    after_model_callback: Callable[..., Coroutine[Any, Any, None]]


class ContextGuard:
    """Keeps a strategy for each agent."""

    def __init__(self, registry: Registry | None = None, *, store: Store | None = None) -> None:
        """`store` holds the conversations; by default they are in memory."""
        self._registry = registry or BuiltinRegistry()
        self._store = store or SqliteStore(":memory:")
        self.strategies: dict[str, Strategy] = {}

    def add(
        self, agent: str, llm: Model | None, *options: Option, model: str = "", counter: Counter | None = None
    ) -> ContextGuard:
        """Registers an agent and the model that writes its summaries. Returns the guard.

        Without an option the strategy is `threshold`. Adding an agent again replaces its strategy. `model` names `llm`,
        to look up its window in the registry (default: the name that `llm` has itself). If the registry does not know
        it, its window is that of the option `with_max_tokens`, or of the conversation. `counter` counts the agent's
        messages (default: by characters, as published).
        """
        chosen = _Options()
        for option in options:
            chosen = option(chosen)
        count = counter or CharacterCounter()
        name = model or str(getattr(llm, "model", "") or "")
        is_unknown = not name or (isinstance(self._registry, BuiltinRegistry) and find_window_row(name) is None)
        window = (0 if is_unknown else _ask_registry(self._registry, name)) or chosen.max_tokens
        summary = SummarySettings(models=(name or "summarizer",) if llm is not None else ())
        if window > 0:
            summary = replace(summary, input_tokens=int(window * summary.input_share))
        build: Callable[..., Policy] = threshold if chosen.turns is None else partial(sliding, max_turns=chosen.turns)
        policy = build(count, summary=summary, max_compaction_attempts=chosen.attempts, default_factor=chosen.factor)
        self.strategies[agent] = Strategy(
            policy, llm, max_tokens=chosen.max_tokens, registry=self._registry, store=self._store
        )
        return self

    def plugin_config(self) -> PluginConfig:
        """Returns the hooks."""
        return PluginConfig(
            self._compact_request, self._record_usage, self._compact_request_async, self._record_usage_async
        )

    def _compact_request(self, context: Any, request: Any) -> None:  # noqa: ANN401 - a framework's own objects too
        """Shortens the request's list in place. Does nothing for an empty request or an unknown agent."""
        found = self._find_strategy(context)
        if found is None or request is None:
            return
        known, strategy = found
        fields: dict[str, Any] | None = None
        sent: dict[str, Any] | None = None
        with _FailureLog(known.agent):
            fields = read_fields(request)
        if fields is None:
            return
        with _FailureLog(known.agent):
            sent = strategy.compact(known, fields)
        if sent is None:
            sent = _compact_in_memory(strategy, known, fields)
        with _FailureLog(known.agent):
            if sent is not None:
                write_fields(request, fields, sent)
            _keep_state(strategy, known)

    async def _compact_request_async(self, callback_context: Any, llm_request: Any) -> None:  # noqa: ANN401 - the same
        """Does the same as `_compact_request` without blocking the event loop."""
        await asyncio.to_thread(self._compact_request, callback_context, llm_request)

    def _find_strategy(self, context: Any) -> tuple[Context, Strategy] | None:  # noqa: ANN401 - the same
        with _FailureLog():
            known = read_context(context)
            strategy = self.strategies.get(known.agent)
            return None if strategy is None else (known, strategy)
        return None

    def _record_usage(self, context: Any, response: Any) -> None:  # noqa: ANN401 - the same
        """Records the reported prompt tokens of a response, unless it is partial."""
        found = self._find_strategy(context)
        if found is None or response is None:
            return
        known, strategy = found
        with _FailureLog(known.agent):
            if not _is_partial(response):
                strategy.get_session(known).after_model(response)
                _keep_state(strategy, known)

    async def _record_usage_async(self, callback_context: Any, llm_response: Any) -> None:  # noqa: ANN401 - the same
        """Does the same as `_record_usage` without blocking the event loop."""
        await asyncio.to_thread(self._record_usage, callback_context, llm_response)


def _compact_in_memory(strategy: Strategy, context: Context, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Goes on with a conversation in memory, for when its store cannot be used. None if that fails as well."""
    with _FailureLog(context.agent):
        sent = strategy.rescue(context, fields)
        _LOG.warning("context guard of %s: conversation %s goes on in memory", context.agent, context.session)
        return sent
    _LOG.warning("context guard of %s: the request is sent as it is", context.agent)
    return None


def _keep_state(strategy: Strategy, context: Context) -> None:
    """Writes the state, unless the session has read no request yet: what another process stored is still of use."""
    session = strategy.get_session(context)
    if session.leaf is not None:
        write_state(context.state, export_state(session, context.agent))


class _FailureLog(Struct, frozen=True):
    """Logs what a store, a registry or a framework raises in its block, and goes on: no hook raises into the host."""

    agent: str = "an agent"

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, exc: BaseException | None, _traceback: object) -> bool:
        if not isinstance(exc, Exception):
            return False
        _LOG.warning("context guard of %s: %s: %s", self.agent, type(exc).__name__, exc)
        return True


def _ask_registry(registry: Registry, model: str) -> int:
    """Returns the window that a registry knows, 0 where it knows none or raises, which is logged."""
    with _FailureLog():
        return max(0, registry.context_window(model))
    return 0


def new(registry: Registry | None = None, *, store: Store | None = None) -> ContextGuard:
    """Creates a guard without agents."""
    return ContextGuard(registry, store=store)


def _is_partial(response: Any) -> bool:  # noqa: ANN401 - the same
    return bool(response.get("partial") if isinstance(response, Mapping) else getattr(response, "partial", False))


# -- formulas ----------------------------------------------------------------------------------------------------------


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Estimates messages by the published rule: bytes / 4, rounded down for each field, then summed.

    No trigger uses it. A session has its own counter, which does not count an image as base64 or CJK text by bytes.
    """
    return sum(_estimate_part(part) for message in messages for part in message.parts)


def estimate_request(request: Mapping[str, Any]) -> int:
    """Estimates a whole request by the same rule: contents, system instruction and tool definitions."""
    parsed = read_request(request)
    return estimate_tokens(parsed.messages) + sum(_estimate_text(text) for text in parsed.overhead_texts)


def _estimate_part(part: object) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return _estimate_text(text)
        case ToolCall(name=name, arguments=arguments):
            return _estimate_text(name) + _estimate_arguments(arguments)
        case ToolResult(name=name, content=content):
            return _estimate_text(name) + sum(_estimate_part(inner) for inner in content)
        case Image(media_type=media, data=data):
            return _estimate_text(media) + len(data) * 3 // 4 // 4
        case Document(media_type=media, text=text, data=data):
            return _estimate_text(text) if text else _estimate_text(media) + len(data) * 3 // 4 // 4
        case _:
            return 0


def _estimate_arguments(arguments: str) -> int:
    decoded = decode_json(arguments)
    if not isinstance(decoded, dict):
        return _estimate_text(arguments)
    return sum(_estimate_text(str(key)) + _estimate_text(str(value)) for key, value in decoded.items())


def _estimate_text(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // 4


def calibrate(estimate: int, *, real: int = 0, last: int = 0, factor: float = DEFAULT_FACTOR) -> int:
    """Corrects `estimate` by `real` / `last`, clamped to 1..5. The result is at least `real`.

    If `real` or `last` is 0, the correction is `factor`.
    """
    return correct_by_ratio(ProviderTokens(real), Counted(last), Counted(estimate), factor=factor)[0]


def compute_threshold(window: int) -> int:
    """Returns the size in tokens at which a conversation is compacted: window - buffer."""
    return window - get_buffer(window)


def compute_max_output_tokens(window: int) -> int:
    """Returns the most tokens of a summary: half the buffer."""
    return get_text_limit(window)


def compute_word_limit(window: int) -> int:
    """Returns the word limit that the summariser is given."""
    return int(compute_max_output_tokens(window) * WORDS_PER_TOKEN)


def compute_keep_recent(max_turns: int) -> int:
    """Returns how many entries the sliding window keeps: three tenths of `max_turns`, at least 3."""
    return KeepRecentStage(max_turns).keep_recent_entries


def find_safe_split(messages: Sequence[Message], index: int) -> int:
    """Finds an index near `index` where a split separates no tool result from its call."""
    return find_entry_split(_classify_messages(messages), index)


def find_split_index(messages: Sequence[Message], budget: int) -> int:
    """Finds a safe index where the newest messages of at most `budget` estimated tokens begin."""
    index, total = len(messages), 0
    while index > 0:
        total += estimate_tokens(messages[index - 1 : index])
        if total > budget:
            break
        index -= 1
    return find_safe_split(messages, index)


def _classify_messages(messages: Sequence[Message]) -> list[EntryKind]:
    return ["result" if m.role == "tool" else "call" if get_tool_calls(m) else "text" for m in messages]


def render_host_todos(todos: Sequence[Any]) -> str:
    """Renders the to-do list of a host's state for the summariser. Items are maps or objects.

    `content` and `status` are read. Items without content are left out; the result is "" if none remains.
    """
    lines: list[str] = []
    for todo in todos:
        get = todo.get if isinstance(todo, Mapping) else lambda name, todo=todo: getattr(todo, name, "")
        content = str(get("content") or "").strip()
        lines.extend([f"- [{get('status') or 'pending'}] {content}"] if content else [])
    return render_todos(lines)
