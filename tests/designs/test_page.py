"""docs/presets.md is what the rows and the tests say, every number has both, and every row imports."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.designs.page import (
    HERE,
    NUMBERS,
    PAGE,
    PUBLISHED,
    find_covering_tests,
    find_marked_tests,
    find_verdict,
    load_rows,
    render_page,
)
from tests.designs.row import Row

ALL = [(preset, row) for preset in NUMBERS for row in load_rows(preset)]
MOST = 3


def import_object(path: str) -> object:
    """The object at a dotted path: a module's name, or an attribute of a class in it."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"no module in {path}")


@pytest.mark.parametrize(("preset", "row"), ALL, ids=[f"{p}:{r.name}" for p, r in ALL])
def test_a_row_can_be_imported_and_its_example_holds(preset: str, row: Row) -> None:
    assert set(row.ids) <= set(NUMBERS[preset])
    it = import_object(row.path) if row.path else None
    if row.example:
        assert eval(row.example, {"it": it}) is True, row.example  # noqa: S307 - our own expressions
    for name in re.findall(r"`(tenfold(?:\.\w+)+)`", row.meaning):
        import_object(name)


@pytest.mark.parametrize("preset", NUMBERS)
def test_every_number_has_a_row_and_a_test(preset: str) -> None:
    named = {i for row in load_rows(preset) for i in row.ids}
    assert sorted(set(NUMBERS[preset]) - named) == []
    assert sorted(set(NUMBERS[preset]) - set(find_covering_tests())) == []


@pytest.mark.parametrize("preset", NUMBERS)
def test_every_number_has_a_verdict_and_what_differs_a_reason(preset: str) -> None:
    rows = load_rows(preset)
    assert all(number in row.ids and reason for row in rows for number, reason in row.differs)
    verdicts = {number: find_verdict(number) for number in NUMBERS[preset]}
    assert all(v == "as published" or v.startswith("differs: ") for v in verdicts.values())
    differing = {number for row in rows for number, _ in row.differs}
    assert all(verdicts[number].startswith("differs: ") for number in differing)
    for row in rows:
        assert row.differs or not re.search(r"\blaws? (?:\d|of )", row.meaning), "a broken law is a difference"


@pytest.mark.parametrize("preset", NUMBERS)
def test_it_is_said_who_published_each_design_and_where(preset: str) -> None:
    page = (PAGE.parent / "designs" / f"{preset}.md").read_text(encoding="utf-8")
    package = str(importlib.import_module(f"tenfold.designs.{preset}").__doc__)
    rendered = render_page()
    for repository in PUBLISHED[preset]:
        assert f"(https://github.com/{repository})" in page
        assert repository in package
        assert f"(https://github.com/{repository})" in rendered


def test_no_test_carries_more_than_three_numbers_or_one_that_does_not_exist() -> None:
    known = {each for numbers in NUMBERS.values() for each in numbers}
    for path in HERE.glob("test_*.py"):
        for name, ids in find_marked_tests(path):
            assert 1 <= len(ids) <= MOST, f"{path.name}::{name}"
            assert set(ids) <= known, f"{path.name}::{name}"


def test_the_page_is_what_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `python -m tests.designs.page --write`"
