"""The laws of the fold as plain functions: each takes the View class to be judged and a log, and asserts.

The test files call them with the real `View` on generated and recorded sessions, `test_mutants.py` with broken ones.
Every function fails with the place where the fold and the law part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block, BlockPart, RangeRef
from tenfold.core.record.entry import Attempt, Entry, Retraction, get_message
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.record.token_reading import NO_TOKENS
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.units import VisibleMessage
from tests.laws import oracle, strategies


class Counted(Struct):
    """The sizes of an Outcome by the policy's counter; the target is rounded up."""

    before: int
    after: int
    target: float


def get_counted(outcome: Outcome) -> Counted:
    """The sizes of an Outcome by the policy's counter, whichever unit it has."""
    before, after = outcome.reading_before, outcome.reading_after
    if before is None or after is None or outcome.tokens_before == before.estimate:
        return Counted(outcome.tokens_before, outcome.tokens_after, outcome.target)
    left = after.tokens if outcome.status == "compacted" else before.tokens
    assert (outcome.tokens_before, outcome.tokens_after) == (before.tokens, left)
    return Counted(before.estimate, after.estimate, (outcome.target + 0.5 - before.floor) / before.slope)


Fold = type[View]
BYTES = msgspec.msgpack.Encoder()
PREFIX = 20


def fold_from_root(fold: Fold, log: Sequence[Entry]) -> View:
    """The fold from the root."""
    return fold.from_path(Path(log))


def get_state(view: View) -> tuple[object, ...]:
    """All that a view says, as comparable values; messages as bytes."""
    units = tuple(BYTES.encode(unit) for unit in view.units)
    return view.length, view.range_refs, view.state, view.open_step, units, BYTES.encode(view.get_messages())


def with_path(fold: Fold, view: View, path: Path) -> View:
    """The same view on another path object that begins alike, so that other views do not grow with it."""
    return fold(path, view.length, view.range_refs, *view.closed_units, view.open_step, view.state)


# -- the oracle -------------------------------------------------------------------------------------------------------


def assert_agrees_with_oracle(fold: Fold, log: Sequence[Entry]) -> None:
    """The fold shows what the naive fold predicts: units, messages, open step, live and refused Blocks, pins."""
    view, expected = fold_from_root(fold, log), oracle.fold(log)
    assert [(u.first, u.last, u.block_part) for u in view.units] == [(t.first, t.last, t.ref) for t in expected.tiles]
    for unit, tile in zip(view.units, expected.tiles, strict=True):
        assert_shows(unit.visible_messages, tile.seen)
        assert unit.kind == get_expected_kind(log, tile), f"unit {unit.first}-{unit.last} is called {unit.kind}"
    assert (view.open_step.first if view.open_step else None) == expected.open_first
    assert_shows(list(view.get_visible_messages()), expected.get_seen())
    marks = view.state
    assert (marks.live_blocks, marks.stale_entries, marks.pins) == (expected.live, expected.refused, expected.pins)
    assert (marks.last_change, marks.undone, marks.attempts) == (expected.changed, expected.undone, expected.attempts)
    assert [s.message for s in view.get_visible_messages()] == view.get_messages()


def get_expected_kind(log: Sequence[Entry], tile: oracle.Tile) -> str:
    """The kind a unit must have."""
    if tile.ref is not None:
        return "rep"
    head = get_message(log[tile.first])
    if head is None:
        return "silent"
    return "step" if head.role == "assistant" else "message"


def assert_shows(shown: Sequence[VisibleMessage], seen: Sequence[oracle.Seen]) -> None:
    """The messages are those predicted, one by one."""
    assert len(shown) == len(seen), f"{len(shown)} messages shown, {len(seen)} expected"
    for one, expected in zip(shown, seen, strict=True):
        assert one.position == expected.at, (
            f"a {expected.what} message is said to come from {one.position}, not {expected.at}"
        )
        match expected.what:
            case "original" | "kept":
                assert one.message == expected.message
                assert one.is_original, f"the message of {expected.of} is shown untouched but not marked so"
                assert one.original_position == expected.of
            case "said":
                assert one.message == expected.message
                assert not one.is_original, f"what the Block at {expected.at} says is marked as an original"
                assert one.original_position == expected.of
            case "marker" | "labelled" | "aborted":
                assert not one.is_original, f"the repair of {expected.at} is marked as an original"
                assert_repair(one.message, expected)


def assert_repair(message: Message, expected: oracle.Seen) -> None:
    """A repair has the role and origin that it must have, and quotes what it stands for."""
    if expected.what == "marker":
        held = get_tool_result(message)
        assert held is not None, "a dangling call is answered by a tool message"
        assert held.call_id == expected.call
        assert any(isinstance(p, Text) and p.text for p in held.content), "the marker is visible"
        assert message.origin == "tenfold"
        return
    assert expected.message is not None
    assert not oracle.find_results(message)
    assert not get_tool_calls(message)
    assert get_text(expected.message)[:PREFIX] in get_text(message)
    assert get_text(message) != get_text(expected.message), "a repair is labelled as such"
    if expected.what == "labelled":
        assert (message.role, message.origin) == ("user", "tool")
    else:
        assert (message.role, message.origin, message.status) == ("assistant", "tenfold", "ok")


# -- law 1 ------------------------------------------------------------------------------------------------------------


def assert_folds_same_twice(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 1: equal logs give equal bytes."""
    assert get_state(fold_from_root(fold, log)) == get_state(fold_from_root(fold, tuple(log)))


def assert_extends_as_it_folds(fold: Fold, log: Sequence[Entry], at: Collection[int] | None = None) -> None:
    """Law 1: a view extended entry by entry is the fold from the root at every prefix; older views stay as they were.

    `at` are the lengths at which to compare, for long logs; every one if None.
    """
    path = Path(())
    view = fold.from_path(path)
    seen: list[tuple[View, tuple[object, ...]]] = []
    for length, entry in enumerate(log, start=1):
        path.append(entry)
        view = view.extend([entry])
        if at is not None and length not in at:
            continue
        assert get_state(view) == get_state(fold_from_root(fold, log[:length])), (
            f"extend and fold part at entry {length - 1}"
        )
        seen.append((view, get_state(view)))
    for older, before in seen:
        assert get_state(older) == before, f"the view of {older.length} entries changed after it was made"


def assert_forks_apart(fold: Fold, log: Sequence[Entry], at: int) -> None:
    """Law 1: two futures of one view are the folds of their own paths."""
    head, rest = tuple(log[:at]), tuple(log[at:])
    desk = strategies.Desk(list(head))
    strategies.play_user(desk, 0, 0, 0)
    strategies.play_answer(desk, 0, 0, 0)
    strategies.play_user(desk, 0, 0, 0)
    other = tuple(desk.entries[at:])
    trunk = fold.from_path(Path(head))
    ends: list[tuple[View, tuple[Entry, ...]]] = []
    for future in (rest, other, rest):
        path = trunk.path.fork(at)
        for entry in future:
            path.append(entry)
        ends.append((with_path(fold, trunk, path).extend(future), (*head, *future)))
    for view, entries in ends:
        assert get_state(view) == get_state(fold_from_root(fold, entries)), (
            f"two futures of the view at {at} are mixed up"
        )


def assert_opens_from_snapshots(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 1: opening with the snapshot after each Block or retraction, at each later leaf, is the fold from the root.

    Refused Blocks from before the snapshot are the one thing a snapshot need not remember.
    """
    for taken in (n for n, e in enumerate(log, start=1) if isinstance(e, Block | Retraction)):
        view = fold_from_root(fold, log[:taken])
        if view.state.last_change != taken - 1:
            continue
        snapshot = view.to_snapshot()
        assert fold.from_snapshot(snapshot, build_lazy_path(log[:taken])).to_snapshot() == snapshot
        for length in {taken, len(log)}:
            opened = fold.from_snapshot(snapshot, build_lazy_path(log[:length]))
            apart = fold.from_snapshot(snapshot, build_lazy_path(log[:length]), include_later=False).extend(
                log[taken:length]
            )
            assert get_state(apart) == get_state(opened)
            assert get_snapshot_state(opened) == get_snapshot_state(fold_from_root(fold, log[:length])), (
                f"the snapshot after {taken} entries"
            )


def build_lazy_path(log: Sequence[Entry]) -> Path:
    """A path that loads from the log what is asked of it, and knows nothing before."""
    return Path(length=len(log), load=lambda first, last: log[first : last + 1])


def get_snapshot_state(view: View) -> tuple[object, ...]:
    """The state without the refused Blocks."""
    length, refs, _, step, units, messages = get_state(view)
    marks = view.state
    return (
        length,
        refs,
        step,
        units,
        messages,
        marks.live_blocks,
        marks.pins,
        marks.last_change,
        marks.undone,
        marks.attempts,
    )


# -- law 2 ------------------------------------------------------------------------------------------------------------


def assert_keeps_prefix(fold: Fold, log: Sequence[Entry], at: Collection[int] | None = None) -> None:
    """Law 2: between two requests without a Block or retraction, what was sent stays the beginning of what is sent.

    A request is what stands before an answer, at one of the lengths `at` (None: at all of them); the last one is
    checked against the leaf. A Block that was refused changes nothing, so it must not change the prefix either.
    """
    requests = [n for n, entry in enumerate(log) if is_answer(entry) and (at is None or n in at)]
    sent: list[bytes] | None = None
    changed = -1
    for length in [*requests, len(log)]:
        now = [BYTES.encode(m) for m in fold_from_root(fold, log[:length]).get_messages()]
        changed_now = oracle.fold(log[:length]).changed
        if sent is not None and changed_now == changed:
            assert now[: len(sent)] == sent, f"the request before entry {length} does not begin with the one before it"
        sent, changed = now, changed_now


def is_answer(entry: Entry) -> bool:
    """Whether an entry is what a model gave back: a request was made right before it."""
    message = get_message(entry)
    return message is not None and message.role == "assistant"


# -- laws 5 and 12 ----------------------------------------------------------------------------------------------------


def assert_originals_reachable(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 5: walking down `covers` from each replaced range gives all its originals, in order, byte for byte."""
    view = fold_from_root(fold, log)
    for unit in view.units:
        if unit.block_part is None:
            continue
        positions = oracle.expand_refs(log, [unit.block_part])
        assert positions == list(range(unit.first, unit.last + 1)), f"originals of {unit.first}-{unit.last} are lost"
        found = view.path.get_entries(unit.first, unit.last)
        assert [BYTES.encode(e) for e in found] == [BYTES.encode(log[p]) for p in positions]


def assert_positions_tiled(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 12: no position of the log falls between, in the view or under a Block."""
    assert_view_tiled(fold_from_root(fold, log), log)


def assert_view_tiled(view: View, log: Sequence[Entry]) -> None:
    """Law 12: units, and the refs of the view, and what each replacement covers, tile their ranges without a gap."""
    ends = [(u.first, u.last) for u in view.units]
    if view.open_step is not None:
        ends.append((view.open_step.first, view.length - 1))
        assert [p for p, _ in view.open_step.entries] == list(range(view.open_step.first, view.length))
    assert_tiled(ends, 0, view.length - 1)
    assert_refs(log, view.range_refs, 0, view.length - 1)


def assert_refs(log: Sequence[Entry], refs: Sequence[RangeRef], first: int, last: int) -> None:
    """`refs` tile `first`..`last`, and so does what lies under each of them."""
    todo: list[tuple[Sequence[RangeRef], int, int]] = [(refs, first, last)]
    while todo:
        refs, first, last = todo.pop()
        assert_tiled([(r.first, r.last) for r in refs], first, last)
        for ref in refs:
            if isinstance(ref, BlockPart):
                entry = log[ref.block]
                assert isinstance(entry, Block)
                under = entry.replacements[ref.index]
                assert (under.first, under.last) == (ref.first, ref.last)
                todo.append((oracle.resolve_refs(under.covered_ranges, ref.block), ref.first, ref.last))


def assert_tiled(ends: Sequence[tuple[int, int]], first: int, last: int) -> None:
    """The ranges follow each other from `first` to `last`: each position lies in exactly one."""
    expected = first
    for begin, end in ends:
        assert begin == expected, f"position {expected} lies in no range, or in two (next range begins at {begin})"
        assert end >= begin
        expected = end + 1
    assert expected == last + 1, f"position {expected} lies in no range"


# -- law 10 -----------------------------------------------------------------------------------------------------------


def assert_blocks_undoable(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 10: retracting the newest live Block, again and again, gives the fold of the path without it each time.

    "Without it" is built for real: a path in which an entry that shows nothing stands in the Block's place. Blocks
    that were refused where they stand stay refused: silent entries stand for them too.
    """
    desk = strategies.Desk(list(log))
    live = oracle.fold(log).live
    while live:
        before = fold_from_root(fold, desk.entries)
        strategies.play_undo(desk, 0, 0, 0)
        live = live[:-1]
        bare = fold_from_root(
            fold, [e if is_kept(e, p, live) else make_placeholder(e) for p, e in enumerate(desk.entries)]
        )
        path = before.path.fork(before.length)
        path.append(desk.entries[-1])
        view = with_path(fold, before, path).extend([desk.entries[-1]])
        assert BYTES.encode(view.get_messages()) == BYTES.encode(bare.get_messages())
        assert BYTES.encode(view.units) == BYTES.encode(bare.units)
        assert view.range_refs == bare.range_refs
        assert view.state.live_blocks == live


def is_kept(entry: Entry, position: int, live: Sequence[int]) -> bool:
    """Whether an entry belongs on the path without what was undone or refused."""
    return position in live or not isinstance(entry, Block | Retraction)


def make_placeholder(entry: Entry) -> Entry:
    """A silent entry with the same id."""
    return Attempt(entry.id, entry.parent, entry.run, 0, "test", "nothing", "stands for a Block", NO_TOKENS, NO_TOKENS)


# -- law 14 -----------------------------------------------------------------------------------------------------------


def assert_fits_later_leaves(fold: Fold, log: Sequence[Entry], block: Block, later: Sequence[Entry]) -> None:
    """Law 14: a Block planned on `log` fits after any messages that come between, and then shows what it planned."""
    early = fold_from_root(fold, [*log, block])
    assert early.state.live_blocks[-1:] == (len(log),), "the Block does not even apply where it was planned"
    for count in range(len(later) + 1):
        grown = fold_from_root(fold, [*log, *later[:count]])
        assert grown.can_append(block), f"a Block planned at {len(log)} is refused {count} entries later"
        applied = grown.path.fork(grown.length)
        applied.append(block)
        late = with_path(fold, grown, applied).extend([block])
        assert late.state.live_blocks[-1:] == (len(log) + count,)
        for replacement in block.replacements:
            ours = encode_shown_range(early, replacement.first, replacement.last)
            theirs = encode_shown_range(late, replacement.first, replacement.last)
            assert ours == theirs, f"{replacement.first}-{replacement.last} is shown differently {count} entries later"


def encode_shown_range(view: View, first: int, last: int) -> list[bytes]:
    """The messages of the units inside `first`..`last`, as bytes."""
    return [
        BYTES.encode(s.message) for u in view.units if first <= u.first and u.last <= last for s in u.visible_messages
    ]


def assert_refuses_stale_blocks(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 14: at every Block of the log, `fits` says what the oracle says; a refused one changes no message."""
    for position, entry in enumerate(log):
        if not isinstance(entry, Block):
            continue
        before, after = fold_from_root(fold, log[:position]), fold_from_root(fold, log[: position + 1])
        legal = position in oracle.fold(log[: position + 1]).live
        assert before.can_append(entry) == legal, f"fits says {not legal} of the Block at {position}"
        if not legal:
            assert after.get_messages() == before.get_messages(), f"the refused Block at {position} changed the view"
            assert position in after.state.stale_entries


def assert_names_whole_ranges(fold: Fold, log: Sequence[Entry]) -> None:
    """Laws 12 and 14: a range may be replaced iff it is whole closed units, and its slice is what the oracle sees."""
    view, expected = fold_from_root(fold, log), oracle.fold(log)
    for first in range(len(log)):
        for last in range(first, len(log)):
            predicted = oracle.find_slice(expected.tiles, first, last)
            assert view.has_whole_units(first, last) == (predicted is not None), f"whole({first}, {last})"
            if predicted is not None:
                assert list(view.get_slice(first, last) or ()) == predicted, f"slice({first}, {last})"
    assert not view.has_whole_units(0, len(log)), "past the leaf there is nothing whole"
    assert view.get_slice(0, len(log)) is None, "past the leaf there is nothing to cover"
