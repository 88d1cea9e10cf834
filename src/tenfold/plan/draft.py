"""The draft that stages work on: the view's closed units as pieces, each with what would become of it.

Everything here is a value: a stage takes a Draft and returns another. Nothing here decides what to do; stages do that.
Nothing calls a model: a summary is a token budget that gets its text later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.block import Block, Keep, Ref, Rep, Replacement, Say, Show
from tenfold.record.message import Message, Text, native_compaction, text_of
from tenfold.view.units import Shown, Unit
from tenfold.view.view import View

Key = tuple[int, int, int]
Recall = Literal["none", "tool", "cli"]
Sizer = Callable[[Sequence[Shown]], list[int]]
"""Counts the tokens of messages in view, remembered by their keys."""
Weigh = Callable[[Sequence[Message]], list[int]]
"""Counts the tokens of messages that are in no view yet."""


FRAME = 80
"""Tokens of the delimiter around a summary: tag, Block id, hash and message overhead (60 to 75 by o200k)."""


class Goal(Struct, frozen=True):
    """What a plan should reach. All sizes are tokens of the view, by the policy's counter.

    `target` is where it aims. Stages stop once the view is at `stage_target`, which is lower where facts that elision
    takes out of view still need a budget. The budgets: `tail_budget` for the recent messages that elision leaves alone,
    `user_budget` for user messages kept verbatim, `facts_budget` and `narrative_budget` for the two parts of a summary.
    `names_budget` is the part of the facts' budget kept for names in use; `depth` is how many times larger that is than
    for a target of a tenth. `fan_out` is how many Blocks a level may hold. `recall` is how stubs say that the original
    can be read. `summary_overhead` is what a summary takes without any text in it. `window` is the model's, if known.
    `has_model` says whether a model writes the summaries, and `focus` what they should dwell on. `exact` means that the
    caller named the target, so nothing may exceed it.
    """

    target: int
    stop: int
    tail: int
    users: int
    facts: int
    narrative: int
    names: int = 0
    depth: float = 1.0
    fan_out: int = 4
    recall: Recall = "none"
    frame: int = FRAME
    window: int | None = None
    asks: bool = False
    focus: str = ""
    exact: bool = False

    @property
    def summary(self) -> int:
        """The budget of a whole summary: facts and narrative. The delimiter is paid for out of the narrative."""
        return self.facts + max(self.narrative, self.frame)


class Piece(Struct, frozen=True):
    """Whole units that are treated as one, and what would be shown for them. `units` are what is in view now.

    `kind` is "keep" while nothing changes. `protected_reason` says why no stage may change the piece ("" if one may).
    `summary_budget` is what a summary among `shown_items` may take; it counts in `tokens` although the text does not
    exist yet. `cut_positions` are where the policy's writer splits that text into parts. `shortened_messages` maps keys
    (`VisibleMessage.key`) to the shorter forms of messages from earlier stages, which the writer reads in their place.
    """

    units: tuple[Unit, ...]
    before: int
    tokens: int
    sizes: tuple[int, ...]
    kind: str = "keep"
    show: tuple[Show, ...] = ()
    why: str = ""
    held: str = ""
    allotment: int = 0
    level: int = 0
    cuts: tuple[int, ...] = ()
    reads: tuple[tuple[Key, Message], ...] = ()

    @property
    def first(self) -> int:
        """The position of its first entry."""
        return self.units[0].first

    @property
    def last(self) -> int:
        """The position of its last entry."""
        return self.units[-1].last

    @property
    def changed(self) -> bool:
        """Whether a Block would replace it."""
        return self.kind != "keep"

    def shown(self) -> list[Shown]:
        """Returns what is in view for it now."""
        return [s for unit in self.units for s in unit.shown]


class Draft(Struct, frozen=True):
    """Pieces that cover the closed units without gaps, oldest first, and the tokens of what no stage can touch.

    `fixed_tokens` is the open step and the `floor`, which is sent besides the view (a system prompt and tools).
    `protected` maps the keys of messages that must stay as they are to the reason; a summary over such a message keeps
    it. `limit` is the size from which the trigger would act again, or the explicit target; None where neither is known.
    """

    view: View
    pieces: tuple[Piece, ...]
    rest: int
    floor: int
    sizer: Sizer
    weigh: Weigh
    held: dict[Key, str]
    limit: int | None = None

    @property
    def tokens(self) -> int:
        """The view's size if this were carried out, with each summary at its full budget."""
        return self.rest + sum(p.tokens for p in self.pieces)

    def swap(self, index: int, piece: Piece, *, until: int | None = None) -> Draft:
        """Returns the draft with one piece in place of the pieces `index` to `until` (exclusive; default: just one)."""
        end = index + 1 if until is None else until
        return replace(self, pieces=(*self.pieces[:index], piece, *self.pieces[end:]))


COMPACTED = "compacted by the provider"
"""The reason for protecting a message in which a provider compacted the conversation itself."""
TO_BE_WRITTEN = Message("user", (Text(""),), "tenfold")
"""Marks the place, once in a piece's `shown_items`, of a summary whose text does not exist yet."""
MINIMAL_SUMMARY = 120
"""Tokens of the smallest useful summary. `itemize_least` reserves them."""


def place_to_write(show: Sequence[Show]) -> int:
    """Returns the index of `UNWRITTEN_SUMMARY` among these items."""
    return next(i for i, s in enumerate(show) if isinstance(s, Say) and s.message is TO_BE_WRITTEN)


def start(view: View, sizer: Sizer, weigh: Weigh, *, floor: int = 0) -> Draft:
    """Builds the draft that changes nothing. `floor` counts what is sent besides the view: system prompt, tools."""
    units = list(view.units)
    shown = [s for unit in units for s in unit.shown]
    sizes = iter(sizer(shown))
    protected = held_messages(view)
    pieces: list[Piece] = []
    for unit in units:
        own = tuple(next(sizes) for _ in unit.shown)
        reasons = (protected[s.key] for s in unit.shown if s.key in protected)
        pieces.append(Piece((unit,), sum(own), sum(own), own, held="" if unit.ref else next(reasons, "")))
    everything = list(view.shown())
    rest = sum(sizer(everything[len(shown) :])) + floor
    return Draft(view, tuple(pieces), rest, floor, sizer, weigh, protected)


def least(draft: Draft) -> dict[str, int]:
    """Returns what no compaction can go below, as items with their tokens.

    The items are the floor, protected messages, the open step and one minimal summary.
    """
    out: dict[str, int] = {"given apart": draft.floor} if draft.floor else {}
    for piece in draft.pieces:
        for shown, size in zip(piece.shown(), piece.sizes, strict=True):
            reason = draft.held.get(shown.key)
            if reason:
                out[reason] = out.get(reason, 0) + size
    if draft.rest > draft.floor:
        out["open step"] = draft.rest - draft.floor
    out["summary"] = MINIMAL_SUMMARY
    return out


def held_messages(view: View) -> dict[Key, str]:
    """Finds the messages that no stage may change, by key, with the reason.

    They are system messages, pinned messages with the whole step they belong to, and the current request. Also the
    newest message in which a provider compacted the conversation itself, with its step, because only that provider can
    read it.
    """
    protected: dict[Key, str] = {}
    request: Shown | None = None
    compacted: dict[str, list[Shown]] = {}
    for unit in view.units:
        for group in _groups(unit):
            if any(s.original and s.at in view.marks.pins for s in group):
                protected.update((s.key, "pinned") for s in group)
            compaction = native_compaction(group[0].message) if group[0].original else None
            if compaction is not None:
                compacted[compaction.bound] = group
        for shown in unit.shown:
            if not shown.original:
                continue
            if shown.message.role == "system" and shown.message.origin != "tenfold":
                protected[shown.key] = "system prompt"
            elif shown.message.role == "user" and shown.message.origin == "human" and text_of(shown.message).strip():
                request = shown
    if request is not None:
        protected.setdefault(request.key, "current request")
    for group in compacted.values():
        protected.update((s.key, COMPACTED) for s in group)
    return protected


def _groups(unit: Unit) -> list[list[Shown]]:
    groups: list[list[Shown]] = []
    for shown in unit.shown:
        if shown.message.role == "tool" and groups:
            groups[-1].append(shown)
        else:
            groups.append([shown])
    return groups


def as_show(shown: Shown) -> Show:
    """Returns what is in view in the form in which a Block shows it again. Originals stay originals."""
    if shown.original:
        return Keep(shown.at)
    return Say(shown.message, shown.of)


def replaced_as(draft: Draft, piece: Piece) -> str:
    """Returns the kind of the replacement that a piece shows now, "keep" for originals."""
    ref = piece.units[0].ref
    block = draft.view.path.at(ref.block) if ref is not None else None
    return block.replacements[ref.index].kind if ref is not None and isinstance(block, Block) else "keep"


def replacements(draft: Draft) -> tuple[Replacement, ...]:
    """Builds a Block's replacements from the changed pieces. `covers` is the visible slice of each."""
    out: list[Replacement] = []
    for piece in draft.pieces:
        if not piece.changed:
            continue
        piece = _behind_compacted(draft, piece)  # noqa: PLW2901 - the same piece, its shows in an order that is read
        covers = draft.view.slice(piece.first, piece.last)
        assert covers is not None, "pieces are whole units, so their ends never lie inside a replaced range"
        out.append(
            Replacement(
                piece.first,
                piece.last,
                covers,
                piece.show,
                piece.kind,
                level=max(piece.level, _level(draft.view, covers)),
                sizes=piece.sizes,
                why=piece.why,
            )
        )
    return tuple(out)


def _behind_compacted(draft: Draft, piece: Piece) -> Piece:
    """Moves summaries behind a message that a provider compacted, since it reads nothing before that."""
    places = [i for i, s in enumerate(piece.show) if isinstance(s, Keep) and _compacted(draft, s.position)]
    last = max(places, default=-1)
    late = [i for i in range(last) if isinstance(s := piece.show[i], Say) and s.of is None]
    if not late:
        return piece
    order = [i for i in range(last + 1) if i not in late] + late + list(range(last + 1, len(piece.show)))
    show, sizes = tuple(piece.show[i] for i in order), tuple(piece.sizes[i] for i in order)
    return replace(piece, show=show, sizes=sizes)


def _compacted(draft: Draft, position: int) -> bool:
    return draft.held.get((position, 0, -1)) == COMPACTED


def _level(view: View, covers: Sequence[Ref]) -> int:
    """Returns how many Blocks lie under what covers this slice: 0 over originals."""
    levels = [0]
    for ref in covers:
        block = view.path.at(ref.block) if isinstance(ref, Rep) else None
        if isinstance(ref, Rep) and isinstance(block, Block):
            levels.append(block.replacements[ref.index].level + 1)
    return max(levels)
