"""`redo` over every preset: a new text where the old one stood, and all else as the preset made it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.redo import RedoRequest
from tenfold.compaction.facts.section_headings import TITLE
from tenfold.config.policies import POLICIES
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire.marks import extract_summary_text
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.engine.making import COUNTER, build_policy, get_attempts, get_blocks, open_session
from tests.laws.presets import Bad
from tests.summarize.test_every_policy import Answering, build_eventful_messages, compact_with_model

FIRST, BETTER = "The schema was moved at first.", "The billing code was moved to the new schema with care."


def compact_preset(name: str) -> Session:
    """A session with a summary that a model wrote."""
    return compact_with_model(name, lambda _ask: FIRST)[0]


def find_summary_message(session: Session) -> Message:
    """The message in view that carries the newest Block's summary."""
    return next(m for m in session.view.get_messages() if f'block="{get_blocks(session)[-1].id}"' in get_text(m))


def get_facts_text(message: Message) -> str:
    return (extract_summary_text(get_text(message)) or "").partition(TITLE)[2].strip()


@pytest.mark.parametrize("name", POLICIES)
def test_the_text_is_new_and_the_presets_frame_role_and_facts_stay(name: str) -> None:
    session = compact_preset(name)
    old, before = find_summary_message(session), session.view.get_messages()
    model = Answering(lambda _ask: BETTER)
    session.compactor.use_answerer(Answerer(model))
    assert session.redo(request=RedoRequest(model="large")).status == "compacted"
    assert {ask.model for ask in model.asked} == {"large"}
    new = find_summary_message(session)
    assert (new.role, get_facts_text(new)) == (old.role, get_facts_text(old))
    assert BETTER in get_text(new)
    assert FIRST not in get_text(new)
    settings = session.policy.summary
    inside = extract_summary_text(get_text(new)) or ""
    assert inside.startswith(settings.opening)
    assert inside.endswith(settings.closing)
    others = [m for m in session.view.get_messages() if m != new]
    assert others == [m for m in before if m != old], "everything else in view is as it was"
    assert session.conversation.find_violations("anthropic") == ()
    assert session.undo() == get_blocks(session)[-1].id
    assert session.view.get_messages() == before


@pytest.mark.parametrize("name", POLICIES)
def test_a_second_redo_reads_the_originals_again(name: str) -> None:
    session = compact_preset(name)
    session.compactor.use_answerer(Answerer(Answering(lambda _ask: BETTER)))
    session.redo(request=RedoRequest(model="large"))
    model = Answering(lambda _ask: "It was told a third time.")
    session.compactor.use_answerer(Answerer(model))
    assert session.redo(request=RedoRequest(model="large")).status == "compacted"
    asked = "\n".join(ask.prompt for ask in model.asked)
    assert "talked through what follows" in asked
    assert BETTER not in asked
    assert get_blocks(session)[-1].previous_block == get_blocks(session)[-2].id


@pytest.mark.parametrize("name", POLICIES)
def test_under_another_policy_the_block_stays_what_its_own_made_it(name: str) -> None:
    session = compact_preset(name)
    own = session.policy.summary
    session.compactor.use_policy(build_policy(models=("other",)))
    session.compactor.use_answerer(Answerer(Answering(lambda _ask: BETTER)))
    assert session.redo().status == "compacted"
    assert get_blocks(session)[-1].policy == name
    inside = extract_summary_text(get_text(find_summary_message(session))) or ""
    assert inside.startswith(own.opening)
    assert inside.endswith(own.closing)


@pytest.mark.parametrize("name", POLICIES)
def test_a_failed_redo_changes_nothing(name: str) -> None:
    session = compact_preset(name)
    before = session.view.get_messages()
    session.compactor.use_answerer(Answerer(Bad(["error text"])))
    assert session.redo(request=RedoRequest(model="large")).status == "failed"
    assert session.view.get_messages() == before
    assert get_attempts(session)[-1].status == "failed"


def test_the_role_that_a_setting_gave_the_message_stays_under_another_policy() -> None:
    session = open_session(build_eventful_messages(), POLICIES["tiers"](COUNTER, summary_role="system"))
    session.compactor.use_policy(replace(session.policy, summary=replace(session.policy.summary, models=("m",))))
    session.compactor.use_answerer(Answerer(Answering(lambda _ask: FIRST)))
    assert session.compact(to=1_600).status == "compacted"
    assert find_summary_message(session).role == "system"
    session.compactor.use_policy(build_policy(models=("other",)))
    session.compactor.use_answerer(Answerer(Answering(lambda _ask: BETTER)))
    assert session.redo().status == "compacted"
    assert BETTER in get_text(find_summary_message(session))
    assert find_summary_message(session).role == "system"
