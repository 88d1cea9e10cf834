"""Results that the model has just asked for stay whole in a compaction that is made before it sees them."""

from __future__ import annotations

from typing import Any

import pytest

import tenfold
from tenfold.session import Session
from tests.engine.test_hard_limit import open_session, write_words

Item = dict[str, Any]


def write_step(number: int, words: int) -> list[Item]:
    """A call and its result, whose first and last words nobody else writes."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": f'{{"part": {number}}}'}}
    text = f"It begins with {number}. {write_words(words)} It ends with {number}."
    return [
        {"role": "assistant", "content": f"I look at part {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def write_history(steps: int, words: int) -> list[Item]:
    history: list[Item] = [{"role": "user", "content": "Look at all the parts."}]
    for number in range(steps):
        history += write_step(number, words)
    return history


def send(session: Session, history: list[Item], window: int) -> list[Item]:
    return list(session.before_model({"messages": list(history)}, window=window)["messages"])


@pytest.mark.parametrize(("words", "window"), [(2_000, 40_000), (600, 8_000), (5_000, 20_000)])
def test_each_result_is_whole_when_the_model_sees_it_first(words: int, window: int) -> None:
    """A compaction at the trigger cut 10 KB to 1.5 KB, and the model had to read it again."""
    session, history = open_session("tenfold"), write_history(0, 0)
    compactions = 0
    for number in range(40):
        history += write_step(number, words)
        sent = send(session, history, window)
        assert sent[-2:] == history[-2:]
        compactions += sent[:-2] != history[: len(sent) - 2]
    assert compactions > 10


def test_what_was_answered_is_compacted_like_everything_else() -> None:
    session, history = open_session("tenfold"), write_history(20, 2_000)
    first = send(session, history, 40_000)
    assert "It ends with 19." in str(first)
    for number in range(20, 40):
        history += write_step(number, 2_000)
        send(session, history, 40_000)
    assert str(history[40]["content"]) not in str(send(session, history, 40_000))


def test_words_that_a_user_typed_while_the_tool_ran_do_not_count_as_an_answer() -> None:
    history = [*write_history(20, 2_000), {"role": "user", "content": "And be brief."}]
    sent = send(open_session("tenfold"), history, 40_000)
    assert sent[:-3] != history[:-3]
    assert sent[-3:] == history[-3:]


def test_results_of_more_than_half_of_the_limit_are_shown_by_head_and_tail() -> None:
    history = [*write_history(6, 2_000), *write_step(6, 24_000)]
    sent = send(open_session("tenfold"), history, 40_000)
    assert sent[-1] != history[-1]
    for words in ("It begins with 6.", "It ends with 6."):
        assert words in str(sent[-1])


@pytest.mark.parametrize(("words", "is_whole"), [(500, True), (4_000, False)])
def test_with_an_explicit_target_they_stay_whole_up_to_a_quarter_of_it(words: int, *, is_whole: bool) -> None:
    history = [*write_history(20, 1_000), *write_step(20, words)]
    view = tenfold.compact(history, to=4_000)
    assert view.outcome.tokens_after <= 4_000
    assert (view.messages[-1] == history[-1]) is is_whole


def test_the_target_grows_by_what_stays_whole_and_the_rest_is_as_large_as_without_it() -> None:
    """A large result takes no room away from what came before it, and gives it none."""
    before = write_history(0, 0)
    for number in range(120):
        before.append({"role": "assistant", "content": f"Part {number} holds {write_words(250)}"})
        before.append({"role": "user", "content": f"Then take part {number + 1}, and mind {write_words(40)}"})
    views = [tenfold.compact([*before, *write_step(20, words)], window=40_000) for words in (50, 8_000)]
    small, large = (view.outcome for view in views)
    assert not small.target_missed
    assert not large.target_missed
    assert large.target - small.target > 7_900
    assert [len(view.messages) for view in views] == [len(views[0].messages)] * 2, "the recent tail was 12 shorter"
    rests = [sum(len(str(message)) for message in view.messages[:-2]) for view in views]
    assert abs(rests[0] - rests[1]) < 0.05 * rests[0]
