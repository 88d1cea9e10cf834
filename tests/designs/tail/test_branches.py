"""The preset `tail`: leaving a branch, telling of it, and going to another point of the session."""

from __future__ import annotations

import asyncio

import pytest

from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.core.record.ask import Answer
from tenfold.core.record.entry import BranchSummary, Entry
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.designs.tail import (
    SessionBeforeTree,
    SessionBeforeTreeResult,
    SessionTree,
    collect_entries_for_branch_summary,
    generate_branch_summary,
    prepare_branch_entries,
)
from tenfold.designs.tail.hooks import TailEvent
from tenfold.errors import NotFoundError, UsageError
from tenfold.events import BranchSwitch, Event
from tenfold.session import Session
from tenfold.session.branches import NO_CONTENT, OPENING, BranchOptions, navigate
from tenfold.session.drive import Answerer
from tests.designs.tail.making import (
    COUNTER,
    Structured,
    build_manual_call,
    build_preset,
    get_asked,
    get_entries,
    get_messages,
    make_agent,
    make_answer,
    make_exchanges,
    make_harness_message,
    make_session,
    make_step,
    make_steps,
    make_user,
    make_words,
)


def make_session_with_ids() -> tuple[Session, list[str]]:
    """A session of three exchanges, and the ids of its entries."""
    session = make_session(make_exchanges(3, each=1))
    return session, [e.id for e in get_entries(session)]


def get_branches(session: Session) -> list[BranchSummary]:
    return [e for e in get_entries(session) if isinstance(e, BranchSummary)]


def test_what_is_left_begins_after_the_deepest_common_ancestor() -> None:
    session, ids = make_session_with_ids()
    found = collect_entries_for_branch_summary(session, ids[-1], ids[5])
    assert [e.id for _, e in found.entries] == ids[6:]
    assert found.common_ancestor_id == ids[5]
    assert collect_entries_for_branch_summary(session, None, ids[5]) == type(found)((), None)
    navigate(session, ids[5])
    session.append(make_user("another way"), make_answer("ok"))
    other = collect_entries_for_branch_summary(session, session.leaf, ids[-1])
    assert [get_text(m) for m in _get_messages(other.entries)] == ["another way", "ok"]
    assert other.common_ancestor_id == ids[5]
    with pytest.raises(NotFoundError):
        collect_entries_for_branch_summary(session, ids[-1], "no-such-id")


def _get_messages(left: tuple[tuple[int, Entry], ...]) -> list[Message]:
    return get_messages([e for _, e in left])


def test_a_branch_is_collected_across_compactions_and_their_summaries_are_told() -> None:
    session = make_session(make_exchanges(1, each=1))
    root = session.view.path.get_entry(0).id
    session.append(*make_exchanges(6, start=1))
    assert session.compact(build_manual_call(session)).status == "compacted"
    session.append(make_user("last words"))
    left = collect_entries_for_branch_summary(session, session.leaf, root).entries
    assert len(left) == session.view.length - 1
    told = [get_text(m) for m in prepare_branch_entries(left, policy=build_preset()).messages]
    assert any("the work went on" in text for text in told), "the compaction's summary"
    assert told[-1] == "last words"


def test_the_newest_that_fit_are_told_without_tool_outputs_but_every_file_counts() -> None:
    far = make_step("r", "far/away.py", "edit", make_words(900))
    session = make_session([make_user("u"), *far, make_answer(make_words(300)), *make_steps(2)])
    root = session.view.path.get_entry(0).id
    left = collect_entries_for_branch_summary(session, session.leaf, root).entries
    everything = prepare_branch_entries(left, policy=build_preset())
    assert all(m.role != "tool" for m in everything.messages)
    assert [c.id for m in everything.messages for c in get_tool_calls(m)] == ["r", "r0", "e0", "r1", "e1"]
    few = prepare_branch_entries(left, budget=60)
    assert 0 < few.total_tokens <= 60
    assert few.messages == everything.messages[-len(few.messages) :]
    assert few.file_ops.modified_files == ("far/away.py", "src/part0.py", "src/part1.py"), "also of what did not fit"


def test_a_summary_that_does_not_fit_is_taken_while_there_is_room_and_its_files_go_on() -> None:
    """The original dropped the files of a branch summary when the branch it stood on was left in turn."""
    session, ids = make_session_with_ids()
    navigate(session, ids[5], BranchOptions(has_summary=True))
    (branch,) = get_branches(session)
    assert "src/part2.py" in get_text(branch.message)
    session.append(make_user(make_words(80)), make_answer("tried"))
    left = collect_entries_for_branch_summary(session, session.leaf, ids[2]).entries
    size = COUNTER.count([get_text(branch.message)])[0]
    tight = prepare_branch_entries(left, size, policy=build_preset())
    assert branch.message in tight.messages
    assert len(tight.messages) == 3
    full = prepare_branch_entries(left, 95, policy=build_preset())
    assert branch.message not in full.messages, "the rest fills more than nine tenths"
    assert "src/part2.py" in full.file_ops.modified_files
    session.append(*make_exchanges(8, start=10))
    assert session.compact(build_manual_call(session)).status == "compacted"
    text = get_text(next(m for m in session.view.get_messages() if m.origin == "tenfold"))
    assert "src/part2.py" in text, "and into the compaction's own files"


def test_a_branch_is_summarised_under_its_own_sections_within_its_bounds() -> None:
    session, ids = make_session_with_ids()
    left = collect_entries_for_branch_summary(session, session.leaf, ids[5]).entries
    model = Structured("tried it")
    result = generate_branch_summary(left, session.policy, Answerer(model=model), custom_instructions="the parser")
    (ask,) = model.asked
    assert ask.purpose == "branch"
    assert ask.max_tokens <= 2_048
    assert "Additional focus: the parser" in ask.prompt
    assert all(name in result.summary for name in BRANCH_HEADINGS)
    assert "Critical Context" not in ask.prompt
    assert result.modified_files == ("src/part1.py", "src/part2.py")
    assert not result.aborted
    assert not result.error
    assert BranchOptions().budget == 128_000 - 16_384
    assert BranchOptions(window=8_000).budget == 4_000, "the reserve is clamped to the window"


def test_instructions_may_stand_in_place_of_the_prompt() -> None:
    session, ids = make_session_with_ids()
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


def test_a_branch_summary_that_fails_is_a_result_and_no_exception() -> None:
    session, ids = make_session_with_ids()
    left = collect_entries_for_branch_summary(session, session.leaf, ids[5]).entries
    failed = generate_branch_summary(left, session.policy, Answerer(model=Structured(failing=("branch",))))
    assert "the provider is down" in failed.error
    assert failed.summary == ""
    assert generate_branch_summary((), session.policy, Answerer(model=Structured())).error == NO_CONTENT
    stopped = Answerer(model=Structured(), before_hooks=(lambda _: Answer(cancel=True),))
    assert generate_branch_summary(left, session.policy, stopped).aborted


@pytest.mark.parametrize("what", ["user", "custom"])
def test_going_to_what_was_said_goes_before_it_and_gives_the_text_back(what: str) -> None:
    session = make_session(
        [
            *make_exchanges(1, each=1),
            make_user("do b") if what == "user" else make_harness_message("do b"),
            make_answer("done b"),
        ]
    )
    ids = [e.id for e in get_entries(session)]
    moved = navigate(session, ids[-2])
    assert (moved.status, moved.text, moved.leaf) == ("moved", "do b", ids[-3])
    assert session.leaf == ids[-3]
    assert len(get_entries(session)) == len(ids), "a move alone writes nothing"
    session.append(make_user("do c"))
    assert get_entries(session)[-1].parent == ids[-3]
    assert get_text(session.view.get_messages()[-1]) == "do c"
    again = Session(session.address, session.policy)
    assert again.leaf == session.leaf, "and with the next append the store has it"
    answer = navigate(session, ids[-1])
    assert (answer.leaf, answer.text) == (ids[-1], ""), "an answer is gone to itself"


def test_the_summary_hangs_at_the_new_point_and_names_what_was_left() -> None:
    """The original's own diagram hung it on the old branch, and its `fromId` held the new parent."""
    session, ids = make_session_with_ids()
    moved = navigate(session, ids[5], BranchOptions(has_summary=True))
    (branch,) = get_branches(session)
    assert moved.branch == branch.id == session.leaf
    assert branch.parent == ids[5]
    assert branch.previous_leaf == ids[-1]
    shown = session.view.get_messages()[-1]
    assert (shown.role, shown.origin) == ("user", "tenfold")
    assert OPENING in get_text(shown)
    assert session.conversation.find_violations("anthropic") == ()
    session.sync([*session.view.get_messages(), make_user("go on")])
    assert len(get_branches(session)) == 1
    assert session.view.get_messages()[-2] == shown


def test_at_the_root_the_summary_has_no_parent() -> None:
    session, ids = make_session_with_ids()
    moved = navigate(session, ids[0], BranchOptions(has_summary=True))
    (branch,) = get_branches(session)
    assert (moved.text, branch.parent) == ("Please do part 0.", None)
    assert session.view.get_messages() == [branch.message]
    assert Session(session.address, session.policy).view.get_messages() == [branch.message]
    assert session.address.store.verify(session.address.namespace) == []


def test_the_same_target_is_no_move_and_an_unknown_one_is_an_error() -> None:
    session, ids = make_session_with_ids()
    told: list[Event] = []
    session.compactor.use_answerer(Answerer(model=Structured(), listeners=(told.append,)))
    assert navigate(session, ids[-1], BranchOptions(has_summary=True)).status == "same"
    with pytest.raises(NotFoundError):
        navigate(session, "no-such-id")
    assert told == []
    navigate(session, ids[5])
    (moved,) = told
    assert isinstance(moved, BranchSwitch)
    assert (moved.previous_leaf, moved.leaf, moved.branch) == (ids[-1], ids[5], "")


@pytest.mark.parametrize("how", ["cancelled", "failed", "superseded"])
def test_where_it_does_not_come_about_the_session_is_as_it_was(how: str) -> None:
    session, ids = make_session_with_ids()

    class Interrupted(Structured):
        def answer(self, ask):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            session.append(make_user("meanwhile"))
            return super().answer(ask)

    if how == "cancelled":
        agent = make_agent(make_exchanges(3, each=1))
        session, ids = agent.session, [e.id for e in get_entries(agent.session)]
        agent.on("session_before_tree")(lambda *_: SessionBeforeTreeResult(cancel=True))
        before = session.view.get_messages()
        moved = asyncio.run(agent.navigate_tree(ids[5], BranchOptions(has_summary=True)))
    else:
        model = Structured(failing=("branch",)) if how == "failed" else Interrupted()
        session.compactor.use_answerer(Answerer(model=model))
        before = session.view.get_messages()
        moved = navigate(session, ids[5], BranchOptions(has_summary=True))
    assert moved.status == how
    assert moved.reason
    assert get_branches(session) == []
    assert session.view.get_messages()[: len(before)] == before
    assert len(get_entries(session)) == len(ids) + (how == "superseded")


def test_handlers_may_give_the_summary_or_change_what_it_dwells_on() -> None:
    agent = make_agent(make_exchanges(3, each=1))
    ids = [e.id for e in get_entries(agent.session)]
    seen: list[TailEvent] = []
    agent.on("session_tree")(lambda event, _: seen.append(event))

    @agent.on("session_before_tree")
    def change(event: SessionBeforeTree, _ctx: object) -> SessionBeforeTreeResult:
        assert (event.target_id, event.old_leaf_id) == (ids[5], ids[-1])
        assert [e.id for _, e in event.entries_to_summarize] == ids[6:]
        return SessionBeforeTreeResult(custom_instructions="the lexer")

    moved = asyncio.run(agent.navigate_tree(ids[5], BranchOptions(has_summary=True, focus="the parser")))
    assert "the lexer" in get_asked(agent.session)[0].prompt
    assert seen == [SessionTree(moved.branch, ids[-1], moved.branch)]
    other = make_agent(make_exchanges(3, each=1))
    other.on("session_before_tree")(lambda *_: SessionBeforeTreeResult(summary="It led nowhere."))
    target = get_entries(other.session)[5].id
    assert navigate(other.session, target, BranchOptions(has_summary=True)).status == "moved", "without the face too"
    assert "It led nowhere." in get_text(other.session.view.get_messages()[-1])
    assert get_asked(other.session) == []
