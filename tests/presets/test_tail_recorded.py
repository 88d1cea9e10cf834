"""The preset `tail` over recorded sessions and generated ones: whole steps, nothing lost, really smaller."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.branches import Wish, navigate
from tenfold.designs.tail import Compaction, CompactionSettings, TailHarness, estimate_context_tokens, last_usage
from tenfold.drive import Answerer
from tenfold.policies.tail import tail
from tenfold.record.entry import Custom, Said, message_of
from tenfold.record.message import calls_of, result_of, text_of
from tenfold.session import Session
from tenfold.summarize.ladder import Settings
from tenfold.summarize.structure import STRUCTURES
from tenfold.transcripts import Recorded
from tests import sessions
from tests.laws import conversations, recorded
from tests.laws.conversations import Echo, long_logs
from tests.laws.strategies import Log
from tests.presets.tail_making import COUNTER, Structured, blocks, summary_of

POLICY = tail(COUNTER, summary=Settings(models=("m",)))


def pi() -> Log:
    """The recorded pi session, its own compactions silent entries in it."""
    sessions.needed()
    (only,) = sessions.read(sessions.FOLDER / "pi" / "before-compaction.jsonl")
    return recorded.path_of(only)


def opened(log: Log, model: object = None) -> Session:
    writer = model if isinstance(model, Structured) else Structured()
    return conversations.opened(log, POLICY, Answerer(model=writer))


def whole(session: Session) -> None:
    """No call without its result but in the open step, no result without its call, in what the model sees."""
    for wire in ("anthropic", "openai-chat", "gemini"):
        assert session.violations(wire) == ()
    shown = session.view.messages()
    results = {r.call for m in shown if (r := result_of(m)) is not None}
    assert results <= {c.id for m in shown for c in calls_of(m)}


@pytest.mark.spec("tail.W1", "tail.W3", "tail.W10")
def test_every_recorded_session_is_cut_between_steps_again_and_again(session: Recorded) -> None:
    """The original lost what the first compaction kept, orphaned results, and looped over a tail too big to shrink."""
    log = recorded.path_of(session)
    agent = opened(log)
    size = conversations.tokens(agent.view.messages())
    window = max(9_000, size // 2)
    done = 0
    for _ in range(4):
        before = agent.reading(window=window).tokens
        outcome = agent.compact(agent.call(window=window))
        if outcome.status != "compacted":
            break
        done += 1
        assert agent.reading(window=window).tokens < before
        whole(agent)
        agent.append(
            *[m for e in log[:40] if (m := message_of(e)) is not None and m.status == "ok" and not m.native][:20]
        )
    assert len(blocks(agent)) == done, "a Block for each compaction, and none for what was refused"
    covered = {p for b in blocks(agent) for r in b.replacements for p in range(r.first, r.last + 1)}
    shown = {s.at for s in agent.view.shown()}
    said = {p for p in range(len(log)) if (m := message_of(log[p])) is not None and m.status == "ok"}
    assert said <= covered | shown, "every message is in view or behind a Block"


@pytest.mark.spec("tail.A17", "tail.A20", "tail.A23")
def test_the_recorded_pi_session_is_prepared_at_any_point() -> None:
    log = pi()
    made = Compaction(settings=CompactionSettings(keep_recent_tokens=8_000))
    for length in range(40, len(log), 97):
        path = log[:length]
        found = made.prepare(path)
        if found is None:
            continue
        at = next(p for p, e in enumerate(path) if e.id == found.retained_from_id)
        kept = message_of(path[at])
        assert kept is not None
        assert kept.role != "tool"
        assert found.is_split_turn is bool(found.turn_prefix_messages)
        if found.is_split_turn:
            assert found.turn_prefix_messages[0].role == "user"
        assert found.messages_to_summarize or found.turn_prefix_messages


@pytest.mark.spec("tail.A4", "tail.A12", "tail.A21")
def test_the_recorded_pi_session_runs_on_with_its_own_usage() -> None:
    """Its reports come from before each compaction: none of them is counted after it."""
    log = pi()
    session = opened(())
    agent = TailHarness(session, 60_000)
    held: list[int] = []
    for entry in log:
        message = message_of(entry)
        if message is None:
            continue
        with agent.invoke():
            usage = entry.usage if isinstance(entry, Said) else None
            session.append(message, usage=None if held else usage)  # later ones are of a context that was not compacted
            session.model = (entry.usage.model if isinstance(entry, Said) and entry.usage else "") or session.model
        if agent.outcome is not None and agent.outcome.status == "compacted":
            held.append(session.reading(window=60_000).tokens)
            path = list(session.view.path.span(0, session.view.length - 1))
            index = last_usage(path)
            assert index is None or index > max(p for p, e in enumerate(path) if e.id == agent.outcome.block)
            assert estimate_context_tokens(path).tokens < 90_000
    assert len(blocks(session)) >= 2
    whole(session)
    text = summary_of(session)
    assert all(name in text for name in STRUCTURES["six"])
    assert "<modified-files>" in text
    oldest = session.expand(blocks(session)[-1].id, deep=True)
    assert text_of(oldest[0].message) == text_of(next(m for e in log if (m := message_of(e)) is not None))


@pytest.mark.spec("tail.A35", "tail.A33")
def test_the_recorded_compactions_of_pi_are_kept_as_bytes_and_hide_nothing_here() -> None:
    log = pi()
    theirs = [e for e in log if isinstance(e, Custom) and e.kind == "compaction"]
    assert len(theirs) == 2
    assert all(b"firstKeptEntryI" in e.native.body for e in theirs)
    first = next(m for e in log if (m := message_of(e)) is not None)
    assert opened(log).view.messages()[0] == first


@pytest.mark.spec("tail.A43", "tail.A44", "tail.A46")
def test_a_branch_of_the_recorded_pi_session_is_left_and_told_of() -> None:
    session = opened(pi())
    view = session.view
    answers = [s.at for s in view.shown() if s.original and s.message.role == "assistant" and not calls_of(s.message)]
    target = view.path.at(answers[len(answers) // 2]).id
    model = session.answerer.model
    assert isinstance(model, Structured)
    moved = navigate(session, target, Wish(summarize=True))
    assert moved.status == "moved"
    assert all(ask.purpose == "branch" for ask in model.asked)
    whole(session)
    assert session.compact(session.call(window=60_000)).status == "compacted"
    whole(session)
    assert session.place.store.verify(session.place.namespace) == []


@settings(max_examples=50, deadline=None)
@given(long_logs(), st.integers(2_000, 9_000), st.integers(200, 4_000), st.booleans())
@pytest.mark.spec("tail.W2", "tail.W3", "tail.W4")
def test_generated_sessions_are_whole_after_it_and_no_empty_work_is_asked_for(
    log: Log,
    window: int,
    keep: int,
    split: bool,  # noqa: FBT001 - drawn
) -> None:
    """The originals left orphans, asked for summaries of nothing, and did nothing where the last result was big."""
    model = Structured() if split else Echo()
    policy = tail(COUNTER, summary=Settings(models=("m",) if split else ()), keep_recent_tokens=keep)
    session = conversations.opened(log, policy, Answerer(model=model))
    before = conversations.sent(session)
    outcome = session.compact(session.call(window=window))
    if outcome.status == "compacted":
        assert outcome.tokens_after < outcome.tokens_before
        for wire in ("anthropic", "openai-chat"):
            assert session.violations(wire) == ()
        again = len(model.asked) if isinstance(model, Structured) else model.calls
        assert session.compact(session.call(window=window)).status != "compacted"
        assert again == (len(model.asked) if isinstance(model, Structured) else model.calls)
    else:
        assert conversations.sent(session) == before
    if isinstance(model, Structured):
        for ask in model.asked:
            body = ask.prompt.partition("<conversation>")[2].partition("</conversation>")[0]
            assert body.strip() or "<previous-summary>" in ask.prompt
