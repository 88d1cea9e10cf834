"""Tenfold keeps an LLM agent running past its context window: a tenth of the tokens, and nothing lost.

`compact` and `acompact` work on a plain list of provider messages. `Session` keeps a conversation in a store, which
`open_store` opens. Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenfold.aio import AsyncSession
    from tenfold.engine import Call
    from tenfold.errors import TenfoldError
    from tenfold.llm.scripted import ScriptedModel
    from tenfold.log.place import open_store
    from tenfold.plan.plan import Stage
    from tenfold.policies import POLICIES
    from tenfold.policy import Policy
    from tenfold.record.ask import Outcome
    from tenfold.session import Place, Session
    from tenfold.stateless import Compacted, acompact, compact
    from tenfold.transcripts import read_file
    from tenfold.view.rules import Violation, validate
    from tenfold.view.view import View

__version__ = "0.1.0"

_HOMES = {
    "AsyncSession": "aio",
    "Call": "engine",
    "Compacted": "stateless",
    "Outcome": "record.ask",
    "POLICIES": "policies",
    "Place": "session",
    "Policy": "policy",
    "ScriptedModel": "llm.scripted",
    "Session": "session",
    "Stage": "plan.plan",
    "TenfoldError": "errors",
    "View": "view.view",
    "Violation": "view.rules",
    "acompact": "stateless",
    "compact": "stateless",
    "open_store": "log.place",
    "read_file": "transcripts",
    "validate": "view.rules",
}

__all__ = [
    "POLICIES",
    "AsyncSession",
    "Call",
    "Compacted",
    "Outcome",
    "Place",
    "Policy",
    "ScriptedModel",
    "Session",
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
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'tenfold' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(importlib.import_module(f"tenfold.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
