"""Code and quotations in a sentence: where they begin and end, and what is left of the sentence without them."""

from __future__ import annotations

import pytest

from tenfold.compaction.summarize.literals import find_quotations, find_spans, mask_literals, split_whole_sentences


@pytest.mark.parametrize(
    ("sentence", "quotations"),
    [
        ('He said "stop the job" and "start it again".', ["stop the job", "start it again"]),
        ('"9.5" was 905, "-0.05" was 5.', []),
        ('It calls `get(x, "attrs", 1)` and then `put("b")`.', []),
        ('The rule "never push." came first; "pull often" came next.', ["never push.", "pull often"]),
        ("The item's name and the user's name differ.", []),
    ],
)
def test_what_stands_between_two_quotations_is_none(sentence: str, quotations: list[str]) -> None:
    assert find_quotations(sentence) == quotations


@pytest.mark.parametrize(
    ("sentence", "spans"),
    [
        ("`0` or unset, L47 `run --all`, L52 `1`.", ["run --all"]),
        ("One `call(x)` and a torn ` after it, then `b`.", []),
    ],
)
def test_code_is_paired_from_the_first_backtick(sentence: str, spans: list[str]) -> None:
    assert find_spans(sentence) == spans


def test_masking_keeps_the_length_and_hides_what_is_quoted() -> None:
    sentence = 'The log says "no file" where `open("a b")` failed.'
    assert mask_literals(sentence) == 'The log says "_______" where `___________` failed.'
    assert mask_literals(sentence, code=False) == 'The log says "_______" where `open("a b")` failed.'


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ('It said "Stop. Now wait." Then it went on.', ['It said "Stop. Now wait."', "Then it went on."]),
        ("It ran `echo a. b` twice. All was well.", ["It ran `echo a. b` twice.", "All was well."]),
        ('A rod of 3" broke. It was mended.', ['A rod of 3" broke.', "It was mended."]),
    ],
)
def test_a_sentence_is_not_split_inside_a_quotation(line: str, sentences: list[str]) -> None:
    assert list(split_whole_sentences(line)) == sentences
