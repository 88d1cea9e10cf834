"""The terminal chat: an agent's session on a screen. `slash_commands` does what a command says; the rest draws."""

from __future__ import annotations

from tenfold.errors import UsageError

try:
    import textual as _textual  # noqa: F401 - an optional extra: said here, before anything else fails
except ImportError as exc:
    raise UsageError(f"the chat needs {exc.name}, which is not installed: pip install 'tenfold[chat]'") from exc
