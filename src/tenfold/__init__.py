"""Tenfold keeps an LLM agent running past its context window: a tenth of the tokens, and nothing lost.

    session = tenfold.open_session("support-42", model="gpt-4o")
    request = session.before_model({"model": "gpt-4o", "messages": history})   # compacted when it grows too long
    answer = client.chat.completions.create(**request)
    session.after_model(answer)

`open_session` (or `aopen_session`) opens a conversation that is kept in a store; nothing in it is ever lost. `compact`
(or `acompact`) makes a plain list of messages smaller, without a store. `open_store` opens a store that you want to
share, and `validate` says what a provider would refuse.

A name is loaded when you first use it, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenfold.compaction.engine.call import Call
    from tenfold.compaction.engine.policy import Policy
    from tenfold.compaction.plan.pipeline import Stage
    from tenfold.config.policies import POLICIES
    from tenfold.core.record.ask import Outcome
    from tenfold.core.view.fold import View
    from tenfold.core.view.rules import Violation, validate
    from tenfold.errors import TenfoldError
    from tenfold.formats import read_file
    from tenfold.formats.objects import from_messages, to_messages
    from tenfold.models.scripted_model import ScriptedModel
    from tenfold.session import AsyncSession, Session, SessionAddress
    from tenfold.session.opening import aopen_session, open_session
    from tenfold.session.stateless import CompactResult, acompact, compact
    from tenfold.store.location import open_store

__version__ = "0.3.0"

_MODULES = {
    "AsyncSession": "session",
    "Call": "compaction.engine.call",
    "CompactResult": "session.stateless",
    "Outcome": "core.record.ask",
    "POLICIES": "config.policies",
    "SessionAddress": "session",
    "Policy": "compaction.engine.policy",
    "ScriptedModel": "models.scripted_model",
    "Session": "session",
    "Stage": "compaction.plan.pipeline",
    "TenfoldError": "errors",
    "View": "core.view.fold",
    "Violation": "core.view.rules",
    "acompact": "session.stateless",
    "aopen_session": "session.opening",
    "compact": "session.stateless",
    "from_messages": "formats.objects",
    "open_session": "session.opening",
    "open_store": "store.location",
    "read_file": "formats",
    "to_messages": "formats.objects",
    "validate": "core.view.rules",
}

__all__ = [
    "POLICIES",
    "AsyncSession",
    "Call",
    "CompactResult",
    "Outcome",
    "Policy",
    "ScriptedModel",
    "Session",
    "SessionAddress",
    "Stage",
    "TenfoldError",
    "View",
    "Violation",
    "acompact",
    "aopen_session",
    "compact",
    "from_messages",
    "open_session",
    "open_store",
    "read_file",
    "to_messages",
    "validate",
]


def __getattr__(name: str) -> object:
    home = _MODULES.get(name)
    if home is None:
        message = f"module 'tenfold' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(importlib.import_module(f"tenfold.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
