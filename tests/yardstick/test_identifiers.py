"""Identifiers in text: what counts as one, and when a text holds it."""

from __future__ import annotations

import pytest

from tenfold.testing.identifier_finder import MAX_LENGTH, find_identifiers, has_identifier


def get_pairs(text: str) -> list[tuple[str, str]]:
    return [(i.text, i.kind) for i in find_identifiers(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://example.org/a?b=1, please", [("https://example.org/a?b=1", "url")]),
        ("(https://example.org/docs/)", [("https://example.org/docs", "url")]),
        ("open /etc/app.conf.", [("/etc/app.conf", "path")]),
        ("in src/core/session.ts: done", [("src/core/session.ts", "path")]),
        ("edit README.md and setup.cfg", [("README.md", "path"), ("setup.cfg", "path")]),
        ("call get_user() now", [("get_user", "symbol")]),
        ("the AgentSession and newLevel", [("AgentSession", "symbol"), ("newLevel", "symbol")]),
        ("self.rate_limit.maxRetries", [("rate_limit", "symbol"), ("maxRetries", "symbol")]),
        ("__name__ == x", [("__name__", "symbol")]),
        ("order W-5141 of 2025", [("W-5141", "id"), ("2025", "number")]),
        ("commit 7307de8 is in", [("7307de8", "id")]),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", [("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id")]),
        ("it took 12,345 ms, then 1234.5", [("12,345", "number"), ("1234.5", "number")]),
        ("on 2025-03-03T05:00, until 2025-04-01", [("2025-03-03T05", "id"), ("2025-04-01", "id")]),
        ("port 8080", [("8080", "number")]),
    ],
)
def test_what_is_an_identifier(text: str, expected: list[tuple[str, str]]) -> None:
    assert get_pairs(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "and/or",
        "read/write the file",
        "It is well-known.",
        "in 123 days",
        "lines 120-140",
        "e.g. this",
        "WE",
        "</strong>",
    ],
)
def test_what_is_none(text: str) -> None:
    assert get_pairs(text) == []


def test_what_follows_a_backslash_is_none() -> None:
    assert [i.text for i in find_identifiers(r"'refund_id\nOrderTotal\tsrc/app.py' and D:\notes\2024-11-05")] == [
        "refund_id"
    ]


def test_a_side_of_a_slash_may_be_a_name() -> None:
    assert get_pairs("get_user/set_user") == [("get_user", "symbol"), ("set_user", "symbol")]


def test_what_is_too_long_is_data() -> None:
    assert get_pairs("a_" * MAX_LENGTH) == []


def test_the_place_is_where_it_stands() -> None:
    text = "first x, then get_user and self.maxRetries"
    for each in find_identifiers(text):
        assert text[each.offset : each.offset + len(each.text)] == each.text


@pytest.mark.parametrize(
    ("text", "wanted", "held"),
    [
        ("x = get_user(1)", "get_user", True),
        ("x = get_user_name(1)", "get_user", False),
        ("forget_user get_user", "get_user", True),
        ("/repo/src/app.py", "src/app.py", True),
        ("/repo/src/app.pyc", "src/app.py", False),
        ("app/src/sub/x", "src/sub", True),
        ("order 12345", "1234", False),
        ("", "1234", False),
    ],
)
def test_a_text_holds_it_whole_only(text: str, wanted: str, held: bool) -> None:  # noqa: FBT001
    assert has_identifier(text, wanted) is held
