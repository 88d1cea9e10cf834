"""Errors of a request that was too large for the model: one text per row of the table, and what only looks alike."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.models.overflow import find_named_limit, is_overflow, list_error_patterns

ERRORS = [
    json.loads(line) for line in (Path(__file__).parent / "overflow_errors.jsonl").read_text("utf-8").splitlines()
]
"""What providers answered, word for word. Of each overflow the limit that it names: numbers of bytes are none."""
NAMED_LIMITS: dict[str, int | None] = {error["text"]: error["limit"] for error in ERRORS if "limit" in error}
OVERFLOWS = tuple(NAMED_LIMITS)
LOOK_ALIKES = tuple(error["text"] for error in ERRORS if "limit" not in error)

PLAIN = (
    "connection invalid model prompt input context window token tokens length limit maximum request size error api key"
    " messages the is of a not found please try again server 400 401 404 500 503 8192 200000 timeout"
)
"""Words of other errors, and of the table's phrases without what joins those: too, exceed, reduce."""


@pytest.mark.parametrize(("text", "limit"), NAMED_LIMITS.items())
def test_each_overflow_is_recognised_and_the_limit_that_it_names_is_read(text: str, limit: int | None) -> None:
    for error in (text, f"litellm.BadRequestError: {text}\nReceived Model Group=m".upper()):
        assert is_overflow(error)
        assert is_overflow(error, status=400)
        assert find_named_limit(error) == find_named_limit(error, status=400) == limit
        assert not is_overflow(error, status=429)
        assert find_named_limit(error, status=429) is None


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_each_look_alike_is_no_overflow_whatever_the_status(text: str) -> None:
    for error in (text, f"{text} (prompt is too long: 3000 tokens > 2000 maximum)"):
        assert not is_overflow(error)
        assert not is_overflow(error, status=413)
        assert find_named_limit(error, status=400) is None


def test_each_row_has_a_text_and_each_text_a_row() -> None:
    for is_overflow_row, texts in ((True, OVERFLOWS), (False, LOOK_ALIKES)):
        rows = [row for row in list_error_patterns() if row.is_overflow is is_overflow_row]
        found = {text: [row for row in rows if row.pattern.search(" ".join(text.split()))] for text in texts}
        assert len(rows) == len(texts)
        assert all(found.values())
        assert {id(row) for matching in found.values() for row in matching} == set(map(id, rows))


@pytest.mark.parametrize(
    "text", ["", "bad key", "HTTP 400: model not found", "took 413 ms", "id 429-413", "max_tokens cannot exceed 4096"]
)
def test_other_errors_are_none(text: str) -> None:
    assert not is_overflow(text)
    assert not is_overflow(text, status=400)
    assert is_overflow(text, status=413)


@pytest.mark.parametrize("text", ["HTTP 413: x", "HTTP 413", "status_code: 413, model_name: m, body: None", "413 x"])
def test_a_413_is_one_without_a_word_from_the_provider(text: str) -> None:
    assert is_overflow(text)


def test_other_wordings_of_known_rows() -> None:
    assert is_overflow(
        "This model's maximum context length is 8191 tokens, however you requested 8238 tokens (8238 in your prompt; 0 "
        "for the completion). Please reduce your prompt; or completion length."
    )
    assert is_overflow(
        "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 "
        "tokens and your request has 24235 input tokens (64000 > 64001 - 24235)."
    ), "the prompt fits: it is the answer asked for that does not"
    assert is_overflow("The input token count exceeds the maximum number of tokens allowed (1048576).")


def test_each_row_says_where_it_was_seen() -> None:
    issue = r"[\w.-]+/[\w.-]+(#\d+)?"
    for row in list_error_patterns():
        assert re.fullmatch(rf"{issue}(, {issue})*|[A-Z][\w ]+: .+", row.evidence), row
        assert row.provider
    rows = list_error_patterns()
    assert len({row.pattern.pattern for row in rows}) == len(rows)


@given(st.lists(st.sampled_from(PLAIN.split()), max_size=40))
def test_words_without_a_phrase_of_the_table_are_no_overflow(words: list[str]) -> None:
    text = " ".join(words)
    assert not is_overflow(text)


@given(st.text(st.characters(exclude_categories=("L", "N", "Cs")), max_size=60), st.sampled_from(OVERFLOWS))
def test_what_stands_around_a_text_changes_nothing(noise: str, text: str) -> None:
    assert is_overflow(f"{noise} {text} {noise}")


@pytest.mark.parametrize(("number", "limit"), [
    ("0", None), ("999", None), ("1000", 1_000), ("100,000,000", 100_000_000), ("100000001", None), ("9" * 30, None),
])  # fmt: skip
def test_a_number_that_can_be_no_window_is_none(number: str, limit: int | None) -> None:
    assert find_named_limit(f"prompt is too long: 5 tokens > {number} maximum") == limit
    assert is_overflow(f"prompt is too long: 5 tokens > {number} maximum")


def test_of_several_limits_the_least_counts() -> None:
    text = "prompt is too long: 9 tokens > 8000 maximum; This model's maximum context length is 4096 tokens."
    assert find_named_limit(text) == 4_096
