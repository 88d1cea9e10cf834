from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.meter.media_counts import MediaTokens
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.block import Block, Replacement, Run, Substitute
from tenfold.core.record.entry import Entry, MessageEntry, Retraction
from tenfold.core.record.message import Image, Message, Text, ToolCall, ToolResult
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tests.meter.pictures import encode, make_png


class CountingCounter:
    """Characters, with the number of texts it was asked for."""

    name = "counted"

    def __init__(self) -> None:
        self.asked = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        self.asked += len(texts)
        return [len(t) for t in texts]


def make_entry(at: int, message: Message) -> MessageEntry:
    return MessageEntry(str(at), str(at - 1) if at else None, "r", at, message)


def make_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_calls(*ids: str) -> Message:
    return Message("assistant", tuple(ToolCall(i, f"tool-{i * 3}", "{}") for i in ids), "model")


def make_result(call: str) -> Message:
    return Message("tool", (ToolResult(call, "tool", (Text(call * 7),)),), "tool")


def count_from_scratch(view: View, counter: CountingCounter) -> int:
    return sum(measure_messages(view.get_messages(), counter))


def extend_view(view: View, entry: Entry) -> View:
    view.path.append(entry)
    return view.extend([entry])


MOVES = st.lists(st.sampled_from(["user", "one", "two", "answer", "foreign", "text", "block", "undo"]), max_size=30)


def make_move_entry(move: str, view: View, at: int) -> Entry:
    match move:
        case "one":
            return make_entry(at, make_calls(f"c{at}"))
        case "two":
            return make_entry(at, make_calls(f"c{at}", f"long-{at}"))
        case "answer" if view.open_step is not None and view.open_step.waiting_calls:
            return make_entry(at, make_result(view.open_step.waiting_calls[at % len(view.open_step.waiting_calls)]))
        case "foreign":
            return make_entry(at, make_result("nobody"))
        case "text":
            return make_entry(at, Message("assistant", (Text("t" * at),), "model"))
        case "block" if len(view.units) > 2 and view.get_slice(0, view.units[1].last):
            last = view.units[1].last
            covers = view.get_slice(0, last) or (Run(0, last),)
            shown = Replacement(0, last, covers, (Substitute(make_user("S" * at)),), "summary")
            return Block(str(at), None, "r", at, "p", "c", (shown,))
        case "undo" if view.state.live_blocks:
            return Retraction(str(at), None, "r", at, view.path.get_entry(view.state.live_blocks[-1]).id)
        case _:
            return make_entry(at, make_user("u" * at))


@given(MOVES)
def test_a_tally_equals_counting_everything_afresh(moves: list[str]) -> None:
    counter = CountingCounter()
    tally = RunningTotal(TokenCache(counter))
    view = View.from_path(Path())
    views = [view]
    for at, move in enumerate(moves):
        view = extend_view(view, make_move_entry(move, view, at))
        assert tally(view) == count_from_scratch(view, CountingCounter())
        views.append(view)
    for older in reversed(views):
        assert tally(older) == count_from_scratch(older, CountingCounter())


def test_each_message_is_counted_once() -> None:
    counter = CountingCounter()
    tally = RunningTotal(TokenCache(counter))
    view = View.from_path(Path())
    for at in range(200):
        view = extend_view(view, make_entry(at, make_user("x" * at)))
        tally(view)
    assert counter.asked == 199, "every text but the empty one, once"
    tally(view)
    tally(View.from_path(view.path))
    assert counter.asked == 199


def test_known_sizes_are_not_counted_again() -> None:
    counter = CountingCounter()
    known = TokenCache(counter)
    view = View.from_path(Path([make_entry(0, make_user("abc")), make_entry(1, make_user("abcd"))]))
    known.add((0, 0, -1), Counted(1_000))
    assert RunningTotal(known)(view) == 1_000 + 4 + 4
    assert counter.asked == 1


def test_the_marker_of_an_open_step_is_counted_for_the_call_it_stands_for() -> None:
    tally = RunningTotal(TokenCache(CountingCounter()))
    view = View.from_path(Path())
    for at, message in enumerate([make_calls("a", "bbbbbbbbbb"), make_user("meanwhile"), make_result("a")]):
        view = extend_view(view, make_entry(at, message))
        assert tally(view) == count_from_scratch(view, CountingCounter())


def test_a_fork_keeps_only_the_shared_sizes() -> None:
    shared = TokenCache(CountingCounter())
    shared.add((0, 0, -1), Counted(10))
    shared.add((1, 0, -1), Counted(20))
    left = shared.fork(1)
    view = View.from_path(Path([make_entry(0, make_user("abc")), make_entry(1, make_user("abcd"))]))
    assert left.measure(list(view.get_visible_messages())) == [10, 8]


def test_a_tally_works_with_a_real_counter() -> None:
    view = View.from_path(Path([make_entry(0, make_user("a" * 400))]))
    assert RunningTotal(TokenCache(CharacterCounter()))(view) == 104


def make_picture(width: int, height: int) -> Message:
    return Message("user", (Image("image/png", encode(make_png(width, height))),), "human")


def test_what_is_not_text_is_added_up_with_its_bounds() -> None:
    tally = RunningTotal(TokenCache(CharacterCounter(model="claude-sonnet-4-5")))
    view = View.from_path(Path())
    assert tally.measure_media(view) == MediaTokens()
    linked = Message("user", (Image(url="https://e.org/a.png"),), "human")
    for at, message in enumerate([make_picture(280, 280), make_user("text"), linked, make_calls("a", "b")]):
        view = extend_view(view, make_entry(at, message))
        tally.measure_media(view)
    assert tally.measure_media(view) == MediaTokens.build(1_668, 101, 1_668, 1)
    shown = Message("tool", (ToolResult("a", "look", (Image("image/png", encode(make_png(28, 28))),)),), "tool")
    view = extend_view(view, make_entry(4, shown))
    assert tally.measure_media(view) == MediaTokens.build(1_669, 102, 1_669, 1)
    assert tally.measure_media(View.from_path(view.path)) == MediaTokens.build(1_669, 102, 1_669, 1)


def test_an_image_is_counted_by_the_rules_of_this_model_whatever_was_stored() -> None:
    view = View.from_path(Path([make_entry(0, make_picture(1_920, 1_080)), make_entry(1, make_user("abcd"))]))
    known = TokenCache(CharacterCounter(model="claude-opus-4-7"))
    known.add((0, 0, -1), Counted(1_604))
    known.add((1, 0, -1), Counted(5))
    assert RunningTotal(known)(view) == 2_691 + 4 + 5
    assert known.fork(1).measure(list(view.get_visible_messages()))[0] == 2_695
