"""What survives the compaction of conversations that are no coding sessions, measured by code alone.

Each kind is one conversation in `conversations`, with the facts that a careful reader must be able to know afterwards.
What is lost today stands in `LOST`: who mends a kind takes its line out. With `-s` the shares are printed as a table.
"""

from __future__ import annotations

import pytest

from tests.kinds.lost import LOST
from tests.kinds.talk import list_kinds
from tests.kinds.view import (
    SHARES,
    View,
    find_stale,
    flatten,
    get_talk,
    get_view,
    has_words,
    is_kept,
    join_texts,
    list_bare_rows,
    list_missing_changes,
    list_strange_rules,
    list_told_as_run,
    list_torn,
)

KINDS = list_kinds()
WITH_DOTS = ("german_work", "planning")
"""Kinds with many dates, numbers and abbreviations, whose dots end no sentence."""
LEAST, LEAST_OVER_ALL = 0.7, 0.85
"""The share of the facts that a view of a tenth of the tokens keeps."""
CHECKED: set[tuple[str, str]] = set()
"""The kinds and properties that have a test."""


def for_kinds(what: str, *kinds: str) -> pytest.MarkDecorator:
    """Runs a test for each kind. The property `what` of a kind is expected to fail if it is listed in `LOST`."""
    cases = []
    for kind in kinds:
        reason = LOST.get((kind, what))
        mark = pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason or "")
        cases.append(pytest.param(kind, marks=[mark] if reason else []))
        CHECKED.add((kind, what))
    return pytest.mark.parametrize("kind", cases)


def count_share(kind: str, share: int) -> float:
    view = get_view(kind, share)
    return len(view.list_kept()) / len(view.kind.facts)


@for_kinds("kept", *KINDS)
def test_a_tenth_of_the_tokens_keeps_seven_tenths_of_the_facts(kind: str) -> None:
    view = get_view(kind, 10)
    kept = view.list_kept()
    missing = [fact.question for fact in view.kind.facts if fact not in kept]
    assert len(kept) / len(view.kind.facts) >= LEAST, missing


@for_kinds("kept", "all kinds")
def test_a_tenth_of_the_tokens_keeps_most_facts_over_all_kinds(kind: str) -> None:
    rows = {name: [count_share(name, share) for share in SHARES] for name in KINDS}
    means = [sum(column) / len(rows) for column in zip(*rows.values(), strict=True)]
    print(f"\n{'facts kept at':16}", *(f"{share:3} %" for share in SHARES))
    for name, shares in {**rows, kind: means}.items():
        print(f"{name:16}", *(f"{each:5.2f}" for each in shares))
    assert means[0] >= LEAST_OVER_ALL


@for_kinds("grows", *KINDS)
def test_a_fifth_keeps_no_less_than_a_tenth(kind: str) -> None:
    assert count_share(kind, 20) >= count_share(kind, 10)


@for_kinds("stale", *(kind for kind in KINDS if any(fact.stale for fact in get_talk(kind)[0].facts)))
def test_no_stale_value_is_shown_as_current(kind: str) -> None:
    assert {share: found for share in SHARES if (found := find_stale(get_view(kind, share)))} == {}


@for_kinds("rules", *KINDS)
def test_the_rules_of_the_user_are_those_that_the_user_gave(kind: str) -> None:
    assert {share: found for share in SHARES if (found := list_strange_rules(get_view(kind, share)))} == {}


@for_kinds("order", *KINDS)
def test_the_open_request_is_the_last_word(kind: str) -> None:
    request = get_talk(kind)[0].request
    assert {share: get_view(kind, share).messages[-1]["content"] for share in SHARES} == dict.fromkeys(SHARES, request)


@for_kinds("rows", "data_analysis", "long_discussion")
def test_a_row_of_a_table_is_kept_with_its_header(kind: str) -> None:
    assert {share: found for share in SHARES if (found := list_bare_rows(get_view(kind, share)))} == {}


@for_kinds("fence", "data_analysis", "fenced_advice")
def test_advice_in_a_fence_is_not_told_as_run(kind: str) -> None:
    assert {share: found for share in SHARES if (found := list_told_as_run(get_view(kind, share)))} == {}


@for_kinds("torn", *WITH_DOTS)
def test_no_sentence_is_torn_at_a_dot_that_does_not_end_it(kind: str) -> None:
    assert {share: found for share in SHARES if (found := list_torn(get_view(kind, share)))} == {}


@for_kinds("modes", "mode_switches")
def test_only_the_newest_mode_counts_and_takes_a_quarter_at_most(kind: str) -> None:
    whole = get_talk(kind)[1].messages
    newest = [each for each in whole if each["role"] == "developer"][-1:]
    for share in SHARES:
        modes = [each for each in get_view(kind, share).messages if each["role"] == "developer"]
        assert modes == newest
        assert len(join_texts(modes)) <= len(join_texts(whole)) * share / 100 / 4


@for_kinds("changes", "support_day")
def test_what_calls_changed_is_told_and_routine_reads_are_not(kind: str) -> None:
    reads = {call.tool for call in get_talk(kind)[0].reads}
    for share in SHARES:
        view = get_view(kind, share)
        assert [line for line in view.told_actions if any(f"- {tool} " in line for tool in reads)] == []
    missing = list_missing_changes(get_view(kind, 20))
    assert len(missing) <= 4, missing


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_stand_in_the_conversation_and_only_where_they_are_stated(kind: str) -> None:
    known, talk = get_talk(kind)
    whole = join_texts(talk.messages)
    own_words = flatten(join_texts([each for each in talk.messages if each["role"] == "user"]))
    assert 8_000 <= get_view(kind, 10).tokens_before <= 20_000
    assert 8 <= len(known.facts) <= 12
    assert all(flatten(rule) in own_words for rule in known.rules)
    for fact in known.facts:
        assert is_kept(fact.kept, whole), fact.question
        assert not is_kept(fact.kept, join_texts(talk.leave_out(fact.stated))), fact.question
        assert not fact.stale or has_words(fact.stale, flatten(join_texts(talk.leave_out(fact.stated)))), fact.question


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_that_says_everything_has_no_fault(kind: str) -> None:
    known, talk = get_talk(kind)
    whole = View(known, talk, talk.messages, 0)
    assert whole.list_kept() == list(known.facts)
    for find in (find_stale, list_bare_rows, list_missing_changes, list_strange_rules, list_told_as_run):
        assert find(whole) == [], find.__name__
    assert kind not in WITH_DOTS or list_torn(whole) == []


def test_the_sections_that_are_looked_into_are_found() -> None:
    assert get_view("german_work", 10).rules
    assert get_view("support_day", 20).told_actions
    assert sum(bool(turn.change) for turn in get_talk("support_day")[0].turns) == 30


def test_what_is_listed_as_lost_has_a_test() -> None:
    assert LOST.keys() <= CHECKED
