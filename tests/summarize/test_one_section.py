"""One facts section in view, in what the newest Block shows: for every policy, over several compactions in a row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.llm.model import Model
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import counter_for
from tenfold.policies import POLICIES
from tenfold.record.entry import message_of
from tenfold.record.message import Message, text_of
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.stateless import compact
from tenfold.summarize.section import TITLE
from tenfold.wire import WIRES
from tenfold.wire.marks import summary_mark, summary_text
from tests import sessions
from tests.engine.making import called, gave, opened, user
from tests.laws import conversations, presets
from tests.laws.conversations import tokens
from tests.laws.presets import NAMES, PRESET, Good, Judge, newest
from tests.laws.recorded import path_of
from tests.laws.strategies import Log


def sections(session: Session) -> list[Message]:
    """The messages in view that hold a facts section of ours."""
    return [m for m in session.view.messages() if m.origin == "tenfold" and TITLE in text_of(m)]


def one_at_most(session: Session) -> None:
    """At most one section stands in view, and the newest Block that has one wrote it; the host's list is ours still."""
    found = sections(session)
    assert len(found) <= 1, "an older summary's section stays in view beside a newer one"
    live = {session.view.path.at(at).id for at in session.view.marks.live}
    for message in session.view.messages():
        mark = summary_mark(text_of(message)) if message.origin == "tenfold" else None
        if mark is not None:
            assert mark.block in live
            assert session.ours(mark.block, mark.hash), "a host that sends it back is understood"


def model_of(name: str, *, asks: bool) -> Model | None:
    return Good(presets.using(name).summary) if asks else None


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), shares=st.lists(st.integers(15, 80), min_size=2, max_size=4))
def test_one_section_whatever_the_history(name: str, asks: bool, log: Log, shares: list[int]) -> None:  # noqa: FBT001
    using = ("m",) if asks else ()
    judge = Judge(presets.opened(name, log[: len(log) // 2], model_of(name, asks=asks), models=using))
    more = conversations.messages(log[len(log) // 2 :])
    each = -(-len(more) // len(shares))
    for number, share in enumerate(shares):
        session = judge.session
        judge.compact(session.call(to=max(1, tokens(session.view.messages()) * share // 100)))
        block = newest(session)
        if block is not None and any(TITLE in text_of(m) for m in sections(session)):
            one_at_most(session)
        session.append(*more[number * each : (number + 1) * each])
    judge.whole()


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["gemini-cli/NotFollowingUserIntent.json", "claude-code/large-conversation.jsonl"])
def test_one_section_while_a_recorded_session_grows(file: str, name: str, asks: bool) -> None:  # noqa: FBT001
    sessions.needed()
    recorded = max(sessions.read(sessions.FOLDER / file), key=lambda each: len(each.entries))
    said = [m for e in recorded.entries if (m := message_of(e)) is not None]
    session = presets.opened(name, (), model_of(name, asks=asks), models=("m",) if asks else ())
    compacted = 0
    step = max(1, len(said) // 40)
    window = max(6_000, tokens(said) // 8)
    for start in range(0, len(said), step):
        session.append(*said[start : start + step])
        compacted += session.compact(window=window).status == "compacted"
        one_at_most(session)
    assert compacted > 4


@pytest.mark.parametrize("name", NAMES)
def test_one_section_in_a_list_that_is_compacted_again_and_again(name: str) -> None:
    """A plain list brings its earlier summaries along as messages: no Block at hand says what they hold."""
    rows: list[object] = []
    for number in range(5):
        more = WIRES["openai-chat"].encode(presets.work(number * 40, 6_000)).items
        done = compact(
            [*rows, *(json.loads(item.raw) for item in more)], to=3_000 if number % 2 else 6_000, policy=name
        )
        assert done.outcome.status == "compacted"
        rows = done.messages
        assert sum(TITLE in json.dumps(row) for row in rows) == 1
        assert "Never touch the table_" in json.dumps(rows)


def test_an_older_summary_keeps_its_text_and_undo_gives_its_section_back() -> None:
    """Under `blocks` the texts of earlier runs stay in view beside that of the current one."""
    session = presets.opened("blocks", (), Good(presets.using("blocks").summary))
    for number in range(5):
        session.append(*presets.work(number * 40, 5_000), run=f"run-{number}")
        before = session.view.messages()
        assert session.compact(to=4_000 + 1_000 * number).status == "compacted"
        one_at_most(session)
    (section,) = sections(session)
    assert f'block="{session.view.path.at(session.view.marks.live[-1]).id}"' in text_of(section)
    texts = [summary_text(text_of(m)) for m in session.view.messages() if m.origin == "tenfold"]
    assert sum(t is not None and "Went on" in t for t in texts) > 1, "their texts stand without their facts"
    assert all(t is None or t.strip() for t in texts)
    session.answerer = replace(session.answerer, model=Good(presets.using("blocks").summary))
    again = session.redo()
    assert again.status in ("compacted", "failed", "nothing")
    one_at_most(session)
    while session.view.marks.live and session.view.length:
        session.undo()
    assert session.view.messages()[-len(before[-3:]) :] == before[-3:]


@pytest.mark.parametrize("target", [2_500, 4_000, 6_000])
@pytest.mark.parametrize("name", ["desk.openai-chat.json", "logs.pi.jsonl", "pricing.claude-code.jsonl"])
def test_what_the_target_has_left_goes_to_the_facts(name: str, target: int) -> None:
    recorded = max(sessions.read(sessions.ROOT / "examples" / "sessions" / name), key=lambda each: len(each.entries))
    session = Session.create(Place(MemoryStore(), "s"), policy_for("tenfold", counter_for("gpt-4o").counter))
    session.append(*(m for entry in path_of(recorded) if (m := message_of(entry)) is not None))
    outcome = session.compact(to=target)
    assert outcome.status == "compacted"
    assert target * 0.975 <= outcome.tokens_after <= target


def test_a_request_too_long_for_a_fact_is_not_told_beside_itself() -> None:
    asked = "Please mend the totals.\n" + "\n".join(f"Frame {n} of the report: shop.cart.Total#{n}" for n in range(300))
    steps = [
        m
        for n in range(40)
        for m in (called(f"c{n}", "sh", f'{{"command": "make step{n}"}}'), gave(f"c{n}", "x " * 400))
    ]
    session = opened([user(asked), *steps], POLICIES["tenfold"](counter_for("gpt-4o").counter))
    assert session.compact(to=6_000).status == "compacted"
    texts = [text_of(m) for m in session.view.messages()]
    assert asked in texts
    assert sum("Please mend the totals." in text for text in texts) == 1
