"""Shortens what would take the room of everything else: a request with a pasted document, a huge output just read.

And keeps what is worth its room as it is: the newest step, the beginning of the conversation.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from itertools import takewhile

from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, Goal, RecallMode, find_unanswered_step
from tenfold.compaction.plan.protected import CACHED_BEGINNING, CURRENT_REQUEST, UNANSWERED_STEP
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.compaction.plan.stubs import cut_attachments, render_hint_for
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import VisibleMessage

REQUEST_EXCERPT = "request-excerpt"
"""The kind of a replacement of the current request by its head and tail."""
_MIN_EXCERPT_TOKENS, _HINT_TOKENS = Counted(150), Counted(60)
"""The least that is shown of a request, and what the hint in it takes that says where to read the rest."""
_NEWEST_SHARE = 8
"""Which part of the target a newest output may take that would take too much room: less than the recent tail has."""


def count_shortenable_tokens(draft: Draft) -> Counted:
    """Counts the tokens that the shortest excerpt of the current request would save."""
    sizes = [
        size
        for piece in draft.pieces
        for shown, size in zip(piece.get_visible_messages(), piece.sizes, strict=True)
        if draft.protected.get(shown.key) == CURRENT_REQUEST and _is_text(shown.message)
    ]
    return sum((max(NO_TOKENS, size - _MIN_EXCERPT_TOKENS - _HINT_TOKENS) for size in sizes), NO_TOKENS)


def shorten_request(draft: Draft, budget: Counted, recall: RecallMode) -> Draft:
    """Returns the draft with head and tail in place of a current request of more than `budget` tokens.

    The excerpt says how much is left out and where to read it. A request with parts other than text stays as it is.
    """
    budget = max(budget, _MIN_EXCERPT_TOKENS)
    for index, piece in enumerate(draft.pieces):
        for shown, size in zip(piece.get_visible_messages(), piece.sizes, strict=True):
            if draft.protected.get(shown.key) == CURRENT_REQUEST and size > budget and _is_text(shown.message):
                item = draft.measure_substitute(
                    _build_excerpt(draft, shown, size, budget, recall), shown.original_position
                )
                if item[1] >= size:
                    return draft
                draft = replace(draft, excerpts={shown.key: item})
                changed = piece.with_items(
                    draft.measure_items(piece.get_visible_messages()),
                    REQUEST_EXCERPT,
                    "the request takes too much room",
                )
                return draft.with_piece(index, changed)
    return draft


def count_unanswered_tokens(draft: Draft) -> Counted:
    """Counts the tokens of the newest step if no answer follows its results, else 0."""
    index = find_unanswered_step(draft)
    return NO_TOKENS if index is None else draft.pieces[index].tokens


def keep_unanswered_step(draft: Draft) -> Draft:
    """Returns the draft in which no stage may change the newest step, if no answer follows its results.

    The model has just asked for them and has not seen them yet.
    """
    index = find_unanswered_step(draft)
    if index is None:
        return draft
    piece = draft.pieces[index]
    keys = {s.key: UNANSWERED_STEP for s in piece.get_visible_messages()}
    draft = replace(draft, protected=keys | draft.protected)
    return draft.with_piece(index, replace(piece, protected_reason=piece.protected_reason or UNANSWERED_STEP))


def keep_beginning(draft: Draft, budget: int) -> Draft:
    """Returns the draft in which no stage may change the first messages, as many whole steps as `budget` tokens hold.

    A provider's cache still holds them after the compaction, so they cost a tenth of what would stand in their place.
    What an earlier compaction has kept there stays, and what it has replaced ends them: with the output of a step, the
    call too.
    """
    first = draft.floor_end
    for index, piece in enumerate(draft.pieces[first:], first):
        shown = piece.get_visible_messages()
        originals = [*takewhile(lambda each: each[0].is_original, zip(shown, piece.sizes, strict=True))]
        results = map(get_tool_result, (each.message for each, _ in originals))
        answered = {result.call_id for result in results if result is not None}
        kept = [*takewhile(partial(_is_answered, answered), originals)]
        size = sum((tokens for _, tokens in kept), NO_TOKENS)
        if piece.is_changed or size > budget:
            return draft
        budget -= size
        keys = {each.key: CACHED_BEGINNING for each, _ in kept}
        draft = replace(draft, protected=keys | draft.protected)
        if len(kept) < len(shown):
            return draft
        if piece.units[0].block_part is None:
            reason = piece.protected_reason or (CACHED_BEGINNING if shown else "")
            draft = draft.with_piece(index, replace(piece, protected_reason=reason))
    return draft


def _is_answered(answered: Container[str], sized: tuple[VisibleMessage, Counted]) -> bool:
    return all(call.id in answered for call in get_tool_calls(sized[0].message))


def shorten_unanswered_outputs(draft: Draft, goal: Goal) -> Draft:
    """Returns the draft with head and tail in place of long outputs of such a step, where it is too large to be kept.

    Each says how much is left out and where to read it.
    """
    index = find_unanswered_step(draft)
    if index is None:
        return draft
    budget = max(goal.target // _NEWEST_SHARE, _MIN_EXCERPT_TOKENS)
    newest = replace(draft, pieces=draft.pieces[index : index + 1])
    (piece,) = TruncateOutputsStage(budget, budget // 4).apply(newest, goal).pieces
    return draft.with_piece(index, piece)


def _is_text(message: Message) -> bool:
    return all(isinstance(part, Text) for part in message.parts)


def _build_excerpt(draft: Draft, shown: VisibleMessage, size: Counted, budget: Counted, recall: RecallMode) -> Message:
    """Builds the excerpt from the original, also where an earlier excerpt of it is in view."""
    assert shown.original_position is not None
    original = get_message(draft.view.path.get_entry(shown.original_position)) or shown.message
    text = get_text(original)
    characters = len(get_text(shown.message)) * budget // size
    short = cut_attachments(text, characters, render_hint_for(draft, shown, recall))
    return Message("user", (Text(short),), "human")
