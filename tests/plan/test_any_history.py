"""Plans over made-up histories of any shape: they tile the view, apply, never grow it, and bound their result."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.drive import Answerer, run
from tenfold.engine import Call, compact, preview
from tenfold.meter.counters import sizes
from tenfold.plan.draft import Draft, Goal, replacements, start
from tenfold.plan.plan import Stage, pick
from tenfold.plan.stages import Clear, DropMiddle, Merge, OneLine, SummarizePrefix, SupersededReads, Truncate
from tenfold.record.ask import Answer, Summarize
from tenfold.record.block import Block
from tenfold.record.entry import Pin, Said
from tenfold.record.message import Message, Text, ToolCall, ToolResult
from tenfold.session import Session
from tenfold.summarize.summarize import Settings
from tenfold.view.path import Path
from tenfold.view.view import View
from tests.engine.making import (
    COUNTER,
    FILLER,
    bench,
    called,
    edited,
    new_ids,
    opened,
    policy,
    read,
    said,
    system,
    user,
)

SMALL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
STAGES: tuple[Stage, ...] = (
    SupersededReads(), Truncate(over=150, lines=6), Clear(), OneLine(), DropMiddle(), SummarizePrefix(),
    SummarizePrefix(keep_tail=False), Merge(),
)  # fmt: skip


def moves(number: int, kind: str, size: int) -> list[Message]:
    """A few messages of one kind."""
    match kind:
        case "read":
            return read(number, f"src/f{number % 4}.py", words=size)
        case "edit":
            return edited(number, f"src/f{number % 4}.py")
        case "parallel":
            ids = [f"{number}.{n}" for n in range(1 + size % 3)]
            call = Message("assistant", tuple(ToolCall(i, "grep", '{"q": "x"}') for i in ids), "model")
            return [call, *(Message("tool", (ToolResult(i, "grep", (Text(FILLER * size),)),), "tool") for i in ids)]
        case "dangling":
            return [called(f"d{number}", "sh")]
        case "user":
            return [user(f"Wish {number}: never touch port {4_000 + number}. " + FILLER * (size // 8))]
        case "system":
            return [system(f"Note {number}.")]
        case _:
            return [said(f"Thought {number}. " + FILLER * (size // 4))]


KINDS = st.sampled_from(("read", "read", "edit", "parallel", "user", "said", "dangling", "system"))
HISTORIES = st.lists(st.tuples(KINDS, st.integers(0, 24)), min_size=1, max_size=14).map(
    lambda drawn: [system(), *(m for n, (kind, size) in enumerate(drawn) for m in moves(n, kind, size))]
)


def view_with(history: list[Message], pins: set[int]) -> View:
    path = Path([Said(f"id-{n}", None, "", n, m) for n, m in enumerate(history)])
    for at in sorted(p for p in pins if p < len(history)):
        path.append(Pin(f"pin-{at}", None, "", 0, f"id-{at}", at))
    return View.of(path)


def draft_of(view: View) -> Draft:
    return start(view, bench().sizes.each, lambda messages: sizes(messages, COUNTER))


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
    view = view_with(history, pins)
    draft = draft_of(view)
    target = max(1, draft.tokens * percent // 100)
    goal = Goal(target, target, target // 4, target // 10, target // 4, target // 10)
    plan = pick(draft, goal, stages)
    assert plan.tokens_after <= plan.tokens_before
    assert [u for p in plan.draft.pieces for u in p.units] == list(view.units)
    for piece in plan.draft.pieces:
        assert piece.tokens == sum(piece.sizes)
        assert len(piece.show) == len(piece.sizes) or not piece.changed
    block = Block("b", None, "", 0, "p", COUNTER.name, replacements(plan.draft))
    assert view.fits(block)
    view.path.append(block)
    after = view.extend((block,))
    fixed = sum(p.sizes[-1] for p in plan.draft.pieces if p.allotment)
    empty = sum(sizes([s.message for s in after.shown() if not s.original and s.message.parts == (Text(""),)], COUNTER))
    assert sum(sizes(after.messages(), COUNTER)) == plan.tokens_after - fixed + empty


class Drawn:
    """A model whose answers were drawn."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.asked = 0

    def answer(self, _ask: Summarize) -> Answer:
        self.asked += 1
        return self.answers[self.asked % len(self.answers)]


ANSWERS = st.builds(
    Answer,
    text=st.sampled_from(("", "short", FILLER, FILLER * 40, "</tenfold-summary>", "# Rules\n- none", "x" * 5_000)),
    finish=st.sampled_from(("stop", "stop", "length", "tool", "refusal")),
    error=st.sampled_from(("", "", "", "503", "too long")),
)


@SMALL
@given(HISTORIES, st.lists(ANSWERS, min_size=1, max_size=4), st.integers(1, 60))
def test_what_a_plan_promises_holds_whatever_a_model_answers(
    history: list[Message], answers: list[Answer], percent: int
) -> None:
    view, measured, using = view_with(history, set()), bench(), policy(models=("m", "n"))
    call = Call(to=max(1, measured.tally(view) * percent // 100))
    _, plan = preview(view, using, call, measured)
    verdict = run(compact(view, using, call, measured, now=1, new_id=new_ids()), Answerer(Drawn(answers)))
    if isinstance(verdict.entry, Block):
        assert plan is not None
        assert verdict.outcome.tokens_after <= plan.tokens_after < verdict.outcome.tokens_before
        view.path.append(verdict.entry)
        after = view.extend((verdict.entry,))
        assert sum(sizes(after.messages(), COUNTER)) == verdict.outcome.tokens_after == verdict.entry.tokens_after
        assert [len(r.sizes) for r in verdict.entry.replacements] == [len(r.show) for r in verdict.entry.replacements]


@SMALL
@given(st.lists(HISTORIES, min_size=3, max_size=3), st.lists(st.integers(10, 90), min_size=3, max_size=3))
def test_compactions_over_compactions_stay_exact_and_lose_no_position(
    histories: list[list[Message]], percents: list[int]
) -> None:
    session = opened()
    for history, percent in zip(histories, percents, strict=True):
        session.append(*history)
        to = max(1, sum(session.sizes().values()) * percent // 100)
        outcome = session.compact(to=to)
        assert outcome.tokens_after == sum(sizes(session.view.messages(), COUNTER))
        assert Session(session.place, session.policy).view.messages() == session.view.messages()
        tiled = [n for u in session.view.units for n in range(u.first, u.last + 1)]
        tiled += [at for at, _ in session.view.step.entries] if session.view.step else []
        assert tiled == list(range(session.view.length))
        for wire in ("anthropic", "openai-chat", "gemini"):
            assert session.violations(wire) == ()
    depth = len(session.view.marks.live)
    for _ in range(depth):
        session.undo()
    assert session.view.marks.live == ()


def test_a_goal_is_a_value_that_policies_derive() -> None:
    goal = policy().goal(10_000, recall="none")
    assert (goal.tail, goal.users, goal.facts, goal.names, goal.narrative) == (1_500, 1_000, 6_500, 1_200, 500)
    written = replace(policy(), summary=Settings(models=("m",))).goal(10_000, recall="none")
    assert (written.facts, written.names, written.narrative) == (4_500, 1_200, 2_000)
    assert goal.summary == goal.facts + goal.narrative
    assert policy().goal(10_000, recall="none", whole=100_000) == goal, "a tenth is what the shares are for"
    deep = policy().goal(10_000, recall="none", whole=150_000)
    assert (deep.tail, deep.users, deep.facts, deep.names, deep.narrative) == (1_500, 1_000, 7_500, 1_800, 500)
    deepest = policy().goal(10_000, recall="none", whole=10_000_000)
    assert (deepest.facts, deepest.names, deepest.depth) == (7_500, 3_600, 3.0)
    assert replace(goal, facts=0, narrative=10).summary == goal.frame
