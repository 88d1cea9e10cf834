"""Law 3: every view satisfies every rule, for any log and any legal plan, in every wire format."""

from __future__ import annotations

import pytest
from hypothesis import given

from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tenfold.formats import ParsedSession
from tests.laws import checks, conversations, mutants, recorded, strategies
from tests.laws.nearby import WIRES
from tests.laws.strategies import BLOCKS, ENGINE, LAW, TALK, Log, logs


@pytest.mark.parametrize("wire", WIRES)
@LAW
@given(log=logs())
def test_every_view_is_what_the_provider_accepts(wire: str, log: Log) -> None:
    assert check_messages(checks.fold_from_root(View, log).get_messages(), wire) == []


@pytest.mark.parametrize("wire", WIRES)
@LAW
@given(log=logs(TALK + BLOCKS * 3, most=30))
def test_every_view_through_many_blocks_is_what_the_provider_accepts(wire: str, log: Log) -> None:
    assert check_messages(checks.fold_from_root(View, log).get_messages(), wire) == []


@pytest.mark.parametrize("wire", WIRES)
@ENGINE
@given(log=conversations.compacted_logs())
def test_every_view_that_the_engine_planned_is_what_the_provider_accepts(wire: str, log: Log) -> None:
    assert check_messages(checks.fold_from_root(View, log).get_messages(), wire) == []


@pytest.mark.costly(3)
def test_recorded_sessions_at_a_tenth_are_accepted_in_every_format(session: ParsedSession) -> None:
    for wire in WIRES:
        assert recorded.compact_to_tenth(session).session.conversation.find_violations(wire) == (), wire


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ["no_marker_when_closed", "orphans_shown_as_results", "duplicates_shown_as_results"])
def test_the_rules_tell_a_fold_that_repairs_nothing(name: str, wire: str) -> None:
    fold = mutants.build_fold(next(m for m in mutants.MUTANTS if m.name == name))
    seen = [
        check_messages(checks.fold_from_root(fold, strategies.build_seeded_log(seed)).get_messages(), wire)
        for seed in range(60)
    ]
    assert any(seen), f"no rule of {wire} notices {name}"
