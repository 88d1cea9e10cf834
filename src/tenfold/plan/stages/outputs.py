"""Stages that limit every tool output wherever it is, and blank those older than the newest messages.

`TruncateStage` and `ClearStage` leave a recent tail of tokens alone. The stages here count differently: the first
spares nothing, the second spares a number of messages. Each treats all its outputs, and then the view is measured.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal
from tenfold.plan.stages.elide import describe_other_parts, elide_outputs, render_read_hint, with_text
from tenfold.record.entry import get_message
from tenfold.record.message import Message, get_text, get_tool_result
from tenfold.text.excerpts import clip_end, take_head, take_tail
from tenfold.text.redaction import redact_cached
from tenfold.view.units import VisibleMessage, get_step_messages

REMOVED_PREFIX = "[tool output removed: "
DROPPED_WORD = "dropped"
FIRST_CHARACTERS = 100
MAX_WHOLE_LINES = 10
"""An output of at most this many lines loses no whole line: it is limited by tokens alone."""
MIN_LINES = 5
TOKENS_PER_LINE = 10
_MARKER_TOKENS = 40


def find_protected_start(draft: Draft, messages: int) -> int:
    """Returns the index of the first piece with one of the newest `messages` messages. The open step's count first.

    Pieces are whole units, so a step that is partly among the newest is protected as a whole. What is left before it
    ends where every tool call is answered.
    """
    step = draft.view.open_step
    left = messages - (len(get_step_messages(step, closing=False)) if step is not None else 0)
    index = len(draft.pieces)
    while index and left > 0:
        index -= 1
        left -= len(draft.pieces[index].get_visible_messages())
    return index


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

        pieces = (p if p.protected_reason else elide_outputs(draft, p, self.name, elide) for p in draft.pieces)
        return replace(draft, pieces=tuple(pieces))

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
        end = render_read_hint(
            goal.recall,
            draft.view.path.get_entry(shown.original_position).id if shown.original_position is not None else "",
        )
        side = len(text) * bound // (2 * (tokens - bare))
        while True:
            new = with_text(message, keep_ends(text, self.side_lines, side, end=end))
            size = draft.measure_messages([new])[0] - bare
            if size <= bound + _MARKER_TOKENS or not side:
                return new
            side = min(side - 1, side * bound // size)


def keep_ends(text: str, lines: int, characters: int, *, end: str = "") -> str:
    """Returns the first and last `lines` lines of a text, at most `characters` a side, with the gap stated.

    A text of at most `MAX_WHOLE_LINES` lines loses no whole line. `end` closes the marker. The text itself is returned
    if nothing would be dropped.
    """
    rows = text.removesuffix("\n").split("\n")
    half = len(rows) if len(rows) <= MAX_WHOLE_LINES else min(lines, len(rows) // 2)
    whole = 2 * half >= len(rows)
    first, last = (text, text) if whole else ("\n".join(rows[:half]), "\n".join(rows[-half:]))
    head, tail = take_head(first, characters), take_tail(last, characters)
    missing = len(text) - len(head) - len(tail)
    if missing <= 0:
        return text
    gap = len(rows) - (head.count("\n") + bool(head)) - (tail.removesuffix("\n").count("\n") + bool(tail))
    cut = whole or head != first or tail != last
    what = [f"{gap:,} {'line' if gap == 1 else 'lines'}"] if gap > 0 else []
    what += [f"{missing:,} characters"] if cut or not what else []
    return f"{head}\n[... {', '.join(what)} {DROPPED_WORD}{end} ...]\n{tail}"


class RemoveOutputsStage(Struct, frozen=True):
    """Blanks every tool output before the newest `protected_messages`, and names its lines and how it began.

    Errors stay, as do outputs that would not get shorter. Tool calls and their pairing stay as they are.
    """

    protected_messages: int = 12
    name: ClassVar[str] = "remove-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the outputs of all steps that lie wholly before the protected messages."""

        def elide(shown: VisibleMessage, _tokens: int) -> str | None:
            result = get_tool_result(shown.message)
            if (result is not None and result.is_error) or get_text(shown.message).startswith(REMOVED_PREFIX):
                return None
            return build_placeholder(draft, shown, goal)

        last = find_protected_start(draft, self.protected_messages)
        old = (p if p.protected_reason else elide_outputs(draft, p, self.name, elide) for p in draft.pieces[:last])
        return replace(draft, pieces=(*old, *draft.pieces[last:]))


def build_placeholder(draft: Draft, shown: VisibleMessage, goal: Goal) -> str:
    """Builds the text for a blanked output: the number of its lines, and the first line, up to 100 characters."""
    entry = draft.view.path.get_entry(shown.original_position) if shown.original_position is not None else None
    message = (get_message(entry) if entry is not None else None) or shown.message
    text = get_text(message)
    count = len(text.removesuffix("\n").split("\n"))
    first = clip_end(
        redact_cached(text.split("\n", 1)[0][: 4 * FIRST_CHARACTERS]).strip(), FIRST_CHARACTERS + len("...")
    )
    what = f"{count:,} {'line' if count == 1 else 'lines'}{describe_other_parts(message)}"
    return (
        f"{REMOVED_PREFIX}{what}; it began: "
        f"{first}{render_read_hint(goal.recall, entry.id if entry is not None else '')}]"
    )
