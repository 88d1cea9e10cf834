"""Stages that limit every tool output wherever it is, and blank those older than the newest messages.

`TruncateStage` and `ClearStage` leave a recent tail of tokens alone. The stages here count differently: the first
spares nothing, the second spares a number of messages. Each treats all its outputs, and then the view is measured.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal
from tenfold.plan.stages.elide import beside_text, elided, hint, with_text
from tenfold.record.entry import message_of
from tenfold.record.message import Message, result_of, text_of
from tenfold.redact import redacted
from tenfold.text import head_of, opening, tail_of
from tenfold.view.units import Shown, shown_of

REMOVED = "[tool output removed: "
DROPPED = "dropped"
FIRST_CHARACTERS = 100
FEW_LINES = 10
"""An output of at most this many lines loses no whole line: it is limited by tokens alone."""
LEAST_LINES = 5
TOKENS_PER_LINE = 10
_MARKER = 40


def protected_from(draft: Draft, messages: int) -> int:
    """Returns the index of the first piece with one of the newest `messages` messages. The open step's count first.

    Pieces are whole units, so a step that is partly among the newest is protected as a whole. What is left before it
    ends where every tool call is answered.
    """
    step = draft.view.step
    left = messages - (len(shown_of(step, closing=False)) if step is not None else 0)
    index = len(draft.pieces)
    while index and left > 0:
        index -= 1
        left -= len(draft.pieces[index].shown())
    return index


class TruncateOutputs(Struct, frozen=True):
    """Cuts every tool output above `max_tokens` to its first and last lines, protected messages and errors included.

    Each side has at most `keep_tokens / 10` lines (at least 5, at most half of them), as a line is taken for 10 tokens.
    It also has at most 2 x `keep_tokens` tokens and half of `max_tokens`, as lines may be longer than that.
    """

    over: int = 2_000
    keep: int = 250
    name: ClassVar[str] = "truncate-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output above the limit where that saves tokens."""

        def elide(shown: Shown, tokens: int) -> Message | None:
            if tokens <= self.over or _shown_by_block(shown):
                return None
            return self._cut(draft, goal, shown, tokens)

        pieces = (p if p.held else elided(draft, p, self.name, elide) for p in draft.pieces)
        return replace(draft, pieces=tuple(pieces))

    @property
    def lines(self) -> int:
        """The most lines of one side."""
        return max(LEAST_LINES, self.keep // TOKENS_PER_LINE)

    def _cut(self, draft: Draft, goal: Goal, shown: Shown, tokens: int) -> Message | None:
        message, text = shown.message, text_of(shown.message)
        bare = draft.weigh([with_text(message, "")])[0]
        if tokens - bare <= self.over:
            return None
        bound = 2 * min(2 * self.keep, self.over // 2)
        end = hint(goal.recall, draft.view.path.at(shown.of).id if shown.of is not None else "")
        side = len(text) * bound // (2 * (tokens - bare))
        while True:
            new = with_text(message, ends(text, self.lines, side, end=end))
            size = draft.weigh([new])[0] - bare
            if size <= bound + _MARKER or not side:
                return new
            side = min(side - 1, side * bound // size)


def ends(text: str, lines: int, characters: int, *, end: str = "") -> str:
    """Returns the first and last `lines` lines of a text, at most `characters` a side, with the gap stated.

    A text of at most `MAX_WHOLE_LINES` lines loses no whole line. `end` closes the marker. The text itself is returned
    if nothing would be dropped.
    """
    rows = text.removesuffix("\n").split("\n")
    half = len(rows) if len(rows) <= FEW_LINES else min(lines, len(rows) // 2)
    whole = 2 * half >= len(rows)
    first, last = (text, text) if whole else ("\n".join(rows[:half]), "\n".join(rows[-half:]))
    head, tail = head_of(first, characters), tail_of(last, characters)
    missing = len(text) - len(head) - len(tail)
    if missing <= 0:
        return text
    gap = len(rows) - (head.count("\n") + bool(head)) - (tail.removesuffix("\n").count("\n") + bool(tail))
    cut = whole or head != first or tail != last
    what = [f"{gap:,} {'line' if gap == 1 else 'lines'}"] if gap > 0 else []
    what += [f"{missing:,} characters"] if cut or not what else []
    return f"{head}\n[... {', '.join(what)} {DROPPED}{end} ...]\n{tail}"


class RemoveOutputs(Struct, frozen=True):
    """Blanks every tool output before the newest `protected_messages`, and names its lines and how it began.

    Errors stay, as do outputs that would not get shorter. Tool calls and their pairing stay as they are.
    """

    protected: int = 12
    name: ClassVar[str] = "remove-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the outputs of all steps that lie wholly before the protected messages."""

        def elide(shown: Shown, _tokens: int) -> str | None:
            result = result_of(shown.message)
            if (result is not None and result.error) or text_of(shown.message).startswith(REMOVED):
                return None
            return placeholder(draft, shown, goal)

        last = protected_from(draft, self.protected)
        old = (p if p.held else elided(draft, p, self.name, elide) for p in draft.pieces[:last])
        return replace(draft, pieces=(*old, *draft.pieces[last:]))


def placeholder(draft: Draft, shown: Shown, goal: Goal) -> str:
    """Builds the text for a blanked output: the number of its lines, and the first line, up to 100 characters."""
    entry = draft.view.path.at(shown.of) if shown.of is not None else None
    message = (message_of(entry) if entry is not None else None) or shown.message
    text = text_of(message)
    count = len(text.removesuffix("\n").split("\n"))
    first = opening(redacted(text.split("\n", 1)[0][: 4 * FIRST_CHARACTERS]).strip(), FIRST_CHARACTERS + len("..."))
    what = f"{count:,} {'line' if count == 1 else 'lines'}{beside_text(message)}"
    return f"{REMOVED}{what}; it began: {first}{hint(goal.recall, entry.id if entry is not None else '')}]"


def _shown_by_block(shown: Shown) -> bool:
    """Whether an earlier Block shows this message: then it is short already."""
    return shown.key[2] >= 0
