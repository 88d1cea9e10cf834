"""Tokens of the two units: a type checker refuses to mix them, and at run time they are plain numbers."""

from __future__ import annotations

import msgspec

from tenfold.compaction.trigger.limits import FillTrigger
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.meter.media_counts import MediaTokens
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import PLAIN_READING, Counted, ProviderTokens, Tokens


def test_what_mixes_the_units_is_refused_by_the_type_checker() -> None:
    """Mypy checks this file too, and reports each `ignore` that hides no error: what it no longer refuses."""
    counted, billed, shown = Counted(3), ProviderTokens(4), Tokens(5)
    assert counted + billed == billed + counted == 7  # type: ignore[deprecated, comparison-overlap]
    assert billed - counted == 1  # type: ignore[deprecated]
    assert counted < billed  # type: ignore[deprecated]
    assert billed > shown - 2  # type: ignore[deprecated]
    PLAIN_READING.to_provider(billed)  # type: ignore[arg-type]
    PLAIN_READING.to_counted(counted)  # type: ignore[arg-type]
    FillTrigger().get_limits(100, output_reserve=0, floor=0).get_need(counted)  # type: ignore[arg-type]
    Block("b", None, "", 0, "p", "chars4", (), tokens_before=billed)  # type: ignore[arg-type]
    Block("b", None, "", 0, "p", "chars4", (), tokens_before=shown)  # type: ignore[arg-type]
    (size,) = measure_messages([Message("user", (Text("four"),), "human")], CharacterCounter())
    assert size + MediaTokens.build(7, 7, 7).tokens == 12  # type: ignore[deprecated]


def test_what_keeps_to_a_unit_stays_in_it() -> None:
    counted, billed = Counted(3), ProviderTokens(4)
    sizes: list[Counted] = [counted + counted, counted - 1, 2 * counted, counted // 2, max(counted, Counted(9))]
    assert sum(sizes, counted) == 6 + 2 + 6 + 1 + 9 + 3
    outcome = Outcome("nothing", "", counted, billed, PLAIN_READING.to_provider(counted))
    assert outcome.tokens_after - outcome.tokens_before == 1
    assert {type(counted), type(billed)} == {int}


def test_a_stored_block_holds_plain_numbers() -> None:
    block = Block("b", None, "", 0, "p", "chars4", (), tokens_before=Counted(9), tokens_after=Counted(2))
    body = {"type": "block", "id": "b", "parent": None, "run": "", "time": 0, "policy": "p", "counter": "chars4"}
    stored = {**body, "replacements": (), "tokens_before": 9, "tokens_after": 2}
    assert msgspec.to_builtins(block) == stored
    assert msgspec.convert({**stored, "provider_tokens": [12, 3]}, Block).sizes == (12, 3)
