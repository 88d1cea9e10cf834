"""The agent: a runtime on pydantic-ai whose memory is a Tenfold session, and the same as a capability of any other."""

from __future__ import annotations

from tenfold.errors import UsageError

try:
    import pydantic_ai as _pydantic_ai  # noqa: F401 - an optional extra: said here, before anything else fails
except ImportError as exc:
    raise UsageError(f"the agent runs on {exc.name}, which is not installed: pip install 'tenfold[models]'") from exc

from tenfold.agent.agent import Agent, Phase
from tenfold.agent.memory import Memory

__all__ = ["Agent", "Memory", "Phase"]
