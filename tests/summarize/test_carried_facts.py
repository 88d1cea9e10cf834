"""What a Block carries on: facts whose latest change is still in view, and those of results that came late."""

from __future__ import annotations

from tenfold.compaction.facts.section import render_facts
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.fact import Rule
from tests.engine.making import (
    build_policy,
    make_call,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)
from tests.engine.test_must_keep import find_missing, find_must_keep


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
