"""The to-do state, and how facts of two ranges merge."""

from __future__ import annotations

import itertools

from hypothesis import given, settings

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.core.record.fact import CommandRun, Fact, Rule
from tenfold.core.record.message import Message
from tests.summarize.making import HISTORIES, get_fact_texts, get_facts, make_call, make_result, make_run


def test_a_todo_tool_gives_its_last_state() -> None:
    def make_todo_step(*items: tuple[str, str]) -> list[Message]:
        return [make_call("TodoWrite", todos=[{"content": c, "status": s} for c, s in items]), make_result("ok")]

    facts = get_facts(
        *make_todo_step(("a", "in_progress"), ("b", "pending")),
        *make_todo_step(("a", "completed"), ("b", "in_progress")),
        kind="todo",
    )
    assert [(fact.text, fact.live) for fact in facts] == [("[x] a\n[~] b", True)]


def test_a_resolution_in_the_newer_range_settles_an_error_of_the_older() -> None:
    older = extract_facts(enumerate(make_run("pytest", "FAILED tests/a.py::test_b\nCommand exited with code 1")))
    newer = extract_facts((n + 10, message) for n, message in enumerate(make_run("pytest", "3 passed")))
    assert [fact.live for fact in older if fact.kind == "error"] == [True]
    assert [fact.live for fact in merge_facts(older, newer) if fact.kind == "error"] == [False]


def test_merging_keeps_the_later_of_a_key_and_the_order_of_positions() -> None:
    older = (CommandRun("make", 1, command="$ make", outcome="ok"), Rule("be kind", 2))
    newer = CommandRun("make", 5, command="$ make", outcome="failed")
    assert merge_facts(older, (newer,)) == (older[1], newer)


def get_essence(facts: tuple[Fact, ...]) -> set[tuple[str, str, int, bool]]:
    return {(fact.kind, fact.label, fact.position, fact.live) for fact in facts}


@settings(max_examples=60, deadline=None)
@given(HISTORIES, HISTORIES, HISTORIES)
def test_merging_does_not_depend_on_how_ranges_are_grouped(
    a: list[Message], b: list[Message], c: list[Message]
) -> None:
    at = itertools.count()
    one, two, three = (extract_facts([(next(at), message) for message in part]) for part in (a, b, c))
    assert get_essence(merge_facts(merge_facts(one, two), three)) == get_essence(
        merge_facts(one, merge_facts(two, three))
    )


@settings(max_examples=60, deadline=None)
@given(HISTORIES)
def test_extraction_never_raises_and_merging_with_nothing_changes_nothing(history: list[Message]) -> None:
    facts = extract_facts(enumerate(history))
    assert merge_facts(facts, ()) == facts
    assert merge_facts((), facts) == facts
    assert all(0 <= fact.position < len(history) for fact in facts)
    assert sum(fact.live for fact in facts if fact.kind == "request") <= 1


def test_a_secret_whose_label_is_cut_off_is_not_shown() -> None:
    for words in range(4, 14):
        command = (
            "curl " + "--header x " * words + "--password=correcthorsebattery " + "--retry 3 " * 5 + "https://a.example"
        )
        (shown,) = get_fact_texts(*make_run(command), kind="command")
        assert "orsebattery" not in shown, words
