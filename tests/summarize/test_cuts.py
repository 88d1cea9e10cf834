"""Texts that are cut: never to more than was allowed, and never so that half a name passes for a whole one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.text.excerpts import Keep, drop_cut_name, excerpt

_NAMES = st.from_regex(r"[a-z]{1,8}(?:[_/.-][a-z0-9]{1,8}){0,3}", fullmatch=True)
_TEXTS = st.lists(_NAMES, min_size=1, max_size=40).map(" ".join)


@given(_TEXTS, st.integers(60, 200))
def test_heads_and_tails_are_of_whole_names(text: str, limit: int) -> None:
    names = set(text.split())
    head, tail = excerpt(text, limit, Keep.HEAD), excerpt(text, limit, Keep.TAIL)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert max(len(head), len(tail)) <= limit
    assert set(head.split()) <= names
    assert set(tail.split()) <= names


@given(_TEXTS, st.integers(150, 300))
def test_what_is_left_out_of_the_middle_leaves_whole_names(text: str, limit: int) -> None:
    names = set(text.split())
    for found in (excerpt(text, limit), excerpt(text, limit, Keep.JOINED_ENDS), excerpt(text, limit, Keep.START)):
        told = re.sub(r"\[\.\.\. \d+ characters \.\.\.\]|\.\.\.", " ", found)
        assert set(told.split()) <= names


def test_a_name_that_takes_most_of_the_room_is_cut() -> None:
    path = "/srv/" + "deep/" * 40 + "end.py"
    assert excerpt(path, 60, Keep.HEAD) == path[:60]
    assert excerpt(path, 60, Keep.TAIL) == path[-60:]
    assert excerpt("see " + path, 60, Keep.HEAD) == "see " + path[:56]


@given(st.text("ab c\n", max_size=400), st.sampled_from(list(Keep)))
def test_a_text_within_the_limit_stays_as_it_is(text: str, keep: Keep) -> None:
    assert excerpt(text, 400, keep) == text


@given(st.text("ab c\n", min_size=100, max_size=400), st.integers(40, 90))
def test_what_is_searched_has_both_ends_and_no_more_than_the_limit(text: str, limit: int) -> None:
    for keep in (Keep.EDGES, Keep.EDGE_WORDS):
        found = excerpt(text, limit, keep)
        assert len(found) <= limit + 1
        assert text.startswith(found[:4])
        assert text.endswith(found[-3:])


@pytest.mark.parametrize(
    ("word", "left"),
    [
        ("/srv/shop/pric...", ""),
        ("(/srv/shop/pric...),", "("),
        ("...ricing.py", ""),
        ('"path":"/srv/pric…"', '"path":"'),
        ("../shop/pricing.py", "../shop/pricing.py"),
        ("/srv/shop/...", "/srv/shop/..."),
        ("pricing.py.", "pricing.py."),
    ],
)
def test_of_a_word_that_dots_cut_short_the_name_goes(word: str, left: str) -> None:
    assert drop_cut_name(word) == left
