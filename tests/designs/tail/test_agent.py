"""The preset `tail`: phases, requests, hooks, events, overflow and abort."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from tenfold.apps.agent import Agent
from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.message import get_text
from tenfold.designs.tail import (
    AutoCompactionEnd,
    Compaction,
    CompactionDetails,
    CompactionResult,
    CompactionSettings,
    CompactOptions,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionCompact,
    get_compaction_entry,
)
from tenfold.designs.tail.agent import TailAgent
from tenfold.designs.tail.hook_events import TailEvent
from tests.designs.tail.making import (
    SMALL,
    WINDOW,
    QuietModel,
    Structured,
    get_blocks,
    get_kinds,
    get_messages,
    get_summary,
    make_agent,
    make_exchanges,
    make_session,
    record_events,
)


class Waiting(Structured):
    """A model whose answer waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def answer(self, ask: SummaryAsk) -> Answer:
        self.begun.set()
        self.go.wait(20)
        return super().answer(ask)


def test_the_check_follows_a_run_that_ended_well_and_comes_before_settled() -> None:
    agent = make_agent(make_exchanges(6))
    events = record_events(agent)
    agent.invoke_sync("Go on.")
    assert get_kinds(events) == [
        "save_point", "agent_end", "auto_compaction_start", "session_before_compact", "session_compact",
        "auto_compaction_end", "settled",
    ]  # fmt: skip
    assert len(get_blocks(agent.session)) == 1
    events.clear()
    agent.invoke_sync("Thanks.")
    assert get_kinds(events) == ["save_point", "agent_end", "settled"]


def test_a_run_that_failed_is_not_checked() -> None:
    def fail(_messages: object, _info: object) -> ModelResponse:
        raise ModelHTTPError(500, "m", "the run")

    session = make_session(make_exchanges(6))
    agent = TailAgent(Agent(FunctionModel(fail), session=session, window=WINDOW, settings={"max_tokens": 1}))
    events = record_events(agent)
    agent.compact()
    with pytest.raises(ModelHTTPError, match="the run"):
        agent.invoke_sync("Go on.")
    assert events == []
    assert get_blocks(agent.session) == []
    assert agent.phase == "idle"


def test_a_request_in_a_run_waits_for_its_end_and_its_instructions_win() -> None:
    """The check of a tool that the model calls in the run: the design's `ctx.compact()`."""
    done: list[CompactionResult] = []
    blocks_then: list[int] = []

    def look() -> str:
        agent.compact(CompactOptions("the parser", done.append))
        blocks_then.append(len(get_blocks(agent.session)))
        return "nothing there"

    session = make_session(make_exchanges(4))
    runner = QuietModel(tool="look")
    agent = TailAgent(Agent(runner, session=session, window=WINDOW, tools=[look], settings={"max_tokens": 1}))
    model = agent.session.answerer.model
    assert isinstance(model, Structured)
    agent.invoke_sync("Look there.")
    assert blocks_then == [0], "nothing happens before the end of the run"
    (block,) = get_blocks(agent.session)
    assert [each.summary for each in done] == [get_compaction_entry(agent.session, block.id).summary]
    assert any("Additional focus: the parser" in a.prompt for a in model.asked)
    agent.session.append(*make_exchanges(5, start=4))
    agent.compact(CompactOptions("the lexer"))
    model.asked.clear()
    assert agent.run_compaction_sync("something else")
    assert any("the lexer" in a.prompt for a in model.asked)
    assert not any("something else" in a.prompt for a in model.asked)


def test_a_request_is_cleared_when_its_run_starts_even_if_nothing_happens() -> None:
    agent = make_agent(make_exchanges(1))
    done: list[CompactionResult] = []
    agent.compact(CompactOptions("x", done.append))
    agent.invoke_sync("Go on.")
    assert done == [], "only success is told"
    assert agent.outcome is not None
    assert agent.outcome.status == "nothing"
    assert "within the target" in agent.outcome.reason
    agent.invoke_sync("Go on.")
    assert "do not reach the trigger" in agent.outcome.reason, "it was not asked for again"
    agent.session.append(*make_exchanges(6, start=2))
    assert agent.run_compaction_sync()
    assert done == []


def test_compacting_needs_an_idle_agent_and_says_which_phase_it_is_in() -> None:
    found: list[str] = []

    async def look() -> str:
        try:
            await running.run_compaction()
        except RuntimeError as exc:
            found.append(str(exc))
        return "nothing there"

    runner = QuietModel(tool="look")
    running = TailAgent(Agent(runner, session=make_session(make_exchanges(4)), window=WINDOW, tools=[look]))
    running.invoke_sync("Look there.")
    assert len(found) == 1
    assert "'running'" in found[0]
    agent = make_agent(make_exchanges(9), model=(model := Waiting()))
    got: list[bool] = []
    other = threading.Thread(target=lambda: got.append(agent.run_compaction_sync()))
    other.start()
    assert model.begun.wait(20)
    assert agent.phase == "compaction"
    with pytest.raises(RuntimeError, match="compaction"):
        agent.run_compaction_sync()
    with pytest.raises(RuntimeError, match="compaction"):
        agent.invoke_sync("Go on.")
    model.go.set()
    other.join(20)
    assert got == [True]
    assert agent.run_compaction_sync() is False, "it is idle again"


def test_a_manual_run_says_whether_it_compacted_and_emits_no_auto_events() -> None:
    agent = make_agent(make_exchanges(9))
    events = record_events(agent)
    assert agent.run_compaction_sync()
    assert get_kinds(events) == ["session_before_compact", "session_compact", "save_point", "settled"]
    events.clear()
    assert not agent.run_compaction_sync()
    assert get_kinds(events) == []
    assert agent.outcome is not None
    assert "no message followed" in agent.outcome.reason
    small = make_agent(make_exchanges(1))
    assert not small.run_compaction_sync()
    assert small.outcome is not None
    assert "within the target" in small.outcome.reason
    queued = make_agent(make_exchanges(9))
    queued.queue.append("and then")
    events = record_events(queued)
    assert queued.run_compaction_sync()
    assert get_kinds(events)[-1] == "save_point", "not settled: a message waits"


def test_the_first_cancel_stops_the_handlers_and_nothing_is_written() -> None:
    agent = make_agent(make_exchanges(9))
    asked: list[str] = []

    @agent.on("session_before_compact")
    def cancel_compaction(_event: TailEvent) -> SessionBeforeCompactResult:
        asked.append("first")
        return SessionBeforeCompactResult(cancel=True)

    @agent.on("session_before_compact")
    def record_second(_event: TailEvent) -> None:
        asked.append("second")

    events = record_events(agent)
    before = agent.session.view.get_messages()
    assert not agent.run_compaction_sync()
    assert asked == ["first"]
    assert agent.session.view.get_messages() == before
    assert "session_compact" not in get_kinds(events)
    assert agent.outcome is not None
    assert agent.outcome.status == "cancelled"
    assert agent.outcome.tokens_before == agent.context_tokens, "counted like every Outcome"


def test_the_last_result_wins_one_that_raises_is_reported_and_all_hear_the_effective_instructions() -> None:
    """The original gave the hooks the caller's instructions instead of those that ctx.compact() asked for."""
    agent = make_agent(make_exchanges(9))
    reports: list[str] = []
    agent.session.use_answerer(replace(agent.session.answerer, problem_reporter=reports.append))
    told: list[str] = []

    def build_handler(text: str) -> Callable[[TailEvent], SessionBeforeCompactResult]:
        def supply_result(event: TailEvent) -> SessionBeforeCompactResult:
            assert isinstance(event, SessionBeforeCompact)
            told.append(event.custom_instructions)
            assert event.branch_entries[-1].id == agent.session.leaf
            kept = event.preparation.retained_from_id
            return SessionBeforeCompactResult(compaction=CompactionResult(text, kept, 5))

        return supply_result

    agent.on("session_before_compact")(build_handler("one"))

    @agent.on("session_before_compact")
    def raise_error(_event: TailEvent) -> None:
        raise KeyError("oops")

    agent.on("session_before_compact")(build_handler("two"))
    agent.compact(CompactOptions("mine"))
    assert agent.run_compaction_sync("the caller's")
    assert told == ["mine", "mine"]
    assert len(reports) == 1
    assert "KeyError" in reports[0]
    assert "\ntwo\n" in get_summary(agent.session)
    model = agent.session.answerer.model
    assert isinstance(model, Structured)
    assert model.asked == [], "a supplied result needs no call"


def test_a_supplied_result_is_stored_as_it_is_and_marked() -> None:
    """The original looked its new entry up by equal text, so two equal summaries confused the event."""
    agent = make_agent(make_exchanges(9))
    ids: list[str] = []

    @agent.on("session_before_compact")
    def supply(event: TailEvent) -> SessionBeforeCompactResult:
        assert isinstance(event, SessionBeforeCompact)
        details = CompactionDetails(("r.py",), ("w.py",))
        return SessionBeforeCompactResult(
            compaction=CompactionResult("the same words", event.preparation.retained_from_id, 999, details)
        )

    @agent.on("session_compact")
    def record_id(event: TailEvent) -> None:
        assert isinstance(event, SessionCompact)
        ids.append(event.compaction_entry.id)
        assert event.from_hook

    assert agent.run_compaction_sync()
    agent.session.append(*make_exchanges(6, start=9))
    assert agent.run_compaction_sync()
    assert ids == [b.id for b in get_blocks(agent.session)]
    assert len(set(ids)) == 2
    entry = get_compaction_entry(agent.session, ids[0])
    assert (entry.summary, entry.tokens_before, entry.from_hook) == ("the same words", 999, True)
    assert entry.details == CompactionDetails(("r.py",), ("w.py",))
    assert "modified-files" not in get_summary(agent.session), "no footer"
    assert "# Facts" not in get_summary(agent.session), "facts it misses are reported, not mended"
    outcome = agent.outcome
    assert outcome is not None
    kept, total = outcome.facts["file_modified"]
    assert kept < total
    assert get_blocks(agent.session)[-1].unshown_facts > 0


@pytest.mark.parametrize(("text", "why"), [("", "it is empty"), ("far too long " * 9_000, "tokens in place of")])
def test_a_supplied_result_that_cannot_stand_fails_with_the_arithmetic(text: str, why: str) -> None:
    agent = make_agent(make_exchanges(9))

    @agent.on("session_before_compact")
    def supply(event: TailEvent) -> SessionBeforeCompactResult:
        assert isinstance(event, SessionBeforeCompact)
        return SessionBeforeCompactResult(compaction=CompactionResult(text, event.preparation.retained_from_id, 1))

    before = agent.session.view.get_messages()
    assert not agent.run_compaction_sync()
    assert agent.outcome is not None
    assert agent.outcome.status == "failed"
    assert why in agent.outcome.reason
    assert agent.session.view.get_messages() == before


def test_session_compact_has_the_new_entry_and_never_fires_without_one() -> None:
    agent = make_agent(make_exchanges(6), model=Structured(failing=("first", "update", "prefix")))
    events = record_events(agent)
    agent.invoke_sync("Go on.")
    assert "session_compact" not in get_kinds(events)
    end = next(e for e in events if isinstance(e, AutoCompactionEnd))
    assert end.result is None
    assert "the provider is down" in end.error_message
    assert get_kinds(events)[-1] == "settled", "the run that was good stays good"


def test_the_entry_of_the_event_is_read_from_the_block() -> None:
    agent = make_agent(make_exchanges(9))
    events = record_events(agent)
    path = agent.session.view.path
    made = Compaction(settings=agent.settings, counter=agent.session.policy.counter)
    found = made.prepare(path.get_entries(0, path.length - 1))
    leaf = agent.session.leaf
    assert agent.run_compaction_sync()
    entry = next(e for e in events if isinstance(e, SessionCompact)).compaction_entry
    assert found is not None
    assert entry.parent_id == leaf
    assert entry.summary.startswith("## Goal")
    assert entry.timestamp.endswith("+00:00")
    assert entry.tokens_before == found.tokens_before
    shown = [s for s in agent.session.view.get_visible_messages() if s.is_original]
    assert entry.first_kept_entry_id in {path.get_entry(s.position).id for s in shown}
    assert not entry.from_hook


@pytest.mark.parametrize("window", [15_000, 32_000])
def test_handlers_are_asked_of_what_will_be_done_in_the_window_at_hand(window: int) -> None:
    """The published sizes are clamped there: a plan without the window had another cut, or was none at all."""
    agent = make_agent(make_exchanges(window // 2_000), window=window, settings=CompactionSettings())
    seen: list[SessionBeforeCompact] = []
    agent.on("session_before_compact")(seen.append)
    path = agent.session.view.path
    assert agent.run_compaction_sync()
    (event,) = seen
    assert agent.outcome is not None
    entry = get_compaction_entry(agent.session, agent.outcome.block)
    found = event.preparation
    assert (found.retained_from_id, found.tokens_before) == (entry.first_kept_entry_id, entry.tokens_before)
    at = next(p for p in range(path.length) if path.get_entry(p).id == found.retained_from_id)
    assert [*found.messages_to_summarize, *found.turn_prefix_messages] == get_messages(path.get_entries(0, at - 1))
    other = make_agent(make_exchanges(window // 2_000), window=window, settings=CompactionSettings())
    other.on("session_before_compact")(lambda _: SessionBeforeCompactResult(cancel=True))
    assert not other.run_compaction_sync()
    assert get_blocks(other.session) == []


def test_a_supplied_result_that_begins_nowhere_is_a_failed_outcome_and_no_exception() -> None:
    agent = make_agent(make_exchanges(6))
    bad = SessionBeforeCompactResult(compaction=CompactionResult("short", "no-such-id", 1))
    agent.on("session_before_compact")(lambda _: bad)
    events = record_events(agent)
    agent.invoke_sync("Go on.")
    assert agent.outcome is not None
    assert agent.outcome.status == "failed"
    assert "no-such-id" in agent.outcome.reason
    assert any("no-such-id" in e.error_message for e in events if isinstance(e, AutoCompactionEnd))
    assert get_kinds(events)[-1] == "settled"


def test_settings_that_cannot_be_read_leave_the_last_good_ones_in_force() -> None:
    session = make_session(make_exchanges(6))
    reports: list[str] = []
    session.use_answerer(replace(session.answerer, problem_reporter=reports.append))
    good = [SMALL]
    live = make_agent(session=session, settings=lambda: good[0])
    good.clear()
    live.invoke_sync("Go on.")
    assert len(get_blocks(live.session)) == 1
    assert any("IndexError" in told for told in reports)


def test_no_instructions_may_be_said_as_none() -> None:
    assert make_agent(make_exchanges(9)).run_compaction_sync(None)


def test_a_threshold_run_never_retries_but_waiting_messages_go_on() -> None:
    agent = make_agent(make_exchanges(6))
    agent.queue.append("And now the next.")
    events = record_events(agent)
    assert agent.invoke_sync("Go on.") == "Fine."
    end = next(e for e in events if isinstance(e, AutoCompactionEnd))
    assert end.result is not None
    assert end.result.summary == get_compaction_entry(agent.session, get_blocks(agent.session)[0].id).summary
    assert not end.will_retry
    assert get_kinds(events).count("settled") == 1, "only when nothing waits any more"
    assert get_kinds(events).count("save_point") == 2
    users = [get_text(m) for m in agent.session.view.get_messages() if m.origin == "human"]
    assert users[-1] == "And now the next."


@pytest.mark.parametrize("auto", [False, True])
def test_an_abort_appends_no_compaction(auto: bool) -> None:  # noqa: FBT001 - a row of a table
    model = Waiting()
    agent = make_agent(make_exchanges(6), model=model)
    events = record_events(agent)

    async def abort_when_asked() -> None:
        task = asyncio.ensure_future(agent.invoke("Go on.") if auto else agent.run_compaction())
        assert await asyncio.to_thread(model.begun.wait, 20)
        agent.abort_compaction()
        assert await task in ("Fine.", False)

    asyncio.run(abort_when_asked())
    model.go.set()
    assert all(m.origin != "tenfold" for m in agent.session.view.get_messages())
    assert get_blocks(agent.session) == []
    assert agent.outcome is not None
    assert (agent.outcome.status, agent.outcome.reason) == ("cancelled", "it was aborted")
    assert [e.aborted for e in events if isinstance(e, AutoCompactionEnd)] == ([True] if auto else [])
    assert agent.run_compaction_sync(), "the next one is free to run"


def test_the_session_s_own_hooks_and_listeners_are_told_as_well() -> None:
    agent = make_agent(make_exchanges(9))
    told: list[str] = []
    own = Extension("own")
    own.before(lambda consult: told.append(f"before {consult.focus}"))
    own.after(lambda _outcome, block: told.append(block.id))
    agent.session.use_answerer(agent.session.answerer.with_extensions([own]))
    assert agent.run_compaction_sync("the parser")
    assert told == ["before the parser", get_blocks(agent.session)[0].id]
