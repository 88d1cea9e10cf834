"""A session as a bar of tokens: every message a segment, those that are hidden marked, the Blocks over their ranges.

Everything here is arithmetic over positions and sizes. A bar has at most `MOST_SEGMENTS` segments, however long the
session is: neighbours are drawn as one where they would be too narrow to see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal

from msgspec import Struct

from tenfold.core.record.block import Block, BlockPart, KeptOriginal, Substitute
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.units import VisibleMessage
from tenfold.session import Session

MOST_SEGMENTS = 800
"""A bar is about this many pixels wide on a large screen, so more segments could not be told apart."""
MOST_READ = 4_000
"""Entries that are read to say whose message each segment is. In longer sessions the bar tells only what is seen."""
WIDTH = 1_000.0
"""The width of a bar in its own units."""

Seen = Literal["shown", "shortened", "replaced", "hidden", "summary"]
"""How an entry is seen: as it was, shortened, told by a summary of its range, not at all; or it is a summary itself."""


class Segment(Struct, frozen=True):
    """Positions `first` to `last`, drawn from `x` on, `width` wide. `who` is the role of its messages, "" if mixed."""

    first: int
    last: int
    tokens: int
    seen: Seen
    who: str
    x: float
    width: float


class BlockSpan(Struct, frozen=True):
    """A Block in force over the bar: the `number`th, on `row` of the lines that are drawn above it."""

    id: str
    number: int
    row: int
    first: int
    last: int
    x: float
    width: float
    policy: str
    before: int
    after: int


class Gauge(Struct, frozen=True):
    """How full the window is, in tokens as the provider counts. `fill` is a share of it, above 1 if it is exceeded.

    Each of the `marks` has a name, its tokens, and where it is drawn, from 0 to 1. `window` is 0 where nobody knows it.
    """

    tokens: int
    window: int = 0
    fill: float = 0.0
    marks: tuple[tuple[str, int, float], ...] = ()


class Timeline(Struct, frozen=True):
    """A session's bars on one scale: `whole` is what there is, `view` what the model sees."""

    tokens: Counted
    view_tokens: Counted
    entries: int
    whole: tuple[Segment, ...]
    view: tuple[Segment, ...]
    blocks: tuple[BlockSpan, ...]
    gauge: Gauge

    @property
    def share(self) -> float:
        """The share of the tokens that the model sees."""
        return self.view_tokens / self.tokens if self.tokens else 1.0


class _DrawnPiece(Struct):
    first: int
    last: int
    tokens: int
    seen: Seen
    who: str


class MeasuredSession(Struct, frozen=True):
    """A session together with what is known of each entry of its path: its size, and whether the model sees it.

    `substitutes` are what the model sees in place of messages, by their positions. `seen` are the messages of the view,
    and `places` says for each of its ranges which of them it shows, by their numbers from 0.
    """

    session: Session
    view: View
    sizes: list[Counted]
    states: list[Seen]
    substitutes: dict[int, list[Message]]
    seen: list[VisibleMessage]
    places: list[range]


def measure_session(session: Session) -> MeasuredSession:
    """Measures a session: O(path), so callers keep the result for as long as `session.view` is the same."""
    view = session.view
    substitutes: dict[int, list[Message]] = {}
    seen = list(view.get_visible_messages())
    for each in seen:
        if each.original_position is not None and not each.is_original:
            substitutes.setdefault(each.original_position, []).append(each.message)
    sizes, states = session.conversation.count_entries(), find_states(view)
    return MeasuredSession(session, view, sizes, states, substitutes, seen, locate_seen(view))


def locate_seen(view: View) -> list[range]:
    """Returns for each range of a view which of its messages it shows, by their numbers from 0."""
    counts = [0] * len(view.range_refs)
    at = 0
    for unit in view.units:
        while view.range_refs[at].last < unit.first:
            at += 1
        counts[at] += len(unit.visible_messages)
    if counts:  # the open step is the end of the path
        counts[-1] += sum(1 for _ in view.get_visible_messages()) - sum(counts)
    ends = list(accumulate(counts))
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def build_timeline(measured: MeasuredSession) -> Timeline:
    """Builds the bars of a session. It reads the entries themselves only where there are few."""
    session, view, sizes, states = measured.session, measured.view, measured.sizes, measured.states
    total = sum(sizes)
    roles = _read_roles(view) if view.length <= MOST_READ else {}
    whole = [_DrawnPiece(at, at, size, states[at], roles.get(at, "")) for at, size in enumerate(sizes) if size]
    shown_sizes = session.conversation.get_message_sizes()
    shown = [
        _DrawnPiece(
            each.position if each.original_position is None else each.original_position,
            each.position if each.original_position is None else each.original_position,
            shown_sizes[each.key],
            "shown" if each.is_original else "summary" if each.original_position is None else "shortened",
            each.message.role,
        )
        for each in view.get_visible_messages()
    ]
    view_tokens = sum(piece.tokens for piece in shown)
    scale = max(total, view_tokens, 1)
    return Timeline(
        Counted(total),
        Counted(view_tokens),
        view.length,
        tuple(draw_segments(whole, scale)),
        tuple(draw_segments(shown, scale)),
        tuple(draw_blocks(view, sizes, scale)),
        build_gauge(session),
    )


def find_states(view: View) -> list[Seen]:
    """Finds for every position whether the model sees it as it was, shortened, told by a summary, or not at all."""
    states: list[Seen] = ["hidden"] * view.length
    for ref in view.range_refs:
        if isinstance(ref, BlockPart):
            items = view.get_replacement(ref).shown_items
            if any(isinstance(item, Substitute) and item.original_position is None for item in items):
                states[ref.first : ref.last + 1] = ["replaced"] * (ref.last + 1 - ref.first)
            for item in items:
                if isinstance(item, KeptOriginal):
                    states[item.position] = "shown"
                elif item.original_position is not None and states[item.original_position] != "shown":
                    states[item.original_position] = "shortened"
        else:
            states[ref.first : ref.last + 1] = ["shown"] * (ref.last + 1 - ref.first)
    return states


def _read_roles(view: View) -> dict[int, str]:
    entries = enumerate(view.path.get_entries(0, view.length - 1)) if view.length else ()
    return {at: message.role for at, entry in entries if (message := get_message(entry)) is not None}


def draw_segments(pieces: Sequence[_DrawnPiece], scale: int) -> Iterable[Segment]:
    """Draws pieces beside one another, neighbours as one where they are narrower than a pixel would be.

    A segment of several tells of the state that most of its tokens are in.
    """
    least = scale / MOST_SEGMENTS if len(pieces) > MOST_SEGMENTS else 0
    x, tokens, group = 0.0, 0, list[_DrawnPiece]()
    for number, piece in enumerate(pieces):
        group.append(piece)
        tokens += piece.tokens
        if tokens < least and number + 1 < len(pieces):
            continue
        width = WIDTH * tokens / scale
        yield _draw_segment(group, tokens, round(x, 3), round(width, 3))
        x, tokens, group = x + width, 0, []


def _draw_segment(group: Sequence[_DrawnPiece], tokens: int, x: float, width: float) -> Segment:
    by_state = Counter[Seen]()
    for each in group:
        by_state[each.seen] += each.tokens
    ((seen, _),) = by_state.most_common(1)
    roles = {each.who for each in group}
    return Segment(group[0].first, group[-1].last, tokens, seen, roles.pop() if len(roles) == 1 else "", x, width)


def draw_blocks(view: View, sizes: Sequence[Counted], scale: int) -> Iterable[BlockSpan]:
    """Draws the Blocks in force, each over all that it covers, an older one below those that cover it."""
    starts = [0, *accumulate(sizes)]
    ends: list[float] = []  # of the last span in each row
    for number, position in enumerate(view.state.live_blocks, 1):
        block = view.path.get_entry(position)
        if not isinstance(block, Block) or not block.replacements:
            continue
        first = min(each.first for each in block.replacements)
        last = max(each.last for each in block.replacements)
        x, end = (WIDTH * starts[at] / scale for at in (first, last + 1))
        row = next((row for row, taken in enumerate(ends) if taken <= x), len(ends))
        ends[row : row + 1] = [end]
        before, after = block.sizes
        yield BlockSpan(block.id, number, row, first, last, round(x, 3), round(end - x, 3), block.policy, before, after)


def build_gauge(session: Session) -> Gauge:
    """Measures how full the model's window is, and where the policy warns, compacts and aims at."""
    call = session.compactor.build_call()
    reading = session.compactor.take_reading(call)
    if call.window is None:
        return Gauge(reading.tokens)
    limits = session.policy.get_limits(call.window, output_reserve=0, floor=reading.floor)
    named = (
        ("target", limits.target),
        ("warning", limits.warning),
        ("compacts at", limits.soft),
        ("limit", limits.hard),
    )
    marks = tuple((name, int(at), min(1.0, at / call.window)) for name, at in named)
    return Gauge(reading.tokens, call.window, reading.tokens / call.window, marks)


def list_substitutes(block: Block) -> list[Substitute]:
    """Lists what a Block shows in place of what it covers."""
    return [item for each in block.replacements for item in each.shown_items if isinstance(item, Substitute)]
