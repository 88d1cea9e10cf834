"""Stages that limit every tool output wherever it is, and blank those older than the newest messages.

`TruncateStage` and `ClearStage` leave a recent tail of tokens alone. The stages here count differently: the first
spares nothing, the second spares a number of messages. Each treats all its outputs, and then the view is measured.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, Goal
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.elide import elide_outputs
from tenfold.compaction.plan.stubs import REMOVED_PREFIX, describe_removed, keep_ends, render_hint_for, with_text
from tenfold.core.record.message import Message, get_text, get_tool_result
from tenfold.core.view.units import VisibleMessage

MIN_LINES = 5
TOKENS_PER_LINE = 10
_MARKER_TOKENS = 40


class TruncateOutputsStage(Struct, frozen=True):
    """Cuts every tool output above `max_tokens` to its first and last lines, protected messages and errors included.

    Each side has at most `keep_tokens / 10` lines (at least 5, at most half of them), as a line is taken for 10 tokens.
    It also has at most 2 x `keep_tokens` tokens and half of `max_tokens`, as lines may be longer than that.
    """

    max_tokens: int = 2_000
    keep_tokens: int = 250
    name: ClassVar[str] = "truncate-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output above the limit where that saves tokens."""

        def elide(shown: VisibleMessage, tokens: int) -> Message | None:
            if tokens <= self.max_tokens or shown.is_from_block:  # what a Block shows is short already
                return None
            return self._cut_output(draft, goal, shown, tokens)

        return replace(draft, pieces=tuple(elide_outputs(draft, p, self.name, elide) for p in draft.pieces))

    @property
    def side_lines(self) -> int:
        """The most lines of one side."""
        return max(MIN_LINES, self.keep_tokens // TOKENS_PER_LINE)

    def _cut_output(self, draft: Draft, goal: Goal, shown: VisibleMessage, tokens: int) -> Message | None:
        message, text = shown.message, get_text(shown.message)
        bare = draft.measure_messages([with_text(message, "")])[0]
        if tokens - bare <= self.max_tokens:
            return None
        bound = 2 * min(2 * self.keep_tokens, self.max_tokens // 2)
        end = render_hint_for(draft, shown, goal.recall)
        side = len(text) * bound // (2 * (tokens - bare))
        while True:
            new = with_text(message, keep_ends(text, self.side_lines, side, end=end))
            size = draft.measure_messages([new])[0] - bare
            if size <= bound + _MARKER_TOKENS or not side:
                return new
            side = min(side - 1, side * bound // size)


class RemoveOutputsStage(Struct, frozen=True):
    """Blanks every tool output before the newest `keep_recent_messages`, and names its lines and how it began.

    Errors stay, as do outputs that would not get shorter. Tool calls and their pairing stay as they are.
    """

    keep_recent_messages: int = 12
    name: ClassVar[str] = "remove-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the outputs of all steps that lie wholly before the newest messages."""

        def elide(shown: VisibleMessage, _tokens: int) -> str | None:
            result = get_tool_result(shown.message)
            if (result is not None and result.is_error) or get_text(shown.message).startswith(REMOVED_PREFIX):
                return None
            return describe_removed(draft, shown, goal.recall)

        start = find_tail(draft, TailSize(self.keep_recent_messages)).start
        old = (elide_outputs(draft, p, self.name, elide) for p in draft.pieces[:start])
        return replace(draft, pieces=(*old, *draft.pieces[start:]))
