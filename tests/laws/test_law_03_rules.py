"""Law 3: every view satisfies every rule, for any log and any legal plan, in every wire format."""

from __future__ import annotations

import pytest
from hypothesis import given

from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tests.laws import checks, mutants, strategies
from tests.laws.nearby import WIRES
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


@LAW
@given(log=logs() | logs(TALK + BLOCKS * 3, most=30))
def test_every_view_is_what_each_provider_accepts(log: Log) -> None:
    messages = checks.fold_from_root(View, log).get_messages()
    assert {wire: found for wire in WIRES if (found := check_messages(messages, wire))} == {}


@pytest.mark.parametrize("name", ["no_marker_when_closed", "orphans_shown_as_results", "duplicates_shown_as_results"])
def test_the_rules_of_each_provider_tell_a_fold_that_repairs_nothing(name: str) -> None:
    fold = mutants.build_fold(next(m for m in mutants.MUTANTS if m.name == name))
    shown = [checks.fold_from_root(fold, strategies.build_seeded_log(seed)).get_messages() for seed in range(60)]
    unnoticed = [wire for wire in WIRES if not any(check_messages(messages, wire) for messages in shown)]
    assert unnoticed == [], f"no rule of these notices {name}"
