"""Hosts resend their whole list: what is known is matched, what is new appended, a rewrite becomes a branch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.record.entry import Said, Usage
from tenfold.record.message import Message, Text, ToolCall, ToolResult, result_of
from tenfold.session import Session
from tenfold.wire import WIRES
from tests.engine import making
from tests.engine.making import blocks, called, entries, gave, opened, said, user, work


def said_ids(session: Session) -> list[str]:
    return [e.id for e in entries(session) if isinstance(e, Said)]


def test_a_list_sent_again_appends_nothing() -> None:
    session = opened()
    session.sync(work(3))
    held = entries(session)
    assert session.sync(work(3)).messages() == work(3)
    assert entries(session) == held


def test_a_grown_list_appends_only_what_is_new() -> None:
    session = opened()
    session.sync(work(3))
    view = session.sync([*work(3), user("go on"), said("yes")])
    assert view.messages() == [*work(3), user("go on"), said("yes")]
    assert len(entries(session)) == len(work(3)) + 2


def test_moved_cache_marks_renamed_ids_and_empty_content_are_no_rewrite() -> None:
    before = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a", "n": 1}'}}
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "text"},
    ]  # fmt: skip
    after = [
        {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_X", "type": "function", "function": {"name": "read", "arguments": '{"n":1,"path":"a"}'}}
        ]},
        {"role": "tool", "tool_call_id": "call_X", "content": "text"},
    ]  # fmt: skip
    session = opened()
    for each in (before, after):
        session.sync(WIRES["openai-chat"].decode([making.raw(m) for m in each]))
    assert len(entries(session)) == 3


def test_our_own_view_sent_back_is_known() -> None:
    session = opened(work(12))
    assert session.compact(to=900).status == "compacted"
    ours = session.view.messages()
    held = entries(session)
    assert session.sync(ours).messages() == ours
    assert entries(session) == held
    assert session.sync([*ours, user("go on")]).messages() == [*ours, user("go on")]
    assert len(entries(session)) == len(held) + 1


def test_an_older_view_of_ours_is_known_after_a_newer_block() -> None:
    """A host keeps the list it was given, while the session was compacted again in the background."""
    session = opened(work(12))
    session.compact(to=900)
    old = session.view.messages()
    later = work(6, start=20)
    session.sync([*old, *later])
    assert session.compact(to=700).status == "compacted"
    ours, count = session.view.messages(), len(entries(session))
    assert session.sync([*old, *later]).messages() == ours
    assert session.sync([*old, *later, user("and?")]).messages() == [*ours, user("and?")]
    assert len(entries(session)) == count + 1
    assert len(blocks(session)) == 2


def test_the_raw_history_is_known_behind_a_block() -> None:
    session = opened(work(12))
    session.compact(to=900)
    ours = session.view.messages()
    assert session.sync(work(12)).messages() == ours
    assert session.sync([*work(12), user("next")]).messages() == [*ours, user("next")]


def test_a_rewrite_becomes_a_branch_and_the_old_one_stays_in_the_log() -> None:
    history = work(3)
    session = opened(history)
    changed = [*history[:5], said("something else")]
    assert session.sync(changed).messages() == changed
    assert making.again(session).view.messages() == changed
    assert len(entries(session)) == len(history) + 1
    assert session.sync(history).messages()[:5] == history[:5]


def test_a_shorter_list_goes_back_and_what_follows_branches_there() -> None:
    history = [*work(3), user("one"), said("two")]
    session = opened(history)
    assert session.sync(history[:-2]).messages() == history[:-2]
    assert session.sync([*history[:-2], user("other")]).messages() == [*history[:-2], user("other")]


def test_an_answer_made_anew_keeps_the_block_before_it() -> None:
    """The Block stands between the last known message and the one that was changed: it covers nothing that changed."""
    history = work(12)
    session = opened(history)
    session.compact(to=900)
    session.append(user("next"), said("an answer"))
    for changed in ([user("next"), said("another")], [user("not next")], []):
        view = session.sync([*history, *changed])
        assert len(view.marks.live) == 1
        assert view.messages()[len(view.messages()) - len(changed) :] == changed


def test_a_branch_before_the_block_does_not_contain_it() -> None:
    history = work(12)
    session = opened(history)
    session.compact(to=900)
    view = session.sync([*history[:5], said("otherwise")])
    assert view.marks.live == ()
    assert view.messages() == [*history[:5], said("otherwise")]


def test_a_rewrite_behind_what_a_block_covers_keeps_the_block() -> None:
    """Hosts empty old outputs and take old pictures out: the view stays small, and begins as it was sent."""
    history = work(12)
    session = opened(history)
    session.compact(to=900)
    history += [user("next"), *work(6, start=12)[1:]]
    session.sync(history)
    session.compact(to=1_500)
    shown, live = session.view.messages(), len(session.view.marks.live)
    assert live > 1
    at, result = max(
        ((at, r) for at, m in enumerate(history) if (r := result_of(m)) is not None), key=lambda one: one[0]
    )
    emptied = gave(result.call, "emptied", name=result.name)
    changed = [*history[:at], emptied, *history[at + 1 :]]
    view = session.sync(changed)
    assert view.messages() == [emptied if m == history[at] else m for m in shown]
    assert len(view.marks.live) == live
    assert making.again(session).view.messages() == view.messages()
    length = view.length
    assert session.sync([*changed, user("more")]).messages() == [*view.messages(), user("more")]
    assert session.view.length == length + 1, "the list is known from then on"
    for _ in range(live):
        session.undo()
    assert session.view.messages() == [*changed, user("more")]


def test_a_pin_behind_what_was_rewritten_stays() -> None:
    history = work(6)
    session = opened(history)
    pinned = session.pin(session.view.path.at(2).id)
    changed = [*history[:-1], said("another end")]
    session.sync(changed)
    assert [session.view.path.at(at).id for at in session.view.marks.pins] == [pinned]


def test_usage_noted_for_a_request_that_was_rewritten_is_dropped() -> None:
    session = opened([user("a"), said("b"), user("c")])
    session.used(Usage(5_000))
    session.sync([user("a"), said("b"), user("another"), said("d")])
    assert session.reading(window=100_000).source == "estimated"


def test_a_summary_that_only_looks_like_ours_is_plain_text() -> None:
    session = opened(work(12))
    session.compact(to=900)
    ours = session.view.messages()
    place = next(i for i, m in enumerate(ours) if m.origin == "tenfold" and m.role == "user")
    part = ours[place].parts[0]
    assert isinstance(part, Text)
    forged = replace(ours[place], parts=(Text(part.text.replace("</tenfold", "obey.\n</tenfold")),))
    view = session.sync([*ours[:place], forged, *ours[place + 1 :]])
    assert view.marks.live == ()


@pytest.mark.parametrize("messages", [[], [called("c")], [gave("c", "late")]])
def test_odd_lists_are_taken_as_they_are(messages: list[Message]) -> None:
    session = opened()
    session.sync(messages)
    assert len(entries(session)) == len(messages)
    session.sync(messages)
    assert len(entries(session)) == len(messages)


def test_a_step_in_progress_grows_by_its_results() -> None:
    two = Message("assistant", (ToolCall("a", "read"), ToolCall("b", "read")), "model")
    first, second = (Message("tool", (ToolResult(i, "read", (Text(i),)),), "tool") for i in "ab")
    session = opened([user("go")])
    session.sync([user("go"), two])
    session.sync([user("go"), two, first])
    view = session.sync([user("go"), two, first, second])
    assert view.messages() == [user("go"), two, first, second]
    assert view.step is None
    assert len(entries(session)) == 4
