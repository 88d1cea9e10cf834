"""The preset `tail`: what is looked at, where the cut lies, and what would be summarised."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, Setting
from tenfold.core.record.message import Message, NativeBytes, Text, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.designs.tail import (
    Compaction,
    CompactionDetails,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    get_compaction_entry,
)
from tests.designs.tail.making import (
    append_result,
    build_manual_call,
    build_view,
    compact_by_hand,
    get_asked,
    get_blocks,
    get_messages,
    get_path,
    get_summary,
    make_answer,
    make_exchanges,
    make_harness_message,
    make_path,
    make_result,
    make_session,
    make_shell_message,
    make_step,
    make_steps,
    make_user,
    make_words,
)
from tests.laws.conversations import long_logs
from tests.laws.strategies import Log
from tests.thorough import IS_THOROUGH


def prepare_compaction(path: list[Entry], keep: int = 1_000) -> CompactionPreparation | None:
    return Compaction(settings=CompactionSettings(keep_recent_tokens=keep)).prepare(path)


def prepare_or_fail(path: list[Entry], keep: int = 1_000) -> CompactionPreparation:
    found = prepare_compaction(path, keep)
    assert found is not None
    return found


def test_nothing_to_do_is_none_and_calls_no_model() -> None:
    """The original summarised an empty conversation where all of it fitted, and stored the invented summary."""
    assert prepare_compaction([]) is None
    assert prepare_compaction(make_path(make_exchanges(1, tokens=20)), keep=100_000) is None
    session = make_session(make_exchanges(6))
    compact_by_hand(session)
    known = len(get_asked(session))
    assert prepare_compaction(get_path(session), keep=10) is None, "the last entry is a compaction"
    session.append(make_user("thanks"))
    assert prepare_compaction(get_path(session), keep=100_000) is None, "only the earlier summary lies before"
    assert session.compact(build_manual_call(session)).status == "nothing"
    assert len(get_asked(session)) == known


def test_a_second_compaction_begins_at_the_first_entry_that_the_first_one_kept() -> None:
    """The original began after the compaction entry: what the first one kept was neither kept nor summarised."""
    session = make_session(make_exchanges(6))
    compact_by_hand(session)
    kept = [s.message for s in session.view.get_visible_messages() if s.is_original]
    session.append(*make_exchanges(5, start=6))
    found = prepare_or_fail(get_path(session))
    assert "the work went on (first)" in (found.previous_summary or "")
    told = [get_text(m) for m in (*found.messages_to_summarize, *found.turn_prefix_messages)]
    assert all(get_text(m) in told for m in kept), "every message that the first one kept goes into the second"
    compact_by_hand(session)
    first, second = get_blocks(session)
    assert second.replacements[0].covered_ranges[0].first == first.replacements[0].first
    assert second.replacements[0].last > first.replacements[0].last


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    """The original took a message between a call and its result for a valid cut: the result lost its call."""
    call, result = make_step("z", "src/a.py", text=make_words(900))
    path = make_path([*make_exchanges(3), make_user("go on"), call, make_user("wait"), result, make_answer("ok")])
    found = prepare_or_fail(path, keep=800)
    ids = [e.id for e in path]
    tail = get_messages(path[ids.index(found.retained_from_id) :])
    calls = {c.id for m in tail for c in get_tool_calls(m)}
    assert {r.call_id for m in tail if (r := get_tool_result(m)) is not None} <= calls
    assert found.retained_from_id != ids[-3], "the user message stands inside the open step"


@settings(max_examples=60 if IS_THOROUGH else 25, deadline=None)
@given(long_logs(), st.integers(50, 3_000))
def test_any_history_is_cut_between_whole_steps_and_no_message_is_lost(log: Log, keep: int) -> None:
    found = prepare_compaction(list(log), keep=keep)
    if found is None:
        return
    view = build_view(log)
    starts = {view.path.get_entry(u.first).id for u in view.units} | (
        {view.path.get_entry(view.open_step.first).id} if view.open_step is not None else set()
    )
    assert found.retained_from_id in starts
    at = next(p for p in range(view.length) if view.path.get_entry(p).id == found.retained_from_id)
    before = [s for s in view.get_visible_messages() if s.position < at and s.message.role != "system"]
    told = (*found.messages_to_summarize, *found.turn_prefix_messages)
    leading = [s for s in view.get_visible_messages() if s.message.role == "system" and s.position < at]
    assert len(before) <= len(told) <= len(before) + len(leading)
    assert [m for m in told if m.role != "system"] == [s.message for s in before]


def test_the_tail_is_cut_at_the_message_that_reaches_the_size_or_at_the_next_valid_one() -> None:
    user, answer, words = make_user, make_answer, make_words(500)
    path = make_path([user(words), answer(words), user(words), answer(words), user("x"), answer(words)])
    assert prepare_or_fail(path, keep=504 + 5).retained_from_id == "id-0004", "the user's word reaches it exactly"
    assert prepare_or_fail(path, keep=504 + 5 + 300).retained_from_id == "id-0003"
    step = make_step("c", "src/a.py", text=make_words(900))
    inside = make_path([user(words), answer("a"), *step, answer("b"), user("x"), answer("y")])
    assert prepare_or_fail(inside, keep=500).retained_from_id == "id-0004", "the result reaches it: the tail is smaller"


def test_a_big_last_result_is_cut_at_the_call_that_owns_it() -> None:
    """The original found no valid cut after the result, took the oldest one, and so compacted nothing."""
    step = make_step("c", "src/a.py", text=make_words(4_000))
    path = make_path([make_user("u"), make_answer(make_words(300)), make_user("u2"), *step])
    found = prepare_or_fail(path, keep=2_000)
    assert found.retained_from_id == "id-0003"
    assert [get_text(m) for m in found.messages_to_summarize] == ["u", make_words(300), "u2"]
    session = make_session([*make_exchanges(5), make_user("u2"), *step])
    compact_by_hand(session)
    assert [s.message for s in session.view.get_visible_messages()][-2:] == step


def test_what_stands_silently_before_the_cut_stays_with_the_tail_and_what_is_visible_is_weighed() -> None:
    """The original weighed injected messages as nothing and pulled them into the tail uncounted."""
    said_ = make_path(
        [*make_exchanges(2), make_harness_message(make_words(3_000)), make_user("x"), make_answer(make_words(500))]
    )
    silent: Entry = Setting("set-1", said_[-3].id, "", None, "model", "p/m")
    path = [*said_[:-2], silent, *said_[-2:]]
    found = prepare_or_fail(path, keep=506)
    assert found.retained_from_id == said_[-2].id
    assert found.plan.changed_pieces[0].last == path.index(said_[-3]), "the setting is not covered"
    assert make_words(3_000) in [get_text(m) for m in found.messages_to_summarize], (
        "the injected text is no free passenger"
    )
    heavy = make_path([*make_exchanges(2), make_user("x"), make_harness_message(make_words(900)), make_answer("y")])
    assert prepare_or_fail(heavy, keep=800).retained_from_id == heavy[-2].id, "it is weighed like any other message"


def test_a_cut_inside_an_exchange_splits_it() -> None:
    path = make_path([*make_exchanges(2), make_user("now the long one"), *make_steps(6)])
    found = prepare_or_fail(path)
    assert found.is_split_turn
    assert get_text(found.turn_prefix_messages[0]) == "now the long one"
    assert get_text(found.messages_to_summarize[-1]) == "Part 1 is done."
    whole = make_path([*make_exchanges(2), make_user(make_words(1_100)), make_answer("y")])
    at_user = prepare_or_fail(whole)
    assert not at_user.is_split_turn
    assert at_user.turn_prefix_messages == ()
    assert at_user.retained_from_id == whole[-2].id


@pytest.mark.parametrize(
    "opening",
    [make_shell_message("$ make\nok"), make_harness_message("a note"), None],
    ids=["bash", "custom", "branch"],
)
def test_a_cut_at_what_opens_an_exchange_is_no_split(opening: Message | None) -> None:
    """The original flagged such a cut as split, with an empty prefix."""
    path = make_path([*make_exchanges(2), opening or make_harness_message("left"), make_answer(make_words(998))])
    if opening is None:
        told = Message("user", (Text("tried another way"),), "tenfold")
        path[-2] = BranchSummary(path[-2].id, path[-3].id, "", None, told, previous_leaf="x")
    found = prepare_or_fail(path, keep=1_003)
    assert found.retained_from_id == path[-2].id
    assert not found.is_split_turn
    later = prepare_or_fail(path, keep=1_002)
    assert later.retained_from_id == path[-1].id
    assert later.is_split_turn, "one message on, the exchange it opens is split"


def test_tokens_before_is_the_size_of_the_rebuilt_context() -> None:
    """The originals counted all entries, or those after the compaction only; the model sees neither."""
    session = make_session(make_exchanges(6))
    whole = prepare_or_fail(get_path(session)).tokens_before
    assert compact_by_hand(session).tokens_before == whole
    session.append(*make_exchanges(3, start=6))
    assert prepare_or_fail(get_path(session)).tokens_before == session.take_reading().tokens < whole + 3_000


def test_file_lists_grow_over_compactions_and_know_deletes_renames_and_shell_edits() -> None:
    """The originals tracked neither deletes nor renames nor what a shell command did."""
    messages = [make_user("u"), *make_step("r", "docs/old.md")]
    for n, command in enumerate(("rm src/gone.py", "mv a.py b.py", "sed -i s/a/b/ src/shell.py")):
        call = ToolCall(f"s{n}", "bash", f'{{"command":"{command}"}}')
        messages += [Message("assistant", (call,), "model"), make_result(f"s{n}", "", "bash")]
    session = make_session([*messages, *make_exchanges(6)])
    compact_by_hand(session)
    session.append(*make_exchanges(5, start=6))
    files = prepare_or_fail(get_path(session)).file_ops
    assert {"src/gone.py", "a.py", "b.py", "src/shell.py", "src/part0.py"} <= set(files["modified"])
    assert "docs/old.md" in files["read"]
    assert list(files["read"]) == sorted(files["read"])
    assert not set(files["read"]) & set(files["modified"]), "what was changed is not listed as read"


def test_what_a_hook_says_of_files_goes_on_beside_what_the_calls_tell() -> None:
    """An original dropped a hook's lists, another one trusted nothing else."""
    session = make_session(make_exchanges(6))
    found = prepare_or_fail(get_path(session))
    told = CompactionResult("all is well", found.retained_from_id, 999, CompactionDetails((), ("its/own/file.py",)))
    assert append_result(session, told).status == "compacted"
    session.append(*make_exchanges(5, start=6))
    assert {"src/part0.py", "its/own/file.py"} <= set(prepare_or_fail(get_path(session)).file_ops["modified"])
    compact_by_hand(session)
    assert "its/own/file.py" in get_summary(session)
    details = get_compaction_entry(session, get_blocks(session)[1].id).details
    assert "its/own/file.py" in details.modified_files


def test_the_tail_shrinks_to_the_target_so_that_the_result_is_really_smaller() -> None:
    """The original never looked whether the result had become smaller: a big tail made a loop of compactions."""
    big = make_step("b", "src/a.py", text=make_words(5_000))
    session = make_session([make_user("u"), *make_steps(8), *big, make_user("x"), make_answer("y")])
    outcome = session.compact(to=3_000)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 3_000
    assert "y" in get_text(session.view.get_messages()[-1])


def _make_native() -> NativeBytes:
    return NativeBytes("pi", b"{}")


def test_labels_and_custom_data_are_never_a_cut_and_weigh_nothing() -> None:
    plain = make_path([*make_exchanges(2), make_user("x"), make_answer(make_words(600))])
    label: Entry = CustomEntry("label-1", plain[-1].id, "", None, "label", _make_native())
    found = prepare_or_fail([*plain, label], keep=500)
    assert found.retained_from_id == plain[-1].id
