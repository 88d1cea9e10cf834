"""What a compaction compares, says and keeps is in one unit: the counter's tokens, or those of the provider.

The counter is by characters, of whose tokens the provider is taken to count 1.35 for each while nothing is reported.
"""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.compact import compact
from tenfold.compaction.engine.model_breaker import explain_pause
from tenfold.compaction.plan.stages import SummarizePrefixStage
from tenfold.core.meter.counters import CHARACTERS_FACTOR
from tenfold.core.meter.reading import AnchoredEstimator
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.designs.blocks import TokenBudget, resolve_scope
from tenfold.designs.blocks.policy import blocks
from tenfold.designs.clip.archive_tools import build_full_call
from tenfold.designs.tail import Compaction, CompactionSettings
from tenfold.events import CompactionStart, Event
from tenfold.models.prices import find_rates
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session.drive import Answerer, run_engine
from tests.designs.blocks.making import make_loop
from tests.designs.blocks.making import make_session as make_blocks_session
from tests.designs.clip.making import make_session as make_clip_session
from tests.designs.clip.making import make_talk
from tests.engine.making import COUNTER, build_policy, make_user_message, make_work, open_session
from tests.session.test_preparing import Waiting, prepare


def test_what_was_prepared_is_enough_for_a_target_by_the_counter() -> None:
    """A target between the size that the counter finds and the one that the provider does."""
    model, told = Waiting(), list[Event]()
    session, window, _ = prepare(model, listeners=(told.append,))
    assert session.compactor.preparation is not None
    block = session.compactor.preparation.watch().result()[0].entry
    assert isinstance(block, Block)
    before = session.take_reading(window=window)
    target = (before.estimate - block.tokens_before + block.tokens_after) * 6 // 5
    outcome = session.compact(to=int(target))
    assert (outcome.status, outcome.block, len(model.asked)) == ("compacted", block.id, 1)
    (started,) = (each for each in told if isinstance(each, CompactionStart))
    assert (started.tokens, started.target) == (before.estimate, outcome.target)
    assert outcome.tokens_before == block.tokens_before


def test_a_compaction_that_was_stopped_says_its_size_in_the_unit_of_its_target() -> None:
    session = open_session(make_work(2))
    build = session.compactor.build_cancelled_outcome
    reading = session.take_reading()
    assert build(session.compactor.build_call()).tokens_before == reading.tokens
    assert build(session.compactor.build_call(to=10)).tokens_before == reading.estimate


def test_an_outcome_from_no_session_is_by_the_counter_also_where_nothing_is_done() -> None:
    session = open_session(make_work(2))
    call = session.compactor.build_call(window=200_000)
    measures = session.conversation.get_measures()
    effects = compact(session.view, session.policy, call, measures, now=0, new_id=partial(str, 1))
    outcome: Outcome = run_engine(effects, Answerer()).outcome
    assert (outcome.status, outcome.tokens_before) == ("nothing", session.take_reading().estimate)


def test_growth_is_held_against_the_window_as_the_provider_counts_it() -> None:
    """After an undo 5 % of the window have to come: 460 tokens, which are 341 of the counter."""
    session = open_session(make_work(12))
    call = replace(session.compactor.build_call(window=9_200), demand="check")
    assert session.compact(call).status == "compacted"
    session.undo()
    session.append(make_user_message("a" * 4 * 360))
    assert session.compact(call).status == "compacted"


def test_a_pause_of_the_summary_model_ends_by_what_the_provider_counts() -> None:
    policy = build_policy(models=("m",), on_failure="abort", stages=(SummarizePrefixStage(),))
    model = ScriptedModel([ScriptedReply(error="no")], repeat=True)
    session = open_session(make_work(12), policy, answerer=Answerer(model))
    for _ in range(2):
        session.append(make_user_message("go on"))
        assert session.compact(to=1_000).status == "failed"
    session.append(make_user_message("a" * 4 * 400))
    reading, now = session.take_reading(window=10_000), session.conversation.stamps.now()
    assert explain_pause(session.view, session.policy, reading, now) == "", "540 of 500 tokens"


@pytest.mark.parametrize("target", ["10%", None])
def test_a_receipt_is_by_the_tokens_that_the_provider_bills(target: str | None) -> None:
    rates = find_rates("claude-sonnet-4-5")
    assert rates is not None
    session = open_session(make_work(12), model="claude-sonnet-4-5")
    call = session.compactor.build_call(to=target, window=9_000)
    assert session.compact(replace(call, demand="manual")).status == "compacted"
    block = session.view.find_newest_block()
    assert block is not None
    assert block.receipt is not None
    saved = CHARACTERS_FACTOR * (block.tokens_before - block.tokens_after)
    assert block.receipt.saving == pytest.approx(saved * rates.cached / 1e6, rel=1e-3)


def test_the_full_call_of_clip_aims_at_the_target_of_its_policy() -> None:
    session = make_clip_session()
    session.append(*make_talk(0, 60))
    window = int(session.take_reading().tokens)
    call = build_full_call(session, window=window)
    assert call.to is not None
    reading = session.take_reading(window=window)
    assert reading.to_provider(call.to) == pytest.approx(session.policy.get_limits(window).target, abs=2)


def test_a_scope_of_blocks_fits_the_window_as_the_provider_counts_it() -> None:
    def find_least_window(factor: float) -> int:
        policy = replace(blocks(COUNTER), estimator=AnchoredEstimator(factor))
        session = make_blocks_session([make_loop(3, start=10 * n) for n in range(4)], policy)
        names = [f"run-{n + 1}" for n in range(4)]
        return next(size for size in range(200, 20_000, 20) if resolve_scope(session, names, TokenBudget(), size) == 3)

    assert find_least_window(2.0) == pytest.approx(2 * find_least_window(1.0), rel=0.05)


def test_the_plan_of_tail_is_by_the_counter_and_its_preparation_as_the_provider_counts() -> None:
    session = open_session(make_work(30))
    made = Compaction(settings=CompactionSettings(keep_recent_tokens=1_000))
    found = made.prepare(session.view.path.get_entries(0, session.view.length - 1))
    assert found is not None
    reading = session.take_reading()
    assert (found.plan.tokens_before, found.tokens_before) == (reading.estimate, reading.tokens)
