"""Names in use: which are kept, in what order, under what, and that secrets are none of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given, settings

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.names import (
    HALF_LIFE,
    MAX_NAMES,
    PROSE_OWNER,
    find_names,
    get_scores,
    limit_names,
    rank_names,
)
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import render_facts
from tenfold.core.record.block import Fact
from tenfold.core.record.message import Message
from tests.summarize.making import HISTORIES, estimate_tokens, get_facts, make_answer, make_run, make_user


def group_names(facts: Iterable[Fact]) -> dict[str, set[str]]:
    return {fact.key: set(fact.text.split()) for fact in facts if fact.kind == "name"}


def test_a_name_has_a_sign_a_capital_inside_an_ending_or_digits() -> None:
    text = (
        "Look at src/app.py, loadUser(), MAX_SIZE and https://a.example/x). Plain words, e.g. 12.50 or 7 or 0.25s, "
        "are none; 40317 is. A letter of a pattern belongs to none: \\bItem2. Nor is an end tag a path: </strong>"
    )
    assert find_names(text) == {"src/app.py", "loadUser", "MAX_SIZE", "https://a.example/x", "40317"}
    assert find_names("Read this: [... 3567 characters of the request left out ...] loadUser") == {"loadUser"}


def test_the_middle_of_a_long_listing_is_read_too() -> None:
    listing = [f"line {number} of plain words only" for number in range(700)]
    listing[500] = "    def lower_bound(self): ..."
    (_, found) = group_names(get_facts(*make_run("cat src/base.py", "\n".join(listing)))).popitem()
    assert "lower_bound" in found


def test_names_stand_under_the_file_or_program_they_were_met_with() -> None:
    facts = get_facts(
        make_user("check parse_date please"),
        *make_run("cat src/dates.py", "def parse_date(text): return iso_format(text)"),
        *make_run("pytest tests/test_dates.py", "FAILED tests/test_dates.py::test_leap_day\n1 failed"),
    )
    found = group_names(facts)
    assert "parse_date" in found[PROSE_OWNER]
    assert {"parse_date", "iso_format"} <= found["src/dates.py"]
    assert any("test_leap_day" in name for name in found["$ pytest tests/test_dates.py"])


def test_what_the_agent_used_goes_before_what_a_tool_printed_and_the_newer_before_the_older() -> None:
    facts = get_facts(
        make_answer("first old_name"),
        *make_run("ls", "printed_name"),
        make_answer("then new_name"),
        *make_run("ls", "printed_name"),
    )
    ranked = [name for name, _ in rank_names(tuple(f for f in facts if f.kind == "name"))]
    assert ranked == ["new_name", "old_name", "printed_name"]


def test_a_use_counts_half_after_so_many_messages() -> None:
    facts = extract_facts(
        [(0, make_answer("a_name")), (HALF_LIFE, make_answer("b_name b_name")), (2 * HALF_LIFE, make_answer("c_name"))]
    )
    scores = {name: score for fact in facts if fact.kind == "name" for name, score in get_scores(fact).items()}
    assert scores == {"a_name": 0.0, "b_name": 1.0, "c_name": 2.0}


@settings(max_examples=40, deadline=None)
@given(HISTORIES, HISTORIES, HISTORIES)
def test_scores_do_not_depend_on_how_ranges_are_merged(a: list[Message], b: list[Message], c: list[Message]) -> None:
    at = itertools.count()
    one, two, three = (extract_facts([(next(at), message) for message in part]) for part in (a, b, c))
    left, right = merge_facts(merge_facts(one, two), three), merge_facts(one, merge_facts(two, three))
    for fact, other in zip(*([f for f in each if f.kind == "name"] for each in (left, right)), strict=True):
        assert fact.key == other.key
        assert get_scores(fact).keys() == get_scores(other).keys()
        assert all(abs(score - get_scores(other)[name]) < 0.05 for name, score in get_scores(fact).items())


def test_only_so_many_names_are_carried_those_with_the_highest_scores() -> None:
    many = Fact("name", " ".join(f"n_{n}" for n in range(MAX_NAMES)), "a", 1, note=" ".join(["1"] * MAX_NAMES))
    best = Fact("name", "best_one", "b", 2, note="9")
    kept = limit_names([many, best])
    assert sum(len(fact.text.split()) for fact in kept) == MAX_NAMES
    assert kept[-1].text == "best_one"


def test_a_secret_is_no_name_even_where_only_the_words_before_it_tell() -> None:
    facts = get_facts(
        *make_run("cat .env", "DB_PASSWORD=tr0ub4dor_and_3\nPORT_NUMBER=8042 sk-proj-abcdefghijklmnop1234")
    )
    told = " ".join(text for fact in facts if fact.kind == "name" for text in fact.text.split())
    assert "PORT_NUMBER" in told
    assert "tr0ub4dor" not in told
    assert "abcdefghijklmnop" not in told


def test_a_section_shows_names_that_nothing_else_shows_within_their_room_and_they_read_back() -> None:
    facts = get_facts(
        make_user("go"),
        make_answer("I use seen_name and other_name"),
        *make_run("cat src/deep/dates.py", "def parse_date(): leap_year()"),
    )
    section = render_facts(facts, budget=400, count=estimate_tokens, names=100, visible_text="the view shows seen_name")
    assert section.tokens <= 400
    line = next(line for line in section.text.split("\n") if "parse_date" in line)
    assert line.startswith("- deep/dates.py: ")
    assert "seen_name" not in section.text
    assert "other_name" in section.text
    back = [fact for fact in parse_facts(section.text) if fact.kind == "name"]
    assert "parse_date" in {name for fact in back for name in fact.text.split()}
    assert "Names" not in render_facts(facts, budget=400, count=estimate_tokens).text


def test_names_that_were_read_back_keep_the_order_in_which_they_were_told() -> None:
    facts = get_facts(*(make_answer(f"use z_name and then other_name_{9 - n}") for n in range(9)))
    text = render_facts(facts, budget=400, count=estimate_tokens, names=400).text
    (told,) = (line.removeprefix("- in words: ").split() for line in text.split("\n") if "in words" in line)
    assert told == ["z_name", *(f"other_name_{n}" for n in range(1, 10))]
    again = tuple(fact for fact in parse_facts(text) if fact.kind == "name")
    assert [name for name, _ in rank_names(again)] == told


def test_what_was_only_looked_at_is_told_after_the_names_that_it_showed() -> None:
    looks = [m for n in range(40) for m in make_run(f"sed -n '{n}0,{n}9p' src/dates.py", f"def some_name_{n}(): pass")]
    facts = get_facts(make_user("go"), *looks, *make_run("make check", "fine"))
    tight = render_facts(facts, budget=400, count=estimate_tokens, names=60).text
    assert "some_name_39" in tight
    assert "make check" in tight
    wide = render_facts(facts, budget=4_000, count=estimate_tokens, names=60).text
    assert "- [ok] sed -n '390,399p' src/dates.py" in wide
    assert wide.count("sed -n") > tight.count("sed -n")


def test_the_number_of_a_line_is_no_name() -> None:
    listing = "1545:    def subfigures(self):\n 1546\t        pass\n1547|  return 88231\n"
    (_, found) = group_names(get_facts(*make_run("open figure.py", listing))).popitem()
    assert "88231" in found
    assert found.isdisjoint({"1545", "1546", "1547"})


def test_a_name_that_the_user_only_passes_on_weighs_as_one_that_a_tool_printed() -> None:
    facts = get_facts(make_user("Mend load_user, please.\n```\nlibfoo_version: 9.9.1\n```"))
    scores = {name: score for fact in facts if fact.kind == "name" for name, score in get_scores(fact).items()}
    assert scores["load_user"] > scores["libfoo_version"]
