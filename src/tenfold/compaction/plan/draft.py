"""The draft that stages work on: the view's closed units as pieces, each with what would become of it.

Everything here is a value: a stage takes a Draft and returns another. Nothing here decides what to do; stages do that.
Nothing calls a model: a summary is a token budget that gets its text later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.protected import PROVIDER_COMPACTED, find_protected
from tenfold.core.record.block import BlockPart, KeptOriginal, Replacement, ShownItem, Substitute
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import NO_TOKENS, PLAIN_READING, Counted, Reading
from tenfold.core.view.fold import View
from tenfold.core.view.units import MessageKey, Unit, VisibleMessage, build_original_key
from tenfold.core.wire.marks import get_summary_text

RecallMode = Literal["none", "tool", "cli"]
VisibleMeasure = Callable[[Sequence[VisibleMessage]], list[Counted]]
"""Counts the tokens of messages in view, remembered by their keys."""
MessageMeasure = Callable[[Sequence[Message]], list[Counted]]
"""Counts the tokens of messages that are in no view yet."""

SUMMARY_OVERHEAD = Counted(80)
"""Tokens of the delimiter around a summary: tag, Block id, hash and message overhead (60 to 75 by o200k)."""


class Goal(Struct, frozen=True):
    """What a plan should reach. All sizes are tokens of the view, by the policy's counter.

    `target` is where it aims. Stages stop once the view is at `stage_target`, which is lower where facts that elision
    takes out of view still need a budget. The budgets: `tail_budget` for the recent messages that elision leaves alone,
    `user_budget` for user messages kept verbatim, `facts_budget` and `narrative_budget` for the two parts of a summary.
    `words_budget` is the part of the facts' budget for all that the user said, word for word. With `fills_room`, a
    summary may take what the target has left. `recall` is how stubs say that the original can be read.
    `summary_overhead` is what a summary takes without any text in it. `window` is the model's, if known.
    `has_model` says whether a model writes the summaries, and `focus` what they should dwell on. `exact` means that the
    caller named the target, so nothing may exceed it.
    """

    target: Counted
    stage_target: Counted
    tail_budget: Counted
    user_budget: Counted
    facts_budget: Counted
    narrative_budget: Counted
    words_budget: Counted = NO_TOKENS
    fills_room: bool = False
    recall: RecallMode = "none"
    summary_overhead: Counted = SUMMARY_OVERHEAD
    window: int | None = None
    has_model: bool = False
    focus: str = ""
    exact: bool = False

    @property
    def summary_budget(self) -> Counted:
        """The budget of a whole summary: facts and narrative. The delimiter is paid for out of the narrative."""
        return self.facts_budget + max(self.narrative_budget, self.summary_overhead)


SizedItem = tuple[ShownItem, Counted]
"""What a Block shows, and its tokens."""


class DraftPiece(Struct, frozen=True):
    """Whole units that are treated as one, and what would be shown for them. `units` are what is in view now.

    `kind` is "keep" while nothing changes. `protected_reason` says why no stage may change the piece ("" if one may).
    `summary_budget` is what a summary among `shown_items` may take; it counts in `tokens` although the text does not
    exist yet. `cut_positions` are where the policy's writer splits that text into parts. `shortened_messages` maps keys
    (`VisibleMessage.key`) to the shorter forms of messages from earlier stages, which the writer reads in their place.
    """

    units: tuple[Unit, ...]
    tokens_before: Counted
    tokens: Counted
    sizes: tuple[Counted, ...]
    kind: str = "keep"
    shown_items: tuple[ShownItem, ...] = ()
    reason: str = ""
    protected_reason: str = ""
    summary_budget: Counted = NO_TOKENS
    cut_positions: tuple[int, ...] = ()
    shortened_messages: tuple[tuple[MessageKey, Message], ...] = ()

    @property
    def first(self) -> int:
        """The position of its first entry."""
        return self.units[0].first

    @property
    def last(self) -> int:
        """The position of its last entry."""
        return self.units[-1].last

    @property
    def is_changed(self) -> bool:
        """Whether a Block would replace it."""
        return self.kind != "keep"

    @property
    def can_change(self) -> bool:
        """Whether a stage may show something else for it: it is not protected, and no summary is planned in it."""
        return not (self.protected_reason or self.summary_budget)

    @property
    def has_summary_text(self) -> bool:
        """Whether a message in it carries a summary, of a Block or from a host's list. Such a text is updated."""
        return any(get_summary_text(s.message) is not None for s in self.get_visible_messages())

    def get_visible_messages(self) -> list[VisibleMessage]:
        """Returns what is in view for it now."""
        return [s for unit in self.units for s in unit.visible_messages]

    def get_sized_items(self) -> list[SizedItem]:
        """Returns what would be shown for it, with tokens."""
        items = self.shown_items if self.is_changed else [to_shown_item(s) for s in self.get_visible_messages()]
        return list(zip(items, self.sizes, strict=True))

    def with_items(self, items: Sequence[SizedItem], kind: str, reason: str) -> DraftPiece:
        """Returns the piece with these items shown for it. A summary without text among them is to be written."""
        shown, sizes = tuple(item for item, _ in items), tuple(size for _, size in items)
        budget = sum((size for item, size in items if is_unwritten(item)), NO_TOKENS)
        size = sum(sizes, NO_TOKENS)
        return replace(
            self, kind=kind, shown_items=shown, sizes=sizes, tokens=size, reason=reason, summary_budget=budget
        )

    def with_more_budget(self, tokens: Counted, reason: str) -> DraftPiece:
        """Returns the piece with that many more tokens for the summary in it."""
        items = [(item, size + tokens * is_unwritten(item)) for item, size in self.get_sized_items()]
        return self.with_items(items, self.kind, reason)


class Draft(Struct, frozen=True):
    """Pieces that cover the closed units without gaps, oldest first, and the tokens of what no stage can touch.

    `fixed_tokens` is the open step and the `floor`, which is sent besides the view (a system prompt and tools).
    `protected` maps the keys of messages that must stay as they are to the reason; a summary over such a message keeps
    it, or what is in `excerpts` for it. `limit` is the size from which the trigger would act again, or the explicit
    target; None where neither is known. `reading` converts sizes, which are by the counter, for sentences: those have
    what the provider counts.
    """

    view: View
    pieces: tuple[DraftPiece, ...]
    fixed_tokens: Counted
    floor: Counted
    measure_visible: VisibleMeasure
    measure_messages: MessageMeasure
    protected: dict[MessageKey, str]
    limit: Counted | None = None
    excerpts: Mapping[MessageKey, tuple[Substitute, Counted]] = {}
    reading: Reading = PLAIN_READING

    @property
    def tokens(self) -> Counted:
        """The view's size if this were carried out, with each summary at its full budget."""
        return sum((p.tokens for p in self.pieces), self.fixed_tokens)

    @property
    def has_unwritten_summary(self) -> bool:
        """Whether a summary is to be written, which the facts then go into."""
        return any(p.summary_budget for p in self.pieces)

    @property
    def floor_end(self) -> int:
        """The index of the first piece after the leading system messages and silent pieces among them."""
        for index, piece in enumerate(self.pieces):
            if any(
                s.message.role != "system" or not s.is_original or s.key not in self.protected
                for s in piece.get_visible_messages()
            ):
                return index
        return len(self.pieces)

    def with_piece(self, index: int, piece: DraftPiece, *, until: int | None = None) -> Draft:
        """Returns the draft with one piece in place of the pieces `index` to `until` (exclusive; default: just one)."""
        end = index + 1 if until is None else until
        return replace(self, pieces=(*self.pieces[:index], piece, *self.pieces[end:]))

    def measure_items(self, messages: Sequence[VisibleMessage]) -> list[SizedItem]:
        """Returns these messages as items that a Block shows again, with tokens."""
        sized = zip(map(to_shown_item, messages), self.measure_visible(messages), strict=True)
        return [self.excerpts.get(shown.key, item) for shown, item in zip(messages, sized, strict=True)]

    def measure_substitute(self, message: Message, original_position: int | None = None) -> tuple[Substitute, Counted]:
        """Returns a new message as an item, with tokens. `original_position` is the one message it stands for."""
        return Substitute(message, original_position), self.measure_messages([message])[0]

    def measure_kept(self, user_budget: Counted = NO_TOKENS) -> dict[MessageKey, Counted]:
        """Returns the tokens of the messages after the floor that stay on whichever side of a cut they lie.

        These are the protected ones, and the newest of the user's own, as many as `user_budget` tokens hold.
        """
        kept: dict[MessageKey, Counted] = {}
        for piece in reversed(self.pieces[self.floor_end :]):
            shown = piece.get_visible_messages()
            for each, (_, size) in zip(reversed(shown), reversed(self.measure_items(shown)), strict=True):
                is_users = each.is_original and each.message.role == "user" and each.message.origin == "human"
                if each.key in self.protected:
                    kept[each.key] = size
                elif is_users and size <= user_budget:
                    kept[each.key] = size
                    user_budget -= size
        return kept

    def count_fixed(self, kept: Mapping[MessageKey, Counted]) -> Counted:
        """Counts what no cut takes out of view: floor, open step, leading system messages and the `kept` ones."""
        return sum((*(p.tokens for p in self.pieces[: self.floor_end]), *kept.values()), self.fixed_tokens)


SUMMARY = "summary"
"""The kind of a replacement by a summary."""
UNWRITTEN_SUMMARY = Message("user", (Text(""),), "tenfold")
"""Marks the place, once in a piece's `shown_items`, of a summary whose text does not exist yet."""
MINIMAL_SUMMARY_TOKENS = Counted(120)
"""Tokens of the smallest useful summary. `itemize_least` reserves them."""


def is_unwritten(item: ShownItem) -> bool:
    """Whether an item is the place of a summary whose text does not exist yet."""
    return isinstance(item, Substitute) and item.message is UNWRITTEN_SUMMARY


def find_unwritten(shown_items: Sequence[ShownItem]) -> int:
    """Returns the index of `UNWRITTEN_SUMMARY` among these items."""
    return next(i for i, s in enumerate(shown_items) if is_unwritten(s))


def join_pieces(pieces: Sequence[DraftPiece], items: Sequence[SizedItem], kind: str, reason: str) -> DraftPiece:
    """Joins neighbouring pieces into one, shown as these items. The Block's level follows from what it covers."""
    units = tuple(u for p in pieces for u in p.units)
    joined = DraftPiece(units, sum((p.tokens_before for p in pieces), NO_TOKENS), NO_TOKENS, ())
    return joined.with_items(items, kind, reason)


def start_draft(
    view: View, measure_visible: VisibleMeasure, measure_messages: MessageMeasure, *, floor: Counted = NO_TOKENS
) -> Draft:
    """Builds the draft that changes nothing. `floor` counts what is sent besides the view: system prompt, tools."""
    units = list(view.units)
    shown = [s for unit in units for s in unit.visible_messages]
    sizes = iter(measure_visible(shown))
    protected = find_protected(view)
    pieces: list[DraftPiece] = []
    for unit in units:
        own = tuple(next(sizes) for _ in unit.visible_messages)
        size = sum(own, NO_TOKENS)
        reasons = (protected[s.key] for s in unit.visible_messages if s.key in protected)
        reason = "" if unit.block_part else next(reasons, "")
        pieces.append(DraftPiece((unit,), size, size, own, protected_reason=reason))
    everything = list(view.get_visible_messages())
    rest = sum(measure_visible(everything[len(shown) :]), floor)
    return Draft(view, tuple(pieces), rest, floor, measure_visible, measure_messages, protected)


def find_unanswered_step(draft: Draft) -> int | None:
    """Returns the index of the newest step, None if an answer follows its results or nothing in it is a result.

    Words of a user may follow: those that were typed while the tool ran.
    """
    for index in reversed(range(len(draft.pieces))):
        shown = draft.pieces[index].get_visible_messages()
        if any(s.message.role == "assistant" for s in shown):
            is_step = all(s.is_original for s in shown) and any(s.message.role == "tool" for s in shown)
            return index if is_step else None
    return None


def itemize_least(draft: Draft) -> dict[str, Counted]:
    """Returns what no compaction can go below, as items with their tokens.

    The items are the floor, protected messages, the open step and one minimal summary.
    """
    out: dict[str, Counted] = {"given apart": draft.floor} if draft.floor else {}
    for piece in draft.pieces:
        for shown, size in zip(piece.get_visible_messages(), piece.sizes, strict=True):
            reason = draft.protected.get(shown.key)
            if reason:
                out[reason] = out.get(reason, NO_TOKENS) + size
    if draft.fixed_tokens > draft.floor:
        out["open step"] = draft.fixed_tokens - draft.floor
    out["summary"] = MINIMAL_SUMMARY_TOKENS
    return out


def to_shown_item(shown: VisibleMessage) -> ShownItem:
    """Returns what is in view in the form in which a Block shows it again. Originals stay originals."""
    if shown.is_original:
        return KeptOriginal(shown.position)
    return Substitute(shown.message, shown.original_position)


def is_summary_unit(view: View, unit: Unit) -> bool:
    """Whether a unit shows a range that a Block summarized. Kept messages and markers of a Block do not count."""
    return unit.block_part is not None and view.get_replacement(unit.block_part).kind == SUMMARY


def get_replacement_kind(draft: Draft, piece: DraftPiece) -> str:
    """Returns the kind of the replacement that a piece shows now, "keep" for originals."""
    ref = piece.units[0].block_part
    return "keep" if ref is None else draft.view.get_replacement(ref).kind


def build_replacements(draft: Draft) -> tuple[Replacement, ...]:
    """Builds a Block's replacements from the changed pieces. `covers` is the visible slice of each."""
    out: list[Replacement] = []
    for piece in (_move_behind_compacted(draft, p) for p in draft.pieces if p.is_changed):
        covers = draft.view.get_slice(piece.first, piece.last)
        assert covers is not None, "pieces are whole units, so their ends never lie inside a replaced range"
        out.append(
            Replacement(
                piece.first,
                piece.last,
                covers,
                piece.shown_items,
                piece.kind,
                level=max(
                    (draft.view.get_replacement(c).level + 1 for c in covers if isinstance(c, BlockPart)), default=0
                ),
                sizes=piece.sizes,
                reason=piece.reason,
            )
        )
    return tuple(out)


def _move_behind_compacted(draft: Draft, piece: DraftPiece) -> DraftPiece:
    """Moves summaries behind a message that a provider compacted, since it reads nothing before that."""
    items = piece.get_sized_items()
    places = [i for i, (item, _) in enumerate(items) if _is_compacted(draft, item)]
    end = max(places, default=-1) + 1
    late = [each for each in items[:end] if isinstance(each[0], Substitute) and each[0].original_position is None]
    if not late:
        return piece
    early = [each for each in items[:end] if each not in late]
    order = [*early, *late, *items[end:]]
    return replace(piece, shown_items=tuple(item for item, _ in order), sizes=tuple(size for _, size in order))


def _is_compacted(draft: Draft, item: ShownItem) -> bool:
    if not isinstance(item, KeptOriginal):
        return False
    return draft.protected.get(build_original_key(item.position)) == PROVIDER_COMPACTED
