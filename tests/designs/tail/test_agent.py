"""The agent of `tail`: runs and their checks, requests, hooks and events, overflow, abort, settings that change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.settings import ModelSettings

from tenfold.apps.agent import Agent
from tenfold.config.settings import LivePolicy, build_policy
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import get_text
from tenfold.designs.tail import (
    AutoCompactionEnd,
    AutoCompactionStart,
    Compaction,
    CompactionDetails,
    CompactionResult,
    CompactionSettings,
    CompactOptions,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionCompact,
    TailHooks,
    get_compaction_entry,
)
from tenfold.designs.tail.agent import TailAgent
from tenfold.designs.tail.hooks import TailEvent
from tenfold.designs.tail.policy import tail
from tenfold.errors import ContextOverflow, UsageError
from tenfold.session import AsyncSession
from tests.designs.tail.making import (
    COUNTER,
    SMALL,
    WINDOW,
    QuietModel,
    Structured,
    build_manual_call,
    get_asked,
    get_blocks,
    get_entries,
    get_kinds,
    get_messages,
    get_path,
    get_summary,
    invoke,
    make_agent,
    make_answer,
    make_exchanges,
    make_session,
    make_user,
    record_events,
    run_compaction,
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
    """Whether a program calls the face or its agent: a harness beside the agent compacted a second time."""
    face = make_agent(make_exchanges(6))
    events = record_events(face)
    assert asyncio.run(face.agent.invoke("Go on.")) == "Fine."
    assert get_kinds(events) == [
        "save_point", "agent_end", "auto_compaction_start", "session_before_compact", "session_compact",
        "auto_compaction_end", "settled",
    ]  # fmt: skip
    assert len(get_blocks(face.session)) == 1
    assert face.outcome is face.agent.outcome
    events.clear()
    invoke(face, "Thanks.")
    assert get_kinds(events) == ["save_point", "agent_end", "settled"]


def test_a_run_that_failed_is_not_checked() -> None:
    def fail(_messages: object, _info: object) -> ModelResponse:
        raise ModelHTTPError(500, "m", "the run")

    session = make_session(make_exchanges(6))
    agent = TailAgent(Agent(FunctionModel(fail), session=session, window=WINDOW, settings={"max_tokens": 1}))
    events = record_events(agent)
    agent.compact()
    with pytest.raises(ModelHTTPError, match="the run"):
        invoke(agent, "Go on.")
    assert events == []
    assert get_blocks(agent.session) == []
    assert agent.phase == "idle"


def test_a_request_in_a_run_waits_for_its_end_and_its_instructions_win() -> None:
    """The check of a tool that the model calls in the run: the design's `ctx.compact()`."""
    done: list[CompactionResult] = []
    blocks_then: list[int] = []

    def look() -> str:
        agent.compact(CompactOptions("the parser", done.append))
        blocks_then.append(len(get_blocks(session)))
        return "nothing there"

    session = make_session(make_exchanges(4))
    runner = QuietModel(tool="look")
    agent = TailAgent(Agent(runner, session=session, window=WINDOW, tools=[look], settings={"max_tokens": 1}))
    invoke(agent, "Look there.")
    assert blocks_then == [0], "nothing happens before the end of the run"
    (block,) = get_blocks(session)
    assert [each.summary for each in done] == [get_compaction_entry(session, block.id).summary]
    assert any("Additional focus: the parser" in a.prompt for a in get_asked(session))
    session.append(*make_exchanges(5, start=4))
    agent.compact(CompactOptions("the lexer"))
    assert run_compaction(agent, "something else")
    prompts = "".join(a.prompt for a in get_asked(session))
    assert "the lexer" in prompts
    assert "something else" not in prompts


def test_a_request_is_cleared_when_its_run_starts_even_if_nothing_happens() -> None:
    agent = make_agent(make_exchanges(1))
    done: list[CompactionResult] = []
    agent.compact(CompactOptions("x", done.append))
    invoke(agent, "Go on.")
    assert done == [], "only success is told"
    assert agent.outcome is not None
    assert agent.outcome.status == "nothing"
    assert "within the target" in agent.outcome.reason
    invoke(agent, "Go on.")
    assert "do not reach the trigger" in agent.outcome.reason, "it was not asked for again"
    agent.session.append(*make_exchanges(6, start=2))
    assert run_compaction(agent)
    assert done == []


def test_compacting_needs_an_idle_agent_and_says_which_phase_it_is_in() -> None:
    async def look() -> str:
        with pytest.raises(RuntimeError, match="'running'"):
            await running.run_compaction()
        return "nothing there"

    runner = QuietModel(tool="look")
    running = TailAgent(Agent(runner, session=make_session(make_exchanges(4)), window=WINDOW, tools=[look]))
    assert invoke(running, "Look there.") == "Fine."
    agent = make_agent(make_exchanges(9), model=(model := Waiting()))
    got: list[bool] = []
    other = threading.Thread(target=lambda: got.append(run_compaction(agent)))
    other.start()
    assert model.begun.wait(20)
    assert agent.phase == "compaction"
    for call in (lambda: run_compaction(agent), lambda: invoke(agent, "Go on.")):
        with pytest.raises(RuntimeError, match="compaction"):
            call()
    model.go.set()
    other.join(20)
    assert got == [True]
    assert run_compaction(agent) is False, "it is idle again"


def test_a_manual_run_says_whether_it_compacted_and_emits_no_auto_events() -> None:
    agent = make_agent(make_exchanges(9))
    events = record_events(agent)
    assert run_compaction(agent, None), "no instructions may be said as None"
    assert get_kinds(events) == ["session_before_compact", "session_compact", "save_point", "settled"]
    events.clear()
    assert not run_compaction(agent)
    assert get_kinds(events) == []
    assert agent.outcome is not None
    assert "no message followed" in agent.outcome.reason
    queued = make_agent(make_exchanges(9))
    queued.queue.append("and then")
    events = record_events(queued)
    assert run_compaction(queued)
    assert get_kinds(events)[-1] == "save_point", "not settled: a message waits"


def test_the_first_cancel_stops_the_handlers_and_nothing_is_written() -> None:
    agent = make_agent(make_exchanges(9))
    asked: list[str] = []

    @agent.on("session_before_compact")
    def cancel_compaction(_event: TailEvent, _ctx: object) -> SessionBeforeCompactResult:
        asked.append("first")
        return CANCEL

    agent.on("session_before_compact")(lambda *_: asked.append("second"))
    events = record_events(agent)
    before = get_entries(agent.session)
    assert not run_compaction(agent)
    assert asked == ["first"]
    assert get_entries(agent.session) == before
    assert "session_compact" not in get_kinds(events)
    assert agent.outcome is not None
    assert (agent.outcome.status, agent.outcome.tokens_before) == ("cancelled", agent.context_tokens)


def test_the_last_result_wins_one_that_raises_is_reported_and_all_hear_the_effective_instructions() -> None:
    """The original gave the hooks the caller's instructions instead of those that ctx.compact() asked for."""
    agent = make_agent(make_exchanges(9))
    reports: list[str] = []
    agent.session.compactor.use_answerer(replace(agent.session.compactor.answerer, problem_reporter=reports.append))
    told: list[str] = []

    def build_handler(text: str) -> Callable[[SessionBeforeCompact, object], SessionBeforeCompactResult]:
        def supply_result(event: SessionBeforeCompact, _ctx: object) -> SessionBeforeCompactResult:
            told.append(event.custom_instructions)
            assert event.branch_entries[-1].id == agent.session.leaf
            return supply(event, text)

        return supply_result

    def raise_error(_event: TailEvent, _ctx: object) -> None:
        raise KeyError("oops")

    for handler in (build_handler("one"), raise_error, build_handler("two")):
        agent.on("session_before_compact")(handler)
    agent.compact(CompactOptions("mine"))
    assert run_compaction(agent, "the caller's")
    assert told == ["mine", "mine"]
    (report,) = reports
    assert "KeyError" in report
    assert "\ntwo\n" in get_summary(agent.session)
    assert get_asked(agent.session) == [], "a supplied result needs no call"


def test_a_supplied_result_is_stored_as_it_is_and_marked() -> None:
    """The original looked its new entry up by equal text, so two equal summaries confused the event."""
    agent = make_agent(make_exchanges(9))
    told: list[SessionCompact] = []
    details = CompactionDetails(("r.py",), ("w.py",))
    agent.on("session_before_compact")(lambda event, _: supply(event, "the same words", 999, details))
    agent.on("session_compact")(lambda event, _: told.append(event))
    assert run_compaction(agent)
    agent.session.append(*make_exchanges(6, start=9))
    assert run_compaction(agent)
    first, second = get_blocks(agent.session)
    assert [(event.compaction_entry.id, event.from_hook) for event in told] == [(first.id, True), (second.id, True)]
    entry = get_compaction_entry(agent.session, first.id)
    assert (entry.summary, entry.tokens_before, entry.from_hook) == ("the same words", 999, True)
    assert entry.details == details
    assert "modified-files" not in get_summary(agent.session), "no footer"
    assert "# Facts" not in get_summary(agent.session), "facts it misses are reported, not mended"
    assert agent.outcome is not None
    kept, total = agent.outcome.facts["file_modified"]
    assert kept < total
    assert second.unshown_facts > 0


@pytest.mark.parametrize(
    ("text", "start", "why"),
    [("", "", "it is empty"), ("far too long " * 9_000, "", "tokens in place of"), ("x", "no-such-id", "no-such-id")],
)
def test_a_supplied_result_that_cannot_stand_fails_with_the_arithmetic(text: str, start: str, why: str) -> None:
    """It is no exception: the run that was good stays good."""
    agent = make_agent(make_exchanges(6))
    agent.on("session_before_compact")(lambda event, _: supply(event, text, start=start))
    events = record_events(agent)
    invoke(agent, "Go on.")
    assert agent.outcome is not None
    assert agent.outcome.status == "failed"
    assert why in agent.outcome.reason
    assert [why in e.error_message for e in events if isinstance(e, AutoCompactionEnd)] == [True]
    assert get_kinds(events)[-1] == "settled"
    assert get_blocks(agent.session) == []


def supply(
    event: TailEvent, text: str, tokens: int = 1, details: CompactionDetails | None = None, *, start: str = ""
) -> SessionBeforeCompactResult:
    """A handler's own summary, for what was to be compacted unless it begins elsewhere."""
    assert isinstance(event, SessionBeforeCompact)
    kept = start or event.preparation.retained_from_id
    return SessionBeforeCompactResult(compaction=CompactionResult(text, kept, tokens, details or CompactionDetails()))


def test_session_compact_has_the_new_entry_and_never_fires_without_one() -> None:
    agent = make_agent(make_exchanges(6), model=Structured(failing=("first", "update", "prefix")))
    events = record_events(agent)
    invoke(agent, "Go on.")
    assert "session_compact" not in get_kinds(events)
    end = next(e for e in events if isinstance(e, AutoCompactionEnd))
    assert end.result is None
    assert "the provider is down" in end.error_message
    assert get_kinds(events)[-1] == "settled", "the run that was good stays good"


@pytest.mark.parametrize("window", [15_000, 32_000])
def test_handlers_are_asked_of_what_will_be_done_in_the_window_at_hand(window: int) -> None:
    """The published sizes are clamped there: a plan without the window had another cut, or was none at all."""
    agent = make_agent(make_exchanges(window // 2_000), window=window, settings=CompactionSettings())
    seen: list[SessionBeforeCompact] = []
    agent.on("session_before_compact")(lambda event, _: seen.append(event))
    path = get_path(agent.session)
    assert run_compaction(agent)
    (event,) = seen
    entry = get_compaction_entry(agent.session, get_blocks(agent.session)[0].id)
    found = event.preparation
    assert (found.retained_from_id, found.tokens_before) == (entry.first_kept_entry_id, entry.tokens_before)
    at = [e.id for e in path].index(found.retained_from_id)
    assert [*found.messages_to_summarize, *found.turn_prefix_messages] == get_messages(path[:at])


def test_settings_that_cannot_be_read_leave_the_last_good_ones_in_force() -> None:
    session = make_session(make_exchanges(6))
    reports: list[str] = []
    session.compactor.use_answerer(replace(session.compactor.answerer, problem_reporter=reports.append))
    good = [SMALL]
    live = make_agent(session=session, settings=lambda: good[0])
    good.clear()
    invoke(live, "Go on.")
    assert len(get_blocks(live.session)) == 1
    assert any("IndexError" in told for told in reports)


def test_a_threshold_run_never_retries_but_waiting_messages_go_on() -> None:
    agent = make_agent(make_exchanges(6))
    agent.queue.append("And now the next.")
    events = record_events(agent)
    assert invoke(agent, "Go on.") == "Fine."
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
    assert run_compaction(agent), "the next one is free to run"


CANCEL = SessionBeforeCompactResult(cancel=True)


@pytest.mark.parametrize("preset", ["tail", "tenfold"])
def test_should_compact_tells_what_the_check_at_the_end_of_a_run_will_do(preset: str) -> None:
    """It went by the published sizes also under another policy, and left out what is kept free for an answer."""
    answers = set()
    for exchanges in (1, 2, 4):
        policy = replace(build_policy(preset, COUNTER), checks=("end_of_run",))
        session = make_session(make_exchanges(exchanges, tokens=1_000), policy)
        settings = ModelSettings(max_tokens=12_000)
        face = TailAgent(Agent(QuietModel(), session=session, window=32_000, settings=settings))
        answers.add(is_due := face.should_compact())
        asyncio.run(face.invoke("Go on."))
        assert bool(get_blocks(session)) is is_due, (preset, exchanges)
    assert answers == {True, False}
    off = TailAgent(
        Agent(QuietModel(), session=make_session(make_exchanges(9), tail(COUNTER, enabled=False)), window=9)
    )
    assert off.should_compact() is False


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_cancels_as_a_function_or_a_coroutine(is_async: bool) -> None:  # noqa: FBT001 - a table
    """The documented form was accepted and ignored, and the compaction went through."""
    face = make_agent(make_exchanges(9))
    seen: list[object] = []

    def cancel(event: object, ctx: object) -> SessionBeforeCompactResult:
        seen.extend((event, ctx))
        return CANCEL

    async def cancel_later(event: object, ctx: object) -> SessionBeforeCompactResult:
        await asyncio.sleep(0)
        return cancel(event, ctx)

    face.on("session_before_compact")(cancel_later if is_async else cancel)
    assert run_compaction(face) is False
    assert isinstance(seen[0], SessionBeforeCompact)
    assert seen[1] is face
    assert face.session.compact(build_manual_call(face.session)).status == "cancelled", "a host's own call too"
    assert get_blocks(face.session) == []


def test_an_unknown_event_is_refused_at_registration() -> None:
    with pytest.raises(UsageError, match="no event is called 'session_before_compaction': did you mean"):
        TailHooks().on("session_before_compaction")  # type: ignore[arg-type]


def test_a_coroutine_runs_on_the_loop_of_the_caller() -> None:
    session = make_session(make_exchanges(9))
    hooks = TailHooks()
    loops: list[asyncio.AbstractEventLoop] = []

    async def note(_event: object, _ctx: object) -> None:
        loops.append(asyncio.get_running_loop())

    hooks.on("session_before_compact")(note)
    hooks.on("session_compact")(note)
    hooks.attach(session)

    async def compact() -> asyncio.AbstractEventLoop:
        await AsyncSession(session).compact(build_manual_call(session))
        return asyncio.get_running_loop()

    loop = asyncio.run(compact())
    assert loops == [loop, loop]


def test_a_handler_writes_the_summary_with_a_model_of_its_own() -> None:
    face = make_agent(make_exchanges(9))
    mine = Structured("in my own words")

    @face.on("session_before_compact")
    async def write(event: SessionBeforeCompact, ctx: object) -> SessionBeforeCompactResult:
        assert ctx is face
        return SessionBeforeCompactResult(compaction=await Compaction(mine).acompact(event.preparation, "the parser"))

    assert run_compaction(face)
    assert "in my own words" in get_summary(face.session)
    assert any("the parser" in ask.prompt for ask in mine.asked)
    assert get_asked(face.session) == []


def test_a_handler_that_gives_something_else_is_reported() -> None:
    face = make_agent(make_exchanges(9))
    reports: list[str] = []
    face.session.compactor.use_answerer(replace(face.session.compactor.answerer, problem_reporter=reports.append))
    face.on("session_before_compact")(lambda *_: {"cancel": True})
    assert run_compaction(face)
    (report,) = reports
    assert "gave a dict, not a SessionBeforeCompactResult" in report


def test_a_session_on_a_settings_file_goes_on_following_it_under_the_face(tmp_path: Path) -> None:
    """The harness put its own settings in place of the file's."""
    file = tmp_path / "tenfold.toml"
    text = '[tenfold]\npolicy = "tail"\nauto = {}\n[tenfold.presets.tail]\nreserve_tokens = {}\n'
    text += "retain_recent_tokens = 3000\n"
    file.write_text(text.format("true", 2_000))
    session = make_session(make_exchanges(6))
    session.compactor.use_policy(LivePolicy(COUNTER, file, environ={}))
    face = make_agent(session=session, settings=None)
    assert face.settings == SMALL
    assert face.should_compact()
    file.write_text(text.format("true", 500))
    assert face.settings == CompactionSettings(reserve_tokens=500, keep_recent_tokens=3_000)
    assert not face.should_compact()
    explicit = make_agent(session=session, settings=SMALL)
    assert explicit.should_compact()
    file.write_text(text.format("false", 500))
    assert not explicit.settings.enabled, "what the file says of the rest still holds"


TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"


def make_refused_agent(times: int) -> TailAgent:
    """An agent whose provider refuses that many requests as too long, and whose window seems large enough."""
    model = QuietModel(refusals=times, refusal=TOO_LONG)
    session = make_session(make_exchanges(8))
    return TailAgent(Agent(model, session=session, window=200_000), settings=SMALL)


def test_an_overflow_is_compacted_once_and_the_request_is_sent_again() -> None:
    agent = make_refused_agent(1)
    events = record_events(agent)
    assert invoke(agent, "Go on.") == "Fine."
    assert get_kinds(events) == [
        "auto_compaction_start", "session_before_compact", "session_compact", "auto_compaction_end", "save_point",
        "agent_end", "settled",
    ]  # fmt: skip
    start, end = events[0], events[3]
    assert isinstance(start, AutoCompactionStart)
    assert isinstance(end, AutoCompactionEnd)
    assert start.reason == "overflow"
    assert end.will_retry
    assert all(m.status == "ok" for m in agent.session.view.get_messages()), "the error is in no request"
    assert len(get_blocks(agent.session)) == 1


def test_a_second_overflow_ends_the_run_with_an_error_and_the_next_run_may_try_again() -> None:
    agent = make_refused_agent(2)
    events = record_events(agent)
    with pytest.raises(ContextOverflow, match="on try 2 of 2"):
        invoke(agent, "Go on.")
    assert len(get_blocks(agent.session)) == 1, "one attempt only"
    last = events[-1]
    assert isinstance(last, AutoCompactionEnd)
    assert "on try 2 of 2" in last.error_message
    assert "settled" not in get_kinds(events)
    agent.session.append(*make_exchanges(8, start=20))
    again = TailAgent(Agent(QuietModel(refusals=1, refusal=TOO_LONG), session=agent.session, window=200_000))
    assert invoke(again, "Once more.") == "Fine.", "a new message of the user resets it"


def test_an_overflow_whose_summary_a_handler_gave_is_tried_once_as_well() -> None:
    agent = make_refused_agent(2)
    agent.on("session_before_compact")(lambda event, _: supply(event, "x"))
    with pytest.raises(ContextOverflow):
        invoke(agent, "Go on.")
    assert len(get_blocks(agent.session)) == 1


def test_an_answer_over_the_window_is_an_overflow_if_this_model_gave_it() -> None:
    over = Usage.build(WINDOW + 1, 5, cache_read=WINDOW, model="m")
    for usage, is_over in ((over, True), (replace(over, model="another"), False)):
        session = make_session([*make_exchanges(2), make_user("go on")])
        session.compactor.use_model("m")
        session.append(make_answer("so"), usage=usage)
        reading = session.take_reading(window=WINDOW)
        assert (reading.source == "reported") is is_over
        if is_over:
            assert reading.tokens > WINDOW
            assert session.compactor.is_check_due(session.compactor.build_call(window=WINDOW)), "before the next call"
