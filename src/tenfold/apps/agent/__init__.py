"""The agent runtime: pydantic-ai runs the agent, and a Tenfold session is its memory.

`Agent` is a complete agent. `Memory` gives the same memory to a pydantic-ai agent that you already have.
"""

from __future__ import annotations

from tenfold.errors import UsageError

try:
    import pydantic_ai as _pydantic_ai  # noqa: F401 - an optional extra: said here, before anything else fails
except ImportError as exc:
    raise UsageError(f"the agent needs {exc.name}, which is not installed: pip install 'tenfold[models]'") from exc

from tenfold.apps.agent.capability import Memory
from tenfold.apps.agent.runtime import Agent, Phase

__all__ = ["Agent", "Memory", "Phase"]
