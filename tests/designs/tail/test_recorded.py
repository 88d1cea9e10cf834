"""The preset `tail` over recorded sessions and generated ones: whole steps, nothing lost, really smaller."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.structure import STRUCTURES
from tenfold.core.record.entry import CustomEntry, MessageEntry, get_message
from tenfold.core.record.message import get_text, get_tool_calls, get_tool_result
from tenfold.designs.tail import (
    Compaction,
    CompactionSettings,
    SessionManager,
    estimate_context_tokens,
    find_last_usage,
    get_compaction_entry,
)
from tenfold.designs.tail.policy import tail
from tenfold.formats import ParsedSession
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.session.branches import BranchOptions, navigate
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.designs.tail.making import (
    COUNTER,
    Structured,
    get_blocks,
    get_summary,
    make_answer,
    make_user,
    read_file_lists,
)
from tests.laws import conversations, recorded
from tests.laws.conversations import Echo, long_logs
from tests.laws.strategies import Log
from tests.thorough import IS_THOROUGH

pytestmark = pytest.mark.costly(6)

POLICY = tail(COUNTER, summary=SummarySettings(models=("m",)))


def read_pi_session() -> Log:
    """The recorded pi session, its own compactions silent entries in it."""
    sessions.require_sessions()
    (only,) = sessions.read(sessions.FOLDER / "pi" / "before-compaction.jsonl")
    return recorded.get_path(only)


def open_log(log: Log, model: object = None) -> Session:
    writer = model if isinstance(model, Structured) else Structured()
    return conversations.open_session(log, POLICY, Answerer(model=writer))


def assert_paired_calls(session: Session) -> None:
    """No call without its result but in the open step, no result without its call, in what the model sees."""
    for wire in ("anthropic", "openai-chat", "gemini"):
        assert session.find_violations(wire) == ()
    shown = session.view.get_messages()
    results = {r.call_id for m in shown if (r := get_tool_result(m)) is not None}
    assert results <= {c.id for m in shown for c in get_tool_calls(m)}


def test_every_recorded_session_is_cut_between_steps_again_and_again(session: ParsedSession) -> None:
    """The original lost what the first compaction kept, orphaned results, and looped over a tail too big to shrink."""
    log = recorded.get_path(session)
    agent = open_log(log)
    size = conversations.count_tokens(agent.view.get_messages())
    window = max(9_000, size // 2)
    done = 0
    for _ in range(4):
        before = agent.take_reading(window=window).tokens
        outcome = agent.compact(agent.build_call(window=window))
        if outcome.status != "compacted":
            break
        done += 1
        assert agent.take_reading(window=window).tokens < before
        assert_paired_calls(agent)
        agent.append(
            *[m for e in log[:40] if (m := get_message(e)) is not None and m.status == "ok" and not m.native][:20]
        )
    assert len(get_blocks(agent)) == done, "a Block for each compaction, and none for what was refused"
    covered = {p for b in get_blocks(agent) for r in b.replacements for p in range(r.first, r.last + 1)}
    shown = {s.position for s in agent.view.get_visible_messages()}
    said = {p for p in range(len(log)) if (m := get_message(log[p])) is not None and m.status == "ok"}
    assert said <= covered | shown, "every message is in view or behind a Block"


def test_the_recorded_pi_session_is_prepared_at_any_point() -> None:
    log = read_pi_session()
    made = Compaction(settings=CompactionSettings(keep_recent_tokens=8_000))
    for length in range(40, len(log), 97):
        path = log[:length]
        found = made.prepare(path)
        if found is None:
            continue
        at = next(p for p, e in enumerate(path) if e.id == found.retained_from_id)
        kept = get_message(path[at])
        assert kept is not None
        assert kept.role != "tool"
        assert found.is_split_turn is bool(found.turn_prefix_messages)
        if found.is_split_turn:
            assert found.turn_prefix_messages[0].role == "user"
        assert found.messages_to_summarize or found.turn_prefix_messages


def test_the_recorded_pi_session_runs_on_with_its_own_usage() -> None:
    """Its reports come from before each compaction: none of them is counted after it."""
    log = read_pi_session()
    session = open_log(())
    held: list[int] = []
    for entry in log:
        message = get_message(entry)
        if message is None:
            continue
        usage = entry.usage if isinstance(entry, MessageEntry) else None
        session.append(message, usage=None if held else usage)  # later ones are of a context that was not compacted
        session.use_model((usage.model if usage is not None else "") or session.model)
        outcome = session.compact(session.build_call(window=60_000))
        if outcome.status == "compacted":
            held.append(session.take_reading(window=60_000).tokens)
            path = list(session.view.path.get_entries(0, session.view.length - 1))
            index = find_last_usage(path)
            assert index is None or index > max(p for p, e in enumerate(path) if e.id == outcome.block)
            assert estimate_context_tokens(path).tokens < 90_000
    assert len(get_blocks(session)) >= 2
    assert_paired_calls(session)
    text = get_summary(session)
    assert all(name in text for name in STRUCTURES["six"])
    assert "<modified-files>" in text
    oldest = session.expand(get_blocks(session)[-1].id, deep=True)
    assert get_text(oldest[0].message) == get_text(next(m for e in log if (m := get_message(e)) is not None))


def test_the_recorded_compactions_of_pi_are_kept_as_bytes_and_hide_nothing_here() -> None:
    log = read_pi_session()
    theirs = [e for e in log if isinstance(e, CustomEntry) and e.kind == "compaction"]
    assert len(theirs) == 2
    assert all(b"firstKeptEntryI" in e.native.body for e in theirs)
    first = next(m for e in log if (m := get_message(e)) is not None)
    assert open_log(log).view.get_messages()[0] == first


def test_a_branch_of_the_recorded_pi_session_is_left_and_told_of() -> None:
    session = open_log(read_pi_session())
    view = session.view
    answers = [
        s.position
        for s in view.get_visible_messages()
        if s.is_original and s.message.role == "assistant" and not get_tool_calls(s.message)
    ]
    target = view.path.get_entry(answers[len(answers) // 2]).id
    model = session.answerer.model
    assert isinstance(model, Structured)
    moved = navigate(session, target, BranchOptions(has_summary=True))
    assert moved.status == "moved"
    assert all(ask.purpose == "branch" for ask in model.asked)
    assert_paired_calls(session)
    assert session.compact(session.build_call(window=60_000)).status == "compacted"
    assert_paired_calls(session)
    assert session.address.store.verify(session.address.namespace) == []


def test_no_modified_file_of_a_recorded_session_is_lost(session: ParsedSession) -> None:
    log = recorded.get_path(session)
    opened = conversations.open_session(log, tail(COUNTER), Answerer())
    assert opened.compact(to=opened.count_uncompacted() // 4).status == "compacted"
    (block,) = get_blocks(opened)
    entry = get_compaction_entry(opened, block.id)
    last = max(r.last for r in block.replacements)
    found = Compaction(settings=CompactionSettings(keep_recent_tokens=1)).prepare([*log[: last + 1]])
    if found is not None:
        assert set(found.file_ops["modified"]) <= set(entry.details.modified_files)
    modified = entry.details.modified_files
    assert [
        path for path in _list_edited(log[: last + 1]) if not any(f"/{m}".endswith(f"/{path}") for m in modified)
    ] == []
    listed = read_file_lists(entry.summary)
    for paths, all_paths in zip(listed, (entry.details.read_files, entry.details.modified_files), strict=True):
        more = [line for line in paths if line.endswith(" more)")]
        hidden = int(more[0].strip("( more)").replace(",", "")) if more else 0
        assert len(paths) - len(more) + hidden == len(all_paths), "nothing is cut in silence"


def _list_edited(path: Log) -> set[str]:
    """The files that plain calls of the editing tools name, where the result is no error: read without our facts.

    A file that a command may have moved, deleted or undone later does not count.
    """
    calls = {c.id: c for e in path if (m := get_message(e)) is not None for c in get_tool_calls(m)}
    edited: set[str] = set()
    for entry in path:
        message = get_message(entry)
        result = get_tool_result(message) if message is not None else None
        call = calls.get(result.call_id) if result is not None and not result.is_error else None
        if call is not None and call.name.lower() in {"edit", "write", "write_file", "replace"}:
            fields = json.loads(call.arguments)
            edited |= {fields[key] for key in ("path", "file_path") if isinstance(fields.get(key), str)}
        elif call is not None and re.search(r"\b(mv|rm|checkout|restore|reset|stash)\b", call.arguments):
            edited = {each for each in edited if each.rpartition("/")[2] not in call.arguments}
    return edited


@settings(max_examples=50 if IS_THOROUGH else 25, deadline=None)
@given(long_logs(), st.integers(2_000, 9_000), st.integers(200, 4_000), st.booleans())
def test_generated_sessions_are_whole_after_it_and_no_empty_work_is_asked_for(
    log: Log,
    window: int,
    keep: int,
    split: bool,  # noqa: FBT001 - drawn
) -> None:
    """The originals left orphans, asked for summaries of nothing, and did nothing where the last result was big."""
    model = Structured() if split else Echo()
    policy = tail(COUNTER, summary=SummarySettings(models=("m",) if split else ()), keep_recent_tokens=keep)
    session = conversations.open_session(log, policy, Answerer(model=model))
    before = conversations.encode_view(session)
    outcome = session.compact(session.build_call(window=window))
    if outcome.status == "compacted":
        assert outcome.tokens_after < outcome.tokens_before
        for wire in ("anthropic", "openai-chat"):
            assert session.find_violations(wire) == ()
        again = len(model.asked) if isinstance(model, Structured) else model.calls
        assert session.compact(session.build_call(window=window)).status != "compacted"
        assert again == (len(model.asked) if isinstance(model, Structured) else model.calls)
    else:
        assert conversations.encode_view(session) == before
    if isinstance(model, Structured):
        for ask in model.asked:
            body = ask.prompt.partition("<conversation>")[2].partition("</conversation>")[0]
            assert body.strip() or "<previous-summary>" in ask.prompt


def _import_session(name: str) -> Session:
    sessions.require_sessions()
    store = SqliteStore(":memory:")
    (only,) = sessions.read(sessions.FOLDER / name)
    (session_id,) = import_sessions([only], store, "default", COUNTER)
    return Session(SessionAddress(store, session_id), POLICY, answerer=Answerer(model=Structured()))


def test_the_recorded_compaction_of_pi_is_restored_as_what_pi_sent() -> None:
    """Nothing was hidden, and the earlier summary was lost to the next compaction."""
    session = _import_session("pi/before-compaction.jsonl")
    manager = SessionManager(session)
    branch = manager.get_branch()
    theirs = [json.loads(e.native.body) for e in branch if isinstance(e, CustomEntry) and e.kind == "compaction"][-1]
    before = session.take_reading().tokens
    outcome = manager.restore_compaction()
    assert outcome is not None
    assert outcome.status == "compacted"
    entry = get_compaction_entry(session, outcome.block)
    assert entry.summary == theirs["summary"].strip()
    assert entry.tokens_before == theirs["tokensBefore"]
    assert not entry.from_hook
    assert session.take_reading().tokens < before
    shown = [s for s in session.view.get_visible_messages() if s.is_original]
    kept = theirs["firstKeptEntryIndex"] - 1  # the header is line 0
    assert min(s.position for s in shown) == kept, "what pi kept, and nothing before it"
    assert_paired_calls(session)
    assert manager.restore_compaction() is None, "once"
    found = Compaction(settings=CompactionSettings(keep_recent_tokens=2_000)).prepare(
        [*manager.get_branch(), *make_path_after(session)]
    )
    assert found is not None
    assert found.previous_summary is not None
    assert found.previous_summary in theirs["summary"]


def make_path_after(session: Session) -> list[MessageEntry]:
    """Two entries that follow the session's leaf."""
    first = MessageEntry("x-1", session.leaf, "", 1, make_user("and now " + "more " * 4_000))
    return [first, MessageEntry("x-2", "x-1", "", 2, make_answer("done"))]
