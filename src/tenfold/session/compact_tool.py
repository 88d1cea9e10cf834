"""The tool `compact`: with it a model makes room in its own conversation, and reads what was kept.

It works under every policy. `get_summary` reads the text that the newest compaction left in view.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import get_text
from tenfold.core.wire import DEFAULT_WIRE, get_wire
from tenfold.core.wire.marks import extract_summary_text
from tenfold.events import build_summary_failure
from tenfold.session.async_facade import AsyncSession
from tenfold.session.facade import Session

MINIMUM_TOKENS = 10_000
"""Below this context size the tool does nothing, so that a model does not compact again and again."""
NOT_NEEDED = "No compaction needed"


def format_thousands(tokens: int) -> str:
    """Formats a token count: 950, 12k."""
    return f"{tokens / 1000:.0f}k" if tokens >= 1_000 else str(tokens)


def render_compaction_mark(before: int, after: int) -> str:
    """Renders the line that is shown for a compaction. The sizes are in tokens."""
    return f"— context compacted ({format_thousands(before)} → {format_thousands(after)} tokens) —"


def get_summary(session: Session, block: str = "") -> str | None:
    """Returns the summary of the newest live Block with its facts, else the facts alone, else None.

    The tags and fixed sentences around the text are left out. None as well if `block` is another Block's id.
    """
    newest = session.view.find_newest_block()
    if newest is None or not newest.id.startswith(block):
        return None
    shown = [item for replacement in newest.replacements for item in replacement.shown_items]
    messages = [item.message for item in shown if isinstance(item, Substitute) and item.original_position is None]
    texts = [text for message in messages if (text := extract_summary_text(get_text(message))) is not None]
    if not texts:
        return None
    settings = session.policy.summary
    return texts[-1].strip().removeprefix(settings.opening).removesuffix(settings.closing).strip()


class CompactTool:
    """The tool `compact`, with which a model frees context itself. It compacts and returns the summary."""

    name = "compact"
    description = (
        "Make room in this conversation: earlier messages are shortened and, where that is not enough, summarized. "
        "Call it before you begin with something new, after a large piece of work is finished, or when you notice that "
        "you lose track of earlier messages. The result says what was kept."
    )

    def __init__(self, session: Session, *, window: int | None = None) -> None:
        """`window` is the model's, in tokens, if the session does not know it."""
        self._session, self._window = session, window

    def build_schema(self, wire: str = DEFAULT_WIRE) -> dict[str, object]:
        """Builds the tool's definition for the requests of a wire. Raises `UnknownFormat` for an unknown wire."""
        focus = {"type": "string", "description": "What the summary should dwell on, if anything in particular."}
        parameters: dict[str, object] = {"type": "object", "properties": {"focus": focus}, "required": []}
        return get_wire(wire).profile.build_tool(self.name, self.description, parameters)

    def handle(self, arguments: Mapping[str, object] | None = None) -> str:
        """Runs a call and returns its result as text. A failure is part of the text, not raised."""
        call = self._build_call(arguments or {})
        return call if isinstance(call, str) else self._format_outcome(self._session.compact(call))

    async def ahandle(self, session: AsyncSession, arguments: Mapping[str, object] | None = None) -> str:
        """Does the same through an `AsyncSession`."""
        call = await asyncio.to_thread(self._build_call, arguments or {})
        return call if isinstance(call, str) else self._format_outcome(await session.compact(call))

    def _build_call(self, arguments: Mapping[str, object]) -> Call | str:
        focus = arguments.get("focus") or ""
        if not isinstance(focus, str):
            return f"{self.name} takes an optional argument 'focus', a string"
        call = replace(self._session.compactor.build_call(window=self._window), demand="tool", focus=focus)
        if call.window is None:
            return "Not compacted: the window of this conversation's model is not known"
        used = self._session.take_reading(window=call.window).tokens
        if used < MINIMUM_TOKENS:
            return f"{NOT_NEEDED}: the context has {used:,} tokens, and this is of use from {MINIMUM_TOKENS:,} on"
        return call

    def _format_outcome(self, outcome: Outcome) -> str:
        if outcome.status == "compacted":
            summary = get_summary(self._session, outcome.block) or "Only tool outputs were shortened."
            failure = build_summary_failure(self._session.address.session, outcome, 0)
            parts = [
                render_compaction_mark(outcome.tokens_before, outcome.tokens_after),
                *([f"A summary model failed: {failure.reason}"] if failure is not None else []),
                summary,
            ]
            return "\n\n".join(parts)
        if outcome.status == "nothing" and outcome.tokens_before <= outcome.target:
            return NOT_NEEDED
        return f"Not compacted: {outcome.reason}"
