"""The gold files fit the sessions they were read from, and the measure measures what it says."""

from __future__ import annotations

import os
import re

import msgspec
import pytest

from tests.gold.score import (
    HERE,
    KINDS,
    MUST_KEEP,
    GoldItem,
    GoldMismatch,
    Item,
    Kind,
    Range,
    count_confusions,
    find_missed,
    follow,
    get_source_path,
    is_in_view,
    list_names,
    read_entries,
    read_gold,
    read_gold_file,
    resolve,
    score,
    score_extractor,
)
from tests.summarize.making import make_fact

NAMES = list_names()


def require_source(name: str) -> str:
    path = get_source_path(read_gold_file(name))
    if not path.exists() and read_gold_file(name).root == "sessions" and not os.environ.get("CI"):
        pytest.skip(f"{path} is not there: other people's sessions do not ship with the project (TENFOLD_SESSIONS)")
    return name


def make_item(kind: Kind, text: str) -> GoldItem:
    return GoldItem(kind, 0, text)


# -- the files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_item_resolves_to_the_text_that_was_read(name: str) -> None:
    items = read_gold(require_source(name))
    assert {one.kind for one in items} >= {"rule", "correction", "request", "file_modified", "todo"}
    assert all(one.text.strip() == one.text for one in items), "a range begins or ends in white space"


@pytest.mark.parametrize("name", NAMES)
def test_no_fact_is_listed_twice(name: str) -> None:
    ranges = [(one.kind, one.entry, one.part, one.start, one.end) for one in read_gold_file(name).items]
    assert len(set(ranges)) == len(ranges)
    paths = [one.text for one in read_gold(require_source(name)) if one.kind.startswith("file_")]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_is_withdrawn_only_after_it_was_given(name: str) -> None:
    file = read_gold_file(name)
    assert all(one.entry < one.until < file.entries for one in file.items if one.until is not None)


@pytest.mark.parametrize("name", NAMES)
def test_notes_do_not_quote_the_session(name: str) -> None:
    file = read_gold_file(require_source(name))
    entries = read_entries(file)
    for one in file.items:
        said = " ".join(re.findall(r"\w+", str(follow(entries[one.entry], one.part)).lower()))
        words = re.findall(r"\w+", one.note.lower())
        runs = [" ".join(words[n : n + 4]) for n in range(len(words) - 3)]
        assert not [run for run in runs if f" {run} " in f" {said} "], one.note


@pytest.mark.parametrize("name", NAMES)
def test_gold_files_hold_no_text_of_the_session(name: str) -> None:
    raw = (HERE / f"{name}.json").read_text(encoding="utf-8")
    for one in read_gold(require_source(name)):
        assert msgspec.json.encode(one.text).decode()[1:-1] not in raw


# -- resolving ---------------------------------------------------------------------------------------------------------

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
WORLD = "486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7"  # of "world"


def test_an_item_resolves_to_its_range_joined_with_its_folder() -> None:
    found = resolve(Item("rule", 0, ("a", 1), 6, 11, WORLD, under=Range(0, 5, HELLO)), {"a": [0, "hello world"]})
    assert found.text == "hello/world"


@pytest.mark.parametrize(
    ("part", "start", "end"),
    [(("a", 1), 1, 6), (("a", 1), 6, 12), (("a", 1), 6, 6), (("a", 0), 0, 5), (("a", 2), 0, 5), (("b",), 0, 5)],
    ids=["other text", "past the end", "empty", "not a string", "no such place", "no such key"],
)
def test_an_item_that_does_not_fit_is_an_error(part: tuple[str | int, ...], start: int, end: int) -> None:
    with pytest.raises(GoldMismatch):
        resolve(Item("rule", 0, part, start, end, WORLD), {"a": [0, "hello world"]})


def test_a_folder_with_another_hash_is_an_error() -> None:
    with pytest.raises(GoldMismatch):
        resolve(Item("rule", 0, ("a",), 6, 11, WORLD, under=Range(0, 5, WORLD)), {"a": "hello world"})


# -- a view against the gold -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "view", "kept"),
    [
        ("never push\n  to main", "He said: never  push to\nmain.", True),
        ("never push to main", "Never push to main", False),
        ("never push to main", "never push to ma", False),
    ],
    ids=["white space", "case", "cut off"],
)
def test_text_is_in_view_up_to_white_space(text: str, view: str, *, kept: bool) -> None:
    assert is_in_view(make_item("rule", text), view) is kept


@pytest.mark.parametrize(
    ("view", "kept"),
    [
        ("modified: /home/x/src/core/a.py", True),
        ("modified core/a.py.", True),
        ("`core/a.py`", True),
        ("modified a.py", False),
        ("modified core/a.pyi", False),
        ("modified core/a.py.bak", False),
        ("modified hardcore/a.py", False),
        ("modified Core/a.py", False),
    ],
)
def test_a_path_is_in_view_with_at_least_its_folder(view: str, *, kept: bool) -> None:
    assert is_in_view(make_item("file_modified", "/home/x/src/core/a.py"), view) is kept


def test_score_counts_kept_and_total_per_kind() -> None:
    items = [make_item("rule", "one"), make_item("rule", "two"), make_item("file_deleted", "a/b.py")]
    assert score(items, "one a/b.py") == {"rule": (1, 2), "file_deleted": (1, 1)}


# -- an extractor against the gold -------------------------------------------------------------------------------------


def test_the_perfect_extractor_scores_one_everywhere() -> None:
    items = [make_item(kind, f"some/{kind}.py") for kind in KINDS]
    facts = [make_fact(kind, f"some/{kind}.py") for kind in sorted(MUST_KEEP)]
    facts.append(make_fact("error", "some/error_resolved.py", live=False))
    assert score_extractor(items, facts) == dict.fromkeys(KINDS, (1.0, 1.0))
    assert not count_confusions(items, facts)
    assert not find_missed(items, facts)


def test_a_rule_found_as_a_correction_counts_and_is_reported_apart() -> None:
    items = [make_item("rule", "always use tabs")]
    facts = [make_fact("correction", "no, always use tabs")]
    assert score_extractor(items, facts) == {"rule": (1.0, None), "correction": (None, 1.0)}
    assert count_confusions(items, facts) == {("rule", "correction"): 1}


def test_a_deleted_file_found_as_modified_does_not_count() -> None:
    items = [make_item("file_deleted", "src/a.py")]
    facts = [make_fact("file_modified", "src/a.py")]
    assert score_extractor(items, facts) == {"file_deleted": (0.0, None), "file_modified": (None, 0.0)}
    assert find_missed(items, facts) == items


def test_an_open_error_taken_for_resolved_does_not_count() -> None:
    items = [make_item("error", "it broke")]
    facts = [make_fact("error", "it broke", live=False)]
    assert score_extractor(items, facts) == {"error": (0.0, None), "error_resolved": (None, 0.0)}
    assert count_confusions(items, facts) == {("error", "error_resolved"): 1}


def test_an_earlier_request_is_not_an_answer() -> None:
    facts = [make_fact("request", "do it", live=False)]
    assert score_extractor([make_item("request", "do it")], facts) == {"request": (0.0, None)}


@pytest.mark.parametrize(
    ("texts", "recall", "precision"),
    [
        (["0123456"], 1.0, 1.0),
        (["01234"], 0.0, 0.0),
        (["0123", "4567"], 1.0, 1.0),
        (["0123", "0123"], 0.0, 0.0),
        (["0123456789 and more", "unrelated"], 1.0, 0.5),
        ([""], 0.0, 0.0),
    ],
    ids=["most of it", "half of it", "pieces", "the same piece twice", "a longer one", "nothing"],
)
def test_six_tenths_of_a_range_must_be_covered(texts: list[str], recall: float, precision: float) -> None:
    facts = [make_fact("rule", text) for text in texts]
    assert score_extractor([make_item("rule", "0123456789")], facts) == {"rule": (recall, precision)}


def test_a_path_is_found_in_a_fact_about_its_file() -> None:
    items = [make_item("file_renamed", "src/new.py"), make_item("file_modified", "/x/src/b.py")]
    facts = [make_fact("file_renamed", "src/new.py"), make_fact("file_modified", "src/b.py")]
    assert score_extractor(items, facts) == {"file_renamed": (1.0, 1.0), "file_modified": (1.0, 1.0)}
