"""Law 1: folding the same log twice gives the same bytes; opening from a snapshot equals folding from the root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.view.fold import View
from tenfold.formats import ParsedSession
from tests.laws import checks, recorded
from tests.laws.strategies import LAW, Log, logs


@LAW
@given(logs())
def test_the_fold_shows_what_the_naive_fold_predicts(log: Log) -> None:
    checks.assert_agrees_with_oracle(View, log)


@LAW
@given(logs())
def test_folding_twice_gives_the_same_bytes(log: Log) -> None:
    checks.assert_folds_same_twice(View, log)


@LAW
@given(logs())
def test_extending_entry_by_entry_is_folding_every_prefix(log: Log) -> None:
    checks.assert_extends_as_it_folds(View, log)


@LAW
@given(logs(), st.integers(0, 24))
def test_two_futures_of_one_view_do_not_see_each_other(log: Log, at: int) -> None:
    checks.assert_forks_apart(View, log, min(at, len(log)))


@LAW
@given(logs())
def test_opening_from_any_snapshot_is_folding_from_the_root(log: Log) -> None:
    checks.assert_opens_from_snapshots(View, log)


@pytest.mark.costly(3)
def test_recorded_sessions_fold_as_predicted_wherever_they_are_cut(session: ParsedSession) -> None:
    log = recorded.get_path(session)
    for length in recorded.choose_cuts(log):
        checks.assert_agrees_with_oracle(View, log[:length])
    checks.assert_folds_same_twice(View, log)
