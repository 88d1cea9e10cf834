"""The published document of `tail`, line by line: hooks, settings, files, models, units and the session's methods."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings

from tenfold.apps.agent import Agent
from tenfold.apps.chat.transcript_lines import build_compaction_mark, build_event_line, build_history, format_tokens
from tenfold.config.extensions import Extension
from tenfold.config.settings import LivePolicy, build_policy
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Usage, get_message
from tenfold.designs.tail import (
    Compaction,
    CompactionResult,
    CompactionSettings,
    CompactOptions,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionCompact,
    SessionManager,
    TailHooks,
    build_session_context,
    estimate_context_tokens,
    find_cut_point,
    find_last_usage,
    find_prev_compaction_index,
    generate_branch_summary,
    get_compaction_entry,
)
from tenfold.designs.tail.agent import TailAgent
from tenfold.designs.tail.policy import tail
from tenfold.errors import BadInput, UsageError
from tenfold.events import CompactionEnd, CompactionStart
from tenfold.session import AsyncSession
from tenfold.session.drive import Answerer
from tests.designs.tail.making import (
    COUNTER,
    SMALL,
    QuietModel,
    Structured,
    build_manual_call,
    get_blocks,
    get_kinds,
    get_summary,
    make_agent,
    make_answer,
    make_call,
    make_exchanges,
    make_path,
    make_reported_session,
    make_result,
    make_session,
    make_steps,
    make_user,
    read_file_lists,
    record_events,
)

CANCEL = SessionBeforeCompactResult(cancel=True)

# -- one agent ---------------------------------------------------------------


def test_the_face_and_its_agent_are_one_and_compact_once() -> None:
    """A harness beside the agent compacted a second time."""
    face = make_agent(make_exchanges(6))
    events = record_events(face)
    assert asyncio.run(face.agent.invoke("Go on.")) == "Fine."
    assert len(get_blocks(face.session)) == 1
    assert get_kinds(events)[0] == "save_point"
    assert get_kinds(events)[-1] == "settled"
    assert get_kinds(events).count("session_compact") == 1
    assert face.outcome is face.agent.outcome


def test_run_compaction_is_awaited_and_nothing_blocks_a_running_loop() -> None:
    face = make_agent(make_exchanges(9), model=(model := Structured()))
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(model.asked))
            await asyncio.sleep(0.005)

    async def compact() -> bool:
        ticking = asyncio.ensure_future(tick())
        with pytest.raises(UsageError, match=r"`await run_compaction\(\.\.\.\)`"):
            face.run_compaction_sync()
        with pytest.raises(UsageError, match="await invoke"):
            face.invoke_sync("x")
        done = await face.run_compaction("the parser")
        ticking.cancel()
        return done

    assert asyncio.run(compact()) is True
    assert len(ticks) > 1
    assert any("the parser" in ask.prompt for ask in model.asked)


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


# -- hooks ---------------------------------------------------------------


@pytest.mark.parametrize("form", ["async two", "async one", "plain two", "plain one"])
def test_a_handler_of_every_form_cancels(form: str) -> None:
    """The documented form was accepted and ignored, and the compaction went through."""
    face = make_agent(make_exchanges(9))
    seen: list[object] = []

    async def cancel_later(event: SessionBeforeCompact, ctx: object) -> SessionBeforeCompactResult:
        await asyncio.sleep(0)
        seen.extend((event, ctx))
        return CANCEL

    async def cancel_one(event: SessionBeforeCompact) -> SessionBeforeCompactResult:
        seen.extend((event, face))
        return CANCEL

    def cancel_now(event: SessionBeforeCompact, ctx: object) -> SessionBeforeCompactResult:
        seen.extend((event, ctx))
        return CANCEL

    def cancel_now_one(event: SessionBeforeCompact) -> SessionBeforeCompactResult:
        seen.extend((event, face))
        return CANCEL

    handlers: dict[str, Callable[..., object]] = {
        "async two": cancel_later,
        "async one": cancel_one,
        "plain two": cancel_now,
        "plain one": cancel_now_one,
    }
    assert face.on("session_before_compact")(handlers[form]) is handlers[form]
    assert face.run_compaction_sync() is False
    assert asyncio.run(face.run_compaction()) is False
    assert get_blocks(face.session) == []
    assert isinstance(seen[0], SessionBeforeCompact)
    assert seen[1] is face
    assert face.session.compact(build_manual_call(face.session)).status == "cancelled", "a host's own call too"


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
        del ctx
        return SessionBeforeCompactResult(compaction=await Compaction(mine).acompact(event.preparation, "the parser"))

    entries: list[SessionCompact] = []
    face.on("session_compact")(entries.append)
    assert face.run_compaction_sync()
    assert "in my own words" in get_summary(face.session)
    assert any("the parser" in ask.prompt for ask in mine.asked)
    assert entries[0].from_hook
    others = face.session.answerer.model
    assert isinstance(others, Structured)
    assert others.asked == []


def test_an_unknown_event_and_a_wrong_signature_are_refused_at_registration() -> None:
    hooks = TailHooks()
    with pytest.raises(UsageError, match="did you mean 'session_before_compact'"):
        hooks.on("session_before_compaction")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no event is called None"):
        hooks.on(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=re.escape("no event is called ['settled']: did you mean 'settled'?")):
        hooks.on(["settled"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"no event is called 'unknown'\. There are: agent_end, auto_"):
        hooks.get_handlers("unknown")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=re.escape("no event is called ['settled']")):
        hooks.get_handlers(["settled"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"takes \(event, ctx\) or \(event\), and takes_three"):

        @hooks.on("session_compact")
        def takes_three(event: object, ctx: object, more: object) -> None: ...

    with pytest.raises(UsageError, match="is none"):
        hooks.on("session_compact")("no function")  # type: ignore[type-var]


def test_a_handler_that_gives_something_else_is_reported() -> None:
    face = make_agent(make_exchanges(9))
    reports: list[str] = []
    session = face.session
    session.use_answerer(_with_reporter(session.answerer, reports))
    face.on("session_before_compact")(lambda _: {"cancel": True})
    assert face.run_compaction_sync()
    (report,) = reports
    assert "gave a dict, not a SessionBeforeCompactResult" in report


def _with_reporter(answerer: Answerer, reports: list[str]) -> Answerer:
    return Answerer(
        model=answerer.model,
        before_hooks=answerer.before_hooks,
        listeners=answerer.listeners,
        problem_reporter=reports.append,
    )


# -- settings ---------------------------------------------------------------


def test_a_session_on_a_settings_file_goes_on_following_it_under_the_face(tmp_path: Path) -> None:
    """The harness put its own settings in place of the file's."""
    file = tmp_path / "tenfold.toml"
    text = '[tenfold]\npolicy = "tail"\nauto = {}\n[tenfold.presets.tail]\nreserve_tokens = {}\n'
    text += "retain_recent_tokens = 3000\n"
    file.write_text(text.format("true", 2_000))
    session = make_session(make_exchanges(6))
    session.use_policy(LivePolicy(COUNTER, file, environ={}))
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


def test_the_tokens_to_keep_have_two_names_everywhere() -> None:
    assert CompactionSettings(retain_recent_tokens=500) == CompactionSettings(keep_recent_tokens=500)
    assert tail(COUNTER, retain_recent_tokens=500).budgets == tail(COUNTER, keep_recent_tokens=500).budgets
    path = make_path(make_exchanges(3))
    assert find_cut_point(path, retain_recent_tokens=500) == find_cut_point(path, keep_recent_tokens=500)
    with pytest.raises(UsageError, match="two names of one setting"):
        CompactionSettings(keep_recent_tokens=1, retain_recent_tokens=2)


# -- files ---------------------------------------------------------------


def test_a_file_touched_before_the_cut_and_again_in_the_tail_is_listed() -> None:
    """Facts know where a file was touched last, so it disappeared from footer, file_ops and details."""
    session = make_session(
        [
            make_user("u"),
            make_call("a", "docs/both.md"),
            make_result("a"),
            *make_steps(24),
            make_call("b", "src/part0.py", "edit"),
            make_result("b", "done", "edit"),
            make_call("c", "docs/both.md"),
            make_result("c"),
            make_call("d", "src/tail.py", "edit"),
            make_result("d", "done", "edit"),
        ]
    )
    hooks = TailHooks()
    seen: list[SessionBeforeCompact] = []
    hooks.on("session_before_compact")(seen.append)
    hooks.attach(session)
    assert session.compact(build_manual_call(session)).status == "compacted"
    files = seen[0].preparation.file_ops
    assert "src/part0.py" in files["modified"]
    assert "src/tail.py" not in files["modified"], "it was touched in the tail alone"
    assert "docs/both.md" in files["read"]
    (block,) = get_blocks(session)
    entry = get_compaction_entry(session, block.id)
    assert (entry.details.read_files, entry.details.modified_files) == (files["read"], files["modified"])
    assert read_file_lists(entry.summary) == (list(files["read"]), list(files["modified"]))
    shown = get_summary(session)
    assert shown.count("\nsrc/part0.py\n") == 1, "the lists stand once"
    assert "## Files" not in shown
    assert entry.summary.endswith("</modified-files>"), "and last"
    session.append(*make_exchanges(6, start=20))
    assert session.compact(build_manual_call(session)).status == "compacted"
    later = get_compaction_entry(session, get_blocks(session)[-1].id)
    assert {"src/part0.py", "src/tail.py"} <= set(later.details.modified_files)
    assert later.summary.count("<modified-files>") == 1


# -- models ---------------------------------------------------------------


def test_the_model_that_is_given_writes() -> None:
    """Without named models code wrote, and the given one was never asked."""
    model = Structured("from the given model")
    compaction = Compaction(model, settings=CompactionSettings(keep_recent_tokens=500))
    found = compaction.prepare(make_path(make_exchanges(3)))
    assert found is not None
    assert "from the given model" in compaction.compact(found, "the parser").summary
    assert any("Additional focus: the parser" in ask.prompt for ask in model.asked)
    left = tuple(enumerate(make_path(make_exchanges(2))))
    result = generate_branch_summary(left, tail(COUNTER), Answerer(model=(other := Structured("of the branch"))))
    assert "of the branch" in result.summary
    assert len(other.asked) == 1
    assert (
        "by the model alone" in generate_branch_summary(left, tail(COUNTER), Structured("by the model alone")).summary
    )
    with pytest.raises(UsageError, match="nowhere"):
        generate_branch_summary(left, tail(COUNTER), "nowhere:model")


def test_a_model_is_a_name_or_answers_asks_and_anything_else_is_refused_at_once() -> None:
    """It was refused by an `AttributeError` when the summary was to be written."""
    with pytest.raises(UsageError, match="answers Asks, and not a TestModel"):
        Compaction(TestModel())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="nowhere"):
        Compaction("nowhere:model")
    assert Compaction(None).settings == CompactionSettings()


# -- counting ---------------------------------------------------------------


def test_the_context_is_estimated_from_messages_as_documented() -> None:
    """A list of messages gave 0."""
    messages = [make_user("u" * 40), make_answer("a" * 40)]
    assert estimate_context_tokens(messages).tokens == estimate_context_tokens(make_path(messages)).tokens == 20
    provider: list[dict[str, object]] = [
        {"role": "user", "content": "u" * 40},
        {"role": "assistant", "content": "a" * 40, "usage": {"input": 700, "output": 50}},
        {"role": "user", "content": "v" * 44},
    ]
    got = estimate_context_tokens(provider)
    assert (got.tokens, got.usage_tokens, got.trailing_tokens, got.last_usage_index) == (761, 750, 11, 1)
    with pytest.raises(UsageError, match="give one kind"):
        estimate_context_tokens([make_user("u"), *make_path(messages)])
    for unknown in ([{"no": "message"}], [{"role": "toolResult", "toolCallId": "c"}], [1], "text"):
        with pytest.raises(
            BadInput, match="estimate_context_tokens takes the entries of a path, `Message`s, or"
        ) as caught:
            estimate_context_tokens(unknown)  # type: ignore[arg-type]
        assert "format=" not in str(caught.value), "it has no such argument"
    for wrong in (None, 7, iter(messages)):
        with pytest.raises(UsageError, match=r"^estimate_context_tokens takes a list, and this is of type "):
            estimate_context_tokens(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [Compaction().prepare, find_prev_compaction_index, find_cut_point, find_last_usage, build_session_context],
)
def test_what_takes_entries_refuses_messages_with_a_sentence(function: Callable[[object], object]) -> None:
    """A list of messages gave None, -1, or an `AttributeError`."""
    with pytest.raises(UsageError, match=f"^{function.__name__} takes the entries of a path"):
        function(make_exchanges(3))
    for wrong in (None, 7, iter(make_path(make_exchanges(1)))):
        with pytest.raises(UsageError, match=f"^{function.__name__} takes a list, and this is of type "):
            function(wrong)


def test_event_entry_and_outcome_have_one_unit_which_the_provider_counts() -> None:
    session = make_reported_session()
    face = make_agent(session=session, window=200_000)
    starts: list[CompactionStart] = []
    session.use_answerer(session.answerer.with_extensions([_listen(starts)]))
    events = record_events(face)
    shown = face.context_tokens
    assert shown > 40_000
    assert face.run_compaction_sync()
    before = next(e for e in events if isinstance(e, SessionBeforeCompact)).preparation.tokens_before
    entry = next(e for e in events if isinstance(e, SessionCompact)).compaction_entry
    assert face.outcome is not None
    assert face.outcome.tokens_before == shown
    assert entry.tokens_before == shown
    assert (before, starts[0].tokens) == (shown, shown)
    assert starts[0].target == face.outcome.target < shown
    line = build_event_line(CompactionEnd("s", face.outcome, 0))
    assert line is not None
    assert f"({format_tokens(shown)} → {format_tokens(face.outcome.tokens_after)} tokens)" in line.text
    (mark,) = [each.text for each in build_history(session) if each.kind == "mark"]
    assert mark == line.text, "though the counter has less"
    assert face.outcome.reading_before is not None
    assert face.outcome.reading_before.estimate < shown / 2, "the counter's own figure, which is not shown"


def test_a_stated_size_is_that_of_the_entry_in_event_and_result() -> None:
    """The event told the session's own figure, and the entry in the log the stated one."""
    face = make_agent(make_exchanges(6), window=200_000)
    events = record_events(face)
    manager = face.session_manager
    start = next(e.id for e in manager.get_branch() if get_message(e) == make_user("Please do part 3."))
    manager.append_compaction(summary="Parts 0 to 2 are done.", first_kept_entry_id=start, tokens_before=77)
    (told,) = (e for e in events if isinstance(e, SessionCompact))
    assert told.compaction_entry.tokens_before == 77
    assert told.compaction_entry == get_compaction_entry(face.session, told.compaction_entry.id)
    results: list[CompactionResult] = []
    face.session.append(*make_exchanges(2, start=6))
    stated = next(e.id for e in manager.get_branch() if get_message(e) == make_user("Please do part 5."))
    supplied = SessionBeforeCompactResult(compaction=CompactionResult("All of them are done.", stated, 88))
    face.on("session_before_compact")(lambda _: supplied)
    face.compact(CompactOptions(on_complete=results.append))
    assert face.run_compaction_sync()
    assert [each.tokens_before for each in results] == [88]


@pytest.mark.parametrize("tokens", ["x", "77", 7.5, None, True, -1])
def test_a_stated_size_that_is_no_count_is_refused(tokens: object) -> None:
    """It became the session's own estimate, and nobody was told."""
    manager = make_agent(make_exchanges(6), window=200_000).session_manager
    start = next(e.id for e in manager.get_branch() if get_message(e) == make_user("Please do part 3."))
    length = len(manager.get_branch())
    with pytest.raises(UsageError, match=r"`tokens_before` is a number of tokens, 0 or more, and not "):
        manager.append_compaction(summary="All done.", first_kept_entry_id=start, tokens_before=tokens)  # type: ignore[arg-type]
    assert len(manager.get_branch()) == length


def test_a_plan_and_a_refusal_are_told_in_what_the_provider_counts() -> None:
    """They had the counter's own figures, beside a bar with the provider's."""
    session = make_reported_session()
    reading = session.take_reading(window=200_000)
    decision, plan = session.preview(build_manual_call(session, 200_000))
    assert plan is not None
    first, *lines = plan.explain().splitlines()
    after, target = (round(reading.floor + reading.slope * n) for n in (plan.tokens_after, decision.target))
    assert first == f"plan: {reading.tokens:,} -> at most {after:,} tokens (target {target:,})"
    sizes = [int(line.partition(" tokens")[0].split()[-1].replace(",", "")) for line in lines if line.startswith("  ")]
    assert sum(sizes) == pytest.approx(after - reading.floor, abs=len(sizes))
    (changed,) = plan.changed_pieces
    tail = int(changed.reason.rpartition("a tail of ")[2].split()[0].replace(",", ""))
    assert tail == pytest.approx(sum(sizes[1:]), abs=len(sizes))
    policy = replace(session.policy, shrink_tokens=10_000_000)
    session.use_policy(policy)
    outcome = session.compact(replace(session.build_call(window=200_000), demand="manual"))
    assert outcome.status == "nothing"
    worth = round(reading.slope * 10_000_000)
    assert f" of {reading.tokens:,} tokens; the least worth a Block is {worth:,}" in outcome.reason
    explicit = session.compact(to=reading.estimate - 1)
    assert explicit.status == "compacted"
    assert explicit.tokens_before == reading.estimate, "like the target"


def test_what_was_shown_of_a_compaction_does_not_change_with_later_reports() -> None:
    """The lines and entries of old Blocks were estimated anew with each report."""
    session = make_reported_session()
    outcome = session.compact(build_manual_call(session, 200_000))
    assert outcome.status == "compacted"
    (block,) = get_blocks(session)
    assert block.provider_tokens == (outcome.tokens_before, outcome.tokens_after)
    for tokens in (9_000, 70_000):
        session.append(make_user("x"), make_answer("y"), usage=Usage(tokens, 10, model="m"))
        (mark,) = [each.text for each in build_history(session) if each.kind == "mark"]
        assert mark == build_compaction_mark(outcome.tokens_before, outcome.tokens_after).text
        assert get_compaction_entry(session, block.id).tokens_before == outcome.tokens_before
    old = replace(block, provider_tokens=None)
    reading = session.take_reading()
    assert session.get_provider_tokens(old)[0] == round(reading.floor + reading.slope * block.tokens_before)


def test_what_is_tried_against_the_reports_is_told_in_what_the_provider_counts() -> None:
    """The reason had our own count, "162,626 tokens ... down to 8,000", and the sizes beside it the provider's."""
    session = make_reported_session(300_000)
    outcome = session.compact(session.build_call(window=8_000))
    assert outcome.status == "compacted"
    assert outcome.reason.startswith(f"{outcome.tokens_before:,} tokens (")
    assert outcome.reason.endswith(f"down to {outcome.target:,}")


def _listen(starts: list[CompactionStart]) -> Extension:
    extension = Extension("watch")
    extension.on(CompactionStart)(starts.append)
    return extension


# -- the session ---------------------------------------------------------------


def test_the_session_has_the_methods_of_the_document() -> None:
    session = make_session(make_exchanges(6))
    manager = SessionManager(session)
    preparation = Compaction(settings=CompactionSettings(keep_recent_tokens=1_000)).prepare(manager.get_branch())
    assert preparation is not None
    result = CompactionResult("What was done.", preparation.retained_from_id, preparation.tokens_before)
    outcome = manager.append_compaction(
        summary=result.summary,
        first_kept_entry_id=result.retained_from_id,
        tokens_before=result.tokens_before,
        details=result.details,
    )
    assert outcome.status == "compacted"
    entry = get_compaction_entry(session, outcome.block)
    assert (entry.summary, entry.tokens_before) == ("What was done.", result.tokens_before)
    assert not entry.from_hook, "no hook was asked"
    assert list(manager.build_session_context().messages) == session.view.get_messages()
    branch = manager.get_branch()
    assert find_prev_compaction_index(branch) == len(branch) - 1
    assert isinstance(branch[-1], Block)
    assert find_prev_compaction_index(branch[:-1]) == -1


def test_the_cut_point_is_found_in_a_range_of_entries() -> None:
    path = make_path([*make_exchanges(2), make_user("long"), *make_steps(6, start=50)])
    found = find_cut_point(path, 0, len(path), 900)
    kept = path[found.first_kept_entry_index]
    message = get_message(kept)
    assert message is not None
    assert message.role == "assistant"
    assert found.is_split_turn
    assert path[found.turn_start_index] == next(e for e in path if (m := get_message(e)) and m == make_user("long"))
    everything = find_cut_point(path, 0, len(path), 100_000)
    assert (everything.first_kept_entry_index, everything.turn_start_index) == (0, -1)
    assert find_cut_point(path, found.first_kept_entry_index + 2, len(path), 900).is_split_turn is False
