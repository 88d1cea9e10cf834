"""A conversation larger than the summary model's window: read in pieces, each folded into the text of those before."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.llm import Reply
from tenfold.record.block import Spent
from tenfold.record.message import Message
from tenfold.summarize.check import thinned
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.summarize import Settings, Task
from tenfold.summarize.transcript import pieces
from tests.summarize.making import HISTORIES, calls, gives, human, quarter, says
from tests.summarize.test_write import run

WORDS = "and the work went on as it had been planned before "
ITEMS = tuple(
    enumerate(m for n in range(40) for m in (human(f"question {n} {WORDS * 8}"), says(f"answer {n} {WORDS * 8}")))
)
TASK = Task(items=ITEMS, allotment=300)
SMALL = with_prompts(Settings(models=("one",), input_tokens=4_000))


def test_a_conversation_beyond_the_window_is_folded_piece_by_piece() -> None:
    told = [f"Piece {n} was told." for n in range(9)]
    written, asked = run(SMALL, *told, task=TASK)
    assert 2 < len(asked) <= SMALL.chunks
    assert [ask.purpose for ask in asked] == ["first", *["update"] * (len(asked) - 1)]
    for number, ask in enumerate(asked):
        assert quarter([ask.system + ask.prompt])[0] <= 4_000
        assert ask.max_tokens == 300
        assert (f"<previous-summary>\nPiece {number - 1} was told.\n</previous-summary>" in ask.prompt) == (number > 0)
    shown = [int(n) for ask in asked for n in re.findall(r"^\[(\d+)\]", ask.prompt, re.MULTILINE)]
    assert shown == list(range(80)), "each message is read once, in order"
    assert written.text == f"Piece {len(asked) - 1} was told."
    assert (written.rung, written.spent.calls) == ("model", len(asked))


def test_the_bound_is_a_share_of_the_summary_models_window() -> None:
    assert Settings().input_bound("claude-3-5-haiku-latest", 1_000) == 160_000
    assert Settings(input_share=0.5).input_bound("claude-3-5-haiku-latest", 1_000) == 100_000
    assert Settings(input_tokens=9_000).input_bound("claude-3-5-haiku-latest", 1_000) == 9_000
    assert Settings(input_tokens=9_000).input_bound("gpt-4", 2_000) == 8_192 - 2_000, "the answer must fit as well"
    assert Settings().input_bound("nobody-knows-this-model", 1_000) == 60_000


def test_one_piece_only_leaves_out_the_oldest_and_says_so() -> None:
    items = tuple((n, human(f"question {n} " + "word " * 20)) for n in range(400))
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
    good = Reply("The first piece was told.", spent=Spent(1, 10, 5))
    written, asked = run(SMALL, good, Reply(error="503 down"), task=TASK)
    assert len(asked) == 2, "a provider that is down is not asked for every piece"
    assert written.rung == "extractive"
    assert written.text.startswith("The first piece was told.")
    assert "question 39" in written.text
    assert written.spent.calls == 2
    assert any(note.startswith("piece 2 of ") and "503 down" in note for note in written.notes)
    failed, _ = run(replace(SMALL, on_failure="abort"), good, Reply(error="503 down"), task=TASK)
    assert (failed.text, failed.rung) == ("", "none")
    assert "503 down" in failed.failed


def test_pieces_of_a_prefix_keep_its_headings() -> None:
    settings_ = replace(SMALL, structure="six")
    text = "\n".join(f"{heading}\nIt went on." for heading in settings_.wanted("prefix"))
    written, asked = run(settings_, *[text] * 9, task=replace(TASK, purpose="prefix"))
    assert len(asked) > 2
    assert all("## Original Request" in ask.prompt and "## Goal" not in ask.prompt for ask in asked)
    assert written.text == text


def test_an_invented_path_in_one_piece_does_not_become_a_source_for_the_next() -> None:
    lie = "It changed src/ghost.py. The rest went on."
    written, asked = run(SMALL, lie, lie, *[lie] * 20, task=TASK)
    assert "src/ghost.py" not in written.text
    assert all("src/ghost.py" not in ask.prompt for ask in asked if ask.purpose != "repair")


@settings(max_examples=100, deadline=None)
@given(HISTORIES, st.integers(30, 800), st.integers(1, 4))
def test_pieces_hold_everything_once_and_in_order(history: list[Message], budget: int, most: int) -> None:
    items = tuple(enumerate(history))
    cut = pieces(items, budget=budget, most=most, count=quarter)
    assert (*cut.left_out, *(item for piece in cut.pieces for item in piece)) == items
    assert len(cut.pieces) <= most


def test_a_step_is_not_torn_where_it_fits() -> None:
    step = (calls("bash", command="ls"), gives("x" * 400))
    items = tuple(enumerate([m for _ in range(6) for m in (human("go on " * 20), *step)]))
    cut = pieces(items, budget=250, most=20, count=quarter)
    assert len(cut.pieces) > 2
    assert all(piece[0][1].role != "tool" for piece in cut.pieces)


def test_a_thinned_text_keeps_both_ends_and_counts_what_is_gone() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    once = thinned(text, 60, quarter)
    assert quarter([once])[0] <= 60
    assert once.startswith("line 0\n")
    assert once.endswith("\nline 99")
    gone = int(re.findall(r"\[\.\.\. (\d+) lines left out \.\.\.\]", once)[0])
    assert gone == 100 - (once.count("\n"))
    twice = thinned(once + "\n" + text, 60, quarter)
    assert re.findall(r"(\d+) lines left out", twice) == [str(200 - twice.count("\n"))]
    assert thinned("word " * 400, 5, quarter) == ""


def test_without_a_model_the_text_stays_bounded_over_any_number_of_updates() -> None:
    previous = ""
    for number in range(30):
        items = tuple((number * 10 + n, human(f"request {number}.{n} " + "word " * 10)) for n in range(10))
        written, _ = run(Settings(), task=Task(items=items, allotment=200, previous=previous))
        previous = written.text
        assert quarter([previous])[0] <= 200
    assert previous.startswith("[0-"), "the beginning stays, if only in short"
    assert previous.count("lines left out") == 1
    assert "request 29.9" in previous
    assert "request 28" in previous, "and so does what is recent"
