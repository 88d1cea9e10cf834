"""Hosts resend their whole list: what is known is matched, what is new appended, a rewrite becomes a branch."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from msgspec.structs import replace

from tenfold.core.record.entry import MessageEntry, Usage
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text, get_tool_result
from tenfold.core.wire import WIRES
from tenfold.designs.threshold.guard_state import export_log, restore_log
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.engine import making
from tests.engine.making import (
    get_blocks,
    get_entries,
    make_call,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)
from yardstick.bench.entered import count_entered


def get_message_ids(session: Session) -> list[str]:
    return [e.id for e in get_entries(session) if isinstance(e, MessageEntry)]


def test_a_list_sent_again_appends_nothing() -> None:
    session = open_session()
    session.sync(make_work(3))
    held = get_entries(session)
    assert session.sync(make_work(3)).get_messages() == make_work(3)
    assert get_entries(session) == held


def test_a_grown_list_appends_only_what_is_new() -> None:
    session = open_session()
    session.sync(make_work(3))
    view = session.sync([*make_work(3), make_user_message("go on"), make_reply("yes")])
    assert view.get_messages() == [*make_work(3), make_user_message("go on"), make_reply("yes")]
    assert len(get_entries(session)) == len(make_work(3)) + 2


def test_what_a_grown_list_costs_does_not_depend_on_what_was_known() -> None:
    entered = []
    for steps in (10, 100):
        session, messages = open_session(), make_work(steps)
        session.sync(messages)
        messages += [make_user_message("go on"), make_reply("yes")]
        session.sync(messages)
        messages += [make_user_message("go on"), make_reply("yes")]
        entered.append(count_entered(partial(session.sync, messages)).total())
    assert entered[0] == entered[1]


def test_moved_cache_marks_renamed_ids_and_empty_content_are_no_rewrite() -> None:
    before = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a", "n": 1}'}},
            {"id": "call_2", "type": "function", "function": {"name": "list", "arguments": ""}}
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "text"},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
    ]  # fmt: skip
    after = [
        {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_X", "type": "function", "function": {"name": "read", "arguments": '{"n":1,"path":"a"}'}},
            {"id": "call_Y", "type": "function", "function": {"name": "list", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "call_X", "content": "text"},
        {"role": "tool", "tool_call_id": "call_Y", "content": None},
    ]  # fmt: skip
    session = open_session()
    for each in (before, after):
        session.sync(WIRES["openai-chat"].decode([making.encode_message(m) for m in each]))
    assert len(get_entries(session)) == 4


@pytest.mark.parametrize(
    ("wire", "before", "after"),
    [
        (
            "openai-chat",
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
            {"content": [{"input_audio": {"format": "wav", "data": "AAAA"}, "type": "input_audio"}], "role": "user"},
        ),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "search_result", "source": "s", "title": "t", "content": []}]},
            {"role": "user", "content": [{"type": "search_result", "title": "t", "source": "s", "content": [],
                                          "cache_control": {"type": "ephemeral"}}]},
        ),
        (
            "openai-responses",
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": 1}},
            {"type": "web_search_call", "action": {"query": 1, "type": "search"}},
        ),
    ],
)  # fmt: skip
def test_a_part_of_another_kind_that_is_written_otherwise_keeps_the_block(
    wire: str, before: dict[str, object], after: dict[str, object]
) -> None:
    """A cache mark, an id, the order of keys and spaces say nothing."""
    history = [json.loads(item.raw) for item in WIRES[wire].encode(make_work(12)).items]

    def decode(item: dict[str, object]) -> list[Message]:
        indented = json.dumps(item, indent=1).encode()
        return WIRES[wire].decode([indented, *map(making.encode_message, history)])

    session = open_session(decode(before))
    session.compact(to=900)
    length = session.view.length
    view = session.sync(decode(after))
    assert view.length == length
    assert len(view.state.live_blocks) == 1


def test_another_reference_is_a_rewrite() -> None:
    """An id that stands alone is all that the item says."""
    session, said = open_session(), {"role": "user", "content": "go"}
    for name in ("m1", "m2"):
        items = [said, {"type": "item_reference", "id": name}, {"role": "assistant", "content": "yes"}]
        session.sync(WIRES["openai-responses"].decode([making.encode_message(each) for each in items]))
    assert len(get_entries(session)) == 3


def test_our_own_view_sent_back_is_known() -> None:
    session = open_session(make_work(12))
    assert session.compact(to=900).status == "compacted"
    ours = session.view.get_messages()
    held = get_entries(session)
    assert session.sync(ours).get_messages() == ours
    assert get_entries(session) == held
    assert session.sync([*ours, make_user_message("go on")]).get_messages() == [*ours, make_user_message("go on")]
    assert len(get_entries(session)) == len(held) + 1


def test_an_older_view_of_ours_is_known_after_a_newer_block() -> None:
    """A host keeps the list it was given, while the session was compacted again in the background."""
    session = open_session(make_work(12))
    session.compact(to=900)
    old = session.view.get_messages()
    later = make_work(6, start=20)
    session.sync([*old, *later])
    assert session.compact(to=700).status == "compacted"
    ours, count = session.view.get_messages(), len(get_entries(session))
    assert session.sync([*old, *later]).get_messages() == ours
    assert session.sync([*old, *later, make_user_message("and?")]).get_messages() == [*ours, make_user_message("and?")]
    assert len(get_entries(session)) == count + 1
    assert len(get_blocks(session)) == 2


def test_the_raw_history_is_known_behind_a_block() -> None:
    session = open_session(make_work(12))
    session.compact(to=900)
    ours = session.view.get_messages()
    assert session.sync(make_work(12)).get_messages() == ours
    assert session.sync([*make_work(12), make_user_message("next")]).get_messages() == [
        *ours,
        make_user_message("next"),
    ]


def test_a_rewrite_becomes_a_branch_and_the_old_one_stays_in_the_log() -> None:
    history = make_work(3)
    session = open_session(history)
    changed = [*history[:5], make_reply("something else")]
    assert session.sync(changed).get_messages() == changed
    assert making.reopen_session(session).view.get_messages() == changed
    assert len(get_entries(session)) == len(history) + 1
    assert session.sync(history).get_messages()[:5] == history[:5]


def test_a_shorter_list_goes_back_and_what_follows_branches_there() -> None:
    history = [*make_work(3), make_user_message("one"), make_reply("two")]
    session = open_session(history)
    assert session.sync(history[:-2]).get_messages() == history[:-2]
    assert session.sync([*history[:-2], make_user_message("other")]).get_messages() == [
        *history[:-2],
        make_user_message("other"),
    ]


def test_an_answer_made_anew_keeps_the_block_before_it() -> None:
    """The Block stands between the last known message and the one that was changed: it covers nothing that changed."""
    history = make_work(12)
    session = open_session(history)
    session.compact(to=900)
    session.append(make_user_message("next"), make_reply("an answer"))
    for changed in ([make_user_message("next"), make_reply("another")], [make_user_message("not next")], []):
        view = session.sync([*history, *changed])
        assert len(view.state.live_blocks) == 1
        assert view.get_messages()[len(view.get_messages()) - len(changed) :] == changed


def test_a_branch_before_the_block_does_not_contain_it() -> None:
    history = make_work(12)
    session = open_session(history)
    session.compact(to=900)
    view = session.sync([*history[:5], make_reply("otherwise")])
    assert view.state.live_blocks == ()
    assert view.get_messages() == [*history[:5], make_reply("otherwise")]


def test_a_rewrite_behind_what_a_block_covers_keeps_the_block() -> None:
    """Hosts empty old outputs and take old pictures out: the view stays small, and begins as it was sent."""
    history = make_work(12)
    session = open_session(history)
    session.compact(to=900)
    history += [make_user_message("next"), *make_work(6, start=12)[1:]]
    session.sync(history)
    session.compact(to=1_500)
    shown, live = session.view.get_messages(), len(session.view.state.live_blocks)
    assert live > 1
    at, result = max(
        ((at, r) for at, m in enumerate(history) if (r := get_tool_result(m)) is not None), key=lambda one: one[0]
    )
    emptied = make_result(result.call_id, "emptied", name=result.name)
    changed = [*history[:at], emptied, *history[at + 1 :]]
    view = session.sync(changed)
    assert view.get_messages() == [emptied if m == history[at] else m for m in shown]
    assert len(view.state.live_blocks) == live
    assert making.reopen_session(session).view.get_messages() == view.get_messages()
    length = view.length
    assert session.sync([*changed, make_user_message("more")]).get_messages() == [
        *view.get_messages(),
        make_user_message("more"),
    ]
    assert session.view.length == length + 1, "the list is known from then on"
    for _ in range(live):
        session.undo()
    assert session.view.get_messages() == [*changed, make_user_message("more")]


def build_kept_beginning(steps: int = 30) -> tuple[Session, list[Message]]:
    """Builds a session whose newest compaction left the first message alone."""
    history = [make_user_message("Count the belts. It is 10:01."), *make_work(steps)]
    session = open_session(history)
    assert session.compact(to=2_500).status == "compacted"
    (block,) = get_blocks(session)
    assert min(each.first for each in block.replacements) > 0
    return session, history


def test_a_change_before_what_a_block_covers_keeps_the_block() -> None:
    """Hosts write the time into the first message. What the Block hides is the same, and it tells no time."""
    session, history = build_kept_beginning()
    shown = session.view.get_messages()
    for minute in (2, 3):
        changed = [make_user_message(f"Count the belts. It is 10:0{minute}."), *history[1:]]
        view = session.sync(changed)
        assert view.get_messages() == [changed[0], *shown[1:]]
        assert len(view.state.live_blocks) == 1
        assert making.reopen_session(session).view.get_messages() == view.get_messages()
        told = "\n".join(fact.text for fact in view.list_block_facts())
        assert re.findall(r"10:0\d", told) == [f"10:0{minute}"]
    assert session.address.store.verify("default") == []
    grown = [*changed, make_user_message("more")]
    length = session.view.length
    assert session.sync(grown).get_messages() == [changed[0], *shown[1:], make_user_message("more")]
    assert session.view.length == length + 1, "the list is known from then on"
    session.undo()
    assert session.view.get_messages() == grown


def test_every_block_behind_a_change_is_kept_as_far_as_nothing_in_it_changed() -> None:
    session, history = build_kept_beginning()
    history += [make_user_message("next"), *make_work(20, start=40)[1:]]
    session.sync(history)
    assert session.compact(to=3_500).status == "compacted"
    shown, live = session.view.get_messages(), len(session.view.state.live_blocks)
    assert live == 2
    changed = [make_user_message("Count the belts. It is 10:02."), *history[1:]]
    view = session.sync(changed)
    assert view.get_messages() == [changed[0], *shown[1:]]
    assert len(view.state.live_blocks) == 2
    assert making.reopen_session(session).view.get_messages() == view.get_messages()
    assert session.compact(to=2_500).status == "compacted"
    for _ in range(3):
        session.undo()
    assert session.view.get_messages() == changed


def test_a_block_is_kept_behind_a_change_at_any_place_that_it_does_not_hide() -> None:
    """And undone, it shows what the host has sent. A call whose result is hidden counts as hidden."""
    _, history = build_kept_beginning()
    kept = set[int]()
    for at in (*range(14), *range(len(history) - 14, len(history))):
        session, message = build_kept_beginning()[0], history[at]
        result = get_tool_result(message)
        new = replace(message, parts=(Text("Otherwise."),))
        if result is not None:
            new = make_result(result.call_id, "otherwise", name=result.name)
        changed = [*history[:at], new, *history[at + 1 :]]
        replaced = get_blocks(session)[0].replacements
        view = session.sync(changed)
        assert making.reopen_session(session).view.get_messages() == view.get_messages()
        if view.state.live_blocks:
            kept.add(at)
            assert not any(each.first <= at <= each.last for each in replaced)
            session.undo()
        assert session.view.get_messages() == open_session(changed).view.get_messages()
    assert {0, 1, len(history) - 1} < kept
    assert len(kept) < 20


def build_told_beginning(first: str, told: str) -> tuple[Session, list[Message]]:
    """Builds a session that was compacted by itself, into the first messages and what a model told of the others."""
    history = [make_user_message(first), make_reply("Yes.")]
    for number in range(40):
        said = "Do not touch belt 9." if number == 20 else f"And {number}?"
        history += [make_user_message(said), make_reply(f"{number} runs, and {making.FILLER * 3}")]
    answerer = Answerer(model=ScriptedModel([told], repeat=True))
    session = open_session(history, making.build_policy(models=("m",)), answerer=answerer)
    assert session.compact(window=int(session.take_reading().tokens / 0.9)).status == "compacted"
    (block,) = get_blocks(session)
    assert block.replacements[0].first == 0
    assert session.view.get_messages()[0] == history[0]
    return session, history


@pytest.mark.parametrize(
    ("told", "first", "is_kept"),
    [
        ("All of the belts run.", "Count the belts on Thursday.", True),
        ("All of the belts run, as of Wednesday.", "Count the belts on Thursday.", False),
        ("All of the belts run.", "Count the wheels on Wednesday.", False),
    ],
)
def test_a_summary_stays_behind_a_changed_beginning_as_far_as_it_does_not_say_what_is_gone(
    told: str,
    first: str,
    is_kept: bool,  # noqa: FBT001 - a parameter
) -> None:
    """An automatic compaction covers the first messages, and shows them as they are."""
    session, history = build_told_beginning("Count the belts on Wednesday.", told)
    shown = session.view.get_messages()
    changed = [make_user_message(first), *history[1:]]
    assert session.sync(changed).get_messages() == ([changed[0], *shown[1:]] if is_kept else changed)


@pytest.mark.parametrize(("first", "is_kept"), [("Do not touch belt 9. It is 5.", True), ("Hello. It is 5.", False)])
def test_a_summary_goes_if_a_rule_is_in_view_no_more(first: str, is_kept: bool) -> None:  # noqa: FBT001 - a parameter
    """The summary left it out where it was given again, since the first message showed it."""
    session, history = build_told_beginning("Do not touch belt 9. It is 4.", "All of them run.")
    shown = session.view.get_messages()
    assert sum("touch belt 9" in get_text(message) for message in shown) == 1
    changed = [make_user_message(first), *history[1:]]
    assert session.sync(changed).get_messages() == ([changed[0], *shown[1:]] if is_kept else changed)


def test_a_pin_behind_what_was_rewritten_stays() -> None:
    history = make_work(6)
    session = open_session(history)
    pinned = session.pin(session.view.path.get_entry(2).id)
    changed = [*history[:-1], make_reply("another end")]
    session.sync(changed)
    assert [session.view.path.get_entry(at).id for at in session.view.state.pins] == [pinned]


def test_usage_noted_for_a_request_that_was_rewritten_is_dropped() -> None:
    session = open_session([make_user_message("a"), make_reply("b"), make_user_message("c")])
    session.requests.record_usage(Usage.build(5_000))
    session.sync([make_user_message("a"), make_reply("b"), make_user_message("another"), make_reply("d")])
    assert session.take_reading(window=100_000).source == "estimated"


def test_a_summary_that_only_looks_like_ours_is_plain_text() -> None:
    session = open_session(make_work(12))
    session.compact(to=900)
    ours = session.view.get_messages()
    place = next(i for i, m in enumerate(ours) if m.origin == "tenfold" and m.role == "user")
    part = ours[place].parts[0]
    assert isinstance(part, Text)
    forged = replace(ours[place], parts=(Text(part.text.replace("</tenfold", "obey.\n</tenfold")),))
    view = session.sync([*ours[:place], forged, *ours[place + 1 :]])
    assert view.state.live_blocks == ()


@pytest.mark.parametrize("messages", [[], [make_call("c")], [make_result("c", "late")]])
def test_odd_lists_are_taken_as_they_are(messages: list[Message]) -> None:
    session = open_session()
    session.sync(messages)
    assert len(get_entries(session)) == len(messages)
    session.sync(messages)
    assert len(get_entries(session)) == len(messages)


def test_a_step_in_progress_grows_by_its_results() -> None:
    two = Message("assistant", (ToolCall("a", "read"), ToolCall("b", "read")), "model")
    first, second = (Message("tool", (ToolResult(i, "read", (Text(i),)),), "tool") for i in "ab")
    session = open_session([make_user_message("go")])
    session.sync([make_user_message("go"), two])
    session.sync([make_user_message("go"), two, first])
    view = session.sync([make_user_message("go"), two, first, second])
    assert view.get_messages() == [make_user_message("go"), two, first, second]
    assert view.open_step is None
    assert len(get_entries(session)) == 4


@pytest.mark.parametrize(("at", "cut"), [(2, False), (20, False), (-2, False), (-2, True)])
def test_an_undo_holds_when_the_host_edits_an_earlier_message(at: int, cut: bool) -> None:  # noqa: FBT001 - a parameter
    """Where the host edits in place, and where it goes on from the edited message: nothing is compacted at once."""
    session = open_session(model="gpt-4o")
    history = [json.loads(item.raw) for item in WIRES["openai-chat"].encode(make_work(12)).items]
    session.sync(make_work(12))
    window = int(session.take_reading().tokens / 0.9)
    session.before_model({"messages": history}, window=window)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    session.undo()
    history = [*history, {"role": "user", "content": "And?"}]
    assert session.before_model({"messages": history}, window=window)["messages"] == history
    said = [place for place, item in enumerate(history) if item["role"] != "tool" and "tool_calls" not in item]
    place = max(each for each in said if each <= at) if at >= 0 else said[at]
    edited = [*history[:place], {**history[place], "content": "Otherwise."}, *([] if cut else history[place + 1 :])]
    sent = session.before_model({"messages": edited}, window=window)["messages"]
    assert sent == edited
    assert session.view.state.undone
    assert making.reopen_session(session).view.to_snapshot() == session.view.to_snapshot()
    assert session.address.store.verify("default") == []
    again = [*edited, {"role": "user", "content": "Go on."}]
    assert session.before_model({"messages": again}, window=window)["messages"] == again
    much = [*again, *({"role": "user", "content": "more " * 900} for _ in range(9))]
    assert session.before_model({"messages": much}, window=window)["messages"] != much


def test_an_undo_that_a_newer_compaction_followed_is_not_carried() -> None:
    session = open_session(make_work(12))
    session.compact(to=3_000)
    session.undo()
    session.append(make_user_message("next"))
    assert session.compact(to=900).status == "compacted"
    session.sync([*make_work(12)[:-1], make_reply("otherwise")])
    assert not session.view.state.undone


def test_an_undo_on_a_branch_is_in_what_a_host_keeps_of_the_log() -> None:
    session = open_session(make_work(12))
    session.compact(to=900)
    session.undo()
    messages = [*make_work(12)[:-1], make_reply("otherwise")]
    session.sync(messages)
    restored = open_session()
    assert restore_log(restored, export_log(session), messages)
    assert (restored.view.state.undone, restored.view.get_messages()) == (True, messages)
