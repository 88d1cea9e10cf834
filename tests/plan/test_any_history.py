"""Plans over made-up histories of any shape: they tile the view, apply, never grow it, and bound their result."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import compact, preview
from tenfold.compaction.plan.draft import Draft, Goal, build_replacements, start_draft
from tenfold.compaction.plan.pipeline import Stage, build_plan
from tenfold.compaction.plan.stages import (
    ClearStage,
    MergeStage,
    SummarizePrefixStage,
    SupersededReadsStage,
    TruncateStage,
)
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.entry import MessageEntry, Pin
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.designs.tiers.stages import SummarizeOlderStage
from tenfold.session.drive import Answerer, run_engine
from tests.engine.making import (
    COUNTER,
    FILLER,
    build_policy,
    make_call,
    make_edit_step,
    make_id_source,
    make_measures,
    make_read_step,
    make_reply,
    make_system_message,
    make_user_message,
)

SMALL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
STAGES: tuple[Stage, ...] = (
    SupersededReadsStage(),
    TruncateStage(max_tokens=150, max_lines=6),
    ClearStage(),
    SummarizePrefixStage(),
    SummarizeOlderStage(keep_recent_messages=0),
    MergeStage(),
)


def build_messages(number: int, kind: str, size: int) -> list[Message]:
    """A few messages of one kind."""
    match kind:
        case "read":
            return make_read_step(number, f"src/f{number % 4}.py", words=size)
        case "edit":
            return make_edit_step(number, f"src/f{number % 4}.py")
        case "parallel":
            ids = [f"{number}.{n}" for n in range(1 + size % 3)]
            call = Message("assistant", tuple(ToolCall(i, "grep", '{"q": "x"}') for i in ids), "model")
            return [call, *(Message("tool", (ToolResult(i, "grep", (Text(FILLER * size),)),), "tool") for i in ids)]
        case "dangling":
            return [make_call(f"d{number}", "sh")]
        case "user":
            return [make_user_message(f"Wish {number}: never touch port {4_000 + number}. " + FILLER * (size // 8))]
        case "system":
            return [make_system_message(f"Note {number}.")]
        case _:
            return [make_reply(f"Thought {number}. " + FILLER * (size // 4))]


KINDS = st.sampled_from(("read", "read", "edit", "parallel", "user", "said", "dangling", "system"))
HISTORIES = st.lists(st.tuples(KINDS, st.integers(0, 24)), min_size=1, max_size=14).map(
    lambda drawn: [
        make_system_message(),
        *(m for n, (kind, size) in enumerate(drawn) for m in build_messages(n, kind, size)),
    ]
)


def build_pinned_view(history: list[Message], pins: set[int]) -> View:
    path = Path([MessageEntry(f"id-{n}", None, "", n, m) for n, m in enumerate(history)])
    for at in sorted(p for p in pins if p < len(history)):
        path.append(Pin(f"pin-{at}", None, "", 0, f"id-{at}", at))
    return View.from_path(path)


def make_draft(view: View) -> Draft:
    return start_draft(view, make_measures().token_cache.measure, lambda messages: measure_messages(messages, COUNTER))


@SMALL
@given(
    HISTORIES,
    st.sets(st.integers(0, 20), max_size=3),
    st.lists(st.sampled_from(STAGES), min_size=1),
    st.integers(1, 100),
)
def test_every_plan_tiles_applies_and_does_not_grow(
    history: list[Message], pins: set[int], stages: list[Stage], percent: int
) -> None:
    view = build_pinned_view(history, pins)
    draft = make_draft(view)
    target = max(Counted(1), draft.tokens * percent // 100)
    goal = Goal(target, target, target // 4, target // 10, target // 4, target // 10)
    plan = build_plan(draft, goal, stages)
    assert plan.tokens_after <= plan.tokens_before
    assert [u for p in plan.draft.pieces for u in p.units] == list(view.units)
    for piece in plan.draft.pieces:
        assert piece.tokens == sum(piece.sizes)
        assert len(piece.shown_items) == len(piece.sizes) or not piece.is_changed
    block = Block("b", None, "", 0, "p", COUNTER.name, build_replacements(plan.draft))
    assert view.can_append(block)
    view.path.append(block)
    after = view.extend((block,))
    fixed = sum(p.sizes[-1] for p in plan.draft.pieces if p.summary_budget)
    empty = sum(
        measure_messages(
            [s.message for s in after.get_visible_messages() if not s.is_original and s.message.parts == (Text(""),)],
            COUNTER,
        )
    )
    assert sum(measure_messages(after.get_messages(), COUNTER)) == plan.tokens_after - fixed + empty


class Drawn:
    """A model whose answers were drawn."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.asked = 0

    def answer(self, _ask: SummaryAsk) -> Answer:
        self.asked += 1
        return self.answers[self.asked % len(self.answers)]


ANSWERS = st.builds(
    Answer,
    text=st.sampled_from(("", "short", FILLER, FILLER * 40, "</tenfold-summary>", "# Rules\n- none", "x" * 5_000)),
    finish_reason=st.sampled_from(("stop", "stop", "length", "tool", "refusal")),
    error=st.sampled_from(("", "", "", "503", "too long")),
)


@SMALL
@given(HISTORIES, st.lists(ANSWERS, min_size=1, max_size=4), st.integers(1, 60))
def test_what_a_plan_promises_holds_whatever_a_model_answers(
    history: list[Message], answers: list[Answer], percent: int
) -> None:
    view, measured, using = build_pinned_view(history, set()), make_measures(), build_policy(models=("m", "n"))
    call = Call(to=Counted(max(1, measured.count_view(view) * percent // 100)))
    _, plan = preview(view, using, call, measured)
    verdict = run_engine(compact(view, using, call, measured, now=1, new_id=make_id_source()), Answerer(Drawn(answers)))
    if isinstance(verdict.entry, Block):
        assert plan is not None
        assert verdict.entry.tokens_after <= plan.tokens_after < verdict.entry.tokens_before
        view.path.append(verdict.entry)
        after = view.extend((verdict.entry,))
        assert (
            sum(measure_messages(after.get_messages(), COUNTER))
            == verdict.outcome.tokens_after
            == verdict.entry.tokens_after
        )
        assert [len(r.sizes) for r in verdict.entry.replacements] == [
            len(r.shown_items) for r in verdict.entry.replacements
        ]


def test_a_goal_is_a_value_that_policies_derive() -> None:
    goal = build_policy().derive_goal(Counted(10_000), recall="none")
    budgets = goal.tail_budget, goal.user_budget, goal.facts_budget, goal.narrative_budget
    assert (budgets, goal.fills_room) == ((1_500, 0, 2_500, 6_000), True)
    written = replace(build_policy(), summary=SummarySettings(models=("m",))).derive_goal(
        Counted(10_000), recall="none"
    )
    assert (written.facts_budget, written.words_budget, written.narrative_budget) == (2_500, 1_500, 6_000)
    assert goal.summary_budget == goal.facts_budget + goal.narrative_budget
    assert replace(goal, facts_budget=0, narrative_budget=10).summary_budget == goal.summary_overhead
