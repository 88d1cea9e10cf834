"""Long texts that repeat what a pattern begins with: the result is right, and comes in time that grows with the text.

Tried at every place where such a text begins, a pattern would take minutes or hours for each of these.
"""

from __future__ import annotations

import json

import pytest

from tenfold.compaction.facts.file_footer import without_footer
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section_headings import TITLE
from tenfold.compaction.facts.shell import inline_heredocs, split_pipelines
from tenfold.compaction.facts.tool_calls import interpret_call
from tenfold.compaction.facts.tool_results import judge_result
from tenfold.compaction.summarize.literals import UNCONFIRMED, SourceText, mark_unconfirmed
from tenfold.core.record.message import ToolCall
from tenfold.core.text.excerpts import is_prose
from tenfold.core.text.redaction import MASK, redact
from tenfold.core.wire.marks import strip_harness_text
from tests.summarize.making import get_facts, make_answer, make_user

NAMES = "a_b-c_" * 300_000


@pytest.mark.costly(2)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("eyJaaaaaaaaa-" * 300_000, "eyJaaaaaaaaa-" * 300_000),
        ("eyJaaaaaaaaa-" * 300_000 + ".eyJzdWIiOiIx.x", MASK),
        (f"{NAMES} token=abcdefgh1", f"{NAMES} token={MASK}"),
        (f"{NAMES}token=abcdefgh1", f"{NAMES}token={MASK}"),
    ],
    ids=["token heads", "a token of many heads", "names", "a long name"],
)
def test_what_is_redacted(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_lines_that_begin_with_blanks() -> None:
    blanks = " " * 1_000_000
    assert not is_prose(blanks + "x")
    assert not is_prose(blanks + "return;")
    assert is_prose(blanks + "these are plain words")
    facts = get_facts(make_answer("Done."), make_user(f"Never fix this.\n{blanks}x"))
    assert "Never fix this." in [fact.text for fact in facts if fact.kind == "rule"]


@pytest.mark.parametrize("piece", ["$(cat <<EOF\n", "$(cat <<EOF\nEOF\n", "$(cat <<EOF\nEOF" + " " * 40])
def test_texts_in_a_command_that_do_not_end(piece: str) -> None:
    command = piece * (200_000 // len(piece))
    assert inline_heredocs(command) == command[:200_000]
    ended = f"git commit -m \"$(cat <<'END'\nSay hello\nEND\n)\"; {command}"
    assert inline_heredocs(ended).startswith('git commit -m "Say hello"; $(cat')


def test_a_here_document_of_one_endless_word() -> None:
    command = "cat <<" + "a" * 199_000
    assert split_pipelines(command) == [[["cat", "<", "<", command[6:20_000]]]]


def test_words_behind_many_reminders() -> None:
    reminders = "<system-reminder>x</system-reminder>\n" * 100_000
    assert strip_harness_text(f"{reminders}hello") == strip_harness_text(f"hello {reminders}") == "hello"
    assert not strip_harness_text(f"{reminders}hello {reminders}"), "whose words these are is doubtful"


@pytest.mark.parametrize("piece", ["a-", "a.", "a/", "1,", "`a", '"a ', "a_", "Aa", "{a,", "[a", "(", "12", "a1"])
def test_the_literals_of_an_endless_word(piece: str) -> None:
    text = piece * 100_000
    assert mark_unconfirmed(text, SourceText(text)).replace(UNCONFIRMED, "") == text


def test_literals_that_would_be_looked_up_for_ever() -> None:
    braces = "`" + "{aa,bb}..." * 28 + "zz`"
    assert UNCONFIRMED not in mark_unconfirmed(braces, SourceText("aa bb zz")), "2^28 combinations"
    many = "\n".join(f"bad_name_{number}" for number in range(50_000))
    assert mark_unconfirmed(many, SourceText("good_name " * 50_000)).count(UNCONFIRMED) == 200


def test_a_summary_with_many_lists_of_files_that_do_not_end() -> None:
    lists = "<read-files>\n" * 300_000
    assert without_footer(f"text\n\n<modified-files>\na\n</modified-files>{lists}") == f"text{lists}"
    assert without_footer(f"text{lists}\n</read-files> end") == "text end"
    lines = "\n" * 1_000_000
    assert without_footer(f"text{lines}end") == f"text{lines}end"


def test_a_section_of_facts_with_an_endless_item() -> None:
    for blank in (" ", ' (tool: "', " (from: "):
        item = f"make{blank * 300_000}x"
        (fact,) = parse_facts(f"{TITLE}\n## Unresolved errors\n- {item}")
        assert fact.text == item


@pytest.mark.parametrize("output", ["passed" + "\n" * 3_990, "@" * 3_990, "Tests passed" + " \n" * 1_990])
def test_outputs_of_one_sign(output: str) -> None:
    doing = interpret_call(ToolCall("c", "_" * 10_000, json.dumps({"query": "x"})))
    outcomes = [judge_result(doing, output, is_error=True, position=at) for at in range(100)]
    assert {outcome.note for outcome in outcomes} == {"failed"}
