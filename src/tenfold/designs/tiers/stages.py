"""The three tiers: limit every output, blank the old ones, and put one summary over everything older.

The first tier spares nothing, the second spares a number of messages. Each treats all its outputs, and then the view is
measured. What was said is worth more than what was printed, so the summary is written from tool work cut short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import build_summary
from tenfold.compaction.plan.stages.elide import elide_outputs
from tenfold.compaction.plan.stubs import REMOVED_PREFIX, describe_removed
from tenfold.compaction.summarize.ladder import WritingGenerator
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import (
    Document,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_result,
)
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.view.units import MessageKey, VisibleMessage


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


class SummarizeOlderStage(Struct, frozen=True):
    """Replaces everything before the newest messages by one summary of at most `max_summary_tokens`, and the facts.

    The newest `keep_recent_messages` are kept as whole steps, as far as the target has a budget for them. The rest of
    them is summarized too. The writer reads what earlier stages shortened in its shorter form.
    """

    keep_recent_messages: int = 12
    max_summary_tokens: int = 8_000
    name: ClassVar[str] = "summarize-older"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans the summary. Changes nothing where nothing lies before the newest messages."""
        first, kept = draft.floor_end, draft.measure_kept()
        allotment = goal.summary_overhead + goal.facts_budget + min(goal.narrative_budget, self.max_summary_tokens)
        size = TailSize(self.keep_recent_messages, budget=goal.target - draft.count_fixed(kept) - allotment)
        start = find_tail(draft, size, first, kept=kept).start
        covered = draft.pieces[first:start]
        if not any(s.key not in draft.protected for p in covered for s in p.get_visible_messages()):
            return draft
        piece = build_summary(draft, covered, kept, allotment)
        return draft.with_piece(first, replace(piece, shortened_messages=_collect_shortened(covered)), until=start)


def _collect_shortened(covered: Sequence[DraftPiece]) -> tuple[tuple[MessageKey, Message], ...]:
    """Returns the shorter forms that earlier stages gave to messages, one for one."""
    out: list[tuple[MessageKey, Message]] = []
    for piece in covered:
        shown = piece.get_visible_messages()
        if piece.is_changed and len(piece.shown_items) == len(shown):
            pairs = zip(shown, piece.shown_items, strict=True)
            out += [
                (s.key, show.message) for s, show in pairs if isinstance(show, Substitute) and show.message != s.message
            ]
    return tuple(out)


P = TypeVar("P", bound=Part)


class ShortInputWriter(Struct, frozen=True):
    """Writes one text by one call. Reasoning and tool outputs are cut to `output_bytes`, arguments to `argument_bytes`.

    `max_tokens` bounds the answer, whatever its share of the target.
    """

    output_bytes: int = 500
    argument_bytes: int = 200
    max_tokens: int = 8_000

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        items = tuple((at, self.shorten_message(message)) for at, message in job.items)
        task = replace(job.task, items=items, allotment=min(job.budget, self.max_tokens))
        return (yield from write_summary(task, job.settings, job.count))

    def shorten_message(self, message: Message) -> Message:
        """Returns the message with its tool work and reasoning cut. What was said stays whole."""
        if message.origin == "tool" and message.role != "tool":  # tool output in a user message
            return replace(message, parts=tuple(_cut_texts(message.parts, self.output_bytes)), native=None)
        return replace(message, parts=tuple(self._shorten_part(part) for part in message.parts), native=None)

    def _shorten_part(self, part: Part) -> Part:
        match part:
            case Thinking():
                return replace(part, text=excerpt(part.text, self.output_bytes, Keep.BYTE_ENDS))
            case ToolCall():
                return replace(part, arguments=excerpt(part.arguments, self.argument_bytes, Keep.BYTE_ENDS))
            case ToolResult():
                return replace(part, content=tuple(_cut_texts(part.content, self.output_bytes)))
            case _:
                return part


def _cut_texts(parts: tuple[P, ...], limit: int) -> list[P]:
    """Cuts the texts of the parts to `limit` bytes together."""
    out: list[P] = []
    for part in parts:
        text = part.text if isinstance(part, Text | Document) else ""
        out.append(replace(part, text=excerpt(text, limit, Keep.BYTE_ENDS)) if text else part)
        limit = max(0, limit - len(text.encode(errors="replace")))
    return out
