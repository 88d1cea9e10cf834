"""The design behind the presets `threshold` and `sliding`, under its own names.

    plugin = new(registry).add("assistant", llm, with_max_tokens(128_000)).plugin_config()
    plugin.before_model(context, request)     # shortens the message list of a provider's keyword arguments
    plugin.after_model(context, response)

A guard keeps one `Session` for each agent and conversation, and the two hooks call its `before_model` and
`after_model`. The functions at the end are the design's formulas; the settings themselves belong to the preset.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.config.presets.threshold import DEFAULT_FACTOR, MAX_ATTEMPTS, MAX_TURNS, sliding, threshold
from tenfold.engine.drive import Answerer
from tenfold.errors import TenfoldError
from tenfold.llm.model import Model
from tenfold.meter.counters import Counter, choose_counter
from tenfold.meter.estimators import correct_by_ratio
from tenfold.meter.windows import find_window_row
from tenfold.plan.budgets import BufferBudgets
from tenfold.plan.recent_tail import EntryKind, find_entry_split
from tenfold.plan.stages.whole_conversation import KeepRecentStage
from tenfold.record.ask import Answer, ConsultAsk
from tenfold.record.entry import get_message
from tenfold.record.message import Document, Image, Message, Text, Thinking, ToolCall, ToolResult, get_tool_calls
from tenfold.session import Session, SessionAddress
from tenfold.session.requests import read_request
from tenfold.store.base import Store
from tenfold.store.sqlite import SqliteStore
from tenfold.summarize.briefing import WORDS_PER_TOKEN, render_todos
from tenfold.summarize.ladder import SummarySettings
from tenfold.summarize.visible_text import get_narrative
from tenfold.trigger.limits import get_buffer
from tenfold.wire import WIRES, extract_summary_text

_LOG = logging.getLogger("tenfold.contextguard")
DEFAULT_CONTEXT_WINDOW = 128_000
DEFAULT_MAX_TOKENS = 4_096
"""The published values for an unknown model."""
_STATE_KEYS = {
    "summary": "__context_guard_summary_",
    "summarized_at": "__context_guard_summarized_at_",
    "contents_at_compaction": "__context_guard_contents_at_compaction_",
    "real_tokens": "__context_guard_real_tokens_",
    "last_heuristic": "__context_guard_last_heuristic_",
}
ModelRequest = MutableMapping[str, Any]
"""A provider's keyword arguments: `messages` (or `input`, `contents`), `model`, `system`, `tools` and the rest."""


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
    factor: float = DEFAULT_FACTOR


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
    """Sets the tokens per estimated token until usage is reported. Default 2.0; use 2.5 if none is ever reported."""
    return lambda options: replace(options, factor=factor)


class Context(Struct, frozen=True):
    """Identifies a model call: its agent, conversation and host state. Of the state only `todos` is read."""

    agent: str
    session: str = "default"
    state: Mapping[str, Any] = {}


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
        return "sliding_window" if self.policy.max_entries else "threshold"

    def get_window(self, model: str) -> int:
        """Returns the window in tokens for requests to this model."""
        if self.max_tokens > 0:
            return self.max_tokens
        window = self._registry.context_window(model)
        return window if window > 0 else DEFAULT_CONTEXT_WINDOW

    def get_session(self, context: Context) -> Session:
        """Returns the session of this agent's conversation; creates it on first use."""
        return self._get_session_and_todos(context)[0]

    def _get_session_and_todos(self, context: Context) -> tuple[Session, _TodoHook]:
        key = (context.agent, context.session)
        with self._lock:
            if key not in self._sessions:
                todos = _TodoHook()
                answerer = Answerer(model=self._llm, before_hooks=(todos,))
                address = SessionAddress(self._store, f"{context.agent}/{context.session}")
                self._sessions[key] = (Session.create(address, self.policy, answerer=answerer), todos)
            return self._sessions[key]

    def compact(self, context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the request to send instead of this one. Raises what `Session.before_model` raises."""
        session, todos = self._get_session_and_todos(context)
        todos.text = render_host_todos(context.state.get("todos") or ())
        return session.before_model(request, window=self.get_window(str(request.get("model") or "")))

    def rescue(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a shorter request without using the store, for when the store cannot be written."""
        session = Session.create(
            SessionAddress(SqliteStore(":memory:"), "rescue"), self.policy, answerer=Answerer(model=self._llm)
        )
        return session.before_model(request, window=self.get_window(str(request.get("model") or "")))


class _TodoHook:
    """A before-hook that passes the host's to-do list to the summariser."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, consult: ConsultAsk) -> Answer | None:
        return Answer(focus="\n".join(t for t in (consult.focus, self.text) if t)) if self.text else None


# -- the guard ---------------------------------------------------------------------------------------------------------


class PluginConfig(Struct, frozen=True):
    """The two hooks that a host calls around each model call. Both return None."""

    before_model: Callable[[Context, ModelRequest | None], None]
    after_model: Callable[[Context, Any], None]


class ContextGuard:
    """Keeps a strategy for each agent."""

    def __init__(self, registry: Registry | None = None, *, store: Store | None = None) -> None:
        """`store` holds the conversations; by default they are in memory."""
        self._registry = registry or BuiltinRegistry()
        self._store = store or SqliteStore(":memory:")
        self.strategies: dict[str, Strategy] = {}

    def add(
        self, agent: str, llm: Model | None, *options: Option, model: str = "summarizer", counter: Counter | None = None
    ) -> ContextGuard:
        """Registers an agent and the model that writes its summaries. Returns the guard.

        Without an option the strategy is `threshold`. Adding an agent again replaces its strategy. `model` names `llm`,
        to look up its window; `counter` counts the agent's messages (default: the counter for an unknown model).
        """
        chosen = _Options()
        for option in options:
            chosen = option(chosen)
        count = counter or choose_counter(None).counter
        summary = SummarySettings(models=(model,) if llm is not None else ())
        if chosen.turns is None:
            policy = threshold(
                count, summary=summary, max_compaction_attempts=chosen.attempts, default_factor=chosen.factor
            )
        else:
            policy = sliding(
                count,
                summary=summary,
                max_turns=chosen.turns,
                max_compaction_attempts=chosen.attempts,
                default_factor=chosen.factor,
            )
        self.strategies[agent] = Strategy(
            policy, llm, max_tokens=chosen.max_tokens, registry=self._registry, store=self._store
        )
        return self

    def plugin_config(self) -> PluginConfig:
        """Returns the two hooks."""
        return PluginConfig(self._compact_request, self._record_usage)

    def _compact_request(self, context: Context, request: ModelRequest | None) -> None:
        """Shortens the request's list in place. Does nothing for an empty request or an unknown agent."""
        strategy = self.strategies.get(context.agent)
        if strategy is None or not request or not _has_contents(request):
            return
        try:
            request.update(strategy.compact(context, request))
        except (TenfoldError, OSError) as exc:
            _LOG.warning("context guard of %s: %s; the request is compacted without the store", context.agent, exc)
            try:
                request.update(strategy.rescue(request))
            except TenfoldError as again:
                _LOG.warning("context guard of %s: the request is none that can be read: %s", context.agent, again)

    def _record_usage(self, context: Context, response: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Records the reported prompt tokens of a response, unless it is partial."""
        strategy = self.strategies.get(context.agent)
        if strategy is not None and response is not None and not _is_partial(response):
            strategy.get_session(context).after_model(response)


def new(registry: Registry | None = None, *, store: Store | None = None) -> ContextGuard:
    """Creates a guard without agents."""
    return ContextGuard(registry, store=store)


def _has_contents(request: Mapping[str, Any]) -> bool:
    return any(request.get(wire.profile.request.list_field) for wire in WIRES.values())


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
    try:
        decoded: object = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return _estimate_text(arguments)
    if not isinstance(decoded, dict):
        return _estimate_text(arguments)
    return sum(_estimate_text(str(key)) + _estimate_text(str(value)) for key, value in decoded.items())


def _estimate_text(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // 4


def calibrate(estimate: int, *, real: int = 0, last: int = 0, factor: float = DEFAULT_FACTOR) -> int:
    """Corrects `estimate` by `real` / `last`, clamped to 1..5. The result is at least `real`.

    If `real` or `last` is 0, the correction is `factor`.
    """
    return correct_by_ratio(real, last, estimate, factor=factor)[0]


def compute_threshold(window: int) -> int:
    """Returns the size in tokens at which a conversation is compacted: window - buffer."""
    return window - get_buffer(window)


def compute_max_output_tokens(window: int) -> int:
    """Returns the most tokens of a summary: half the buffer."""
    return BufferBudgets.get_text_limit(window)


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


# -- the published state keys ------------------------------------------------------------------------------------------


class GuardState(Struct, frozen=True):
    """What the design stores in a host's state dictionary. Here it is derived from the log.

    `summarized_at` is the size in tokens before the newest summary, and `contents_at_compaction` the number of messages
    that it covers. `real_tokens` and `last_heuristic` are of the last request; both are 0 after a compaction.
    """

    summary: str = ""
    summarized_at: int = 0
    contents_at_compaction: int = 0
    real_tokens: int = 0
    last_heuristic: int = 0


def get_state(session: Session) -> GuardState:
    """Derives the current state from a session."""
    view = session.view
    row = session.build_call().calibration.find_model(session.model, session.policy.counter.name)
    real, last = (row.last_reported, row.last_estimate + row.last_overhead) if row and row.fresh else (0, 0)
    block = view.find_newest_block()
    if block is None:
        return GuardState(real_tokens=real, last_heuristic=last)
    texts = (
        extract_summary_text(t.text)
        for m in view.get_messages()
        for t in m.parts
        if m.origin == "tenfold" and isinstance(t, Text)
    )
    summary = next((text for text in texts if text is not None), "")
    last_covered = max(r.last for r in block.replacements if r.kind == "summary")
    covered = sum(1 for e in view.path.get_entries(0, last_covered) if get_message(e) is not None)
    return GuardState(get_narrative(summary, session.policy.summary), block.tokens_before, covered, real, last)


def export_state(session: Session, agent: str) -> dict[str, str | int]:
    """Exports the state under the published keys, for hosts with a state dictionary. No session reads it back."""
    state = get_state(session)
    return {key + agent: getattr(state, name) for name, key in _STATE_KEYS.items()}


def load_state(state: Mapping[str, Any], agent: str) -> GuardState:
    """Loads the state from a host's dictionary. Numbers may be floats, as JSON can make them."""
    values = {name: state[key + agent] for name, key in _STATE_KEYS.items() if key + agent in state}
    numbers = {name: int(value) for name, value in values.items() if name != "summary"}
    return msgspec.convert({**numbers, "summary": str(values.get("summary", ""))}, GuardState)
