"""Behind a Block: one level down, all the way down, and as tools with a token cap."""

from __future__ import annotations

import pytest

from tenfold.compaction.plan.stages import ClearStage
from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, KeptOriginal, Replacement, Run, Substitute
from tenfold.core.record.entry import Attempt, MessageEntry
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.record.token_reading import Counted
from tenfold.designs.tiers.stages import SummarizeOlderStage
from tenfold.errors import NotFoundError, UnknownFormat
from tenfold.recall.expand import expand
from tenfold.recall.tools import RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import (
    COUNTER,
    FILLER,
    build_policy,
    get_blocks,
    make_call,
    make_read_step,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)


def make_stub(text: str) -> Message:
    return Message("user", (Text(text),), "tenfold")


def make_nested_session() -> Session:
    """Three Blocks, each over the one before and what came since."""
    session = open_session(make_work(8), build_policy(stages=(SummarizeOlderStage(keep_recent_messages=0),)))
    for number in range(3):
        assert session.compact(to=400).status == "compacted"
        session.append(*make_work(4, start=20 + 10 * number))
    return session


def test_one_level_shows_the_older_summary_and_the_originals_since() -> None:
    session = make_nested_session()
    first, second, third = get_blocks(session)
    lines = session.expand(third.id)
    shown = [line for line in lines if not line.original]
    assert [line.entry for line in shown] == [second.id]
    assert {line.entry for line in session.expand(second.id) if not line.original} == {first.id}
    assert all(line.original for line in session.expand(first.id))
    since = [line.message for line in lines if line.original]
    assert since[-len(make_work(4)) :] == make_work(4, start=30)


def test_all_the_way_down_is_every_original_once_in_order() -> None:
    session = make_nested_session()
    covered = session.expand(get_blocks(session)[-1].id, deep=True)
    assert all(line.original for line in covered)
    assert [line.message for line in covered] == [*make_work(8), *make_work(4, start=20), *make_work(4, start=30)]
    assert [line.position for line in covered] == sorted({line.position for line in covered})


def test_a_partial_elision_expands_to_what_it_covers_only() -> None:
    session = open_session(
        [make_user_message("go"), *make_read_step(1, "a"), *make_read_step(2, "b"), make_reply("ok")],
        build_policy(stages=(ClearStage(),)),
    )
    session.compact(to=600)
    (block,) = get_blocks(session)
    covered = [p for r in block.replacements for p in range(r.first, r.last + 1)]
    assert [line.position for line in session.expand(block.id)] == covered
    assert [line.position for line in session.expand(block.id, deep=True)] == covered


def test_a_block_whose_later_replacement_covers_an_earlier_one_of_its_own() -> None:
    session = open_session(
        [make_user_message("a"), make_reply("b"), make_user_message("c"), make_reply("d"), make_user_message("e")]
    )
    inner = Replacement(
        1, 2, (Run(1, 2),), (KeptOriginal(2), Substitute(make_stub("b and c"))), "batch", sizes=(Counted(1),) * 2
    )
    outer = Replacement(
        0,
        3,
        (Run(0, 0), BlockPart(OWN_BLOCK, 0, 1, 2), Run(3, 3)),
        (Substitute(make_stub("all")),),
        "clip",
        level=1,
        sizes=(Counted(1),),
    )
    block = Block("0192b6a0-0000-7000-8000-000000000001", session.leaf, "", 0, "p", COUNTER.name, (inner, outer))
    session.address.store.append("default", "s", [block], expected=session.leaf)
    assert [get_text(m) for m in session.refresh().get_messages()] == ["all", "e"]
    assert [get_text(line.message) for line in session.expand(block.id)] == ["a", "c", "b and c", "d"]
    assert [get_text(line.message) for line in session.expand(block.id, deep=True)] == ["a", "b", "c", "d"]


def test_hundreds_of_levels_are_walked() -> None:
    session = open_session([make_user_message("first"), make_reply("second")])
    for number in range(300):
        position = session.view.length
        refs = session.view.get_slice(0, position - 1)
        assert refs is not None
        made = Replacement(
            0,
            position - 1,
            refs,
            (Substitute(make_stub(f"level {number}")),),
            "summary",
            level=number,
            sizes=(Counted(3),),
        )
        block = Block(f"0192b6a0-0000-7000-8000-{number:012}", session.leaf, "", 0, "p", COUNTER.name, (made,))
        session.address.store.append("default", "s", [block], expected=session.leaf)
        session.refresh()
    newest = get_blocks(session)[-1].id
    assert [get_text(line.message) for line in session.expand(newest, deep=True)] == ["first", "second"]
    assert [get_text(line.message) for line in session.expand(newest)] == ["level 298"]


def test_ids_by_their_beginning_and_ids_of_nothing() -> None:
    session = open_session([make_user_message("only")])
    (entry,) = [e for e in session.address.store.read_entries("default", "s") if isinstance(e, MessageEntry)]
    assert session.expand(entry.id[:30])[0].message == make_user_message("only")
    for wrong in ("nonsense", ""):
        with pytest.raises(NotFoundError):
            session.expand(wrong)


def test_what_shows_nothing_cannot_be_expanded() -> None:
    session = open_session([make_user_message("x")])
    silent = Attempt(
        "0192b6a0-0000-7000-8000-00000000000a", session.leaf, "", 0, "p", "nothing", "no", Counted(1), Counted(1)
    )
    session.address.store.append("default", "s", [silent], expected=session.leaf)
    with pytest.raises(NotFoundError, match="attempt"):
        session.expand(silent.id)


def make_tools(session: Session, *, cap: int = 300) -> RecallTools:
    return RecallTools(session.address.store, "default", session.address.session, count=COUNTER.count, cap=cap)


def test_tool_answers_are_exact_within_the_cap_and_never_above_it() -> None:
    dense = "\U0001f600\u4e2d\u6587" * 400
    session = open_session(
        [
            make_user_message("go"),
            make_call("a"),
            make_result("a", "the key is 99-F"),
            make_call("b"),
            make_result("b", dense + FILLER * 200),
        ]
    )
    shown = {
        get_text(s.message)[:3]: session.view.path.get_entry(s.position).id for s in session.view.get_visible_messages()
    }
    short, long = shown["the"], shown[dense[:3]]
    assert "the key is 99-F" in make_tools(session).handle("recall_read", {"entry": short})
    answers = [make_tools(session).handle("recall_read", {"entry": long})]
    while " goes on]" in answers[-1]:
        answers.append(make_tools(session).handle("recall_read", {"entry": long, "part": len(answers) + 1}))
    assert all(COUNTER.count([answer])[0] <= 300 for answer in answers)
    assert answers[-1].endswith(f"[part {len(answers)} of {len(answers)}]")
    whole = "".join(answer[: answer.rindex("\n[part ")] for answer in answers)
    assert whole.endswith("\n" + dense + FILLER * 200), "nothing is left out between two parts"
    beyond = make_tools(session).handle("recall_read", {"entry": long, "part": len(answers) + 1})
    assert beyond == f"recall_read: 'part' is a number from 1 to {len(answers)}, and not {len(answers) + 1}"


def test_a_tool_reads_its_own_session_only() -> None:
    store = SqliteStore(":memory:")
    mine, other = (Session.create(SessionAddress(store, name), build_policy()) for name in ("mine", "other"))
    (secret,) = other.append(make_user_message("their secret"))
    mine.append(make_user_message("mine"))
    for name, key in (("recall_read", "entry"), ("recall_expand", "block")):
        answer = make_tools(mine).handle(name, {key: secret})
        assert "secret" not in answer
        assert "in this session" in answer
    assert "nothing in this conversation" in make_tools(mine).handle("recall_search", {"words": "secret"})
    assert expand(store, "default", secret)[0].message == make_user_message("their secret")


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("recall", {}, "there are recall_search, recall_read, recall_expand"),
        ("look\ud83d", {"words": "x"}, "there is no tool"),
        ("recall_search", {"words": 3}, "needs the argument 'words'"),
        ("recall_search", {"word": "x"}, "needs the argument 'words'"),
        ("recall_search", {"words": "xyzzy plugh"}, "nothing in this conversation holds 'xyzzy plugh'"),
        ("recall_search", {"words": "x\ud83dy"}, "nothing in this conversation holds"),
        ("recall_read", {"entry": " "}, "needs the argument 'entry'"),
        ("recall_read", {"entry": [7]}, "needs the argument 'entry'"),
        ("recall_read", {"entry": "ffff"}, "no entry"),
        ("recall_read", {"entry": "x\ud83dy"}, "no entry"),
        ("recall_read", {"entry": "0", "around": 10**30}, "go"),
        ("recall_expand", {"block": "x\ud83dy"}, "no entry"),
    ],
)
def test_wrong_calls_are_answered_with_what_to_do(name: str, arguments: dict[str, object], answer: str) -> None:
    found = make_tools(open_session([make_user_message("go")])).handle(name, arguments)
    assert answer in found
    assert found.encode(), "half of an emoji is not sent back"


def test_an_unknown_wire_has_no_schemas() -> None:
    with pytest.raises(UnknownFormat, match="no wire is called 'soap'"):
        make_tools(open_session([])).build_schemas("soap")


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_every_wire_has_all_three_schemas(wire: str) -> None:
    schemas = make_tools(open_session([make_user_message("go")])).build_schemas(wire)
    assert [s.get("name") or s["function"]["name"] for s in schemas] == [
        "recall_search", "recall_read", "recall_expand"
    ]  # fmt: skip


def test_the_search_tool_finds_what_is_hidden_and_names_entries_that_can_be_read() -> None:
    session = open_session(
        [make_user_message("Find out."), make_call("z", "sh"), make_result("z", "the port is 49213"), *make_work(12)]
    )
    session.compact(to=600)
    assert "49213" not in str([m for m in session.view.get_messages() if m.origin != "tenfold"])
    found = make_tools(session).handle("recall_search", {"words": "49213"})
    entry = next(line.split(" ")[0] for line in found.splitlines() if "(message" in line)
    assert "the port is 49213" in make_tools(session).handle("recall_read", {"entry": entry})
