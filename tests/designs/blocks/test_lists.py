"""Lists that belong to no session: the three levels of `blocks`, a strategy and a counter of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.blocks import (
    CompactionConfig,
    ContextConfig,
    DefaultCompaction,
    TokenCounter,
    build_policy,
    compact_in_memory,
    compact_messages,
    should_compact,
)
from tenfold.designs.blocks.lines import build_user_line, describe_step
from tenfold.designs.blocks.policy import blocks
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.session.stateless import compact
from tests.designs.blocks.making import (
    COUNTER,
    DEFAULT,
    FILLER,
    FULL,
    Halves,
    count_tokens,
    count_view_tokens,
    get_texts,
    make_loop,
    make_session,
    make_turn,
    make_user_message,
)
from tests.designs.blocks.making import make_reply as answer


def build_config(budget: int) -> ContextConfig:
    return ContextConfig(max_context_tokens=budget, system_prompt_tokens=0, token_counter=COUNTER)


def compact_by_levels(history: Sequence[Message], to: int) -> tuple[Session, set[str]]:
    """A list compacted by the levels, and the kinds of what replaced its ranges."""
    policy = blocks(COUNTER)
    session = make_session([history], policy.with_list_stages())
    outcome = session.compact(to=to)
    live = session.view.state.live_blocks
    made = session.view.path.get_entry(live[-1]) if live else None
    assert outcome.tokens_after <= max(to, outcome.target) or outcome.target_missed
    return session, {r.kind for r in made.replacements} if isinstance(made, Block) else set()


@pytest.mark.parametrize("method", [compact_messages, DefaultCompaction().compact, compact_in_memory])
def test_a_configuration_without_a_window_compacts_a_list(
    method: Callable[[Sequence[Message], ContextConfig | CompactionConfig], list[Message]],
) -> None:
    history = make_loop(300, lines=60)
    own = CompactionConfig(keep_first_turns=1, keep_recent_turns=3, tool_output_max_lines=20)
    alike = ContextConfig(compaction=own, keep_first=1, keep_recent=3, tool_output_max_lines=20)
    shorter = method(history, own)
    assert len(history) > len(shorter)
    for mine, same in (
        (shorter, method(history, alike)),
        (method(history, CompactionConfig()), method(history, ContextConfig())),
    ):
        assert [(m.role, len(get_text(m))) for m in mine] == [(m.role, len(get_text(m))) for m in same]
    assert should_compact(81_000, own)


def test_what_is_no_configuration_is_refused_with_what_is_one() -> None:
    with pytest.raises(UsageError, match=r"config is 5; give a ContextConfig or a CompactionConfig"):
        compact_messages([], 5)  # type: ignore[arg-type]


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


def test_what_fires_in_memory_also_compacts_and_what_does_not_fire_is_quiet() -> None:
    heard: list[object] = []
    made = compact_in_memory(FULL, DEFAULT, sender=heard.append)
    assert count_tokens(made) <= 40_000
    assert not should_compact(count_tokens(made), DEFAULT)
    assert compact_in_memory(made, DEFAULT, before_compaction_start=lambda *_: False, sender=heard.append) == made
    assert [type(e).__name__ for e in heard] == ["CompactionStarted", "CompactionEnded"]
    own = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Halves()))
    assert compact_in_memory(made, own, sender=heard.append) == made, "the same for a strategy of one's own"
    assert compact_in_memory(FULL, None, sender=heard.append) == FULL, "without a configuration compaction is off"
    assert len(heard) == 2


def test_in_a_small_window_more_is_left_than_nothing() -> None:
    """The assumed system prompt of 4,000 tokens would take all of it; the trigger takes it for a quarter."""
    small = replace(DEFAULT, max_context_tokens=4_000)
    made = compact_in_memory(FULL, small)
    assert 1_000 < count_tokens(made) <= 1_600


class Clears(Halves):
    """Shortens the list that it is given."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        assert isinstance(messages, list)
        del messages[10:]
        return messages


def test_a_strategy_is_given_a_copy() -> None:
    given = list(FULL)
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Clears()))
    assert compact_in_memory(given, config) == FULL[:10]
    assert given == FULL


class Words(TokenCounter):
    """An exact counter of one's own: a token is a word."""

    def estimate_text(self, text: str) -> int:
        return len(text.split())


def make_words(tokens: int) -> list[Message]:
    """Messages that take so many tokens with 4 for each."""
    whole, rest = divmod(tokens, 1_000)
    sizes = [1_000] * (whole - 1) + [1_000 + rest]
    return [make_user_message(" ".join(["word"] * (size - 4))) for size in sizes]


@pytest.mark.parametrize(("tokens", "fires"), [(80_000, False), (80_999, False), (81_000, True), (82_000, True)])
def test_with_a_counter_of_ones_own_it_fires_at_the_published_size(tokens: int, fires: bool) -> None:  # noqa: FBT001 - a table
    config = ContextConfig(token_counter=Words())
    assert should_compact(tokens, config) is fires
    session = make_session([make_words(tokens)], build_policy(config, COUNTER), model="some-model")
    reading = session.take_reading(window=100_000)
    assert (reading.tokens, reading.slope) == (tokens, 1.0)
    assert (session.compact(window=100_000).status == "compacted") is fires


@pytest.mark.parametrize("model", ["", "gpt-4o", "claude-opus-4-7", "some-model"])
def test_a_counter_of_ones_own_is_not_corrected_for_any_model(model: str) -> None:
    session = make_session([make_words(3_000)], blocks(Words()), model=model)
    reading = session.take_reading(window=100_000)
    assert reading.tokens == 3_000
    assert reading.evidence == ("counter of the caller",)
