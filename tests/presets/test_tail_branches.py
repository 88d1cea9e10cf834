"""The preset `tail`: leaving a branch, telling of it, and going to another point of the session."""

from __future__ import annotations

import pytest

from tenfold.branches import NOTHING, OPENING, Wish, navigate
from tenfold.designs.tail import (
    SessionBeforeTree,
    SessionBeforeTreeResult,
    SessionTree,
    collect_entries_for_branch_summary,
    generate_branch_summary,
    prepare_branch_entries,
)
from tenfold.designs.tail_events import TailEvent
from tenfold.drive import Answerer
from tenfold.errors import NotFound, UsageError
from tenfold.events import Event, Moved
from tenfold.record.ask import Answer
from tenfold.record.entry import Branch, Entry
from tenfold.record.message import Message, calls_of, text_of
from tenfold.session import Session
from tenfold.summarize.structure import STRUCTURES
from tests.presets.tail_making import (
    COUNTER,
    Structured,
    called,
    custom,
    entries,
    exchanges,
    gave,
    harness,
    manual,
    messages_of,
    opened,
    preset,
    said,
    steps,
    user,
    words,
)


def forked() -> tuple[Session, list[str]]:
    """A session of three exchanges, and the ids of its entries."""
    session = opened(exchanges(3, each=1))
    return session, [e.id for e in entries(session)]


def branches(session: Session) -> list[Branch]:
    return [e for e in entries(session) if isinstance(e, Branch)]


@pytest.mark.spec("tail.A43")
def test_what_is_left_begins_after_the_deepest_common_ancestor() -> None:
    session, ids = forked()
    found = collect_entries_for_branch_summary(session, ids[-1], ids[5])
    assert [e.id for _, e in found.entries] == ids[6:]
    assert found.common_ancestor_id == ids[5]
    assert collect_entries_for_branch_summary(session, None, ids[5]) == type(found)((), None)
    navigate(session, ids[5])
    session.append(user("another way"), said("ok"))
    other = collect_entries_for_branch_summary(session, session.leaf, ids[-1])
    assert [text_of(m) for m in _messages(other.entries)] == ["another way", "ok"]
    assert other.common_ancestor_id == ids[5]
    with pytest.raises(NotFound):
        collect_entries_for_branch_summary(session, ids[-1], "no-such-id")


def _messages(left: tuple[tuple[int, Entry], ...]) -> list[Message]:
    return messages_of([e for _, e in left])


@pytest.mark.spec("tail.A43", "tail.A44")
def test_a_branch_is_collected_across_compactions_and_their_summaries_are_told() -> None:
    session = opened(exchanges(1, each=1))
    root = session.view.path.at(0).id
    session.append(*exchanges(6, start=1))
    assert session.compact(manual(session)).status == "compacted"
    session.append(user("last words"))
    left = collect_entries_for_branch_summary(session, session.leaf, root).entries
    assert len(left) == session.view.length - 1
    told = [text_of(m) for m in prepare_branch_entries(left, policy=preset()).messages]
    assert any("the work went on" in text for text in told), "the compaction's summary"
    assert told[-1] == "last words"


@pytest.mark.spec("tail.A44")
def test_the_newest_that_fit_are_told_without_tool_outputs_but_every_file_counts() -> None:
    session = opened(
        [user("u"), called("r", "far/away.py", "edit"), gave("r", words(900)), said(words(300)), *steps(2)]
    )
    root = session.view.path.at(0).id
    left = collect_entries_for_branch_summary(session, session.leaf, root).entries
    everything = prepare_branch_entries(left, policy=preset())
    assert all(m.role != "tool" for m in everything.messages)
    assert [c.id for m in everything.messages for c in calls_of(m)] == ["r", "r0", "e0", "r1", "e1"]
    few = prepare_branch_entries(left, budget=60)
    assert 0 < few.total_tokens <= 60
    assert few.messages == everything.messages[-len(few.messages) :]
    assert few.file_ops.modified_files == ("far/away.py", "src/part0.py", "src/part1.py"), "also of what did not fit"


@pytest.mark.spec("tail.A44", "tail.W11")
def test_a_summary_that_does_not_fit_is_taken_while_there_is_room_and_its_files_go_on() -> None:
    """The original dropped the files of a branch summary when the branch it stood on was left in turn."""
    session, ids = forked()
    navigate(session, ids[5], Wish(summarize=True))
    (branch,) = branches(session)
    assert "src/part2.py" in text_of(branch.message)
    session.append(user(words(80)), said("tried"))
    left = collect_entries_for_branch_summary(session, session.leaf, ids[2]).entries
    size = COUNTER.count([text_of(branch.message)])[0]
    tight = prepare_branch_entries(left, size, policy=preset())
    assert branch.message in tight.messages
    assert len(tight.messages) == 3
    full = prepare_branch_entries(left, 95, policy=preset())
    assert branch.message not in full.messages, "the rest fills more than nine tenths"
    assert "src/part2.py" in full.file_ops.modified_files
    session.append(*exchanges(8, start=10))
    assert session.compact(manual(session)).status == "compacted"
    text = text_of(next(m for m in session.view.messages() if m.origin == "tenfold"))
    assert "src/part2.py" in text, "and into the compaction's own files"


@pytest.mark.spec("tail.A45", "tail.A25", "tail.A27")
def test_a_branch_is_summarised_under_its_own_sections_within_its_bounds() -> None:
    session, ids = forked()
    left = collect_entries_for_branch_summary(session, session.leaf, ids[5]).entries
    model = Structured("tried it")
    result = generate_branch_summary(left, session.policy, Answerer(model=model), custom_instructions="the parser")
    (ask,) = model.asked
    assert ask.purpose == "branch"
    assert ask.max_tokens <= 2_048
    assert "Additional focus: the parser" in ask.prompt
    assert all(name in result.summary for name in STRUCTURES["branch"])
    assert "Critical Context" not in ask.prompt
    assert result.modified_files == ("src/part1.py", "src/part2.py")
    assert not result.aborted
    assert not result.error
    assert Wish().budget == 128_000 - 16_384
    assert Wish(window=8_000).budget == 4_000, "the reserve is clamped to the window"


@pytest.mark.spec("tail.A45")
def test_instructions_may_stand_in_place_of_the_prompt() -> None:
    session, ids = forked()
    left = collect_entries_for_branch_summary(session, session.leaf, ids[5]).entries
    model = Structured("anything goes")
    answerer = Answerer(model=model)
    generate_branch_summary(
        left, session.policy, answerer, custom_instructions="In one line, please.", replace_instructions=True
    )
    assert model.asked[0].prompt.startswith("In one line, please.")
    assert "## Goal" not in model.asked[0].prompt
    with pytest.raises(UsageError, match="replace_instructions"):
        generate_branch_summary(left, session.policy, answerer, replace_instructions=True)


@pytest.mark.spec("tail.A45")
def test_a_branch_summary_that_fails_is_a_result_and_no_exception() -> None:
    session, ids = forked()
    left = collect_entries_for_branch_summary(session, session.leaf, ids[5]).entries
    failed = generate_branch_summary(left, session.policy, Answerer(model=Structured(failing=("branch",))))
    assert "the provider is down" in failed.error
    assert failed.summary == ""
    assert generate_branch_summary((), session.policy, Answerer(model=Structured())).error == NOTHING
    stopped = Answerer(model=Structured(), before=(lambda _: Answer(cancel=True),))
    assert generate_branch_summary(left, session.policy, stopped).aborted


@pytest.mark.parametrize("what", ["user", "custom"])
@pytest.mark.spec("tail.A46")
def test_going_to_what_was_said_goes_before_it_and_gives_the_text_back(what: str) -> None:
    session = opened([*exchanges(1, each=1), user("do b") if what == "user" else custom("do b"), said("done b")])
    ids = [e.id for e in entries(session)]
    moved = navigate(session, ids[-2])
    assert (moved.status, moved.text, moved.leaf) == ("moved", "do b", ids[-3])
    assert session.leaf == ids[-3]
    assert len(entries(session)) == len(ids), "a move alone writes nothing"
    session.append(user("do c"))
    assert entries(session)[-1].parent == ids[-3]
    assert text_of(session.view.messages()[-1]) == "do c"
    again = Session(session.place, session.policy)
    assert again.leaf == session.leaf, "and with the next append the store has it"
    answer = navigate(session, ids[-1])
    assert (answer.leaf, answer.text) == (ids[-1], ""), "an answer is gone to itself"


@pytest.mark.spec("tail.A46", "tail.W13")
def test_the_summary_hangs_at_the_new_point_and_names_what_was_left() -> None:
    """The original's own diagram hung it on the old branch, and its `fromId` held the new parent."""
    session, ids = forked()
    moved = navigate(session, ids[5], Wish(summarize=True))
    (branch,) = branches(session)
    assert moved.branch == branch.id == session.leaf
    assert branch.parent == ids[5]
    assert branch.left == ids[-1]
    shown = session.view.messages()[-1]
    assert (shown.role, shown.origin) == ("user", "tenfold")
    assert OPENING in text_of(shown)
    assert session.violations("anthropic") == ()
    session.sync([*session.view.messages(), user("go on")])
    assert len(branches(session)) == 1
    assert session.view.messages()[-2] == shown


@pytest.mark.spec("tail.A46")
def test_at_the_root_the_summary_has_no_parent() -> None:
    session, ids = forked()
    moved = navigate(session, ids[0], Wish(summarize=True))
    (branch,) = branches(session)
    assert (moved.text, branch.parent) == ("Please do part 0.", None)
    assert session.view.messages() == [branch.message]
    assert Session(session.place, session.policy).view.messages() == [branch.message]
    assert session.place.store.verify(session.place.namespace) == []


@pytest.mark.spec("tail.A46")
def test_the_same_target_is_no_move_and_an_unknown_one_is_an_error() -> None:
    session, ids = forked()
    told: list[Event] = []
    session.answerer = Answerer(model=Structured(), listen=(told.append,))
    assert navigate(session, ids[-1], Wish(summarize=True)).status == "same"
    with pytest.raises(NotFound):
        navigate(session, "no-such-id")
    assert told == []
    navigate(session, ids[5])
    (moved,) = told
    assert isinstance(moved, Moved)
    assert (moved.left, moved.leaf, moved.branch) == (ids[-1], ids[5], "")


@pytest.mark.parametrize("how", ["cancelled", "failed", "superseded"])
@pytest.mark.spec("tail.A46", "tail.A42")
def test_where_it_does_not_come_about_the_session_is_as_it_was(how: str) -> None:
    session, ids = forked()

    class Interrupted(Structured):
        def answer(self, ask):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            session.append(user("meanwhile"))
            return super().answer(ask)

    if how == "cancelled":
        agent = harness(exchanges(3, each=1))
        session, ids = agent.session, [e.id for e in entries(agent.session)]
        agent.on("session_before_tree")(lambda _: SessionBeforeTreeResult(cancel=True))
        before = session.view.messages()
        moved = agent.navigate_tree(ids[5], Wish(summarize=True))
    else:
        model = Structured(failing=("branch",)) if how == "failed" else Interrupted()
        session.answerer = Answerer(model=model)
        before = session.view.messages()
        moved = navigate(session, ids[5], Wish(summarize=True))
    assert moved.status == how
    assert moved.reason
    assert branches(session) == []
    assert session.view.messages()[: len(before)] == before
    assert len(entries(session)) == len(ids) + (how == "superseded")


@pytest.mark.spec("tail.A46", "tail.A45")
def test_handlers_may_give_the_summary_or_change_what_it_dwells_on() -> None:
    agent = harness(exchanges(3, each=1))
    ids = [e.id for e in entries(agent.session)]
    seen: list[TailEvent] = []
    agent.on("session_tree")(seen.append)

    @agent.on("session_before_tree")
    def change(event: TailEvent) -> SessionBeforeTreeResult:
        assert isinstance(event, SessionBeforeTree)
        assert event.old_leaf_id == ids[-1]
        assert [e.id for _, e in event.entries_to_summarize] == ids[6:]
        return SessionBeforeTreeResult(custom_instructions="the lexer")

    moved = agent.navigate_tree(ids[5], Wish(summarize=True, focus="the parser"))
    model = agent.session.answerer.model
    assert isinstance(model, Structured)
    assert "the lexer" in model.asked[0].prompt
    assert seen == [SessionTree(moved.branch, ids[-1], moved.branch)]
    other = harness(exchanges(3, each=1))
    other.on("session_before_tree")(lambda _: SessionBeforeTreeResult(summary="It led nowhere."))
    assert other.navigate_tree(entries(other.session)[5].id, Wish(summarize=True)).status == "moved"
    assert "It led nowhere." in text_of(other.session.view.messages()[-1])
    writer = other.session.answerer.model
    assert isinstance(writer, Structured)
    assert writer.asked == []
