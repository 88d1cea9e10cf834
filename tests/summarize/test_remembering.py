"""What is kept of a pure function changes nothing but the time it takes."""

from __future__ import annotations

import pytest

from tenfold.core.text.memoize import SIZES, memoize


def test_each_text_and_each_argument_has_its_own_result() -> None:
    asked: list[tuple[str, int]] = []

    @memoize
    def cut(text: str, size: int, *, end: bool = False) -> str:
        asked.append((text, size))
        return text[-size:] if end else text[:size]

    for _ in range(2):
        assert [cut("abc", 1), cut("abc", 2), cut("abd", 2), cut("abc", 2, end=True)] == ["a", "ab", "ab", "bc"]
    assert len(asked) == 4


def test_a_longer_text_than_any_that_is_kept_is_read_each_time() -> None:
    asked: list[str] = []

    @memoize
    def measure_text(text: str) -> int:
        asked.append(text)
        return len(text)

    longest = SIZES[-1][0]
    assert [measure_text("x" * (longest + 1)) for _ in range(2)] == [longest + 1] * 2
    assert [measure_text("x" * longest) for _ in range(2)] == [longest] * 2
    assert len(asked) == 3


@pytest.mark.parametrize(("length", "results"), SIZES)
def test_of_each_size_old_results_go(length: int, results: int) -> None:
    asked: list[str] = []

    @memoize
    def measure_text(text: str) -> int:
        asked.append(text)
        return len(text)

    measure_text("x" * length)
    for number in range(results - 1):
        measure_text(f"{number:0{length}}")
    measure_text("x" * length)
    assert len(asked) == results
    measure_text("y" * length)
    measure_text(f"{0:0{length}}")
    assert len(asked) == results + 2


def test_short_texts_do_not_drive_out_a_long_output() -> None:
    asked: list[str] = []

    @memoize
    def measure_text(text: str) -> int:
        asked.append(text)
        return len(text)

    output = "x" * SIZES[-1][0]
    measure_text(output)
    for number in range(SIZES[0][1] + 1):
        measure_text(f"{number}")
    measure_text(output)
    assert asked.count(output) == 1
