"""The money of compactions: it is shown in a receipt, and decides nothing."""

from __future__ import annotations

import pytest

from tenfold.compaction.trigger.economy import Rates, build_receipt, estimate_rewrite, explain_receipt
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.models.prices import find_rates
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore

RATES = Rates("dear-1", input=3.0, cached=0.3, write=3.75, output=15.0)
WINDOW = 60_000


def test_a_receipt_says_when_a_compaction_has_paid_for_itself() -> None:
    receipt = build_receipt(ProviderTokens(40_000), ProviderTokens(10_000), RATES, 0.02)
    assert receipt.saving == pytest.approx(40_000 * 0.3e-6)
    assert receipt.rewrite == pytest.approx(10_000 * 3.45e-6) == estimate_rewrite(ProviderTokens(10_000), RATES)
    text = explain_receipt(receipt, 10)
    assert text == (
        "costs $0.0545, $0.0200 of it for the summary, saves $0.0120 with each request by the prices of dear-1: "
        "paid after 5 requests; 10 so far, +$0.0655"
    )
    assert explain_receipt(receipt, 1).endswith("1 so far, -$0.0425")


def test_prices_come_from_the_providers_lists() -> None:
    found = find_rates("anthropic:claude-sonnet-4-5")
    assert found is not None
    assert (found.cached, found.input, found.write) == (0.3, 3.0, 3.75)
    plain = find_rates("gpt-5")
    assert plain is not None
    assert plain.write == plain.input > plain.cached
    assert find_rates("nobody:knows-this") is None
    assert find_rates("") is None


def fill(model: str, messages: int) -> Session:
    policy = build_policy("tenfold", CharacterCounter())
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, model=model)
    for number in range(messages):
        session.append(Message("user", (Text(f"{number} " + "please look at the next part of it. " * 60),), "human"))
        check = session.compactor.build_call(window=WINDOW)
        if session.compactor.is_check_due(check):
            session.compact(check)
        session.append(Message("assistant", (Text(f"{number} " + "it is as it was before. " * 60),), "model"))
    return session


def test_a_known_price_is_shown_in_the_receipt_and_moves_no_compaction() -> None:
    priced, unknown = fill("claude-sonnet-4-5", 60), fill("a-model-of-my-own", 60)
    blocks = [session.view.find_newest_block() for session in (priced, unknown)]
    assert blocks[0] is not None
    assert blocks[1] is not None
    assert (blocks[0].tokens_before, blocks[0].tokens_after) == (blocks[1].tokens_before, blocks[1].tokens_after)
    assert blocks[0].provider_tokens is not None
    assert blocks[0].provider_tokens[0] >= 0.85 * WINDOW
    assert blocks[1].receipt is None
    assert blocks[0].receipt is not None
    assert blocks[0].receipt.model == "claude-sonnet-4-5"
    assert blocks[0].receipt.saving > 0
