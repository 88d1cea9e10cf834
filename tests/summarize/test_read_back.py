"""What a section told goes on as it was when it is read back: a host that keeps no session has nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.record.block import Fact
from tenfold.summarize.facts import merge
from tenfold.summarize.parse import parse
from tenfold.summarize.section import render
from tests.summarize.making import calls, facts_of, gives, human, quarter, ran, says

PLENTY = 10_000


def told(facts: Sequence[Fact]) -> str:
    return render(facts, budget=PLENTY, count=quarter).text


def after(facts: Sequence[Fact], *more: Fact) -> tuple[Fact, ...]:
    """The facts of a list that begins with a summary of those facts, as a host sends it that keeps no session."""
    read = tuple(replace(fact, at=1) for fact in parse(told(facts)))
    return merge(read, [replace(fact, at=fact.at + 2) for fact in more])


def test_a_section_that_is_read_back_again_and_again_stays_as_it_is() -> None:
    facts = facts_of(
        human("Always run the tests."),
        *(m for n in range(6) for m in ran(f"pytest part_{n}.py", f"ValueError: part {n}\n1 failed", error=True)),
        *(m for n in range(6) for m in ran(f"pytest part_{n}.py", "4 passed")),
        *(says(f"Part {n} costs {n + 40}.50 euros.") for n in range(4)),
    )
    first = told(facts)
    assert first.count("ValueError: part") == 6
    again = facts = list(facts)
    for _ in range(3):
        again = list(after(again))
        assert told(again) == first


def test_errors_of_several_runs_of_one_command_are_not_taken_for_one_run() -> None:
    runs = [ran("pytest", f"ValueError: trouble {n}\n1 failed", error=True) for n in range(5)]
    facts = facts_of(human("fix it"), *(m for run in runs for m in run), *ran("pytest", "4 passed"))
    assert told(facts).count("trouble") == 5
    assert told(after(facts)).count("trouble") == 5


def test_what_a_command_failed_with_is_still_told_once_it_went_well() -> None:
    failed = facts_of(human("fix it"), *ran("python price.py", "ValueError: invalid price", error=True), *ran("ls"))
    failed = [replace(f, live=False) if f.kind == "error" else f for f in failed]  # settled: another program's run
    assert '(tool: "ValueError: invalid price")' in told(failed)
    text = told(after(failed, *facts_of(human("again"), *ran("python price.py", "12.50"))))
    assert "[ok] python price.py" in text
    assert 'tool: "ValueError: invalid price" (from: $ python price.py)' in text


def test_of_what_was_read_back_the_newest_is_kept_where_room_is_short() -> None:
    facts = after(facts_of(human("go on"), *(m for n in range(40) for m in ran(f"make part_{n:02}", "done"))))
    text = render(facts, budget=150, count=quarter).text
    assert "part_39" in text
    assert "part_00" not in text


def test_a_change_of_a_plan_in_a_file_is_one_of_the_list_that_was_read_back() -> None:
    plan = "- [ ] read the file\n- [ ] count the words\n- [ ] print the sum"
    facts = facts_of(human("go on"), calls("write", path="plan.md", content=plan), gives("written"))
    change = {"old_string": "- [ ] read the file", "new_string": "- [x] read the file"}
    more = {"old_string": "- [ ] count the words", "new_string": "- [x] count the words"}
    edits = (m for each in (change, more) for m in (calls("edit", path="plan.md", **each), gives("edited")))
    text = told(after(facts, *facts_of(human("next"), *edits)))
    assert "[x] read the file" in text
    assert "[x] count the words" in text
    assert "[ ] print the sum" in text
    other = {"old_string": "- [ ] buy milk", "new_string": "- [x] buy milk"}
    text = told(after(facts, *facts_of(human("next"), calls("edit", path="home.md", **other), gives("edited"))))
    assert "print the sum" not in text, "another list, which is now the newest"
