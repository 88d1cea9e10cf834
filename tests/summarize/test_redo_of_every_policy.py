"""`redo` over every preset: a new text where the old one stood, and all else as the preset made it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.policies import POLICIES
from tenfold.record.message import Message, text_of
from tenfold.redo import Again
from tenfold.session import Session
from tenfold.summarize.section import TITLE
from tenfold.wire.marks import summary_text
from tests.engine.making import COUNTER, attempts, blocks, opened, policy
from tests.summarize.test_every_policy import BAD, Always, Answering, compacted_by, eventful

FIRST, BETTER = "The schema was moved at first.", "The billing code was moved to the new schema with care."


def compacted(name: str) -> Session:
    """A session with a summary that a model wrote."""
    return compacted_by(name, lambda _ask: FIRST)[0]


def carrying(session: Session) -> Message:
    """The message in view that carries the newest Block's summary."""
    return next(m for m in session.view.messages() if f'block="{blocks(session)[-1].id}"' in text_of(m))


def facts(message: Message) -> str:
    return text_of(message).partition(TITLE)[2].partition("</tenfold-summary>")[0].strip()


@pytest.mark.parametrize("name", POLICIES)
def test_the_text_is_new_and_the_presets_frame_role_and_facts_stay(name: str) -> None:
    session = compacted(name)
    old, before = carrying(session), session.view.messages()
    model = Answering(lambda _ask: BETTER)
    session.answerer = Answerer(model)
    assert session.redo(again=Again(model="large")).status == "compacted"
    assert {ask.model for ask in model.asked} == {"large"}
    new = carrying(session)
    assert (new.role, facts(new)) == (old.role, facts(old))
    assert BETTER in text_of(new)
    assert FIRST not in text_of(new)
    settings = session.policy.summary
    inside = summary_text(text_of(new)) or ""
    assert inside.startswith(settings.opening)
    assert inside.endswith(settings.closing)
    others = [m for m in session.view.messages() if m != new]
    assert others == [m for m in before if m != old], "everything else in view is as it was"
    assert session.violations("anthropic") == ()
    assert session.undo() == blocks(session)[-1].id
    assert session.view.messages() == before


@pytest.mark.parametrize("name", POLICIES)
def test_a_second_redo_reads_the_originals_again(name: str) -> None:
    session = compacted(name)
    session.answerer = Answerer(Answering(lambda _ask: BETTER))
    session.redo(again=Again(model="large"))
    model = Answering(lambda _ask: "It was told a third time.")
    session.answerer = Answerer(model)
    assert session.redo(again=Again(model="large")).status == "compacted"
    asked = "\n".join(ask.prompt for ask in model.asked)
    assert "talked through what follows" in asked
    assert BETTER not in asked
    assert blocks(session)[-1].under == blocks(session)[-2].id


@pytest.mark.parametrize("name", POLICIES)
def test_under_another_policy_the_block_stays_what_its_own_made_it(name: str) -> None:
    session = compacted(name)
    own = session.policy.summary
    session.policy = policy(models=("other",))
    session.answerer = Answerer(Answering(lambda _ask: BETTER))
    assert session.redo().status == "compacted"
    assert blocks(session)[-1].policy == name
    inside = summary_text(text_of(carrying(session))) or ""
    assert inside.startswith(own.opening)
    assert inside.endswith(own.closing)


@pytest.mark.parametrize("name", POLICIES)
def test_a_failed_redo_changes_nothing(name: str) -> None:
    session = compacted(name)
    before = session.view.messages()
    session.answerer = Answerer(Always(BAD["an error as text"]))
    assert session.redo(again=Again(model="large")).status == "failed"
    assert session.view.messages() == before
    assert attempts(session)[-1].status == "failed"


def test_the_role_that_a_setting_gave_the_message_stays_under_another_policy() -> None:
    session = opened(eventful(), POLICIES["tiers"](COUNTER, summary_role="system"))
    session.policy = replace(session.policy, summary=replace(session.policy.summary, models=("m",)))
    session.answerer = Answerer(Answering(lambda _ask: FIRST))
    assert session.compact(to=1_600).status == "compacted"
    assert carrying(session).role == "system"
    session.policy = policy(models=("other",))
    session.answerer = Answerer(Answering(lambda _ask: BETTER))
    assert session.redo().status == "compacted"
    assert BETTER in text_of(carrying(session))
    assert carrying(session).role == "system"
