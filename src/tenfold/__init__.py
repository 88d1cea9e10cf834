"""Tenfold keeps an LLM agent running past its context window: a tenth of the tokens, and nothing lost.

Begin with `compact`, or `acompact`: it makes a plain list of provider messages smaller. `Session`, or `AsyncSession`,
also keeps the conversation in a store, which `open_store` opens. `validate` says what a provider would refuse.

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
    from tenfold.models.scripted_model import ScriptedModel
    from tenfold.session import AsyncSession, Session, SessionAddress
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
    "compact": "session.stateless",
    "open_store": "store.location",
    "read_file": "formats",
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
    "compact",
    "open_store",
    "read_file",
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
