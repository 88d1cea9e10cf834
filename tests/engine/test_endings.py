"""Every way a compaction can end, with its numbers, its reason, and exactly the entry that must remember it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import compact, preview
from tenfold.compaction.engine.policy import Shares
from tenfold.compaction.summarize.ladder import OnFailure
from tenfold.compaction.trigger.limits import Demand, Limits
from tenfold.core.record.ask import Answer, Ask, ConsultAsk, Outcome, ReadAsk
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Entry, Usage
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.models import ScriptedModel, ScriptedReply
from tenfold.session.drive import Answerer, run_engine
from tests.engine.making import (
    COUNTER,
    Telling,
    build_policy,
    build_view,
    get_attempts,
    get_blocks,
    make_call,
    make_id_source,
    make_measures,
    make_reply,
    make_system_message,
    make_user_message,
    make_work,
    open_session,
)

GOOD = "The parts were read and changed, one after the other, and nothing else came up."


# -- nothing ----------------------------------------------------------------------------------------------------------


def test_a_check_below_the_trigger_costs_nothing() -> None:
    session = open_session(make_work(6), build_policy(models=("m",)))
    outcome = session.compact(replace(Call(window=100_000), demand="check"))
    assert outcome.status == "nothing"
    assert "do not reach the trigger of 85,000" in outcome.reason
    assert get_attempts(session) == []


def test_an_unknown_window_never_triggers_whoever_asks() -> None:
    view = build_view(make_work(12))
    for demand in ("check", "manual", "tool", "overflow"):
        verdict = run_engine(
            compact(view, build_policy(), Call(demand=demand), make_measures(), now=1, new_id=make_id_source()),
            Answerer(),
        )
        assert verdict.outcome.status == "nothing"
        assert "window" in verdict.outcome.reason
        assert verdict.entry is None


def test_an_unknown_window_is_no_error_behind_a_block_either() -> None:
    session = open_session(make_work(12))
    session.compact(to=700)
    verdict = run_engine(
        compact(session.view, build_policy(), Call(), make_measures(), now=1, new_id=make_id_source()), Answerer()
    )
    assert verdict.outcome.status == "nothing"


def test_a_plan_that_saves_too_little_is_remembered_with_its_arithmetic() -> None:
    session = open_session(
        [
            make_user_message("Look. " * 20),
            *[m for n in range(40) for m in (make_reply(f"Step {n} it is."), make_user_message("go on"))],
        ]
    )
    outcome = session.compact(replace(session.compactor.build_call(window=900), demand="tool"))
    assert outcome.status == "nothing"
    assert "the least worth a Block is 1,350" in outcome.reason, "1,000 by the counter"
    (attempt,) = get_attempts(session)
    assert outcome.reading_before is not None
    counted = outcome.reading_before.estimate
    assert (attempt.status, attempt.reason, attempt.tokens) == ("nothing", outcome.reason, counted)
    for _ in range(2):
        session.compact(replace(session.compactor.build_call(window=900), demand="tool"))
    assert len(get_attempts(session)) == 1


def test_an_explicit_target_goes_before_the_window() -> None:
    session = open_session(make_work(12))
    assert session.compact(to=3_000, window=200_000).status == "compacted"
    assert session.compact(to=100_000, window=200_000).status == "nothing"


# -- unsatisfiable, target missed -------------------------------------------------------------------------------------


def test_unsatisfiable_carries_the_arithmetic_and_is_said_once() -> None:
    session = open_session([make_system_message("rule " * 3_300), *make_work(6)])
    call = replace(Call(window=4_000), demand="check")
    outcome = session.compact(call)
    assert outcome.status == "unsatisfiable"
    assert "nothing can bring the view under 4,000 tokens" in outcome.reason
    assert outcome.itemised["system prompt"] > 3_000
    assert [a.status for a in get_attempts(session)] == ["unsatisfiable"]
    assert session.compact(call).status == "unsatisfiable"
    assert len(get_attempts(session)) == 1
    assert outcome.tokens_after == outcome.tokens_before


def test_what_the_provider_counts_beside_the_view_is_itemised() -> None:
    session = open_session([make_user_message("go")])
    session.compactor.use_model("m")
    session.append(make_reply("done"), usage=Usage.build(50_000, 5, 0, 0, "m"))
    session.append(make_user_message("and now"))
    outcome = session.compact(replace(session.compactor.build_call(window=20_000), demand="check"))
    assert outcome.status == "unsatisfiable"
    apart = outcome.itemised["counted by the provider beside the view"]
    assert 49_000 < apart < 50_000
    assert "take 50,1" in outcome.reason
    assert 50_100 < sum(outcome.itemised.values()) < 50_200, "in tokens as they are counted here"


def test_a_target_below_the_least_is_missed_and_itemised() -> None:
    session = open_session([*make_work(12), make_user_message("please " * 1_000)])
    outcome = session.compact(to=250)
    assert outcome.status == "compacted"
    assert outcome.target == 250
    assert outcome.target_missed
    assert set(outcome.itemised) == {"current request", "summary"}
    assert outcome.itemised["current request"] > 1_500


def test_a_window_whose_target_lies_below_the_least_is_missed_too() -> None:
    session = open_session(
        [*make_work(12), make_user_message("please " * 1_000)], replace(build_policy(), shares=Shares())
    )
    outcome = session.compact(window=4_000)
    assert outcome.status == "compacted"
    assert outcome.target_missed, "this policy keeps the whole request"
    assert outcome.itemised


# -- guards through real logs -----------------------------------------------------------------------------------------


def make_overflow_call(window: int) -> Call:
    return replace(Call(window=window), demand="overflow")


def test_after_a_block_a_soft_trigger_waits_for_growth() -> None:
    session = open_session(make_work(12))
    call = replace(Call(window=7_000), demand="tool")
    assert session.compact(call).status == "compacted"
    session.append(make_user_message("go on"))
    outcome = session.compact(call)
    assert outcome.status == "nothing"
    assert get_attempts(session) == []


def test_after_an_undo_a_check_waits_until_the_view_has_grown() -> None:
    session = open_session(make_work(12))
    call = replace(Call(window=9_200), demand="check")
    assert session.compact(call).status == "compacted"
    session.undo()
    outcome = session.compact(call)
    assert outcome.status == "nothing"
    assert "undone" in outcome.reason
    session.append(make_user_message("go on " * 400))
    assert session.compact(call).status == "compacted"


def test_a_hard_demand_is_met_once_until_something_is_said() -> None:
    talk = [m for n in range(40) for m in (make_reply(f"Step {n} it is."), make_user_message("go on"))]
    session = open_session([make_user_message("Look."), *talk, make_call("open")])
    statuses = [session.compact(make_overflow_call(700)).status for _ in range(4)]
    assert statuses == ["compacted", "nothing", "nothing", "nothing"]
    assert get_attempts(session) == []


# -- failed, cancelled, the ladder ------------------------------------------------------------------------------------


def run_ladder(
    *replies: ScriptedReply | str, on_failure: OnFailure = "ladder", models: tuple[str, ...] = ("small", "large")
) -> tuple[Outcome, ScriptedModel, list[Attempt], list[Block]]:
    model = ScriptedModel(replies)
    session = open_session(make_work(12), build_policy(models=models, on_failure=on_failure), answerer=Answerer(model))
    outcome = session.compact(to=700)
    return outcome, model, get_attempts(session), get_blocks(session)


def test_a_good_answer_is_used_as_it_is() -> None:
    outcome, model, _, made = run_ladder(GOOD)
    assert (outcome.status, outcome.rung, len(model.asks)) == ("compacted", "model", 1)
    assert outcome.spent.calls == made[0].spent.calls == 1
    assert GOOD in str(made[0].replacements)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (ScriptedReply(text=""), "empty"),
        (ScriptedReply(text=GOOD, finish="tool"), "tool call"),
        (ScriptedReply(text="I'm sorry, I cannot help with that.", finish="refusal"), "refusal"),
    ],
)
def test_after_an_answer_that_is_no_summary_the_ladder_goes_on(bad: ScriptedReply, why: str) -> None:
    outcome, model, _, _ = run_ladder(bad, GOOD)
    assert (outcome.status, outcome.rung) == ("compacted", "stricter")
    assert [a.purpose for a in model.asks] == ["first", "first"]
    assert any(why in note for note in outcome.notes)
    assert outcome.spent.calls == 2


def test_literals_that_the_messages_do_not_hold_are_marked_and_counted() -> None:
    outcome, model, _, made = run_ladder(f"{GOOD} It also wrote lib/ghost.py.")
    assert (outcome.status, outcome.rung, outcome.unconfirmed, len(model.asks)) == ("compacted", "model", 1, 1)
    assert "It also wrote lib/ghost.py [unconfirmed]." in str(made[0].replacements)


def test_an_error_goes_to_the_next_model() -> None:
    outcome, model, _, _ = run_ladder(ScriptedReply(error="503 overloaded"), GOOD)
    assert (outcome.status, outcome.rung) == ("compacted", "next_model")
    assert [a.model for a in model.asks] == ["small", "large"]


def test_a_request_too_long_is_tried_again_with_less() -> None:
    outcome, model, _, _ = run_ladder(ScriptedReply(error="413: prompt is too long"), GOOD)
    assert (outcome.status, outcome.rung) == ("compacted", "stricter")
    assert len(model.asks[1].prompt) <= len(model.asks[0].prompt)
    assert model.asks[1].max_tokens < model.asks[0].max_tokens


def test_when_every_model_fails_code_writes_the_text() -> None:
    outcome, model, left, made = run_ladder(*[ScriptedReply(error="down")] * 9)
    assert (outcome.status, left) == ("compacted", [])
    assert outcome.rung in ("extractive", "mechanical")
    assert made[0].rung == outcome.rung
    assert outcome.spent.calls == len(model.asks) > 0


def test_abort_appends_nothing_but_the_attempt_and_what_it_cost() -> None:
    outcome, model, left, made = run_ladder(*[ScriptedReply(error="down")] * 9, on_failure="abort")
    assert (outcome.status, made) == ("failed", [])
    assert [a.status for a in left] == ["failed"]
    assert left[0].spent.calls == len(model.asks)
    assert "down" in left[0].reason


# -- hooks ------------------------------------------------------------------------------------------------------------


def run_hooked(
    *hooks: Callable[[ConsultAsk], Answer | None], told: list[str] | None = None
) -> tuple[Outcome, Telling, list[Block]]:
    model = Telling(GOOD)
    report = told.append if told is not None else None
    answerer = Answerer(model, before_hooks=hooks, problem_reporter=report)
    session = open_session(make_work(12), build_policy(models=("m",)), answerer=answerer)
    return session.compact(to=700), model, get_blocks(session)


def test_what_a_hook_gives_and_is_no_answer_is_reported_and_ignored() -> None:
    """An Answer whose text is none raised an AttributeError of ours in the host."""
    told: list[str] = []
    wrong: list[object] = ["a text", True, Answer(text=3), Answer(focus=["x"]), Answer(text="so far", error=None)]  # type: ignore[arg-type]

    def give(_: ConsultAsk) -> Answer:
        return wrong[len(told)]  # type: ignore[return-value]

    outcome, model, _ = run_hooked(*[give] * len(wrong), told=told)
    assert outcome.status == "compacted"
    assert len(model.asked) == 1, "the model writes, as without hooks"
    assert told == [
        f"a before-hook gave {what}; it was ignored"
        for what in (
            "a str, and not an Answer",
            "a bool, and not an Answer",
            "an Answer whose text is a int, and not a str",
            "an Answer whose focus is a list, and not a str",
            "an Answer whose error is a NoneType, and not a str",
        )
    ]


def test_a_hook_sees_the_plan_and_may_cancel() -> None:
    seen: list[ConsultAsk] = []

    def cancel(ask: ConsultAsk) -> Answer:
        seen.append(ask)
        return Answer(cancel=True, error="not now")

    outcome, model, made = run_hooked(cancel)
    assert (outcome.status, outcome.reason) == ("cancelled", "not now")
    assert (model.asked, made) == ([], [])
    assert "summary" in seen[0].plan
    assert seen[0].target == 700


def test_a_hook_may_supply_the_summary_and_no_model_is_asked() -> None:
    outcome, model, made = run_hooked(lambda _: Answer(text="We did the parts."))
    assert (outcome.status, model.asked) == ("compacted", [])
    assert "We did the parts." in str(made[0].replacements)
    assert made[0].facts


def test_a_supplied_summary_keeps_its_allotment_and_cannot_pass_for_our_marks() -> None:
    outcome, _, made = run_hooked(lambda _: Answer(text="word </tenfold-summary> " * 9_000))
    assert outcome.tokens_after <= 700
    assert any("was cut to its allotment" in note for note in outcome.notes)
    assert str(made[0].replacements).count("</tenfold-summary>") == 1


def test_a_hook_may_add_a_focus() -> None:
    _, model, _ = run_hooked(lambda _: Answer(focus="the database"))
    assert "the database" in model.asked[0].prompt


# -- one engine, many drivers -----------------------------------------------------------------------------------------


def test_a_read_that_fails_is_an_answer_with_its_error() -> None:
    def fail_read(positions: Sequence[int]) -> list[Entry]:
        raise OSError(f"{positions} are gone")

    asked: Ask = ReadAsk((1,))
    assert Answerer(entry_reader=fail_read).answer(asked).error == "OSError: (1,) are gone"


# -- plug-ins ---------------------------------------------------------------------------------------------------------


class Sizes(Struct, frozen=True):
    """A trigger of one's own: fires at a fixed size."""

    at: int = 3_000

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002
        at = ProviderTokens(self.at)
        return Limits(at, ProviderTokens(window), ProviderTokens(self.at // 2), at)


def test_a_trigger_of_ones_own_runs_under_the_same_guards() -> None:
    using = replace(build_policy(), trigger=Sizes())
    session = open_session(make_work(12), using)
    call = replace(session.compactor.build_call(window=50_000), demand="check")
    outcome = session.compact(call)
    assert (outcome.status, outcome.target) == ("compacted", 1_500), "as the provider would count"
    assert session.compact(call).status == "nothing"


class Bytes:
    """A counter of one's own: one token a byte."""

    name = "bytes"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.encode()) for text in texts]


@pytest.mark.parametrize("percent", range(2, 100, 7))
def test_a_plan_is_an_upper_bound_under_any_counter(percent: int) -> None:
    view = build_view([*make_work(5), make_user_message("and now?")])
    for counter in (Bytes(), COUNTER):
        using, measured = build_policy(counter), make_measures(counter)
        call = Call(to=Counted(measured.count_view(view) * percent // 100))
        _, plan = preview(view, using, call, measured)
        assert plan is not None
        effects = compact(view, using, call, measured, now=1, new_id=lambda: "0192b6a0-1111-7222-8333-444455556666")
        assert run_engine(effects, Answerer()).outcome.tokens_after <= plan.tokens_after


def test_every_demand_says_who_asked() -> None:
    demands: tuple[Demand, ...] = ("manual", "tool", "overflow")
    for demand, words in zip(demands, ("asked for", "the model asked", "the provider refused"), strict=True):
        outcome = open_session(make_work(12)).compact(replace(Call(window=5_000), demand=demand))
        assert outcome.status == "compacted"
        assert words in outcome.reason


# -- refused by the provider ------------------------------------------------------------------------------------------


def test_what_the_provider_refused_is_summarized_by_code_where_a_failed_summary_would_abort() -> None:
    """Without a Block the run would end there; at a check the policy's word holds."""
    broken = ScriptedModel([ScriptedReply(error="HTTP 500")], repeat=True)
    talk = [
        m for n in range(40) for m in (make_user_message(f"Question {n}. " * 30), make_reply(f"Step {n} it is. " * 40))
    ]
    session = open_session(talk, build_policy(models=("m",), on_failure="abort"), answerer=Answerer(model=broken))
    checked = session.compact(replace(session.compactor.build_call(window=15_000), demand="check"))
    assert checked.status == "failed"
    session.append(make_user_message("And now?"))
    refused = session.compact(replace(session.compactor.build_call(window=6_000), demand="overflow"))
    assert (refused.status, refused.rung) == ("compacted", "extractive")
    assert "the provider refused what was sent, so code wrote the summary" in refused.notes[0]
    assert refused.spent.calls >= 1
