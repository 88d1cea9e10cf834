"""Around the preset `blocks`: check points, hooks, events, demands by hand, settings and focus."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.config.settings import load_settings
from tenfold.core.record.block import Block
from tenfold.designs.blocks import (
    AgentEnd,
    AgentStart,
    CompactionConfig,
    CompactionEnded,
    CompactionStarted,
    CompactionStrategy,
    ContextConfig,
    MessageDelta,
    SessionRecorder,
    TokenBudget,
    TokenCounter,
    compact_context,
    compact_in_memory,
    count_compacted_loops,
    get_loop_records,
    with_hooks,
)
from tenfold.designs.blocks.events import BeforeHook, LoopEvent
from tenfold.designs.blocks.policy import blocks
from tenfold.designs.blocks.stages import DropBetweenStage, OverlayStage
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.designs.blocks.making import (
    COUNTER,
    DEFAULT,
    FILLER,
    FULL,
    Halves,
    HookRecorder,
    Raises,
    count_tokens,
    count_view_tokens,
    get_newest_block,
    get_texts,
    make_loop,
    make_reply,
    make_session,
    make_turn,
)

WINDOW = 10_000


def make_full_session() -> Session:
    """Two loops that fill most of a window."""
    session = make_session([make_loop(6), make_loop(18, start=20)])
    assert 0.85 * WINDOW < count_view_tokens(session) < 1.4 * WINDOW
    return session


def test_it_is_checked_before_each_call_after_what_was_queued() -> None:
    assert blocks(COUNTER).checks == ("before_call",)
    rows: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    session = make_session([])
    fired: list[bool] = []
    for _ in range(14):
        rows += [{"role": "assistant", "content": FILLER * 30}, {"role": "user", "content": FILLER * 5}]
        session.before_model({"model": "m", "messages": rows}, window=WINDOW)
        assert session.outcome is not None
        fired.append(session.outcome.status == "compacted")
        if fired[-1]:
            break
    assert fired == [*[False] * (len(fired) - 1), True]
    asked = get_texts(session.view.get_messages())
    assert asked[-1] == FILLER * 5, "the queued message was synced before the check"


def test_hooks_and_events_come_in_the_published_order() -> None:
    session = make_full_session()
    assert with_hooks(session) == session.compactor.answerer, "blank by default"
    hooks = HookRecorder()
    session.compactor.use_answerer(
        with_hooks(
            session,
            before_compaction_start=hooks.record_before,
            after_compaction_end=hooks.record_after,
            sender=hooks.heard.append,
        )
    )
    tokens, messages = session.take_reading().tokens, len(session.view.get_messages())
    assert session.compact(window=WINDOW).status == "compacted"
    after = session.take_reading().tokens, len(session.view.get_messages())
    check_hooks_and_events(hooks, "run-2", (tokens, messages), after, loops=2)


@pytest.mark.parametrize("strategy", [None, Halves()])
def test_the_same_stands_around_the_in_memory_mode(strategy: CompactionStrategy | None) -> None:
    hooks = HookRecorder()
    made = compact_in_memory(
        FULL,
        replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=strategy)),
        loop_id="run-1",
        before_compaction_start=hooks.record_before,
        after_compaction_end=hooks.record_after,
        sender=hooks.heard.append,
    )
    assert count_tokens(made) < count_tokens(FULL) * 6 // 10
    before, after = ((count_tokens(messages), len(messages)) for messages in (FULL, made))
    check_hooks_and_events(hooks, "run-1", before, after, loops=0)


def check_hooks_and_events(
    hooks: HookRecorder, loop: str, before: tuple[int, int], after: tuple[int, int], *, loops: int
) -> None:
    """The hook before, the two events, the hook after, each with tokens and messages."""
    first, started, ended, last = hooks.heard
    assert first == ("before", *before)
    assert isinstance(started, CompactionStarted)
    assert isinstance(ended, CompactionEnded)
    assert (started.loop_id, started.estimated_tokens, started.message_count) == (loop, *before)
    assert (ended.estimated_tokens_before, ended.messages_before) == before
    assert (ended.estimated_tokens_after, ended.messages_after) == after
    assert (ended.loop_id, ended.loops_compacted) == (loop, loops)
    assert ended.timestamp >= started.timestamp > 0
    assert last == ("after", before[1], after[1], before[0], after[0])


async def refuse_slowly(_tokens: int, _messages: int) -> bool:
    await asyncio.sleep(0)
    return False


@pytest.mark.parametrize("hook", [lambda _tokens, _messages: False, refuse_slowly])
def test_a_before_hook_that_says_false_skips_this_one_without_events(hook: BeforeHook) -> None:
    session = make_full_session()
    heard: list[object] = []
    session.compactor.use_answerer(with_hooks(session, before_compaction_start=hook, sender=heard.append))
    held = session.view.get_messages()
    assert session.compact(window=WINDOW).status == "cancelled"
    assert (heard, session.view.get_messages()) == ([], held)
    session.compactor.use_answerer(Answerer())
    assert session.compact(window=WINDOW).status == "compacted", "only that time"
    assert compact_in_memory(FULL, DEFAULT, before_compaction_start=hook, sender=heard.append) == FULL
    assert heard == []


def test_a_hook_that_raises_is_reported_and_ignored() -> None:
    session = make_full_session()
    said_: list[str] = []
    session.compactor.use_answerer(Answerer(problem_reporter=said_.append))

    def raise_error(_tokens: int, _messages: int) -> bool:
        raise RuntimeError("no index")

    session.compactor.use_answerer(with_hooks(session, before_compaction_start=raise_error))
    assert session.compact(window=WINDOW).status == "compacted"
    assert "no index" in said_[0]


@pytest.mark.parametrize("how", ["session", "by hand", "list"])
def test_events_may_be_sent_to_a_coroutine(how: str) -> None:
    heard: list[str] = []

    async def send(event: LoopEvent) -> None:
        await asyncio.sleep(0)
        heard.append(type(event).__name__)

    session = make_full_session()
    if how == "session":
        session.compactor.use_answerer(with_hooks(session, sender=send))
        session.compact(window=WINDOW)
    elif how == "by hand":
        compact_context(session, ContextConfig(max_context_tokens=WINDOW), send)
    else:
        compact_in_memory(session.view.get_messages(), ContextConfig(max_context_tokens=2_000), sender=send)
    both = ["CompactionStarted", "CompactionEnded"]
    assert heard == (["AgentStart", *both, "AgentEnd"] if how == "by hand" else both)


def test_no_event_without_a_compaction() -> None:
    """The original emits Started and Ended on every call between 81 and 96 per cent, and nothing happens."""
    session = make_full_session()
    heard: list[LoopEvent] = []
    session.compactor.use_answerer(with_hooks(session, sender=heard.append))
    session.compact(window=WINDOW * 10)
    assert heard == []
    session.compact(window=WINDOW)
    session.append(make_reply("ok"), run="run-2")
    session.compact(window=WINDOW)
    assert [type(e).__name__ for e in heard] == ["CompactionStarted", "CompactionEnded"]


def test_loops_compacted_is_none_for_a_list_and_where_nothing_came_of_it() -> None:
    session = make_full_session()
    heard: list[LoopEvent] = []
    model = ScriptedModel([])
    policy = blocks(COUNTER, summary=with_prompts(SummarySettings(models=("m",), on_failure="abort")))
    session.compactor.use_policy(policy)
    session.compactor.use_answerer(Answerer(model=model))
    session.compactor.use_answerer(with_hooks(session, sender=heard.append))
    outcome = session.compact(window=session.take_reading(window=WINDOW).tokens * 10 // 9)
    assert outcome.status == "failed"
    assert count_compacted_loops(session, outcome) == 0
    started, ended = heard
    assert isinstance(started, CompactionStarted)
    assert isinstance(ended, CompactionEnded)
    assert ended.loops_compacted == 0
    assert ended.messages_before == ended.messages_after


def test_compact_context_says_of_how_many_loops() -> None:
    session = make_full_session()
    config = ContextConfig(max_context_tokens=WINDOW)
    assert compact_context(None, config) == compact_context(session, None) == 0
    assert compact_context(make_session([]), config) == 0
    assert compact_context(session, config) == 2
    assert compact_context(session, config) == 0, "nothing followed"


def test_compact_context_goes_by_the_window_of_its_configuration() -> None:
    session = make_session([make_loop(6), make_loop(18, start=20)], model="gpt-4o")
    assert compact_context(session, ContextConfig(max_context_tokens=WINDOW)) == 2
    assert count_view_tokens(session) <= WINDOW * 4 // 10


def test_compact_context_brackets_its_events_for_a_sender() -> None:
    session = make_full_session()
    heard: list[LoopEvent] = []
    before = session.compactor.answerer
    assert compact_context(session, ContextConfig(max_context_tokens=WINDOW), heard.append) == 2
    assert [type(e).__name__ for e in heard] == ["AgentStart", "CompactionStarted", "CompactionEnded", "AgentEnd"]
    assert heard[0] == AgentStart("run-2", "compaction")
    assert session.compactor.answerer is before
    assert compact_context(None, None, heard.append) == 0
    assert len(heard) == 4


class Doubled(TokenCounter):
    """Counts twice as much."""

    def estimate_text(self, text: str) -> int:
        return len(text) // 2


def test_a_demand_by_hand_goes_through_hooks_and_the_configured_counter() -> None:
    """The original's manual compaction ignores counter and hooks, and makes the last loop its own parent."""
    session = make_full_session()
    said_: list[int] = []

    def record_tokens(tokens: int, _messages: int) -> bool:
        said_.append(tokens)
        return True

    session.compactor.use_answerer(with_hooks(session, before_compaction_start=record_tokens))
    config = ContextConfig(max_context_tokens=WINDOW, token_counter=Doubled())
    assert compact_context(session, config) == 2
    assert said_[0] > 1.8 * count_view_tokens(make_full_session())
    assert get_newest_block(session).counter == Doubled().name
    assert [r.parent_loop_id for r in get_loop_records(session)] == [None, "run-1"]


def test_only_newly_made_blocks_are_counted_and_the_block_is_stored() -> None:
    """The original counts every block in the chain, and its recorder never stores the one just made."""
    session = make_full_session()
    heard: list[LoopEvent] = []
    session.compactor.use_answerer(with_hooks(session, sender=heard.append))
    session.compact(window=WINDOW)
    session.append(*[m for n in range(50, 65) for m in make_turn(n)], run="run-2")
    session.compact(window=WINDOW)
    ends = [e.loops_compacted for e in heard if isinstance(e, CompactionEnded)]
    assert ends == [2, 1]
    again = Session(session.address, session.policy)
    entries = again.view.path.get_entries(0, again.view.length - 1)
    assert sum(isinstance(e, Block) for e in entries) == 2
    assert get_loop_records(again) == get_loop_records(session)


def test_the_recorder_numbers_events_and_writes_messages_at_the_end() -> None:
    session = make_session([])
    recorder = SessionRecorder(session)
    recorder.record(AgentEnd("stray", tuple(make_loop(1))))
    recorder.record(AgentStart("a"))
    recorder.record(MessageDelta("a", "I loo"))
    assert session.view.get_messages() == [], "messages come with the end"
    recorder.record(AgentEnd("a", tuple(make_loop(2))))
    recorder.record(MessageDelta("a", "I"))
    recorder.record(AgentStart("b"))
    recorder.flush()
    recorder.record(AgentEnd("b", tuple(make_loop(2))))
    a, b = recorder.get_loops()
    assert a.events == ((1, "AgentStart"), (2, "AgentEnd"))
    assert [m.message for m in a.messages] == make_loop(2)
    assert (a.status, b.status, b.messages) == ("completed", "aborted", ())
    assert [r.loop_id for r in get_loop_records(session)] == ["a"]


def test_focus_steers_the_summary_and_never_the_trigger() -> None:
    """The original stores focus_message, and no strategy ever reads it."""
    model = ScriptedModel(["The parts were read."], repeat=True)
    settings = with_prompts(SummarySettings(models=("m",)))
    policy = blocks(COUNTER, summary=settings, focus_message="the port of the ledger")
    session = make_session([make_loop(30)], policy, answerer=Answerer(model=model))
    plain = make_session([make_loop(30)], blocks(COUNTER, summary=settings))
    assert policy.trigger == plain.policy.trigger
    window = count_view_tokens(session)
    assert session.preview(window=window)[0] == plain.preview(window=window)[0]
    session.compact(window=window)
    assert all("the port of the ledger" in ask.prompt for ask in model.asks)
    assert model.asks


def test_focus_steers_the_lines_too() -> None:
    """The same without a model: what speaks of the focus is shortened less."""
    history = [m for n in range(40) for m in make_turn(n, text=f"{'ledger' if n == 20 else 'cache'} {n}: {FILLER}")]
    session = make_session([history], blocks(COUNTER, max_summary_tokens=500, focus_message="ledger"))
    session.compact(to=count_view_tokens(session) * 6 // 10)
    lines = {t.split()[1]: len(t) for t in get_texts(session.view.get_messages()) if t.startswith("[Summary] ")}
    assert lines["ledger"] > 1.5 * lines["cache"]


def test_scope_and_message_counts_can_be_set_from_a_file(tmp_path: Path) -> None:
    """The original cannot read scope and legacy fields from a file, and its docs name another table than its parser."""
    place = tmp_path / "tenfold.toml"
    table = "compaction_scope = 'token_budget'\nkeep_first = 3\nkeep_recent = 7\n"
    place.write_text(f"[tenfold.presets.blocks]\n{table}", "utf-8")
    made = load_settings(place, environ={}).build_policy(COUNTER, "blocks")
    overlay = made.stages[0]
    assert isinstance(overlay, OverlayStage)
    assert overlay.config == CompactionConfig(compaction_scope=TokenBudget())
    assert made.with_list_stages().stages[-1] == DropBetweenStage(3, 7)


def test_what_raises_in_memory_is_logged_and_the_levels_stand_in(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: int) -> bool:
        raise RuntimeError("no index")

    heard: list[object] = []
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Raises()))
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        made = compact_in_memory(
            FULL,
            config,
            before_compaction_start=fail,
            after_compaction_end=fail,  # type: ignore[arg-type]
            sender=heard.append,
        )
    assert count_tokens(made) <= 40_000
    assert [type(e).__name__ for e in heard] == ["CompactionStarted", "CompactionEnded"]
    said = " ".join(caplog.messages)
    assert "before_compaction_start: it raised RuntimeError: no index" in said
    assert "after_compaction_end: it raised RuntimeError: no index" in said
    assert "in_memory_strategy: it raised RuntimeError: no room for" in said
