from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tenfold.meter.counters import Characters4, sizes
from tenfold.meter.reading import Sizes, Tally
from tenfold.record.block import Block, Replacement, Run, Say
from tenfold.record.entry import Entry, Retraction, Said
from tenfold.record.message import Message, Text, ToolCall, ToolResult
from tenfold.view.path import Path
from tenfold.view.view import View


class Counted:
    """Characters, with the number of texts it was asked for."""

    name = "counted"

    def __init__(self) -> None:
        self.asked = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        self.asked += len(texts)
        return [len(t) for t in texts]


def said(at: int, message: Message) -> Said:
    return Said(str(at), str(at - 1) if at else None, "r", at, message)


def user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def calls(*ids: str) -> Message:
    return Message("assistant", tuple(ToolCall(i, f"tool-{i * 3}", "{}") for i in ids), "model")


def answer(call: str) -> Message:
    return Message("tool", (ToolResult(call, "tool", (Text(call * 7),)),), "tool")


def truth(view: View, counter: Counted) -> int:
    return sum(sizes(view.messages(), counter))


def grown(view: View, entry: Entry) -> View:
    view.path.append(entry)
    return view.extend([entry])


MOVES = st.lists(st.sampled_from(["user", "one", "two", "answer", "foreign", "text", "block", "undo"]), max_size=30)


def entry_for(move: str, view: View, at: int) -> Entry:
    match move:
        case "one":
            return said(at, calls(f"c{at}"))
        case "two":
            return said(at, calls(f"c{at}", f"long-{at}"))
        case "answer" if view.step is not None and view.step.waiting:
            return said(at, answer(view.step.waiting[at % len(view.step.waiting)]))
        case "foreign":
            return said(at, answer("nobody"))
        case "text":
            return said(at, Message("assistant", (Text("t" * at),), "model"))
        case "block" if len(view.units) > 2 and view.slice(0, view.units[1].last):
            last = view.units[1].last
            covers = view.slice(0, last) or (Run(0, last),)
            shown = Replacement(0, last, covers, (Say(user("S" * at)),), "summary")
            return Block(str(at), None, "r", at, "p", "c", (shown,))
        case "undo" if view.marks.live:
            return Retraction(str(at), None, "r", at, view.path.at(view.marks.live[-1]).id)
        case _:
            return said(at, user("u" * at))


@given(MOVES)
def test_a_tally_equals_counting_everything_afresh(moves: list[str]) -> None:
    counter = Counted()
    tally = Tally(Sizes(counter))
    view = View.of(Path())
    views = [view]
    for at, move in enumerate(moves):
        view = grown(view, entry_for(move, view, at))
        assert tally(view) == truth(view, Counted())
        views.append(view)
    for older in reversed(views):
        assert tally(older) == truth(older, Counted())


def test_each_message_is_counted_once() -> None:
    counter = Counted()
    tally = Tally(Sizes(counter))
    view = View.of(Path())
    for at in range(200):
        view = grown(view, said(at, user("x" * at)))
        tally(view)
    assert counter.asked == 199, "every text but the empty one, once"
    tally(view)
    tally(View.of(view.path))
    assert counter.asked == 199


def test_known_sizes_are_not_counted_again() -> None:
    counter = Counted()
    known = Sizes(counter)
    view = View.of(Path([said(0, user("abc")), said(1, user("abcd"))]))
    known.know((0, 0, -1), 1_000)
    assert Tally(known)(view) == 1_000 + 4 + 4
    assert counter.asked == 1


def test_the_marker_of_an_open_step_is_counted_for_the_call_it_stands_for() -> None:
    tally = Tally(Sizes(Counted()))
    view = View.of(Path())
    for at, message in enumerate([calls("a", "bbbbbbbbbb"), user("meanwhile"), answer("a")]):
        view = grown(view, said(at, message))
        assert tally(view) == truth(view, Counted())


def test_a_fork_keeps_only_the_shared_sizes() -> None:
    shared = Sizes(Counted())
    shared.know((0, 0, -1), 10)
    shared.know((1, 0, -1), 20)
    left = shared.fork(1)
    view = View.of(Path([said(0, user("abc")), said(1, user("abcd"))]))
    assert left.each(list(view.shown())) == [10, 8]


def test_a_tally_works_with_a_real_counter() -> None:
    view = View.of(Path([said(0, user("a" * 400))]))
    assert Tally(Sizes(Characters4()))(view) == 104
