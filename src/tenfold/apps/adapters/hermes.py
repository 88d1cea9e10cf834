"""Tenfold in Hermes Agent: a context engine, which Hermes asks for a shorter list when its own grows too long.

Install Tenfold where Hermes is installed, and put two files into `~/.hermes/plugins/tenfold/`. The line that switches
it on is all of `__init__.py`:

    from tenfold.apps.adapters.hermes import register

`plugin.yaml` says what it is:

    name: tenfold
    version: 1.0.0
    description: Compacts conversations with Tenfold

And `~/.hermes/config.yaml` chooses it:

    plugins:
      enabled: [tenfold]
    context:
      engine: tenfold

To name options, write `register` yourself:

    def register(ctx):
        ctx.register_context_engine(TenfoldEngine(policy="tail", summarizer="anthropic:claude-haiku-4-5"))

Hermes keeps what it gets from the engine as its own list, and archives the messages before it. The session keeps them
all. What Hermes sends besides the list, its system prompt and its tools, an engine does not see.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Unpack

from msgspec.structs import replace

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from agent.context_engine import ContextEngine  # that is Hermes' own package

from tenfold.apps.adapters.host_sessions import HostSession, HostSessions
from tenfold.compaction.plan.draft import RecallMode
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput
from tenfold.recall.tools import RecallTools
from tenfold.session.opening import SessionOptions, open_session
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.ids import IDS

_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "reasoning")
"""What a message says. Hermes has more fields for its own books."""
_WRITTEN_MARK = "_db_persisted"
"""How Hermes marks a message that its database has. It takes back none that carries the mark."""
_BREAK = "\n\n* * *\n\n"
"""Stands between user messages that are sent as one. Hermes joins such neighbours too, but nobody could part those."""
_KEPT_SHARE = 0.5
"""How much of the messages stays. Then a request with 0.85 of the window gets to about 0.43 of it."""
_STUCK_GROWTH = 1.05
"""By how much a list has to grow until it is tried again to shorten it, after that did not help."""


class _HermesConverter:
    """Reads Hermes' messages, which are OpenAI Chat messages with fields of its own. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. User messages that were joined become several again.

        Texts are read without the space around them, as Hermes sends them and has them back from its database.
        """
        if not isinstance(message, Mapping) or "role" not in message:
            raise BadInput(f"{name_type(message)} is no message of Hermes: it is a dict with a role and content")
        named = {"content": None, "name": message.get("tool_name"), **message}
        item = {field: named[field] for field in _FIELDS if field == "content" or named.get(field)}
        if item["role"] not in ("user", "assistant") or not isinstance(item["content"], str):
            return [item]
        texts = item["content"].split(_BREAK) if item["role"] == "user" else [item["content"]]
        return [{**item, "content": text.strip()} for text in texts]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """See `Converter.build`."""
        return [dict(message) for message in messages]


_CONVERTER = _HermesConverter()


class TenfoldEngine(ContextEngine):
    """Keeps the messages of a conversation in a session, and shortens Hermes' list when that grows too long.

    The session has the id of Hermes' session. Where Hermes begins a new one at each compaction (`in_place: false`), it
    is that of the first. An agent that another one delegates to has its own. The model is offered three tools to look
    up what it no longer sees, unless `recall` is False or the agent's toolsets are without "context_engine".

    The options are those of `tenfold.open_session`. The window is the model's as Hermes knows it, or the `window` that
    is named, if that is smaller. What Hermes' memory provider says before a compaction is in no summary.
    """

    def __init__(self, *, recall: bool = True, **options: Unpack[SessionOptions]) -> None:
        self._recall, self._options = recall, options
        self._sessions: HostSessions[dict[str, Any]] = HostSessions(_CONVERTER, options)
        self._session, self._model, self._database = IDS.generate(), "", None
        self._is_offered = False
        self._rough, self._scale, self._stuck_at = 0, 0.0, 0
        self.last_real_prompt_tokens = 0
        self._last_compression_made_progress = False

    def __deepcopy__(self, memo: object) -> TenfoldEngine:
        """Makes the engine of another agent: Hermes copies the one that is registered."""
        return type(self)(recall=self._recall, **self._options)

    @property
    def name(self) -> str:
        """The name in `context.engine`."""
        return "tenfold"

    # -- the session and the model -------------------------------------------------------------------------------------

    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:  # noqa: ANN401 - Hermes' own
        """Is told which session of Hermes' database it works for."""
        self._database = session_db
        self._session = find_first_session(session_db, session_id)

    def on_session_start(self, session_id: str, **_: Any) -> None:  # noqa: ANN401 - of no use here
        """Is told that a session begins, or goes on after a compaction."""
        self.bind_session_state(self._database, session_id)

    def on_session_reset(self) -> None:
        """Is told that the user begins anew: what requests took says nothing of the next ones."""
        super().on_session_reset()
        self.last_real_prompt_tokens = 0
        self._last_compression_made_progress = False
        self._forget_sizes()

    def _forget_sizes(self) -> None:
        self.last_prompt_tokens = self._rough = self._stuck_at = 0
        self._scale = 0.0

    def update_model(self, model: str, context_length: int, *_: Any, **__: Any) -> None:  # noqa: ANN401 - of no use here
        """Is told the model and its window: Hermes asks for a compaction from where the policy would make one."""
        self._model, self.context_length = model, context_length
        self._forget_sizes()
        window = self._get_window()
        if window is not None:  # nothing is written for a conversation that stays short
            like = open_session(model=model, policy=self._options.get("policy", ""), store=MEMORY_LOCATION)
            limits = like.policy.get_limits(window, output_reserve=0, floor=ProviderTokens(0))
            self.threshold_tokens, self.threshold_percent = limits.soft, limits.soft / window

    def _open(self) -> HostSession[dict[str, Any]]:
        host = self._sessions.get(self._session, self._model)
        host.session.compactor.use_window(self._get_window())
        return host

    def _get_window(self) -> int | None:
        """Returns the smaller of the two windows that may be known: a provider that refuses names its own to Hermes."""
        return min(filter(None, (self._options.get("window"), self.context_length)), default=None)

    # -- when to compact -----------------------------------------------------------------------------------------------

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Is told what a request took. The session's meter is not: it has not seen all of what was sent."""
        prompt = int(usage.get("prompt_tokens") or 0)
        if prompt <= 0:
            return
        self.last_prompt_tokens = self.last_real_prompt_tokens = prompt
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = prompt + self.last_completion_tokens
        self._scale, self._rough = (prompt / self._rough if self._rough else self._scale), 0

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Says whether Hermes' rough count is too high, by what the provider counted for the requests before."""
        self._rough = rough_tokens
        return 0 < rough_tokens * self._scale < self.threshold_tokens

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Says whether a request of so many tokens is too long."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return 0 < self.threshold_tokens <= tokens and tokens >= self._stuck_at

    # -- compacting ----------------------------------------------------------------------------------------------------

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,  # noqa: ARG002 - Hermes passes it, and what matters is found without it
        force: bool = False,  # noqa: ARG002, FBT001, FBT002 - it is never held back
    ) -> list[dict[str, Any]]:
        """Returns a list of about half as many tokens, or this one if it cannot be made shorter."""
        host = self._open()
        recall: RecallMode = "tool" if self._recall and self._is_offered else "none"
        fitted = host.fit(messages, model=self._model, recall=recall).messages
        if _is_same(fitted, messages):
            target = max(1, int(_KEPT_SHARE * host.session.take_reading().estimate))
            host.session.compact(replace(host.session.compactor.build_call(to=target), recall=recall))
            fitted = host.fit(messages, model=self._model, recall=recall).messages
        self._last_compression_made_progress = not _is_same(fitted, messages)
        if not self._last_compression_made_progress:
            self._stuck_at = int(_STUCK_GROWTH * (current_tokens or self.last_prompt_tokens))
            return messages
        self._stuck_at = 0
        self.compression_count += 1
        return join_users([{name: each[name] for name in each if name != _WRITTEN_MARK} for each in fitted])

    # -- looking things up ---------------------------------------------------------------------------------------------

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Returns the tools to look things up. Hermes asks if the agent's toolsets have those of the engine."""
        self._is_offered = True
        return [schema["function"] for schema in RecallTools.build_schemas()] if self._recall else []

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **_: Any) -> str:  # noqa: ANN401 - of no use here
        """Answers a call of one of these tools, as JSON."""
        return json.dumps({"result": self._open().tools.handle(name, args)}, ensure_ascii=False)


def join_users(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joins user messages that stand next to each other. What the provider was sent for one of them alone goes."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and _is_user_text(joined[-1]) and _is_user_text(message):
            joined[-1] = {**joined[-1], "content": f"{joined[-1]['content']}{_BREAK}{message['content']}"}
            joined[-1].pop("api_content", None)
        else:
            joined.append(message)
    return joined


def find_first_session(database: Any, session: str) -> str:  # noqa: ANN401 - Hermes' SessionDB
    """Finds the session that a chain of Hermes' sessions began with, of which each was compacted into the next."""
    while database is not None and session:
        parent = (database.get_session(session) or {}).get("parent_session_id")
        if not parent or (database.get_session(parent) or {}).get("end_reason") != "compression":
            break
        session = parent
    return session


def register(ctx: Any) -> None:  # noqa: ANN401 - Hermes' PluginContext
    """Registers the engine, as Hermes calls it when it loads the plugin. The options come from Tenfold's settings."""
    ctx.register_context_engine(TenfoldEngine())


def _is_user_text(message: Mapping[str, Any]) -> bool:
    return message["role"] == "user" and isinstance(message.get("content"), str)


def _is_same(fitted: Sequence[object], messages: Sequence[object]) -> bool:
    return len(fitted) == len(messages) and all(map(is_, fitted, messages))
