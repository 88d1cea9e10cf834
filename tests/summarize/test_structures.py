"""Structures and prompts: headings are defined once, asked for, checked, restored, and filled by code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.summarize.headings import (
    HEADING_KINDS,
    arrange_sections,
    find_heading_errors,
    render_guide,
    restore_headings,
)
from tenfold.compaction.summarize.ladder import PROMPT_FIELDS
from tenfold.compaction.summarize.prompt_files import load_prompt, load_prompts, with_prompts
from tenfold.compaction.summarize.write import SummarySettings, SummaryTask
from tenfold.config.policies import POLICIES
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.fact import Correction, Failure, Rule
from tenfold.designs.tail.policy import PACKAGE
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.models import ScriptedReply
from tests.summarize.making import estimate_tokens, frame_notes
from tests.summarize.test_write import TASK, run

DESIGNS = [POLICIES[name](CharacterCounter()).summary for name in ("tail", "tiers", "threshold")]
SIX, SEVEN, FOUR = (each.headings for each in DESIGNS)
MODEL = with_prompts(SummarySettings(headings=SIX, sections=DESIGNS[0].sections, models=("one",)))
FACTS = (Rule("Keep to sqlite.", 3), Correction("Not redis.", 5), Failure("boom", 4))


def write_under(headings: tuple[str, ...], text: str = "It went on.") -> str:
    return "\n".join(f"{heading}\n{text}" for heading in headings)


def test_every_heading_of_every_structure_is_explained_once_and_known() -> None:
    for each in DESIGNS:
        for heading in each.headings:
            assert each.sections.count(f"\n{heading}\n") == 1
    known = {line for each in DESIGNS for line in each.sections.split("\n") if line.startswith("## ")}
    assert known == set(HEADING_KINDS) == {*SIX, *SEVEN, *FOUR, *PREFIX_HEADINGS}


def test_what_a_user_says_under_a_heading_takes_the_place_of_the_packages_own() -> None:
    mine = POLICIES["tail"](CharacterCounter(), summary=SummarySettings(sections="## Critical Context\nMine."))
    assert mine.summary.sections.count("## Critical Context") == 1
    assert "Mine." in render_guide(SIX, mine.summary.sections)
    again = POLICIES["tail"](CharacterCounter(), summary=with_prompts(mine.summary)).summary
    assert again.sections == mine.summary.sections


def test_the_edge_fills_what_is_empty_and_leaves_what_is_given() -> None:
    filled = with_prompts(SummarySettings(first="mine {allotment}", headings=FOUR))
    assert filled.first == "mine {allotment}"
    assert all(getattr(filled, name) for name in PROMPT_FIELDS)
    assert with_prompts(filled) is filled
    assert "{directive}" not in "".join(load_prompts().values())
    assert load_prompts()["directive"] in filled.merge


@pytest.mark.parametrize("purpose", ["first", "update", "prefix", "branch", "batch", "merge"])
def test_each_prompt_asks_for_its_own_headings_and_leaves_no_place_open(purpose: str) -> None:
    task = replace(TASK, purpose=purpose, allotment=600, focus="the tests")
    task = replace(task, items=(), parts=("A.", "B.")) if purpose == "merge" else task
    task = replace(task, previous="Earlier.") if purpose == "update" else task
    if purpose == "prefix":
        task = replace(task, prompt=load_prompt(PACKAGE, "prefix"), headings=PREFIX_HEADINGS)
    wanted = task.list_headings(MODEL)
    written, asked = run(replace(MODEL, instructions="the schema"), write_under(wanted), task=task)
    ask = asked[0]
    assert written.text == frame_notes(write_under(wanted))
    assert ask.purpose == purpose
    places = [ask.prompt.index(f"\n{heading}\n") for heading in wanted]
    assert places == sorted(places)
    others = set(HEADING_KINDS) - set(wanted)
    assert not any(f"\n{heading}\n" in ask.prompt for heading in others)
    assert "Additional focus: the schema\nAdditional focus: the tests" in ask.prompt
    assert f"{ask.max_tokens} tokens" in ask.prompt
    assert not any(place in ask.prompt + ask.system for place in ("{allotment}", "{structure}", "{focus}", "\n\n\n"))


def test_prose_is_told_what_to_tell_and_given_no_headings() -> None:
    _, asked = run(replace(MODEL, headings=()), "It went on.")
    assert load_prompts()["told"] in asked[0].prompt
    assert "## " not in asked[0].prompt


def test_earlier_texts_stand_apart_from_the_messages_each_by_its_meaning() -> None:
    task = replace(TASK, previous="Before.", context="Elsewhere.", purpose="batch")
    _, asked = run(replace(MODEL, headings=()), "It went on.", task=task)
    head, _, messages = asked[0].prompt.partition("<conversation>")
    assert "<context>\nElsewhere.\n</context>" in head
    assert "<previous-summary>\nBefore.\n</previous-summary>" in head
    assert "Before" not in messages
    merged = SummaryTask((), parts=("One.", "Two."), purpose="merge", allotment=300)
    _, asked = run(replace(MODEL, headings=()), "Both.", task=merged)
    assert "<summary>\nOne.\n</summary>\n\n<summary>\nTwo.\n</summary>" in asked[0].prompt
    assert "<conversation>" not in asked[0].prompt


def test_headings_in_other_marks_are_put_right_without_asking_again() -> None:
    text = "**Goal:**\na\n# constraints and preferences\nb\n3. PROGRESS\nc\n### Key Decisions\nd\nNext Steps:\ne\n"
    written, asked = run(MODEL, text + "## Critical Context\nf", task=replace(TASK, allotment=600))
    assert len(asked) == 1
    assert [line for line in written.text.split("\n") if line.startswith("## ")] == list(SIX)
    assert written.notes == ()


def test_a_missing_or_misplaced_heading_is_asked_for_once() -> None:
    swapped = write_under((SIX[1], SIX[0], *SIX[2:-1]))
    written, asked = run(MODEL, swapped, write_under(SIX), task=replace(TASK, allotment=600))
    assert asked[1].purpose == "repair"
    assert "## Critical Context is missing" in asked[1].prompt
    assert "## Constraints & Preferences is out of order" in asked[1].prompt
    assert written.text == frame_notes(write_under(SIX))


def test_then_it_is_filled_by_code_from_the_facts_or_with_none() -> None:
    text = write_under((SIX[2], SIX[0]))
    written, asked = run(MODEL, text, text, task=replace(TASK, allotment=600, facts=FACTS))
    assert len(asked) == 2
    assert find_heading_errors(written.text, SIX) == []
    assert "## Constraints & Preferences\n- Keep to sqlite.\n- Not redis." in written.text
    assert "## Next Steps\nnone" in written.text
    assert "mended by code" in written.notes[0]


def test_what_tools_said_stays_marked_where_code_fills_a_heading() -> None:
    text = arrange_sections("", SEVEN, FACTS, allotment=400, count=estimate_tokens)
    assert '## Errors\n- tool: "boom"' in text


def test_headings_are_not_asked_for_where_they_would_take_half_of_the_room() -> None:
    written, asked = run(MODEL, "It went on.", task=replace(TASK, allotment=60))
    assert (written.text, len(asked)) == ("It went on.", 1)
    assert "## " not in asked[0].prompt


LINES = st.lists(
    st.sampled_from([*SIX, "## goal", "# Progress", "", "a line of text", "x" * 90, "- item", "none"]), max_size=40
)


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(10, 400))
def test_an_arranged_text_has_all_headings_in_order_and_fits(lines: list[str], allotment: int) -> None:
    text = restore_headings("\n".join(lines), SIX)
    made = arrange_sections(text, SIX, FACTS, allotment=allotment, count=estimate_tokens)
    assert estimate_tokens([made])[0] <= allotment or not made
    assert not made or find_heading_errors(made, SIX) == []
    if allotment == 400 and estimate_tokens([text])[0] < 250:
        assert all(line in made for line in lines if line.startswith(("a line", "- item")))
    assert made or allotment < 80, "the six headings fit 80 tokens"


REPLIES = st.builds(
    lambda lines, finish: ScriptedReply(text="\n".join(lines), finish=finish),
    st.lists(
        st.sampled_from(
            [
                *SIX,
                "**Goal**",
                "It changed src/ghost.py. And it ran.",
                "word " * 60,
                "fixed /repo/main.py",
                "```",
                "none",
            ]
        ),
        max_size=14,
    ),
    st.sampled_from(["stop", "stop", "length", "refusal"]),
) | st.just(ScriptedReply(error="503 down"))


@settings(max_examples=150, deadline=None)
@given(st.lists(REPLIES, min_size=5, max_size=5), st.integers(20, 500), st.sampled_from([(), SIX, FOUR]))
def test_whatever_models_answer_what_is_used_passes_the_check(
    replies: list[ScriptedReply], allotment: int, headings: tuple[str, ...]
) -> None:
    task = replace(TASK, allotment=allotment, facts=FACTS)
    written, asked = run(replace(MODEL, headings=headings, models=("one", "two")), *replies, task=task)
    assert estimate_tokens([written.text])[0] <= allotment
    assert written.text.count("ghost") == written.text.count("ghost.py [unconfirmed]")
    assert len(asked) <= 4
    if written.rung in ("model", "stricter", "next_model"):
        if allotment >= 250:
            assert find_heading_errors(written.text, headings) == []
    else:
        assert written.notes, "why no model's text was used"
