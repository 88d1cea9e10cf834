"""The preset `tail`: what is looked at, where the cut lies, and what would be summarised."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.designs.tail import (
    Compaction,
    CompactionDetails,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    append_compaction,
)
from tenfold.record.entry import Branch, Custom, Entry, Setting
from tenfold.record.message import Message, Native, Text, ToolCall, calls_of, result_of, text_of
from tests.laws.conversations import long_logs
from tests.laws.strategies import Log
from tests.presets.tail_making import (
    bash,
    blocks,
    called,
    custom,
    exchanges,
    gave,
    manual,
    messages_of,
    opened,
    path_of,
    preset,
    said,
    steps,
    summary_of,
    user,
    view_of,
    words,
)


def prepared(path: list[Entry], keep: int = 1_000) -> CompactionPreparation | None:
    return Compaction(settings=CompactionSettings(keep_recent_tokens=keep)).prepare(path)


def sure(path: list[Entry], keep: int = 1_000) -> CompactionPreparation:
    found = prepared(path, keep)
    assert found is not None
    return found


@pytest.mark.spec("tail.A13", "tail.W4")
def test_nothing_to_do_is_none_and_calls_no_model() -> None:
    """The original summarised an empty conversation where all of it fitted, and stored the invented summary."""
    assert prepared([]) is None
    assert prepared(path_of(exchanges(1, tokens=20)), keep=100_000) is None
    session = opened(exchanges(6))
    assert session.compact(manual(session)).status == "compacted"
    asked = session.answerer.model.asked  # type: ignore[union-attr]
    known = len(asked)
    path = session.view.path
    assert prepared(list(path.span(0, path.length - 1)), keep=10) is None, "the last entry is a compaction"
    session.append(user("thanks"))
    path = session.view.path
    assert prepared(list(path.span(0, path.length - 1)), keep=100_000) is None, "only the earlier summary lies before"
    assert session.compact(manual(session)).status == "nothing"
    assert len(asked) == known


@pytest.mark.spec("tail.A14", "tail.A15", "tail.W1")
def test_a_second_compaction_begins_at_the_first_entry_that_the_first_one_kept() -> None:
    """The original began after the compaction entry: what the first one kept was neither kept nor summarised."""
    session = opened(exchanges(6))
    assert session.compact(manual(session)).status == "compacted"
    kept = [s.message for s in session.view.shown() if s.original]
    session.append(*exchanges(5, start=6))
    path = session.view.path
    found = sure(list(path.span(0, path.length - 1)))
    assert found.previous_summary is not None
    assert "the work went on (first)" in found.previous_summary
    told = [text_of(m) for m in (*found.messages_to_summarize, *found.turn_prefix_messages)]
    assert all(text_of(m) in told for m in kept), "every message that the first one kept goes into the second"
    assert session.compact(manual(session)).status == "compacted"
    first, second = blocks(session)
    assert second.replacements[0].covers[0].first == first.replacements[0].first
    assert second.replacements[0].last > first.replacements[0].last


@pytest.mark.spec("tail.A16", "tail.W3")
def test_a_cut_never_parts_a_call_from_its_result() -> None:
    """The original took a message between a call and its result for a valid cut: the result lost its call."""
    path = path_of(
        [*exchanges(3), user("go on"), called("z"), user("wait, also this"), gave("z", words(900)), said("ok")]
    )
    found = sure(path, keep=800)
    ids = [e.id for e in path]
    tail = messages_of(path[ids.index(found.retained_from_id) :])
    calls = {c.id for m in tail for c in calls_of(m)}
    assert {r.call for m in tail if (r := result_of(m)) is not None} <= calls
    assert found.retained_from_id != ids[-3], "the user message stands inside the open step"


@settings(max_examples=60, deadline=None)
@given(long_logs(), st.integers(50, 3_000))
@pytest.mark.spec("tail.A16", "tail.A20")
def test_any_history_is_cut_between_whole_steps_and_no_message_is_lost(log: Log, keep: int) -> None:
    found = prepared(list(log), keep=keep)
    if found is None:
        return
    view = view_of(log)
    starts = {view.path.at(u.first).id for u in view.units} | (
        {view.path.at(view.step.first).id} if view.step is not None else set()
    )
    assert found.retained_from_id in starts
    at = next(p for p in range(view.length) if view.path.at(p).id == found.retained_from_id)
    before = [s for s in view.shown() if s.at < at and s.message.role != "system"]
    told = (*found.messages_to_summarize, *found.turn_prefix_messages)
    leading = [s for s in view.shown() if s.message.role == "system" and s.at < at]
    assert len(before) <= len(told) <= len(before) + len(leading)
    assert [m for m in told if m.role != "system"] == [s.message for s in before]


@pytest.mark.spec("tail.A17")
def test_the_tail_is_cut_at_the_message_that_reaches_the_size_or_at_the_next_valid_one() -> None:
    path = path_of(
        [user(words(500)), said(words(500)), user(words(500)), said(words(500)), user("x"), said(words(500))]
    )
    at_answer = sure(path, keep=504 + 5)
    assert at_answer.retained_from_id == "id-0004", "the user's word reaches it exactly"
    assert sure(path, keep=504 + 5 + 300).retained_from_id == "id-0003"
    inside = path_of([user(words(500)), said("a"), called("c"), gave("c", words(900)), said("b"), user("x"), said("y")])
    assert sure(inside, keep=500).retained_from_id == "id-0004", "the result reaches it: the tail is smaller"


@pytest.mark.spec("tail.W2")
def test_a_big_last_result_is_cut_at_the_call_that_owns_it() -> None:
    """The original found no valid cut after the result, took the oldest one, and so compacted nothing."""
    path = path_of([user("u"), said(words(300)), user("u2"), called("c"), gave("c", words(2_000))])
    found = sure(path, keep=2_000)
    assert found.retained_from_id == "id-0003"
    assert [text_of(m) for m in found.messages_to_summarize] == ["u", words(300), "u2"]
    session = opened([*exchanges(5), user("u2"), called("c"), gave("c", words(4_000))])
    assert session.compact(manual(session)).status == "compacted"
    shown = [s.message for s in session.view.shown()]
    assert [c.id for c in calls_of(shown[-2])] == ["c"]
    assert text_of(shown[-1]) == words(4_000)


@pytest.mark.spec("tail.A18", "tail.W6")
def test_what_stands_silently_before_the_cut_stays_with_the_tail_and_what_is_visible_is_weighed() -> None:
    """The original weighed injected messages as nothing and pulled them into the tail uncounted."""
    said_ = path_of([*exchanges(2), custom(words(3_000)), user("x"), said(words(500))])
    silent: Entry = Setting("set-1", said_[-3].id, "", None, "model", "p/m")
    path = [*said_[:-2], silent, *said_[-2:]]
    found = sure(path, keep=506)
    assert found.retained_from_id == said_[-2].id
    assert found.plan.changed[0].last == path.index(said_[-3]), "the setting is not covered"
    assert words(3_000) in [text_of(m) for m in found.messages_to_summarize], "the injected text is no free passenger"
    heavy = path_of([*exchanges(2), user("x"), custom(words(900)), said("y")])
    assert sure(heavy, keep=800).retained_from_id == heavy[-2].id, "it is weighed like any other message"


@pytest.mark.spec("tail.A19", "tail.A28")
def test_a_cut_inside_an_exchange_splits_it() -> None:
    path = path_of([*exchanges(2), user("now the long one"), *steps(6)])
    found = sure(path)
    assert found.is_split_turn
    assert text_of(found.turn_prefix_messages[0]) == "now the long one"
    assert text_of(found.messages_to_summarize[-1]) == "Part 1 is done."
    whole = path_of([*exchanges(2), user(words(1_100)), said("y")])
    at_user = sure(whole)
    assert not at_user.is_split_turn
    assert at_user.turn_prefix_messages == ()
    assert at_user.retained_from_id == whole[-2].id


@pytest.mark.parametrize("opening", [bash("$ make\nok"), custom("a note"), None], ids=["bash", "custom", "branch"])
@pytest.mark.spec("tail.A19", "tail.W5")
def test_a_cut_at_what_opens_an_exchange_is_no_split(opening: Message | None) -> None:
    """The original flagged such a cut as split, with an empty prefix."""
    path = path_of([*exchanges(2), opening or custom("left"), said(words(998))])
    if opening is None:
        told = Message("user", (Text("tried another way"),), "tenfold")
        path[-2] = Branch(path[-2].id, path[-3].id, "", None, told, left="x")
    found = sure(path, keep=1_003)
    assert found.retained_from_id == path[-2].id
    assert not found.is_split_turn
    later = sure(path, keep=1_002)
    assert later.retained_from_id == path[-1].id
    assert later.is_split_turn, "one message on, the exchange it opens is split"


@pytest.mark.spec("tail.A20", "tail.A23")
def test_a_preparation_has_the_design_s_fields() -> None:
    path = path_of([*exchanges(3), user("and now"), *steps(5)])
    found = sure(path, keep=900)
    ids = [e.id for e in path]
    cut, turn = ids.index(found.retained_from_id), ids.index(path[-21].id)
    assert list(found.messages_to_summarize) == messages_of(path[:turn])
    assert list(found.turn_prefix_messages) == messages_of(path[turn:cut])
    assert found.previous_summary is None
    assert found.settings.keep_recent_tokens == 900
    assert found.file_ops.modified[0] == "src/part0.py"


@pytest.mark.spec("tail.A21")
def test_tokens_before_is_the_size_of_the_rebuilt_context() -> None:
    """The originals counted all entries, or those after the compaction only; the model sees neither."""
    session = opened(exchanges(6))
    whole = sure(list(session.view.path.span(0, session.view.length - 1))).tokens_before
    assert session.compact(manual(session)).tokens_before == whole
    session.append(*exchanges(3, start=6))
    path = session.view.path
    second = sure(list(path.span(0, path.length - 1)))
    shown = sum(session.sizes().values())
    assert second.tokens_before == shown < whole + 3_000


@pytest.mark.spec("tail.A22", "tail.W11")
def test_file_lists_grow_over_compactions_and_know_deletes_renames_and_shell_edits() -> None:
    """The originals tracked neither deletes nor renames nor what a shell command did, and dropped a hook's details."""

    def ran(id: str, command: str) -> list[Message]:
        call = ToolCall(id, "bash", f'{{"command":"{command}"}}')
        return [Message("assistant", (call,), "model"), gave(id, "", "bash")]

    first = [user("u"), called("r", "docs/old.md"), gave("r"), *ran("s1", "rm src/gone.py"), *ran("s2", "mv a.py b.py")]
    first += [*ran("s3", "sed -i s/a/b/ src/shell.py"), *exchanges(6)]
    session = opened(first)
    session.compact(manual(session))
    session.append(*exchanges(5, start=6))
    path = session.view.path
    files = sure(list(path.span(0, path.length - 1))).file_ops
    assert {"src/gone.py", "a.py", "b.py", "src/shell.py", "src/part0.py"} <= set(files.modified)
    assert "docs/old.md" in files.read
    assert list(files.read) == sorted(files.read)
    assert not set(files.read) & set(files.modified), "what was changed is not listed as read"


@pytest.mark.spec("tail.A22", "tail.A37")
def test_what_a_hook_says_of_files_replaces_nothing_that_the_calls_tell() -> None:
    session = opened(exchanges(6))
    path = session.view.path
    found = sure(list(path.span(0, path.length - 1)))
    lie = CompactionResult("all is well", found.retained_from_id, 999, CompactionDetails((), ("no/such/file.py",)))
    assert append_compaction(session, lie).status == "compacted"
    session.append(*exchanges(5, start=6))
    path = session.view.path
    files = sure(list(path.span(0, path.length - 1))).file_ops
    assert "src/part0.py" in files.modified, "facts go on with the Block whoever wrote its text"
    assert "no/such/file.py" not in files.modified


@pytest.mark.spec("tail.A17", "tail.W10")
def test_the_tail_shrinks_to_the_target_so_that_the_result_is_really_smaller() -> None:
    """The original never looked whether the result had become smaller: a big tail made a loop of compactions."""
    session = opened(
        [user("u"), *steps(8), called("b"), gave("b", words(5_000)), user("x"), said("y")], preset(keep=3_000)
    )
    outcome = session.compact(to=3_000)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 3_000
    assert "y" in text_of(session.view.messages()[-1])
    assert "(update)" not in summary_of(session)


def _native() -> Native:
    return Native("pi", b"{}")


@pytest.mark.spec("tail.A16", "tail.A18")
def test_labels_and_custom_data_are_never_a_cut_and_weigh_nothing() -> None:
    plain = path_of([*exchanges(2), user("x"), said(words(600))])
    label: Entry = Custom("label-1", plain[-1].id, "", None, "label", _native())
    found = sure([*plain, label], keep=500)
    assert found.retained_from_id == plain[-1].id
