"""`tiers` over generated histories and real sessions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.stubs import DROPPED_WORD, REMOVED_PREFIX
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.record.block import Block, Replacement
from tenfold.core.record.message import get_text, get_tool_calls, get_tool_result
from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tenfold.designs.tiers.policy import tiers
from tenfold.formats import ParsedSession
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.laws.conversations import COUNTER, Broken, Echo, count_tokens, encode_view, long_logs, open_session
from tests.laws.strategies import Log
from tests.sessions import build_params, require_sessions
from tests.thorough import IS_THOROUGH

pytestmark = pytest.mark.costly(6)

WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def build_policy(protected: int = 12, over: int = 2_000) -> Policy:
    summary = SummarySettings(models=("echo",))
    return tiers(COUNTER, summary=summary, protected_messages=protected, max_tool_output_tokens=over)


def compact_log(log: Log, percent: int, model: Echo | Broken, using: Policy) -> Session:
    session = open_session(log, using, Answerer(model=model))
    session.compact(to=max(1, count_tokens(session.view.get_messages()) * percent // 100))
    return session


@settings(deadline=None, max_examples=60 if IS_THOROUGH else 25)
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
    before = open_session(log).view
    using = build_policy(protected, over)
    session = compact_log(log, percent, Echo() if well else Broken(), using)
    view = session.view
    had = {(w, v.rule) for w in WIRES for v in check_messages(before.get_messages(), w)}
    assert {(w, v.rule) for w in WIRES for v in check_messages(view.get_messages(), w)} <= had
    if view.state.live_blocks:
        assert count_tokens(view.get_messages()) < count_tokens(before.get_messages())
    errors = {
        r.call_id for s in before.get_visible_messages() if (r := get_tool_result(s.message)) is not None and r.is_error
    }
    for message in view.get_messages():
        result = get_tool_result(message)
        if result is not None and result.call_id in errors and result.is_error:
            assert not get_text(message).startswith(REMOVED_PREFIX)
    assert View.from_path(view.path).get_messages() == view.get_messages()


@settings(deadline=None, max_examples=40 if IS_THOROUGH else 20)
@given(log=long_logs(), percent=st.integers(5, 90), well=st.booleans())
def test_nothing_is_lost_whatever_the_tiers_did(log: Log, percent: int, *, well: bool) -> None:
    """The original deleted; here the log only grows by a Block, which expands to every original and can be undone."""
    start = open_session(log)
    before = encode_view(start)
    originals = {s.position: s.message for s in start.view.get_visible_messages() if s.is_original}
    session = compact_log(log, percent, Echo() if well else Broken(), build_policy())
    if not session.view.state.live_blocks:
        assert encode_view(session) == before
        return
    block = session.view.path.get_entry(session.view.state.live_blocks[-1]).id
    reached = {line.position: line.message for line in session.expand(block, deep=True)}
    reached |= {s.position: s.message for s in session.view.get_visible_messages() if s.is_original}
    assert {at: reached.get(at) for at in originals} == originals
    session.undo()
    assert encode_view(session) == before


def open_recorded(recorded: ParsedSession, using: Policy, model: Echo | None = None) -> Session:
    return open_session(tuple(recorded.entries), using, Answerer(model=model))


@pytest.mark.parametrize("recorded", build_params())
def test_real_sessions_come_down_tier_by_tier(recorded: ParsedSession | None) -> None:
    """Masking comes before summarising: while truncating and blanking are enough, no model is asked."""
    if recorded is None:
        require_sessions()
        return
    model = Echo()
    using = replace(build_policy(), shrink_tokens=1)
    session = open_recorded(recorded, using, model)
    before = count_tokens(session.view.get_messages())
    calls = [c.id for m in session.view.get_messages() for c in get_tool_calls(m)]
    for percent in (80, 30):
        session = open_recorded(recorded, using, model)
        target = max(1, before * percent // 100)
        _, plan = session.preview(to=target)
        asked = model.calls
        outcome = session.compact(to=target)
        planned = {p.kind for p in plan.changed_pieces} if plan is not None else set()
        if "summary" not in planned:
            assert model.calls == asked
        assert outcome.tokens_after <= before
        if outcome.status != "compacted":
            continue
        kinds = {r.kind for r in _get_replacements(session)}
        if "summary" not in kinds:
            assert [c.id for m in session.view.get_messages() for c in get_tool_calls(m)] == calls
            shorter = [m for m in session.view.get_messages() if m.origin == "tool"]
            marked = [m for m in shorter if REMOVED_PREFIX in get_text(m) or DROPPED_WORD in get_text(m)]
            assert marked or outcome.tokens_after == before
        for wire in WIRES:
            had = {v.rule for v in check_messages(open_recorded(recorded, using).view.get_messages(), wire)}
            assert {v.rule for v in check_messages(session.view.get_messages(), wire)} <= had


def _get_replacements(session: Session) -> tuple[Replacement, ...]:
    block = session.view.path.get_entry(session.view.state.live_blocks[-1])
    assert isinstance(block, Block)
    return block.replacements
