"""What a Block carries on: facts whose latest change is still in view, and those of results that came late."""

from __future__ import annotations

from tenfold.compaction.facts.section import render_facts
from tenfold.compaction.plan.stages import SummarizePrefixStage
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.fact import Rule
from tenfold.designs.tiers.stages import SummarizeOlderStage
from tests.engine.making import (
    build_policy,
    make_call,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)
from tests.engine.test_must_keep import find_missing, find_must_keep, get_newest_block

PLAN = "- [ ] write the parser\\n- [ ] write the printer\\n- [ ] write the page\\n- [ ] announce it"


def make_plan_edit(number: int, old: str, new: str) -> list[object]:
    arguments = f'{{"path": "/repo/PLAN.md", "old_string": "{old}", "new_string": "{new}"}}'
    return [make_call(f"p{number}", "edit", arguments), make_result(f"p{number}", "done", name="edit")]


def test_a_list_that_was_last_changed_in_view_keeps_its_hidden_items() -> None:
    """Only the change was in view, so the next Block knew of one item where the list had four."""
    write = make_call("w", "write", f'{{"path": "/repo/PLAN.md", "content": "{PLAN}"}}')
    session = open_session(
        [make_user_message("Write it."), write, make_result("w", "written", name="write"), *make_work(8)],
        build_policy(stages=(SummarizePrefixStage(),)),
    )
    session.append(
        *make_plan_edit(1, "- [ ] write the parser", "- [x] write the parser"),  # type: ignore[arg-type]
        make_reply("The parser is done."),
    )
    assert session.compact(to=1_200).status == "compacted"
    assert get_newest_block(session).replacements[0].last > 2, "where the list was written is hidden"
    assert "write the parser" in str(session.view.get_messages()[-3:]), "the change itself stays in view"
    session.append(*make_work(8, start=20))
    session.compactor.use_policy(build_policy(stages=(SummarizeOlderStage(keep_recent_messages=0),)))
    assert session.compact(to=1_500).status == "compacted"
    todo = next(f for f in session.view.list_block_facts() if f.kind == "todo" and f.live)
    assert [line[2:5] for line in todo.text.split("\n")] == ["[x]", "[ ]", "[ ]", "[ ]"]
    assert "announce it" in todo.text
    assert len(find_missing(session)) <= get_newest_block(session).unshown_facts


def test_an_error_that_a_late_result_brought_is_not_lost() -> None:
    """A result that comes when its step is closed is shown as labelled text, from which nothing was taken."""
    failing = make_call("t", "bash", '{"command": "pytest tests/test_sky.py"}')
    late = make_result("t", "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4", error=True)
    session = open_session(
        [make_user_message("Run them."), failing, make_reply("Meanwhile."), late, make_reply("I see."), *make_work(6)],
        build_policy(),
    )
    assert any(f.kind == "error" for f in find_must_keep(session))
    assert session.compact(to=900).status == "compacted"
    assert [f.text for f in session.view.list_block_facts() if f.kind == "error" and f.live] == [
        "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4"
    ]
    assert find_missing(session) == []


def test_a_rule_of_which_little_would_be_left_counts_as_not_shown() -> None:
    rule = Rule("Never touch the folder " + "of generated clients and their fixtures " * 20 + "at all.", 3)
    count = CharacterCounter().count
    for budget in range(20, 400, 10):
        section = render_facts([rule], budget=budget, count=count)
        assert (section.unshown == (rule,)) == (section.text == "")
        assert section.text == "" or len(section.text) > 160
    assert render_facts([rule], budget=400, count=count).unshown == ()
