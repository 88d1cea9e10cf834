"""The draft that stages work on: the view's closed units as pieces, each with what would become of it.

Everything is a value: a stage takes a Draft and gives back another. Nothing here decides what to do; that is the
stages' part. Nothing calls a model: a summary is an allotment of tokens that will be filled later.
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
"""Tokens of messages in view, remembered by their keys."""
Weigh = Callable[[Sequence[Message]], list[int]]
"""Tokens of messages that are in no view yet."""


FRAME = 80
"""Tokens of the delimiter around a summary: tag, Block id, hash and the frame of a message (60 to 75 by o200k)."""


class Goal(Struct, frozen=True):
    """What a plan is to reach, in tokens of the view. All sizes by the policy's counter.

    `target` is where it aims, and stages stop once the view is at `stop` (lower than the target where room is needed
    for facts that elision takes out of view); `tail` the recent tokens that elision leaves alone; `users` the room for
    user messages kept verbatim; `facts` and `narrative` the allotments of a summary, `names` what of the facts' room is
    kept for names in use, and `depth` how many times as much as at a tenth that is; `fan_out` how many Blocks a level
    may hold; `recall` how stubs say that the original can be read; `frame` what a summary takes without any text in it;
    `window` the model's, where it is known; `asks` whether a model writes the summaries, and `focus` what they dwell
    on. `exact` says that the caller named the target, so that nothing may exceed it.
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
        """The allotment of a summary: facts and narrative, of which the delimiter takes its part, or that alone."""
        return self.facts + max(self.narrative, self.frame)


class Piece(Struct, frozen=True):
    """Whole units, and what would be shown for them. `units` are what is in view now.

    `kind` is "keep" while nothing changes. `held` says why no stage may touch it ("" if one may). `allotment` is what
    a summary among the shows may take, counted in `tokens` although its text does not exist yet. `cuts` are positions
    at which the policy's writer is to write that text in parts, `reads` what it reads in place of some messages (by
    `Shown.key`): the shorter forms that earlier stages gave them.
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
        """What is in view for it now."""
        return [s for unit in self.units for s in unit.shown]


class Draft(Struct, frozen=True):
    """Pieces that tile the closed units, oldest first, and the tokens of what no stage can touch.

    `rest` is the open step and the `floor`, which is sent besides the view (system prompt and tools given apart).
    `held` maps the messages (`Shown.key`) that must stay as they are to the reason; a summary over one keeps it.
    `limit` is the size from which the trigger would act again, or the explicit target; None where neither is known.
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
        """The view's size if this were carried out, summaries at their full allotment."""
        return self.rest + sum(p.tokens for p in self.pieces)

    def swap(self, index: int, piece: Piece, *, until: int | None = None) -> Draft:
        """The draft with pieces `index` to `until` (exclusive; default: that one) replaced by one."""
        end = index + 1 if until is None else until
        return replace(self, pieces=(*self.pieces[:index], piece, *self.pieces[end:]))


COMPACTED = "compacted by the provider"
"""Why a message is held in which a provider compacted the conversation itself."""
TO_BE_WRITTEN = Message("user", (Text(""),), "tenfold")
"""Stands in a piece's shows, once, for a summary whose text does not exist yet."""
MINIMAL_SUMMARY = 120
"""Tokens of the least useful summary: what `least` reserves for it."""


def place_to_write(show: Sequence[Show]) -> int:
    """The index of `TO_BE_WRITTEN` among the shows."""
    return next(i for i, s in enumerate(show) if isinstance(s, Say) and s.message is TO_BE_WRITTEN)


def start(view: View, sizer: Sizer, weigh: Weigh, *, floor: int = 0) -> Draft:
    """The draft that changes nothing. `floor` counts what is sent besides the view: system prompt, tools."""
    units = list(view.units)
    shown = [s for unit in units for s in unit.shown]
    sizes = iter(sizer(shown))
    held = held_messages(view)
    pieces: list[Piece] = []
    for unit in units:
        own = tuple(next(sizes) for _ in unit.shown)
        reasons = (held[s.key] for s in unit.shown if s.key in held)
        pieces.append(Piece((unit,), sum(own), sum(own), own, held="" if unit.ref else next(reasons, "")))
    everything = list(view.shown())
    rest = sum(sizer(everything[len(shown) :])) + floor
    return Draft(view, tuple(pieces), rest, floor, sizer, weigh, held)


def least(draft: Draft) -> dict[str, int]:
    """What no compaction can go below, itemised: floor, held messages, the open step and one minimal summary."""
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
    """What no stage may change: system messages, pins with the whole step they belong to, the current request.

    And the newest message in which a provider compacted the conversation itself, with its step: only that provider
    knows what it says.
    """
    held: dict[Key, str] = {}
    request: Shown | None = None
    compacted: dict[str, list[Shown]] = {}
    for unit in view.units:
        for group in _groups(unit):
            if any(s.original and s.at in view.marks.pins for s in group):
                held.update((s.key, "pinned") for s in group)
            made = native_compaction(group[0].message) if group[0].original else None
            if made is not None:
                compacted[made.bound] = group
        for shown in unit.shown:
            if not shown.original:
                continue
            if shown.message.role == "system" and shown.message.origin != "tenfold":
                held[shown.key] = "system prompt"
            elif shown.message.role == "user" and shown.message.origin == "human" and text_of(shown.message).strip():
                request = shown
    if request is not None:
        held.setdefault(request.key, "current request")
    for group in compacted.values():
        held.update((s.key, COMPACTED) for s in group)
    return held


def _groups(unit: Unit) -> list[list[Shown]]:
    groups: list[list[Shown]] = []
    for shown in unit.shown:
        if shown.message.role == "tool" and groups:
            groups[-1].append(shown)
        else:
            groups.append([shown])
    return groups


def as_show(shown: Shown) -> Show:
    """What is in view, as a Block would show it again: originals stay originals."""
    if shown.original:
        return Keep(shown.at)
    return Say(shown.message, shown.of)


def replaced_as(draft: Draft, piece: Piece) -> str:
    """The kind of the replacement that a piece shows now, "keep" for originals."""
    ref = piece.units[0].ref
    block = draft.view.path.at(ref.block) if ref is not None else None
    return block.replacements[ref.index].kind if ref is not None and isinstance(block, Block) else "keep"


def replacements(draft: Draft) -> tuple[Replacement, ...]:
    """The changed pieces as a Block's replacements, `covers` being the visible slice of each."""
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
    """The piece with what was written about its range after what a provider compacted: it reads nothing before that."""
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
    """How many Blocks lie under what covers this slice: 0 over originals."""
    levels = [0]
    for ref in covers:
        block = view.path.at(ref.block) if isinstance(ref, Rep) else None
        if isinstance(ref, Rep) and isinstance(block, Block):
            levels.append(block.replacements[ref.index].level + 1)
    return max(levels)
