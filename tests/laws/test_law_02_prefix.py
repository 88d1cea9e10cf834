"""Law 2: with no new Block or retraction, the view sent at one request is a prefix of the view sent at the next."""

from __future__ import annotations

from hypothesis import given

from tenfold.core.view.fold import View
from tests.laws import checks
from tests.laws.strategies import LAW, SILENT, STALE, TALK, Log, logs


@LAW
@given(logs() | logs(TALK + SILENT + STALE, most=30))
def test_what_was_sent_stays_the_beginning_of_what_is_sent(log: Log) -> None:
    checks.assert_keeps_prefix(View, log)
