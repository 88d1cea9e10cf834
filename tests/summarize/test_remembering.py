"""What is kept of a pure function changes nothing but the time it takes."""

from __future__ import annotations

from tenfold.core.text.memoize import MAX_RESULTS, MAX_TEXT_LENGTH, memoize


def test_each_text_and_each_argument_has_its_own_result() -> None:
    asked: list[tuple[str, int]] = []

    @memoize
    def cut(text: str, size: int, *, end: bool = False) -> str:
        asked.append((text, size))
        return text[-size:] if end else text[:size]

    for _ in range(2):
        assert [cut("abc", 1), cut("abc", 2), cut("abd", 2), cut("abc", 2, end=True)] == ["a", "ab", "ab", "bc"]
    assert len(asked) == 4


def test_a_long_text_is_read_each_time_and_old_results_go() -> None:
    asked: list[str] = []

    @memoize
    def measure_text(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [measure_text("x" * (MAX_TEXT_LENGTH + 1)) for _ in range(2)] == [MAX_TEXT_LENGTH + 1] * 2
    assert [measure_text("x" * MAX_TEXT_LENGTH) for _ in range(2)] == [MAX_TEXT_LENGTH] * 2
    assert len(asked) == 3
    for number in range(MAX_RESULTS):
        measure_text(f"{number}")
    measure_text("x" * MAX_TEXT_LENGTH)
    assert len(asked) == 4 + MAX_RESULTS
