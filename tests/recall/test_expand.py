"""Behind a Block: one level down, all the way down, and as tools with a token cap."""

from __future__ import annotations

import pytest

from tenfold.errors import NotFound, UsageError
from tenfold.log.memory import MemoryStore
from tenfold.plan.stages import Clear, SummarizePrefix
from tenfold.recall.expand import expand
from tenfold.recall.tools import RecallTools
from tenfold.record.block import OWN, Block, Keep, Rep, Replacement, Run, Say
from tenfold.record.entry import Attempt, Said
from tenfold.record.message import Message, Text, text_of
from tenfold.session import Place, Session
from tests.engine.making import COUNTER, FILLER, blocks, called, gave, opened, policy, read, said, user, work


def stub(text: str) -> Message:
    return Message("user", (Text(text),), "tenfold")


def nested() -> Session:
    """Three Blocks, each over the one before and what came since."""
    session = opened(work(8), policy(stages=(SummarizePrefix(keep_tail=False),)))
    for number in range(3):
        assert session.compact(to=400).status == "compacted"
        session.append(*work(4, start=20 + 10 * number))
    return session


def test_one_level_shows_the_older_summary_and_the_originals_since() -> None:
    session = nested()
    first, second, third = blocks(session)
    lines = session.expand(third.id)
    shown = [line for line in lines if not line.original]
    assert [line.entry for line in shown] == [second.id]
    assert {line.entry for line in session.expand(second.id) if not line.original} == {first.id}
    assert all(line.original for line in session.expand(first.id))
    since = [line.message for line in lines if line.original]
    assert since[-len(work(4)) :] == work(4, start=30)


def test_all_the_way_down_is_every_original_once_in_order() -> None:
    session = nested()
    covered = session.expand(blocks(session)[-1].id, deep=True)
    assert all(line.original for line in covered)
    assert [line.message for line in covered] == [*work(8), *work(4, start=20), *work(4, start=30)]
    assert [line.position for line in covered] == sorted({line.position for line in covered})


def test_a_partial_elision_expands_to_what_it_covers_only() -> None:
    session = opened([user("go"), *read(1, "a"), *read(2, "b"), said("ok")], policy(stages=(Clear(),)))
    session.compact(to=600)
    (block,) = blocks(session)
    covered = [p for r in block.replacements for p in range(r.first, r.last + 1)]
    assert [line.position for line in session.expand(block.id)] == covered
    assert [line.position for line in session.expand(block.id, deep=True)] == covered


def test_a_block_whose_later_replacement_covers_an_earlier_one_of_its_own() -> None:
    session = opened([user("a"), said("b"), user("c"), said("d"), user("e")])
    inner = Replacement(1, 2, (Run(1, 2),), (Keep(2), Say(stub("b and c"))), "batch", sizes=(1, 1))
    outer = Replacement(
        0, 3, (Run(0, 0), Rep(OWN, 0, 1, 2), Run(3, 3)), (Say(stub("all")),), "clip", level=1, sizes=(1,)
    )
    block = Block("0192b6a0-0000-7000-8000-000000000001", session.leaf, "", 0, "p", COUNTER.name, (inner, outer))
    session.place.store.append("default", "s", [block], expected=session.leaf)
    assert [text_of(m) for m in session.refresh().messages()] == ["all", "e"]
    assert [text_of(line.message) for line in session.expand(block.id)] == ["a", "c", "b and c", "d"]
    assert [text_of(line.message) for line in session.expand(block.id, deep=True)] == ["a", "b", "c", "d"]


def test_hundreds_of_levels_are_walked() -> None:
    session = opened([user("first"), said("second")])
    for number in range(300):
        position = session.view.length
        refs = session.view.slice(0, position - 1)
        assert refs is not None
        made = Replacement(0, position - 1, refs, (Say(stub(f"level {number}")),), "summary", level=number, sizes=(3,))
        block = Block(f"0192b6a0-0000-7000-8000-{number:012}", session.leaf, "", 0, "p", COUNTER.name, (made,))
        session.place.store.append("default", "s", [block], expected=session.leaf)
        session.refresh()
    newest = blocks(session)[-1].id
    assert [text_of(line.message) for line in session.expand(newest, deep=True)] == ["first", "second"]
    assert [text_of(line.message) for line in session.expand(newest)] == ["level 298"]


def test_ids_by_their_beginning_and_ids_of_nothing() -> None:
    session = opened([user("only")])
    (entry,) = [e for e in session.place.store.original("default", "s") if isinstance(e, Said)]
    assert session.expand(entry.id[:30])[0].message == user("only")
    for wrong in ("nonsense", ""):
        with pytest.raises(NotFound):
            session.expand(wrong)


def test_what_shows_nothing_cannot_be_expanded() -> None:
    session = opened([user("x")])
    silent = Attempt("0192b6a0-0000-7000-8000-00000000000a", session.leaf, "", 0, "p", "nothing", "no", 1, 1)
    session.place.store.append("default", "s", [silent], expected=session.leaf)
    with pytest.raises(NotFound, match="attempt"):
        session.expand(silent.id)


def tools(session: Session, *, cap: int = 300) -> RecallTools:
    return RecallTools(session.place.store, "default", session.place.session, count=COUNTER.count, cap=cap)


def test_tool_answers_are_exact_within_the_cap_and_never_above_it() -> None:
    dense = "\U0001f600\u4e2d\u6587" * 400
    session = opened(
        [user("go"), called("a"), gave("a", "the key is 99-F"), called("b"), gave("b", dense + FILLER * 200)]
    )
    shown = {text_of(s.message)[:3]: session.view.path.at(s.at).id for s in session.view.shown()}
    short, long = shown["the"], shown[dense[:3]]
    assert "the key is 99-F" in tools(session).handle("recall_read", {"entry": short})
    answers = [tools(session).handle("recall_read", {"entry": long})]
    while " goes on]" in answers[-1]:
        answers.append(tools(session).handle("recall_read", {"entry": long, "part": len(answers) + 1}))
    assert all(COUNTER.count([answer])[0] <= 300 for answer in answers)
    assert answers[-1].endswith(f"[part {len(answers)} of {len(answers)}]")
    whole = "".join(answer[: answer.rindex("\n[part ")] for answer in answers)
    assert whole.endswith("\n" + dense + FILLER * 200), "nothing is left out between two parts"
    beyond = tools(session).handle("recall_read", {"entry": long, "part": len(answers) + 1})
    assert beyond == f"recall_read: 'part' is a number from 1 to {len(answers)}, and not {len(answers) + 1}"


def test_a_tool_reads_its_own_session_only() -> None:
    store = MemoryStore()
    mine, other = (Session.create(Place(store, name), policy()) for name in ("mine", "other"))
    (secret,) = other.append(user("their secret"))
    mine.append(user("mine"))
    for name, key in (("recall_read", "entry"), ("recall_expand", "block")):
        answer = tools(mine).handle(name, {key: secret})
        assert "secret" not in answer
        assert "in this session" in answer
    assert "nothing in this conversation" in tools(mine).handle("recall_search", {"words": "secret"})
    assert expand(store, "default", secret)[0].message == user("their secret")


def test_wrong_calls_are_answered_with_what_to_do() -> None:
    session = opened([user("go")])
    assert "there are recall_search, recall_read, recall_expand" in tools(session).handle("recall", {})
    assert "needs the argument 'words'" in tools(session).handle("recall_search", {"words": 3})
    assert "needs the argument 'entry'" in tools(session).handle("recall_read", {"entry": " "})
    with pytest.raises(UsageError, match="no wire is called 'soap'"):
        tools(session).schemas("soap")


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_every_wire_has_all_three_schemas(wire: str) -> None:
    schemas = tools(opened([user("go")])).schemas(wire)
    assert [s.get("name") or s["function"]["name"] for s in schemas] == [  # type: ignore[index]
        "recall_search", "recall_read", "recall_expand"
    ]  # fmt: skip


def test_the_search_tool_finds_what_is_hidden_and_names_entries_that_can_be_read() -> None:
    session = opened([user("Find out."), called("z", "sh"), gave("z", "the port is 49213"), *work(12)])
    session.compact(to=600)
    assert "49213" not in str([m for m in session.view.messages() if m.origin != "tenfold"])
    found = tools(session).handle("recall_search", {"words": "49213"})
    entry = next(line.split(" ")[0] for line in found.splitlines() if "(said" in line)
    assert "the port is 49213" in tools(session).handle("recall_read", {"entry": entry})
