"""The design behind the presets `threshold` and `sliding`, by its own names.

    plugin = new(registry).add("assistant", llm, with_max_tokens(128_000)).plugin_config()
    plugin.before_model(context, request)     # a provider's keyword arguments, whose list is brought down to size
    plugin.after_model(context, response)

A guard keeps one session of `tenfold.session` for each agent and conversation, and the hooks are its `before_model` and
`after_model`. The functions below them are the design's formulas; what they configure has its home in the preset.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.errors import TenfoldError
from tenfold.hosting import read_request
from tenfold.llm.model import Model
from tenfold.log.base import Store
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Counter, counter_for
from tenfold.meter.estimators import ratio
from tenfold.meter.windows import window_row
from tenfold.plan.stages.whole import KeepRecent, Kind, safe_split
from tenfold.policies.threshold import DEFAULT_FACTOR, MAX_ATTEMPTS, MAX_TURNS, sliding, threshold
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Consult
from tenfold.record.block import Block
from tenfold.record.entry import message_of
from tenfold.record.message import Document, Image, Message, Text, Thinking, ToolCall, ToolResult, calls_of
from tenfold.session import Place, Session
from tenfold.summarize.fill import story_of
from tenfold.summarize.ladder import Settings
from tenfold.summarize.whole import WORDS, todo_block
from tenfold.trigger.triggers import CalibratedBuffer
from tenfold.wire import summary_text

__all__ = [
    "DEFAULT_CONTEXT_WINDOW",
    "DEFAULT_MAX_TOKENS",
    "Builtin",
    "Context",
    "ContextGuard",
    "Option",
    "PluginConfig",
    "Registry",
    "State",
    "Strategy",
    "calibrated",
    "estimate_request",
    "estimate_tokens",
    "exported",
    "find_safe_split",
    "find_split_index",
    "keep_recent",
    "loaded",
    "max_output_tokens",
    "new",
    "threshold_of",
    "todos_of",
    "with_default_factor",
    "with_max_compaction_attempts",
    "with_max_tokens",
    "with_sliding_window",
    "word_limit",
]

_LOG = logging.getLogger("tenfold.contextguard")
DEFAULT_CONTEXT_WINDOW = 128_000
DEFAULT_MAX_TOKENS = 4_096
"""The published values for a model that no registry knows."""
_KEYS = {
    "summary": "__context_guard_summary_",
    "summarized_at": "__context_guard_summarized_at_",
    "contents_at_compaction": "__context_guard_contents_at_compaction_",
    "real_tokens": "__context_guard_real_tokens_",
    "last_heuristic": "__context_guard_last_heuristic_",
}
Request = MutableMapping[str, Any]
"""A provider's keyword arguments: `messages` (or `input`, `contents`), `model`, `system`, `tools` and the rest."""


# -- models ------------------------------------------------------------------------------------------------------------


class Registry(Protocol):
    """What is known of models, by id."""

    def context_window(self, model: str) -> int:
        """The context window in tokens; 0 or less where it is not known."""
        ...

    def default_max_tokens(self, model: str) -> int:
        """The largest answer in tokens; 0 or less where it is not known."""
        ...


class Builtin(Struct, frozen=True):
    """The rows of `meter.windows`, and the published values for what they do not know. No network, no lifecycle."""

    def context_window(self, model: str) -> int:
        """The model's context window, 128,000 where it is not known."""
        row = window_row(model)
        return row.window if row else DEFAULT_CONTEXT_WINDOW

    def default_max_tokens(self, model: str) -> int:
        """The model's largest answer, 4,096 where it is not known."""
        row = window_row(model)
        return (row.max_output if row else 0) or DEFAULT_MAX_TOKENS


# -- options and strategies --------------------------------------------------------------------------------------------


class _Options(Struct, frozen=True):
    turns: int | None = None
    max_tokens: int = 0
    attempts: int = MAX_ATTEMPTS
    factor: float = DEFAULT_FACTOR


Option = Callable[[_Options], _Options]


def with_sliding_window(turns: int) -> Option:
    """The strategy `sliding_window`: acts when more entries than that follow the summary (0 and less: 20)."""
    return lambda options: replace(options, turns=turns if turns > 0 else MAX_TURNS)


def with_max_tokens(tokens: int) -> Option:
    """The window in tokens, in place of the registry's (0 and less: the registry's)."""
    return lambda options: replace(options, max_tokens=max(0, tokens))


def with_max_compaction_attempts(attempts: int) -> Option:
    """How often a summary that is too long is asked for in all (0 and less: 3)."""
    return lambda options: replace(options, attempts=attempts if attempts > 0 else MAX_ATTEMPTS)


def with_default_factor(factor: float) -> Option:
    """Tokens per estimated token until usage is reported: 2.0; where none ever comes, 2.5 is the safer one."""
    return lambda options: replace(options, factor=factor)


class Context(Struct, frozen=True):
    """Whose call it is: the agent, the conversation, and the host's state, of which `todos` is read."""

    agent: str
    session: str = "default"
    state: Mapping[str, Any] = {}


class Strategy:
    """How one agent's conversations are kept within the window, and the sessions that hold them.

    No lock is held while a model writes, except that of the one conversation which waits for it.
    """

    def __init__(self, policy: Policy, llm: Model | None, *, max_tokens: int, registry: Registry, store: Store) -> None:
        """One for each agent; `ContextGuard.add` makes them."""
        self.policy, self.max_tokens = policy, max_tokens
        self._llm, self._registry, self._store = llm, registry, store
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], tuple[Session, _Todos]] = {}

    @property
    def name(self) -> str:
        """`threshold` or `sliding_window`."""
        return "sliding_window" if self.policy.turns else "threshold"

    def window(self, model: str) -> int:
        """The window that requests to this model are held against."""
        if self.max_tokens > 0:
            return self.max_tokens
        found = self._registry.context_window(model)
        return found if found > 0 else DEFAULT_CONTEXT_WINDOW

    def session(self, context: Context) -> Session:
        """The session of this agent's conversation, made when it is first asked for."""
        return self._session(context)[0]

    def _session(self, context: Context) -> tuple[Session, _Todos]:
        key = (context.agent, context.session)
        with self._lock:
            if key not in self._sessions:
                todos = _Todos()
                answerer = Answerer(model=self._llm, before=(todos,))
                place = Place(self._store, f"{context.agent}/{context.session}")
                self._sessions[key] = (Session.create(place, self.policy, answerer=answerer), todos)
            return self._sessions[key]

    def compact(self, context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request to send in place of this one. Raises what `Session.before_model` raises."""
        session, todos = self._session(context)
        todos.block = todos_of(context.state.get("todos") or ())
        return session.before_model(request, window=self.window(str(request.get("model") or "")))

    def rescue(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request brought down to size without the store, for when that cannot be written."""
        session = Session.create(Place(MemoryStore(), "rescue"), self.policy, answerer=Answerer(model=self._llm))
        return session.before_model(request, window=self.window(str(request.get("model") or "")))


class _Todos:
    """A before-hook that gives the host's to-do list to the summariser."""

    def __init__(self) -> None:
        self.block = ""

    def __call__(self, consult: Consult) -> Answer | None:
        return Answer(focus="\n".join(t for t in (consult.focus, self.block) if t)) if self.block else None


# -- the guard ---------------------------------------------------------------------------------------------------------


class PluginConfig(Struct, frozen=True):
    """The two hooks, for a host to call around each model call. Both return nothing."""

    before_model: Callable[[Context, Request | None], None]
    after_model: Callable[[Context, Any], None]


class ContextGuard:
    """Agents and their strategies."""

    def __init__(self, registry: Registry | None = None, *, store: Store | None = None) -> None:
        """`store` keeps the conversations; without one they are kept in memory."""
        self._registry = registry or Builtin()
        self._store = store or MemoryStore()
        self.strategies: dict[str, Strategy] = {}

    def add(
        self, agent: str, llm: Model | None, *options: Option, model: str = "summarizer", counter: Counter | None = None
    ) -> ContextGuard:
        """Registers an agent with the model that writes its summaries, and gives the guard back.

        Without an option the strategy is `threshold`; an agent has one strategy, the last that was added. `model`
        names `llm`, for its window; `counter` counts the agent's messages (default: that of an unknown model).
        """
        chosen = _Options()
        for option in options:
            chosen = option(chosen)
        count = counter or counter_for(None).counter
        summary = Settings(models=(model,) if llm is not None else ())
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
        """The hooks."""
        return PluginConfig(self._before_model, self._after_model)

    def _before_model(self, context: Context, request: Request | None) -> None:
        """Brings the request's list down to size, in place. No request, no contents or no such agent: nothing."""
        strategy = self.strategies.get(context.agent)
        if strategy is None or not request or not _contents(request):
            return
        try:
            request.update(strategy.compact(context, request))
        except (TenfoldError, OSError) as exc:
            _LOG.warning("context guard of %s: %s; the request is compacted without the store", context.agent, exc)
            try:
                request.update(strategy.rescue(request))
            except TenfoldError as again:
                _LOG.warning("context guard of %s: the request is none that can be read: %s", context.agent, again)

    def _after_model(self, context: Context, response: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Notes the real prompt tokens of a whole response that reports them."""
        strategy = self.strategies.get(context.agent)
        if strategy is not None and response is not None and not _partial(response):
            strategy.session(context).after_model(response)


def new(registry: Registry | None = None, *, store: Store | None = None) -> ContextGuard:
    """A guard without agents."""
    return ContextGuard(registry, store=store)


def _contents(request: Mapping[str, Any]) -> bool:
    return any(request.get(field) for field in ("messages", "input", "contents"))


def _partial(response: Any) -> bool:  # noqa: ANN401 - the same
    return bool(response.get("partial") if isinstance(response, Mapping) else getattr(response, "partial", False))


# -- formulas ----------------------------------------------------------------------------------------------------------


def estimate_tokens(messages: Sequence[Message]) -> int:
    """The published rule of thumb: bytes / 4, rounded down for each field, then summed. No trigger reads it here.

    A session counts with its own counter, to which an image is no base64 and a CJK character no three bytes.
    """
    return sum(_estimated(part) for message in messages for part in message.parts)


def estimate_request(request: Mapping[str, Any]) -> int:
    """The rule of thumb for a whole request: contents, system instruction and tool definitions."""
    read = read_request(request)
    return estimate_tokens(read.messages) + sum(_quarter(text) for text in read.apart)


def _estimated(part: object) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return _quarter(text)
        case ToolCall(name=name, arguments=arguments):
            return _quarter(name) + _of_arguments(arguments)
        case ToolResult(name=name, content=content):
            return _quarter(name) + sum(_estimated(inner) for inner in content)
        case Image(media=media, data=data):
            return _quarter(media) + len(data) * 3 // 4 // 4
        case Document(media=media, text=text, data=data):
            return _quarter(text) if text else _quarter(media) + len(data) * 3 // 4 // 4
        case _:
            return 0


def _of_arguments(arguments: str) -> int:
    try:
        decoded: object = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return _quarter(arguments)
    if not isinstance(decoded, dict):
        return _quarter(arguments)
    return sum(_quarter(str(key)) + _quarter(str(value)) for key, value in decoded.items())


def _quarter(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // 4


def calibrated(now: int, *, real: int = 0, last: int = 0, factor: float = DEFAULT_FACTOR) -> int:
    """The published formula: today's heuristic corrected by `real` / `last`, and never less than `real`."""
    return ratio(real, last, now, factor=factor)[0]


def threshold_of(window: int) -> int:
    """The size from which a conversation is compacted: window - buffer."""
    return window - CalibratedBuffer().buffer(window)


def max_output_tokens(window: int) -> int:
    """What a summary may take: half the buffer."""
    return CalibratedBuffer().summary(window)


def word_limit(window: int) -> int:
    """The words that a summary is asked to keep to."""
    return int(max_output_tokens(window) * WORDS)


def keep_recent(max_turns: int) -> int:
    """How many entries the sliding window keeps: three tenths, at least 3."""
    return KeepRecent(max_turns).keep


def find_safe_split(messages: Sequence[Message], index: int) -> int:
    """Where a list may be parted near `index` so that no tool result loses its call."""
    return safe_split(_kinds(messages), index)


def find_split_index(messages: Sequence[Message], budget: int) -> int:
    """Where the newest messages of at most `budget` tokens begin, by the rule of thumb, at a safe place."""
    index, total = len(messages), 0
    while index > 0:
        total += estimate_tokens(messages[index - 1 : index])
        if total > budget:
            break
        index -= 1
    return find_safe_split(messages, index)


def _kinds(messages: Sequence[Message]) -> list[Kind]:
    return ["result" if m.role == "tool" else "call" if calls_of(m) else "text" for m in messages]


def todos_of(todos: Sequence[Any]) -> str:
    """The to-do list of a host's state as the summariser is given it: maps, or objects with `content` and `status`.

    Items without content are left out; "" where none is left.
    """
    lines: list[str] = []
    for todo in todos:
        get = todo.get if isinstance(todo, Mapping) else lambda name, todo=todo: getattr(todo, name, "")
        content = str(get("content") or "").strip()
        lines.extend([f"- [{get('status') or 'pending'}] {content}"] if content else [])
    return todo_block(lines)


# -- the published state keys ------------------------------------------------------------------------------------------


class State(Struct, frozen=True):
    """What the design keeps in a host's state dictionary. Here it is derived from the log.

    `summarized_at` is the estimate when the newest summary was made, `contents_at_compaction` the watermark: how many
    messages it stands for. After a compaction both counts of the last request are 0.
    """

    summary: str = ""
    summarized_at: int = 0
    contents_at_compaction: int = 0
    real_tokens: int = 0
    last_heuristic: int = 0


def state_of(session: Session) -> State:
    """The state of a session's path, as it is now."""
    view = session.view
    row = session.call().anchors.of(session.model, session.policy.counter.name)
    real, last = (row.last_reported, row.last_estimate + row.last_apart) if row and row.fresh else (0, 0)
    block = view.path.at(view.marks.live[-1]) if view.marks.live else None
    if not isinstance(block, Block):
        return State(real_tokens=real, last_heuristic=last)
    texts = (
        summary_text(t.text) for m in view.messages() for t in m.parts if m.origin == "tenfold" and isinstance(t, Text)
    )
    summary = next((text for text in texts if text is not None), "")
    last_covered = max(r.last for r in block.replacements if r.kind == "summary")
    covered = sum(1 for e in view.path.span(0, last_covered) if message_of(e) is not None)
    return State(story_of(summary, session.policy.summary), block.tokens_before, covered, real, last)


def exported(session: Session, agent: str) -> dict[str, str | int]:
    """The state under the published keys, for hosts that keep a state dictionary. Nothing here reads it back."""
    state = state_of(session)
    return {key + agent: getattr(state, name) for name, key in _KEYS.items()}


def loaded(state: Mapping[str, Any], agent: str) -> State:
    """The state in a host's dictionary. Numbers may have become floats on their way through JSON."""
    found = {name: state[key + agent] for name, key in _KEYS.items() if key + agent in state}
    whole = {name: int(value) for name, value in found.items() if name != "summary"}
    return msgspec.convert({**whole, "summary": str(found.get("summary", ""))}, State)
