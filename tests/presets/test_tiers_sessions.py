"""`tiers` over generated histories and real sessions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.plan.stages.outputs import DROPPED, REMOVED
from tenfold.policies.tiers import tiers
from tenfold.policy import Policy
from tenfold.record.block import Block, Replacement
from tenfold.record.message import calls_of, result_of, text_of
from tenfold.session import Session
from tenfold.summarize.summarize import Settings
from tenfold.transcripts import Recorded
from tenfold.view.rules import check
from tenfold.view.view import View
from tests.laws.conversations import COUNTER, Broken, Echo, long_logs, opened, sent, tokens
from tests.laws.strategies import Log
from tests.sessions import needed, params

WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def policy(protected: int = 12, over: int = 2_000) -> Policy:
    summary = Settings(models=("echo",))
    return tiers(COUNTER, summary=summary, protected_messages=protected, max_tool_output_tokens=over)


def compacted(log: Log, percent: int, model: Echo | Broken, using: Policy) -> Session:
    session = opened(log, using, Answerer(model=model))
    session.compact(to=max(1, tokens(session.view.messages()) * percent // 100))
    return session


@pytest.mark.spec("tiers.X1", "tiers.X3")
@settings(deadline=None, max_examples=60)
@given(
    log=long_logs(),
    percent=st.integers(5, 90),
    protected=st.integers(0, 14),
    over=st.integers(50, 600),
    well=st.booleans(),
)
def test_any_history_stays_well_formed_and_smaller(
    log: Log, percent: int, protected: int, over: int, *, well: bool
) -> None:
    """The original cut between a call and its result, and its placeholders could be longer than what they stood for."""
    before = opened(log).view
    using = policy(protected, over)
    session = compacted(log, percent, Echo() if well else Broken(), using)
    view = session.view
    had = {(w, v.rule) for w in WIRES for v in check(before.messages(), w)}
    assert {(w, v.rule) for w in WIRES for v in check(view.messages(), w)} <= had
    if view.marks.live:
        assert tokens(view.messages()) < tokens(before.messages())
    errors = {r.call for s in before.shown() if (r := result_of(s.message)) is not None and r.error}
    for message in view.messages():
        result = result_of(message)
        if result is not None and result.call in errors and result.error:
            assert not text_of(message).startswith(REMOVED)
    assert View.of(view.path).messages() == view.messages()


@pytest.mark.spec("tiers.X4", "tiers.X10")
@settings(deadline=None, max_examples=40)
@given(log=long_logs(), percent=st.integers(5, 90), well=st.booleans())
def test_nothing_is_lost_whatever_the_tiers_did(log: Log, percent: int, *, well: bool) -> None:
    """The original deleted; here the log only grows by a Block, which expands to every original and can be undone."""
    start = opened(log)
    before = sent(start)
    originals = {s.at: s.message for s in start.view.shown() if s.original}
    session = compacted(log, percent, Echo() if well else Broken(), policy())
    if not session.view.marks.live:
        assert sent(session) == before
        return
    block = session.view.path.at(session.view.marks.live[-1]).id
    reached = {line.position: line.message for line in session.expand(block, deep=True)}
    reached |= {s.at: s.message for s in session.view.shown() if s.original}
    assert {at: reached.get(at) for at in originals} == originals
    session.undo()
    assert sent(session) == before


def held(recorded: Recorded, using: Policy, model: Echo | None = None) -> Session:
    return opened(tuple(recorded.entries), using, Answerer(model=model))


@pytest.mark.spec("tiers.B6", "tiers.B7", "tiers.X9")
@pytest.mark.parametrize("recorded", params())
def test_real_sessions_come_down_tier_by_tier(recorded: Recorded | None) -> None:
    """Masking comes before summarising: while truncating and blanking are enough, no model is asked."""
    if recorded is None:
        needed()
        return
    model = Echo()
    using = replace(policy(), shrink_tokens=1)
    session = held(recorded, using, model)
    before = tokens(session.view.messages())
    calls = [c.id for m in session.view.messages() for c in calls_of(m)]
    for percent in (80, 30):
        session = held(recorded, using, model)
        target = max(1, before * percent // 100)
        _, plan = session.preview(to=target)
        asked = model.calls
        outcome = session.compact(to=target)
        planned = {p.kind for p in plan.changed} if plan is not None else set()
        if "summary" not in planned:
            assert model.calls == asked
        assert outcome.tokens_after <= before
        if outcome.status != "compacted":
            continue
        kinds = {r.kind for r in _newest(session)}
        if "summary" not in kinds:
            assert [c.id for m in session.view.messages() for c in calls_of(m)] == calls
            shorter = [m for m in session.view.messages() if m.origin == "tool"]
            marked = [m for m in shorter if REMOVED in text_of(m) or DROPPED in text_of(m)]
            assert marked or outcome.tokens_after == before
        for wire in WIRES:
            had = {v.rule for v in check(held(recorded, using).view.messages(), wire)}
            assert {v.rule for v in check(session.view.messages(), wire)} <= had


def _newest(session: Session) -> tuple[Replacement, ...]:
    block = session.view.path.at(session.view.marks.live[-1])
    assert isinstance(block, Block)
    return block.replacements
