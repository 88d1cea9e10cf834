"""A conversation larger than the summary model's window: read in pieces, each folded into the text of those before."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.summarize.prompt_files import load_prompt, with_prompts
from tenfold.compaction.summarize.transcript import split_messages
from tenfold.compaction.summarize.write import SummarySettings, SummaryTask
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import Keep, trim_lines
from tenfold.designs.tail.policy import HEADINGS, PACKAGE
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.models import ScriptedReply
from tests.summarize.making import (
    HISTORIES,
    estimate_tokens,
    frame_notes,
    make_answer,
    make_call,
    make_result,
    make_user,
)
from tests.summarize.test_write import run

WORDS = "and the work went on as it had been planned before "
ITEMS = tuple(
    enumerate(
        m for n in range(40) for m in (make_user(f"question {n} {WORDS * 8}"), make_answer(f"answer {n} {WORDS * 8}"))
    )
)
TASK = SummaryTask(items=ITEMS, allotment=301 + estimate_tokens([frame_notes("")])[0])
SMALL = with_prompts(SummarySettings(models=("one",), input_tokens=4_000))


def test_a_conversation_beyond_the_window_is_folded_piece_by_piece() -> None:
    told = [f"Piece {n} was told." for n in range(9)]
    written, asked = run(SMALL, *told, task=TASK)
    assert 2 < len(asked) <= SMALL.chunks
    assert [ask.purpose for ask in asked] == ["first", *["update"] * (len(asked) - 1)]
    for number, ask in enumerate(asked):
        assert estimate_tokens([ask.system + ask.prompt])[0] <= 4_000
        assert ask.max_tokens == 300
        assert (f"<previous-summary>\nPiece {number - 1} was told.\n</previous-summary>" in ask.prompt) == (number > 0)
    shown = [int(n) for ask in asked for n in re.findall(r"^\[(\d+)\]", ask.prompt, re.MULTILINE)]
    assert shown == list(range(80)), "each message is read once, in order"
    assert written.text == frame_notes(f"Piece {len(asked) - 1} was told.")
    assert (written.rung, written.spent.calls) == ("model", len(asked))


def test_the_bound_is_a_share_of_the_summary_models_window() -> None:
    assert SummarySettings().get_input_limit("claude-3-5-haiku-latest", 1_000) == 160_000
    assert SummarySettings(input_share=0.5).get_input_limit("claude-3-5-haiku-latest", 1_000) == 100_000
    assert SummarySettings(input_tokens=9_000).get_input_limit("claude-3-5-haiku-latest", 1_000) == 9_000
    assert SummarySettings(input_tokens=9_000).get_input_limit("gpt-4", 2_000) == 8_192 - 2_000, (
        "the answer must fit as well"
    )
    assert SummarySettings().get_input_limit("nobody-knows-this-model", 1_000) == 60_000


def test_one_piece_only_leaves_out_the_oldest_and_says_so() -> None:
    items = tuple((n, make_user(f"question {n} " + "word " * 20)) for n in range(400))
    written, asked = run(replace(SMALL, chunks=1), "It was told.", task=replace(TASK, items=items))
    assert len(asked) == 1
    assert "question 399 " in asked[0].prompt
    assert "question 0 " not in asked[0].prompt
    note = written.notes[0]
    found = re.search(r"(\d+) messages \(0 to (\d+)\) had no room", note)
    assert found
    assert f"question {int(found[2]) + 1} " in asked[0].prompt
    assert int(found[1]) == int(found[2]) + 1


def test_a_piece_without_an_answer_ends_the_asking_and_the_rest_is_told_by_code() -> None:
    good = ScriptedReply("The first piece was told.", spent=ModelCost(1, 10, 5))
    written, asked = run(SMALL, good, ScriptedReply(error="503 down"), task=TASK)
    assert len(asked) == 2, "a provider that is down is not asked for every piece"
    assert written.rung == "extractive"
    assert written.text.startswith("The first piece was told.")
    assert "Assistant: answer 14" in written.text
    assert written.spent.calls == 2
    assert any(note.startswith("piece 2 of ") and "503 down" in note for note in written.notes)
    failed, _ = run(replace(SMALL, on_failure="abort"), good, ScriptedReply(error="503 down"), task=TASK)
    assert (failed.text, failed.rung) == ("", "none")
    assert "503 down" in failed.failure


def test_pieces_of_a_prefix_keep_its_headings() -> None:
    text = "\n".join(f"{heading}\nIt went on." for heading in PREFIX_HEADINGS)
    task = replace(TASK, purpose="prefix", prompt=load_prompt(PACKAGE, "prefix"), headings=PREFIX_HEADINGS)
    written, asked = run(replace(SMALL, headings=HEADINGS), *[text] * 9, task=task)
    assert len(asked) > 2
    assert all("## Original Request" in ask.prompt and "## Goal" not in ask.prompt for ask in asked)
    assert written.text == frame_notes(text)


def test_an_invented_path_in_one_piece_does_not_become_a_source_for_the_next() -> None:
    lie = "It changed src/ghost.py. The rest went on."
    written, asked = run(SMALL, *[lie] * 20, task=TASK)
    assert len(asked) > 2
    assert written.text == frame_notes("It changed src/ghost.py [unconfirmed]. The rest went on.")


@settings(max_examples=100, deadline=None)
@given(HISTORIES, st.integers(30, 800), st.integers(1, 4))
def test_pieces_hold_everything_once_and_in_order(history: list[Message], budget: int, most: int) -> None:
    items = tuple(enumerate(history))
    cut = split_messages(items, budget=budget, max_chunks=most, count=estimate_tokens)
    assert (*cut.left_out, *(item for piece in cut.chunks for item in piece)) == items
    assert len(cut.chunks) <= most


def test_a_step_is_not_torn_where_it_fits() -> None:
    step = (make_call("bash", command="ls"), make_result("x" * 400))
    items = tuple(enumerate([m for _ in range(6) for m in (make_user("go on " * 20), *step)]))
    cut = split_messages(items, budget=250, max_chunks=20, count=estimate_tokens)
    assert len(cut.chunks) > 2
    assert all(piece[0][1].role != "tool" for piece in cut.chunks)


def test_a_thinned_text_keeps_both_ends_and_counts_what_is_gone() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    once = trim_lines(text, 60, estimate_tokens, Keep.ENDS)
    assert estimate_tokens([once])[0] <= 60
    assert once.startswith("line 0\n")
    assert once.endswith("\nline 99")
    gone = int(re.findall(r"\[\.\.\. (\d+) lines left out \.\.\.\]", once)[0])
    assert gone == 100 - (once.count("\n"))
    twice = trim_lines(once + "\n" + text, 60, estimate_tokens, Keep.ENDS)
    assert re.findall(r"(\d+) lines left out", twice) == [str(200 - twice.count("\n"))]
    assert trim_lines("word " * 400, 5, estimate_tokens, Keep.ENDS) == ""


def test_without_a_model_the_text_stays_bounded_over_any_number_of_updates() -> None:
    previous = ""
    for number in range(30):
        items = tuple((number * 10 + n, make_user(f"request {number}.{n} " + "word " * 10)) for n in range(10))
        written, _ = run(SummarySettings(), task=SummaryTask(items=items, allotment=200, previous=previous))
        previous = written.text
        assert estimate_tokens([previous])[0] <= 200
    assert previous.startswith("[0] User: request 0.0"), "the beginning stays"
