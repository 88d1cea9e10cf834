"""What a run costs, and what its agent still saw at five moments of it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tenfold.testing.chats import count_total_tokens, render_view
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.bill import DEFAULT_PRICE_LISTS, get_prices
from tenfold_yardstick.cases import EvalSession
from tenfold_yardstick.players import PlayerFactory, Recording, UnchangedPlayer, build_recording
from tenfold_yardstick.replay import replay_session
from tenfold_yardstick.run_recall import MOMENTS, SizedPlayer, find_moments, see_run
from yardstick.scripts.played_views import show_default, show_thrift

WINDOW = 12_000
PLAYERS: dict[str, PlayerFactory] = {"tenfold": SizedPlayer, "thrift": partial(SizedPlayer, settings={"thrift": 1.0})}


@pytest.fixture(scope="module")
def recording() -> Recording:
    """A session of 60 steps. Each result names a file that the agent reads ten steps later."""
    chat: list[ChatMessage] = [{"role": "user", "content": "Read all the parts, one after the other."}]
    for n in range(60):
        path = f"lib/module_{max(0, n - 10)}/handler_{max(0, n - 10)}.py"
        call = {"name": "read_file", "arguments": json.dumps({"path": path})}
        said: ChatMessage = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"c{n}", "type": "function", "function": call}],
        }
        text = f"See lib/module_{n}/handler_{n}.py\n" + " ".join(f"value{n}x{at}" for at in range(90))
        chat += [said, {"role": "tool", "tool_call_id": f"c{n}", "content": text}]
    chat.append({"role": "assistant", "content": "All parts answer."})
    return build_recording(EvalSession("ports", tuple(chat), (), ()), prefix=1_000)


def test_there_are_five_moments_with_what_was_needed_from_then_on(recording: Recording) -> None:
    moments = find_moments(recording)
    assert len(moments) == MOMENTS
    assert all(each.facts for each in moments)


def test_a_run_without_compaction_shows_all_of_it_and_others_cost_less(recording: Recording) -> None:
    moments, prices = find_moments(recording), [get_prices(name) for name in DEFAULT_PRICE_LISTS]
    none = see_run(recording, moments, "none", UnchangedPlayer, window=WINDOW, prices=prices)
    assert none.present == none.needed == sum(len(each.facts) for each in moments)
    for name, build in PLAYERS.items():
        run = see_run(recording, moments, name, build, window=WINDOW, prices=prices)
        assert run.replay.compactions, name
        assert 0 < run.present <= run.needed, name
        assert run.replay.bills[0].total < none.replay.bills[0].total, name


def test_a_request_above_the_window_counts_as_one_that_fills_it(recording: Recording) -> None:
    """A bill of requests that no provider would have taken made every saving look larger than it was."""
    prices = [get_prices(name) for name in DEFAULT_PRICE_LISTS]
    build = partial(replay_session, recording, "none", UnchangedPlayer, window=WINDOW, prices=prices)
    whole, capped = build(), build(fills_window=True)
    assert capped.overflows == whole.overflows > 0
    assert max(capped.sizes) == WINDOW < max(whole.sizes)
    assert [min(size, WINDOW) for size in whole.sizes] == list(capped.sizes)
    assert 0 < capped.bills[0].total < whole.bills[0].total
    assert capped.bills[0].output == whole.bills[0].output


def test_what_a_run_shows_in_the_end_can_be_read_and_is_the_same_each_time(recording: Recording) -> None:
    past = recording.chat_messages[:-1]
    shown = show_thrift(past, 0)
    assert render_view(shown) == render_view(show_thrift(past, 0))
    assert count_total_tokens(shown) < count_total_tokens(past)
    assert render_view(show_default(past, 0)) == render_view(past), "the window is not near"
