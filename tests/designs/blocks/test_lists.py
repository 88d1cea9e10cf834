"""The in-memory strategy of `blocks`: the three levels over a list that belongs to no session."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Goal, start_draft
from tenfold.compaction.plan.stages.levels import DropBetweenStage
from tenfold.compaction.plan.stages.step_lines import build_step_line, build_user_line
from tenfold.compaction.plan.stubs import describe_step
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, Text, ToolCall, get_text
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.view.rules import check_messages
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.blocks import CompactionConfig, ContextConfig, compact_in_memory, compact_messages
from tenfold.designs.blocks.policy import blocks
from tenfold.session import Session
from tenfold.session.stateless import compact
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    count_view_tokens,
    get_texts,
    make_loop,
    make_session,
    make_turn,
    make_user_message,
)
from tests.designs.blocks.making import make_reply as answer
from tests.engine.making import build_view, make_measures
from tests.laws import conversations
from tests.laws.nearby import WIRES
from tests.laws.strategies import ENGINE, Log


def build_config(budget: int) -> ContextConfig:
    return ContextConfig(max_context_tokens=budget, system_prompt_tokens=0, token_counter=COUNTER)


def compact_by_levels(history: Sequence[Message], to: int) -> tuple[Session, set[str]]:
    """A list compacted by the levels, and the kinds of what replaced its ranges."""
    policy = blocks(COUNTER)
    session = make_session([history], replace(policy, stages=policy.in_memory_stages))
    outcome = session.compact(to=to)
    live = session.view.state.live_blocks
    made = session.view.path.get_entry(live[-1]) if live else None
    assert outcome.tokens_after <= max(to, outcome.target) or outcome.target_missed
    return session, {r.kind for r in made.replacements} if isinstance(made, Block) else set()


def test_what_fits_comes_back_unchanged_and_the_first_level_that_fits_wins() -> None:
    history = [m for n in range(12) for m in make_turn(n, lines=120)]
    whole = sum(len(get_text(m)) for m in history) // 4 + 1_000
    assert compact_messages(history, build_config(whole * 2)) == history
    before = count_view_tokens(make_session([history]))
    _, kinds = compact_by_levels(history, before * 6 // 10)
    assert kinds == {"cut-outputs"}, "the first level was enough"
    _, kinds = compact_by_levels(history, before * 3 // 10)
    assert "step-line" in kinds
    assert "drop-between" not in kinds, "the second was"
    _, kinds = compact_by_levels(history, before // 20)
    assert "drop-between" in kinds


def test_the_budget_is_the_window_less_the_system_prompt() -> None:
    history = make_loop(8)
    tokens = count_view_tokens(make_session([history]))
    fits = ContextConfig(max_context_tokens=tokens + 500, system_prompt_tokens=500, token_counter=COUNTER)
    assert compact_messages(history, fits) == history
    assert compact_messages(history, replace(fits, max_context_tokens=tokens + 499)) != history
    tight = replace(fits, max_context_tokens=400, system_prompt_tokens=500)
    assert len(compact_messages(history, tight)) < len(history), "a budget of 0, not of less"


def test_level_one_keeps_the_first_and_the_last_lines() -> None:
    hundred = "\n".join(str(n) for n in range(1, 101))
    cut = excerpt(hundred, 10, Keep.LINE_ENDS)
    rows = cut.split("\n")
    assert (rows[:5], rows[6:]) == (["1", "2", "3", "4", "5"], ["96", "97", "98", "99", "100"])
    assert "90" in rows[5]
    assert excerpt(hundred, 100, Keep.LINE_ENDS) == hundred
    odd = excerpt(hundred, 5, Keep.LINE_ENDS)
    assert odd.split("\n")[:2] == ["1", "2"]
    assert odd.split("\n")[3:] == ["98", "99", "100"]


def test_level_one_cuts_every_output_and_nothing_else() -> None:
    history = [m for n in range(12) for m in make_turn(n, lines=120)]
    session, _ = compact_by_levels(history, count_view_tokens(make_session([history])) * 6 // 10)
    shown = [m for m in session.view.get_messages() if m.role != "user"]
    assert [m for m in shown if m.role == "assistant"] == [m for m in history if m.role == "assistant"]
    results = [m for m in shown if m.role == "tool"]
    assert len(results) == 12
    assert all("[... 70 lines removed ...]" in get_text(m) for m in results)


def test_the_lines_for_lists_are_those_of_the_context_config() -> None:
    """The original's fields for lists are three; one that is stored and never read would change nothing here."""
    history = [m for n in range(12) for m in make_turn(n, lines=120)]
    short = replace(build_config(count_view_tokens(make_session([history])) * 6 // 10), tool_output_max_lines=10)
    results = [m for m in compact_messages(history, short) if m.role == "tool"]
    assert len(results) == 12
    assert all("[... 110 lines removed ...]" in get_text(m) for m in results)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (answer("I fixed it."), "[Summary] I fixed it."),
        (Message("assistant", (Text("a"), Text("b")), "model"), "[Summary] a b"),
        (
            Message("assistant", (ToolCall("1", "x"), ToolCall("2", "y")), "model"),
            "[Summary] x({}) -> no result; y({}) -> no result",
        ),
        (Message("assistant", (), "model"), "[Summary] [Assistant response]"),
    ],
)
def test_level_two_has_a_line_for_each_answer(message: Message, line: str) -> None:
    assert build_step_line([message]).line == line


def test_level_two_leaves_users_and_the_recent_messages_as_they_are() -> None:
    history = [
        make_user_message("Never push to main."),
        *(m for n in range(12) for m in make_turn(n)),
        make_user_message("And now?"),
        *make_turn(12),
    ]
    session, kinds = compact_by_levels(history, count_view_tokens(make_session([history])) * 5 // 10)
    assert kinds == {"step-line"}
    shown = [m for m in session.view.get_messages() if "<tenfold-summary" not in get_text(m)]
    assert shown[0] == history[0]
    assert shown[-11:] == history[-11:], "ten messages, extended to a whole step"
    earlier = get_texts(shown[1:-11])
    assert earlier == [f"[Summary] I look at part {n}." for n in range(len(earlier))]
    assert {m.role for m in shown[1:-11]} == {"user"}
    assert not any(m.role == "tool" for m in shown[:-11]), "results go with their answers"


def test_level_three_keeps_the_first_and_the_last_around_a_marker() -> None:
    history = [make_user_message(f"Note {n}: {FILLER * 3}") for n in range(120)]
    session, kinds = compact_by_levels(history, 4_000)
    shown = session.view.get_messages()
    assert kinds == {"drop-between"}
    assert shown[:2] == history[:2]
    assert shown[-10:] == history[-10:]
    assert get_text(shown[2]) == "[Context compacted: 108 messages removed to fit context window]"
    assert shown[2].role == "user"


def test_level_three_falls_back_to_the_newest_that_fit() -> None:
    history = [make_user_message(f"Note {n}: {FILLER * 3}") for n in range(120)]
    session, _ = compact_by_levels(history, 1_000)
    shown = session.view.get_messages()
    kept = [m for m in shown if m in history]
    assert kept == history[-len(kept) :]
    assert len(kept) < 10
    assert f"[Context compacted: {120 - len(kept)} messages removed]" in get_texts(shown)
    assert count_view_tokens(session) <= 1_000


def test_the_marker_of_level_three_is_paid_for() -> None:
    history = [make_user_message("go"), *(answer(f"note {n}") for n in range(400))]
    draft = start_draft(
        build_view(history), make_measures().token_cache.measure, lambda messages: measure_messages(messages, COUNTER)
    )
    for stop in range(60, 90):
        made = DropBetweenStage().apply(draft, Goal(stop, stop, 0, 0, 0, 0))
        assert stop - 10 < made.tokens <= stop


def test_a_plain_list_goes_through_the_levels_and_a_session_through_the_overlay() -> None:
    rows = [
        {"role": m.role, "content": get_text(m)}
        for m in [make_user_message("go"), *(answer(FILLER * 9) for _ in range(80))]
    ]
    made = compact(rows, to=3_000, policy="blocks")
    assert made.outcome.status == "compacted"
    assert any("[Context compacted: " in json.dumps(m) for m in made.messages)
    session = make_session([[make_user_message("go"), *(answer(FILLER * 9) for _ in range(80))]])
    session.compact(to=3_000)
    assert not any("[Context compacted: " in text for text in get_texts(session.view.get_messages()))
    assert compact_in_memory(make_loop(2), build_config(10**6)) == make_loop(2)


class Halves:
    """An in-memory strategy of one's own."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        return list(messages[len(messages) // 2 :])


def test_the_configured_in_memory_strategy_is_the_one_that_runs() -> None:
    own = ContextConfig(max_context_tokens=500, compaction=CompactionConfig(in_memory_strategy=Halves()))
    assert compact_in_memory(make_loop(2), own) == make_loop(2)[2:]
    assert compact_in_memory(make_loop(2), replace(own, max_context_tokens=50_000)) == make_loop(2), "it does not fire"


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(5, 90))
def test_no_level_parts_a_call_from_its_result(log: Log, percent: int) -> None:
    """The original cuts by message count: results without calls, calls without results, and turn ids are lost."""
    policy = blocks(COUNTER, keep_first=3, keep_recent=3, tool_output_max_lines=4)
    session = conversations.open_session(log, replace(policy, stages=policy.in_memory_stages))
    session.compact(to=max(1, count_view_tokens(session) * percent // 100))
    for wire in WIRES:
        assert check_messages(session.view.get_messages(), wire) == []


@pytest.mark.parametrize("tokens", [83_500, 88_000, 95_000])
def test_what_fires_also_compacts_and_then_is_quiet(tokens: int) -> None:
    """The original fires at 81,000, but its in-memory strategy does nothing below 96,000: events without effect."""
    policy = blocks(COUNTER)
    history = [make_user_message("go"), *(answer(FILLER * 20) for _ in range(tokens // 470))]
    session = make_session([history], replace(policy, stages=policy.in_memory_stages))
    assert 81_000 <= count_view_tokens(session) < 96_000
    outcome = session.compact(window=100_000)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 40_000
    session.append(answer("ok"))
    assert session.compact(window=100_000).status == "nothing"


def test_a_long_text_is_cut_and_not_replaced_by_a_phrase() -> None:
    """The original turns every text of more than 200 bytes into "[Assistant response]"."""
    long = answer("The cause is the lock in store.py; " + FILLER * 5)
    line = describe_step(long)
    assert line.startswith("The cause is the lock in store.py; ")
    assert len(line.encode()) <= 200
    assert line.endswith("...")
    assert "[Assistant response]" not in line
    assert build_user_line(make_user_message("Use tabs.")).line == "[User] Use tabs."


def test_lines_and_markers_are_never_taken_for_the_users_words() -> None:
    steps = [answer(f"Always use port {n}; I must never change {n}. {FILLER * 6}") for n in range(60)]
    rows = [{"role": m.role, "content": get_text(m)} for m in [make_user_message("Never push to main."), *steps]]
    once = compact(rows, to=3_000, policy="blocks").messages
    more = [{"role": "user", "content": "Go on."}, *({"role": "assistant", "content": FILLER * 9} for _ in range(40))]
    twice = compact([*once, *more], to=1_200, policy="blocks")
    assert twice.outcome.status == "compacted"
    shown = "\n".join(str(m["content"]) for m in twice.messages)
    assert "Never push to main." in shown
    for heading in ("## Current request (user)", "## Rules (user)", "## Corrections (user)", "## Earlier requests"):
        assert "use port" not in shown.partition(heading)[2].partition("\n##")[0], heading


def test_a_summary_without_room_for_words_says_how_much_it_stands_for() -> None:
    """The original drops user messages without a word; a summary in view must not be empty either."""
    session = make_session([[make_user_message(f"note {n}: {FILLER}") for n in range(6)]])
    session.compact(to=count_view_tokens(session) * 28 // 100)
    inner = [t for m in session.view.get_messages() if (t := extract_summary_text(get_text(m))) is not None]
    kept = sum(m.origin == "human" for m in session.view.get_messages())
    assert inner == [f"({6 - kept} messages are not shown here)"]
