"""The laws of the fold as plain functions: each takes the View class to be judged and a log, and asserts.

The test files call them with the real `View` on generated and recorded sessions, `test_mutants.py` with broken ones.
Every function fails with the place where the fold and the law part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from tenfold.record.block import Block, Ref, Rep
from tenfold.record.entry import Attempt, Entry, Retraction, message_of
from tenfold.record.message import Message, Text, calls_of, result_of, text_of
from tenfold.view.path import Path
from tenfold.view.units import Shown
from tenfold.view.view import View
from tests.laws import oracle, strategies

Fold = type[View]
BYTES = msgspec.msgpack.Encoder()
PREFIX = 20


def whole_fold(fold: Fold, log: Sequence[Entry]) -> View:
    """The fold from the root."""
    return fold.of(Path(log))


def state(view: View) -> tuple[object, ...]:
    """All that a view says, as comparable values; messages as bytes."""
    units = tuple(BYTES.encode(unit) for unit in view.units)
    return view.length, view.refs, view.marks, view.step, units, BYTES.encode(view.messages())


def on(fold: Fold, view: View, path: Path) -> View:
    """The same view on another path object that begins alike, so that other views do not grow with it."""
    return fold(path, view.length, view.refs, *view.closed, view.step, view.marks)


# -- the oracle -------------------------------------------------------------------------------------------------------


def agrees_with_oracle(fold: Fold, log: Sequence[Entry]) -> None:
    """The fold shows what the naive fold predicts: units, messages, open step, live and refused Blocks, pins."""
    view, expected = whole_fold(fold, log), oracle.fold(log)
    assert [(u.first, u.last, u.ref) for u in view.units] == [(t.first, t.last, t.ref) for t in expected.tiles]
    for unit, tile in zip(view.units, expected.tiles, strict=True):
        assert_shows(unit.shown, tile.seen)
        assert unit.kind == kind_of(log, tile), f"unit {unit.first}-{unit.last} is called {unit.kind}"
    assert (view.step.first if view.step else None) == expected.open_first
    assert_shows(list(view.shown()), expected.seen())
    marks = view.marks
    assert (marks.live, marks.stale, marks.pins) == (expected.live, expected.refused, expected.pins)
    assert (marks.changed, marks.undone, marks.attempts) == (expected.changed, expected.undone, expected.attempts)
    assert [s.message for s in view.shown()] == view.messages()


def kind_of(log: Sequence[Entry], tile: oracle.Tile) -> str:
    """The kind a unit must have."""
    if tile.ref is not None:
        return "rep"
    head = message_of(log[tile.first])
    if head is None:
        return "silent"
    return "step" if head.role == "assistant" else "message"


def assert_shows(shown: Sequence[Shown], seen: Sequence[oracle.Seen]) -> None:
    """The messages are those predicted, one by one."""
    assert len(shown) == len(seen), f"{len(shown)} messages shown, {len(seen)} expected"
    for one, expected in zip(shown, seen, strict=True):
        assert one.at == expected.at, f"a {expected.what} message is said to come from {one.at}, not {expected.at}"
        match expected.what:
            case "original" | "kept":
                assert one.message == expected.message
                assert one.original, f"the message of {expected.of} is shown untouched but not marked so"
                assert one.of == expected.of
            case "said":
                assert one.message == expected.message
                assert not one.original, f"what the Block at {expected.at} says is marked as an original"
                assert one.of == expected.of
            case "marker" | "labelled" | "aborted":
                assert not one.original, f"the repair of {expected.at} is marked as an original"
                assert_repair(one.message, expected)


def assert_repair(message: Message, expected: oracle.Seen) -> None:
    """A repair has the role and origin that it must have, and quotes what it stands for."""
    if expected.what == "marker":
        held = result_of(message)
        assert held is not None, "a dangling call is answered by a tool message"
        assert held.call == expected.call
        assert any(isinstance(p, Text) and p.text for p in held.content), "the marker is visible"
        assert message.origin == "tenfold"
        return
    assert expected.message is not None
    assert not oracle.results_in(message)
    assert not calls_of(message)
    assert text_of(expected.message)[:PREFIX] in text_of(message)
    assert text_of(message) != text_of(expected.message), "a repair is labelled as such"
    if expected.what == "labelled":
        assert (message.role, message.origin) == ("user", "tool")
    else:
        assert (message.role, message.origin, message.status) == ("assistant", "tenfold", "ok")


# -- law 1 ------------------------------------------------------------------------------------------------------------


def folds_the_same_twice(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 1: equal logs give equal bytes."""
    assert state(whole_fold(fold, log)) == state(whole_fold(fold, tuple(log)))


def extends_as_it_folds(fold: Fold, log: Sequence[Entry], at: Collection[int] | None = None) -> None:
    """Law 1: a view extended entry by entry is the fold from the root at every prefix; older views stay as they were.

    `at` are the lengths at which to compare, for long logs; every one if None.
    """
    path = Path(())
    view = fold.of(path)
    seen: list[tuple[View, tuple[object, ...]]] = []
    for length, entry in enumerate(log, start=1):
        path.append(entry)
        view = view.extend([entry])
        if at is not None and length not in at:
            continue
        assert state(view) == state(whole_fold(fold, log[:length])), f"extend and fold part at entry {length - 1}"
        seen.append((view, state(view)))
    for older, before in seen:
        assert state(older) == before, f"the view of {older.length} entries changed after it was made"


def forks_apart(fold: Fold, log: Sequence[Entry], at: int) -> None:
    """Law 1: two futures of one view are the folds of their own paths."""
    head, rest = tuple(log[:at]), tuple(log[at:])
    desk = strategies.Desk(list(head))
    strategies.user(desk, 0, 0, 0)
    strategies.answer(desk, 0, 0, 0)
    strategies.user(desk, 0, 0, 0)
    other = tuple(desk.entries[at:])
    trunk = fold.of(Path(head))
    ends: list[tuple[View, tuple[Entry, ...]]] = []
    for future in (rest, other, rest):
        path = trunk.path.fork(at)
        for entry in future:
            path.append(entry)
        ends.append((on(fold, trunk, path).extend(future), (*head, *future)))
    for view, entries in ends:
        assert state(view) == state(whole_fold(fold, entries)), f"two futures of the view at {at} are mixed up"


def opens_from_snapshots(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 1: opening with the snapshot after each Block or retraction, at each later leaf, is the fold from the root.

    Refused Blocks from before the snapshot are the one thing a snapshot need not remember.
    """
    for taken in (n for n, e in enumerate(log, start=1) if isinstance(e, Block | Retraction)):
        view = whole_fold(fold, log[:taken])
        if view.marks.changed != taken - 1:
            continue
        snapshot = view.snapshot()
        assert fold.opened(snapshot, lazy(log[:taken])).snapshot() == snapshot
        for length in {taken, len(log)}:
            opened = fold.opened(snapshot, lazy(log[:length]))
            apart = fold.opened(snapshot, lazy(log[:length]), later=False).extend(log[taken:length])
            assert state(apart) == state(opened)
            assert remembered(opened) == remembered(whole_fold(fold, log[:length])), (
                f"the snapshot after {taken} entries"
            )


def lazy(log: Sequence[Entry]) -> Path:
    """A path that loads from the log what is asked of it, and knows nothing before."""
    return Path(length=len(log), load=lambda first, last: log[first : last + 1])


def remembered(view: View) -> tuple[object, ...]:
    """The state without the refused Blocks."""
    length, refs, _, step, units, messages = state(view)
    marks = view.marks
    return length, refs, step, units, messages, marks.live, marks.pins, marks.changed, marks.undone, marks.attempts


# -- law 2 ------------------------------------------------------------------------------------------------------------


def keeps_the_prefix(fold: Fold, log: Sequence[Entry], at: Collection[int] | None = None) -> None:
    """Law 2: between two requests without a Block or retraction, what was sent stays the beginning of what is sent.

    A request is what stands before an answer, at one of the lengths `at` (None: at all of them); the last one is
    checked against the leaf. A Block that was refused changes nothing, so it must not change the prefix either.
    """
    requests = [n for n, entry in enumerate(log) if is_answer(entry) and (at is None or n in at)]
    sent: list[bytes] | None = None
    changed = -1
    for length in [*requests, len(log)]:
        now = [BYTES.encode(m) for m in whole_fold(fold, log[:length]).messages()]
        changed_now = oracle.fold(log[:length]).changed
        if sent is not None and changed_now == changed:
            assert now[: len(sent)] == sent, f"the request before entry {length} does not begin with the one before it"
        sent, changed = now, changed_now


def is_answer(entry: Entry) -> bool:
    """Whether an entry is what a model gave back: a request was made right before it."""
    message = message_of(entry)
    return message is not None and message.role == "assistant"


# -- laws 5 and 12 ----------------------------------------------------------------------------------------------------


def reaches_every_original(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 5: walking down `covers` from each replaced range gives all its originals, in order, byte for byte."""
    view = whole_fold(fold, log)
    for unit in view.units:
        if unit.ref is None:
            continue
        positions = oracle.expanded(log, [unit.ref])
        assert positions == list(range(unit.first, unit.last + 1)), f"originals of {unit.first}-{unit.last} are lost"
        found = view.path.span(unit.first, unit.last)
        assert [BYTES.encode(e) for e in found] == [BYTES.encode(log[p]) for p in positions]


def tiles_every_position(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 12: units, and the refs of the view, and what each replacement covers, tile their ranges without a gap."""
    view = whole_fold(fold, log)
    ends = [(u.first, u.last) for u in view.units]
    if view.step is not None:
        ends.append((view.step.first, len(log) - 1))
        assert [p for p, _ in view.step.entries] == list(range(view.step.first, len(log)))
    assert_tiled(ends, 0, len(log) - 1)
    assert_refs(log, view.refs, 0, len(log) - 1)


def assert_refs(log: Sequence[Entry], refs: Sequence[Ref], first: int, last: int) -> None:
    """`refs` tile `first`..`last`, and so does what lies under each of them."""
    todo: list[tuple[Sequence[Ref], int, int]] = [(refs, first, last)]
    while todo:
        refs, first, last = todo.pop()
        assert_tiled([(r.first, r.last) for r in refs], first, last)
        for ref in refs:
            if isinstance(ref, Rep):
                entry = log[ref.block]
                assert isinstance(entry, Block)
                under = entry.replacements[ref.index]
                assert (under.first, under.last) == (ref.first, ref.last)
                todo.append((oracle.resolved(under.covers, ref.block), ref.first, ref.last))


def assert_tiled(ends: Sequence[tuple[int, int]], first: int, last: int) -> None:
    """The ranges follow each other from `first` to `last`: each position lies in exactly one."""
    expected = first
    for begin, end in ends:
        assert begin == expected, f"position {expected} lies in no range, or in two (next range begins at {begin})"
        assert end >= begin
        expected = end + 1
    assert expected == last + 1, f"position {expected} lies in no range"


# -- law 10 -----------------------------------------------------------------------------------------------------------


def undoes_each_block(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 10: retracting the newest live Block, again and again, gives the fold of the path without it each time.

    "Without it" is built for real: a path in which an entry that shows nothing stands in the Block's place. Blocks
    that were refused where they stand stay refused: silent entries stand for them too.
    """
    desk = strategies.Desk(list(log))
    live = oracle.fold(log).live
    while live:
        before = whole_fold(fold, desk.entries)
        strategies.undo(desk, 0, 0, 0)
        live = live[:-1]
        bare = whole_fold(fold, [e if keeps(e, p, live) else stand_in(e) for p, e in enumerate(desk.entries)])
        path = before.path.fork(before.length)
        path.append(desk.entries[-1])
        view = on(fold, before, path).extend([desk.entries[-1]])
        assert BYTES.encode(view.messages()) == BYTES.encode(bare.messages())
        assert BYTES.encode(view.units) == BYTES.encode(bare.units)
        assert view.refs == bare.refs
        assert view.marks.live == live


def keeps(entry: Entry, position: int, live: Sequence[int]) -> bool:
    """Whether an entry belongs on the path without what was undone or refused."""
    return position in live or not isinstance(entry, Block | Retraction)


def stand_in(entry: Entry) -> Entry:
    """A silent entry with the same id."""
    return Attempt(entry.id, entry.parent, entry.run, 0, "test", "nothing", "stands for a Block", 0, 0)


# -- law 14 -----------------------------------------------------------------------------------------------------------


def fits_later_leaves(fold: Fold, log: Sequence[Entry], block: Block, later: Sequence[Entry]) -> None:
    """Law 14: a Block planned on `log` fits after any messages that come between, and then shows what it planned."""
    early = whole_fold(fold, [*log, block])
    assert early.marks.live[-1:] == (len(log),), "the Block does not even apply where it was planned"
    for count in range(len(later) + 1):
        grown = whole_fold(fold, [*log, *later[:count]])
        assert grown.fits(block), f"a Block planned at {len(log)} is refused {count} entries later"
        applied = grown.path.fork(grown.length)
        applied.append(block)
        late = on(fold, grown, applied).extend([block])
        assert late.marks.live[-1:] == (len(log) + count,)
        for replacement in block.replacements:
            ours = shown_over(early, replacement.first, replacement.last)
            theirs = shown_over(late, replacement.first, replacement.last)
            assert ours == theirs, f"{replacement.first}-{replacement.last} is shown differently {count} entries later"


def shown_over(view: View, first: int, last: int) -> list[bytes]:
    """The messages of the units inside `first`..`last`, as bytes."""
    return [BYTES.encode(s.message) for u in view.units if first <= u.first and u.last <= last for s in u.shown]


def refuses_stale_blocks(fold: Fold, log: Sequence[Entry]) -> None:
    """Law 14: at every Block of the log, `fits` says what the oracle says; a refused one changes no message."""
    for position, entry in enumerate(log):
        if not isinstance(entry, Block):
            continue
        before, after = whole_fold(fold, log[:position]), whole_fold(fold, log[: position + 1])
        legal = position in oracle.fold(log[: position + 1]).live
        assert before.fits(entry) == legal, f"fits says {not legal} of the Block at {position}"
        if not legal:
            assert after.messages() == before.messages(), f"the refused Block at {position} changed the view"
            assert position in after.marks.stale


def names_whole_ranges(fold: Fold, log: Sequence[Entry]) -> None:
    """Laws 12 and 14: a range may be replaced iff it is whole closed units, and its slice is what the oracle sees."""
    view, expected = whole_fold(fold, log), oracle.fold(log)
    for first in range(len(log)):
        for last in range(first, len(log)):
            predicted = oracle.slice_of(expected.tiles, first, last)
            assert view.whole(first, last) == (predicted is not None), f"whole({first}, {last})"
            if predicted is not None:
                assert list(view.slice(first, last) or ()) == predicted, f"slice({first}, {last})"
    assert not view.whole(0, len(log)), "past the leaf there is nothing whole"
    assert view.slice(0, len(log)) is None, "past the leaf there is nothing to cover"
