from __future__ import annotations

import pytest

from tenfold.core.meter.windows import WINDOWS, find_window, find_window_row


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-4-5", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("vertex_ai/claude-sonnet-4@20250514", 200_000),
        ("claude-opus-4-6", 1_000_000),
        ("gpt-5-mini-2025-08-07", 400_000),
        ("gpt-4-0613", 8_192),
        ("gpt-4-1106-preview", 128_000),
        ("models/gemini-2.5-pro-preview-05-06", 1_048_576),
        ("gemini-2.0-flash-001", 1_048_576),
    ],
)
def test_a_known_model_with_its_release_and_router(model: str, window: int) -> None:
    assert find_window(model) == window


@pytest.mark.parametrize(
    "model",
    ["", "mystery", "gpt-5.9", "gpt-5-colossal", "claude-opus-4-9", "claude-opus", "my-gpt-5", "o3-deep-research"],
)
def test_an_unknown_model_is_never_guessed(model: str) -> None:
    assert find_window(model) is None


def test_the_rows_are_plausible_and_stand_once() -> None:
    for row in WINDOWS:
        assert row.window >= 4_096
        assert 0 <= row.max_output <= row.window
    assert len({row.model for row in WINDOWS}) == len(WINDOWS)


def test_the_longest_name_wins() -> None:
    row = find_window_row("gpt-4-32k-0613")
    assert row is not None
    assert row.model == "gpt-4-32k"
