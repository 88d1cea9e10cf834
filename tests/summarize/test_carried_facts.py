"""What a Block carries on: facts whose latest change is still in view, and those of results that came late."""

from __future__ import annotations

from tenfold.meter.counters import Characters4
from tenfold.plan.stages import SummarizePrefix
from tenfold.record.block import Fact
from tenfold.summarize.section import render
from tests.engine.making import called, gave, opened, policy, said, user, work
from tests.engine.test_must_keep import live, missing, newest

PLAN = "- [ ] write the parser\\n- [ ] write the printer\\n- [ ] write the page\\n- [ ] announce it"


def planned(number: int, old: str, new: str) -> list[object]:
    arguments = f'{{"path": "/repo/PLAN.md", "old_string": "{old}", "new_string": "{new}"}}'
    return [called(f"p{number}", "edit", arguments), gave(f"p{number}", "done", name="edit")]


def test_a_list_that_was_last_changed_in_view_keeps_its_hidden_items() -> None:
    """Only the change was in view, so the next Block knew of one item where the list had four."""
    write = called("w", "write", f'{{"path": "/repo/PLAN.md", "content": "{PLAN}"}}')
    session = opened(
        [user("Write it."), write, gave("w", "written", name="write"), *work(8)], policy(stages=(SummarizePrefix(),))
    )
    session.append(*planned(1, "- [ ] write the parser", "- [x] write the parser"), said("The parser is done."))  # type: ignore[arg-type]
    assert session.compact(to=1_200).status == "compacted"
    assert newest(session).replacements[0].last > 2, "where the list was written is hidden"
    assert "write the parser" in str(session.view.messages()[-3:]), "the change itself stays in view"
    session.append(*work(8, start=20))
    session.policy = policy(stages=(SummarizePrefix(keep_tail=False),))
    assert session.compact(to=1_500).status == "compacted"
    todo = next(f for f in newest(session).facts if f.kind == "todo" and f.live)
    assert [line[2:5] for line in todo.text.split("\n")] == ["[x]", "[ ]", "[ ]", "[ ]"]
    assert "announce it" in todo.text
    assert len(missing(session)) <= newest(session).unshown


def test_an_error_that_a_late_result_brought_is_not_lost() -> None:
    """A result that comes when its step is closed is shown as labelled text, from which nothing was taken."""
    failing = called("t", "bash", '{"command": "pytest tests/test_sky.py"}')
    late = gave("t", "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4", error=True)
    session = opened([user("Run them."), failing, said("Meanwhile."), late, said("I see."), *work(6)], policy())
    assert any(f.kind == "error" for f in live(session))
    assert session.compact(to=900).status == "compacted"
    assert [f.text for f in newest(session).facts if f.kind == "error" and f.live] == [
        "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4"
    ]
    assert missing(session) == []


def test_a_rule_of_which_little_would_be_left_counts_as_not_shown() -> None:
    rule = Fact("rule", "Never touch the folder " + "of generated clients and their fixtures " * 20 + "at all.", "r", 3)
    count = Characters4().count
    for budget in range(20, 400, 10):
        section = render([rule], budget=budget, count=count)
        assert (section.unshown == (rule,)) == (section.text == "")
        assert section.text == "" or len(section.text) > 160
    assert render([rule], budget=400, count=count).unshown == ()
