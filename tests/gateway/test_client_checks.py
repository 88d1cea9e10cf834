"""What a client asks about its own conversation is no part of it."""

from __future__ import annotations

import msgspec
import pytest

from tenfold.gateway.client_marks import find_side_reason
from tenfold.gateway.model_request import parse_request


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
