"""What a client asks about its own conversation is no part of it."""

from __future__ import annotations

import re

import msgspec
import pytest

from tenfold.apps.clients import client_habits
from tenfold.apps.gateway.client_marks import find_side_reason
from tenfold.apps.gateway.model_request import parse_request


@pytest.mark.parametrize(
    ("system", "reason"),
    [
        (
            "You are a diagnostic agent that determines whether a conversational AI assistant is stuck",
            "a check of the client",
        ),
        ("You are a sophisticated AI diagnostic agent specializing in identifying", "a check of the client"),
        ("You are an interactive agent. A diagnostic agent may ask you.", ""),
    ],
)
def test_whether_the_model_goes_round_in_circles(system: str, reason: str) -> None:
    contents = [{"role": "model", "parts": [{"text": "I read."}]}, {"role": "user", "parts": [{"text": "Analyze it."}]}]
    body = msgspec.json.encode({"systemInstruction": {"parts": [{"text": system}]}, "contents": contents})
    request = parse_request("/v1beta/models/gemini-2.5-pro:generateContent", body)
    assert request is not None
    assert find_side_reason({}, request) == reason


ASKED = (
    "Your task is to create a detailed summary of the conversation so far, paying close attention to what was asked."
)
ALONE = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read or ANY other tool.\n\n"
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "1"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ASKED, "the client compacts"),
        ([{"type": "text", "text": f"{ALONE}{ASKED}"}], "the client compacts"),
        ([RESULT, {"type": "text", "text": f"{ALONE}{ASKED}"}], "the client compacts"),
        ([RESULT | {"content": ASKED}], ""),
        ([{"type": "text", "text": f"What does this mean: {ASKED}"}], ""),
    ],
)
def test_claude_code_asks_for_a_summary_also_beside_results(content: object, reason: str) -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    body = {"model": "m", "max_tokens": 1, "tools": tools, "messages": [{"role": "user", "content": content}]}
    request = parse_request("/v1/messages", msgspec.json.encode(body))
    assert request is not None
    assert find_side_reason({}, request) == reason


def test_each_habit_of_a_client_is_dated() -> None:
    tables = [
        value if isinstance(value, tuple) else (value,) for name, value in vars(client_habits).items() if name.isupper()
    ]
    rows = [row for table in tables for row in table if isinstance(row, client_habits.Habit)]
    assert len(rows) > 10
    for row in rows:
        assert row.client, row
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.seen), row
