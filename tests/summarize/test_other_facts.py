"""The to-do state, and how facts of two ranges merge."""

from __future__ import annotations

import itertools

from hypothesis import given, settings

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.core.record.fact import CommandRun, Fact, Rule, TodoList
from tenfold.core.record.message import Message
from tests.summarize.making import HISTORIES, get_fact_texts, get_facts, make_answer, make_call, make_result, make_run


def test_a_todo_tool_gives_its_last_state() -> None:
    def make_todo_step(*items: tuple[str, str]) -> list[Message]:
        return [make_call("TodoWrite", todos=[{"content": c, "status": s} for c, s in items]), make_result("ok")]

    facts = get_facts(
        *make_todo_step(("a", "in_progress"), ("b", "pending")),
        *make_todo_step(("a", "completed"), ("b", "in_progress")),
        kind="todo",
    )
    assert [(fact.text, fact.live) for fact in facts] == [("[x] a\n[~] b", True)]


def test_checkboxes_in_a_file_follow_their_edits() -> None:
    story = [
        make_call("write", path="/plan.md", content="# Plan\n- [ ] one\n- [ ] two\n"),
        make_result("ok"),
        make_call("edit", path="/plan.md", oldText="- [ ] one", newText="- [x] one"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, kind="todo") == ["- [x] one\n- [ ] two"]
    assert [f.live for f in get_facts(*story, *make_run("rm /plan.md"), kind="todo")] == [False]


def test_a_plan_that_says_the_same_under_several_headings_is_ticked_from_above() -> None:
    story = [
        make_call("write", path="/plan.md", content="## A\n- [ ] one\n- [ ] verify\n## B\n- [ ] two\n- [ ] verify\n"),
        make_result("ok"),
        make_call("edit", path="/plan.md", oldText="- [ ] one\n- [ ] verify", newText="- [x] one\n- [x] verify"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, kind="todo") == ["- [x] one\n- [x] verify\n- [ ] two\n- [ ] verify"]
    beside = [
        make_call("edit", path="/plan.md", oldText="- [x] verify\n- [ ] two", newText="- [x] verify\n- [x] two"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, *beside, kind="todo") == ["- [x] one\n- [x] verify\n- [x] two\n- [ ] verify"]
    old, new = "- [x] verify\n- [ ] two\n- [ ] verify", "- [x] verify\n- [x] two\n- [x] verify"
    both = [make_call("edit", path="/plan.md", oldText=old, newText=new), make_result("ok")]
    assert get_fact_texts(*story, *both, kind="todo") == ["- [x] one\n- [x] verify\n- [x] two\n- [x] verify"]


def test_a_numbered_plan_counts_where_a_plan_is_spoken_of() -> None:
    assert get_fact_texts(make_answer("The plan:\n1. read\n2. write\n3. test"), kind="todo") == [
        "1. read\n2. write\n3. test"
    ]
    assert get_fact_texts(make_answer("Three colours:\n1. red\n2. blue\n3. green"), kind="todo") == []


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


def test_a_change_that_is_read_again_ticks_no_second_item_of_the_same_name() -> None:
    plan = "- [ ] Write the parser\n- [ ] Verify\n- [ ] Write the printer\n- [ ] Verify"
    written = [make_call("write", path="PLAN.md", content=plan), make_result("Written.")]
    ticked = [
        make_call("edit", path="PLAN.md", old_string="- [ ] Verify", new_string="- [x] Verify"),
        make_result("ok"),
    ]
    items = list(enumerate([*written, *ticked]))
    (carried,) = (fact for fact in extract_facts(items) if isinstance(fact, TodoList))
    assert carried.text.count("[x] Verify") == 1
    in_view = items[2:]  # the change is still in view, beside the list that holds it already
    twice = merge_facts([carried], extract_facts(in_view))
    assert [fact.text.count("[x] Verify") for fact in twice if fact.kind == "todo"] == [2]
    once = merge_facts([carried], extract_facts(in_view, known_lists={carried.name: carried.position}))
    assert [fact.text for fact in once if fact.kind == "todo"] == [carried.text]
