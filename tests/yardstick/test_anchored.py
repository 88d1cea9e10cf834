"""Presence: words near what they are about, the newest answer, and the nearest status."""

from __future__ import annotations

import pytest

from tenfold.testing.probes import IndexedView, Probe, judge
from tenfold.testing.probes.kinds import ChatMessage, ProbeKind, Term, build_terms
from tenfold.testing.probes.presence import WINDOW
from tenfold_yardstick.scores import count_verdicts, has_bare_words


def make_probe(
    kind: ProbeKind,
    answer: str,
    anchor: str = "",
    *,
    first: tuple[Term, ...] = (),
    rivals: Term = (),
    old: tuple[tuple[Term, ...], ...] = (),
) -> Probe:
    """A probe of these words; `first` are terms with alternatives."""
    return Probe(kind, 0, "", (*first, *build_terms(answer.split())), build_terms(anchor.split()), old, rivals)


def make_context(*texts: str) -> IndexedView:
    return IndexedView([{"role": "user", "content": text} for text in texts])


PORT = make_probe("number", "", "ledger port", first=(("8431", "8,431"),))
NEAR = make_probe("identifier", "alpha", "omega")
RULE = make_probe("constraint", "never", "restart heron night")
TASK = make_probe("task", "mend totals")
WEIGHT = make_probe("number", "12.5")

FILE = Probe("edited", 0, "", (("shop/money.py",),), (("changed", "edited"),))
LIMIT = make_probe("number", "4", "hours limit", old=(build_terms(["3"]),))
DONE: tuple[Term, ...] = (("completed", "done", "[x]"),)
TODO = make_probe("todo", "round percentages", first=DONE, rivals=("pending", "[ ]", "open"))
WHOLE = make_probe("todo", "round percentages", "away zero", first=DONE, rivals=("[ ]",))
NEXT = make_probe("todo", "round percentages", first=DONE, rivals=("pending", "next"))
RUN = make_probe("outcome", "unittest", first=(("ok", "passed"),), rivals=("failed", "exit 1"), old=((("failed",),),))
SUITE = make_probe("outcome", "unittest test_money", "python", first=(("ok",),), rivals=("failed",))
WELL, BADLY = "[ok] python -m unittest test_{}\n", "[failed] python -m unittest test_{}\n"


@pytest.mark.parametrize(
    ("probe", "text", "verdict"),
    [
        (PORT, "the ledger listens on port 8431", "present"),
        (PORT, "the port is 8,431", "present"),
        (PORT, "8431 " + "x " * WINDOW + "ledger port", "missing"),
        (NEAR, "alpha" + " " * (WINDOW - 10) + "omega", "present"),
        (NEAR, "alpha" + " " * (WINDOW - 9) + "omega", "missing"),
        (RULE, "never restart at night", "present"),
        (RULE, "never restart", "missing"),
        (TASK, "mend the totals", "present"),
        (TASK, "mend" + " y" * WINDOW + " totals", "missing"),
        (WEIGHT, "weighs 12.5.", "present"),
        *((WEIGHT, other, "missing") for other in ("112.5", "12.51", "3.12.5", "x12.5")),
        (FILE, "changed /home/dev/shop/money.py", "present"),
        (FILE, "changed workshop/money.py", "missing"),
        (FILE, "shop/money.py", "missing"),
        (LIMIT, "limit of 4 hours", "present"),
        (LIMIT, "limit of 3 hours, then a limit of 4 hours", "present"),
        (LIMIT, "limit of 3 hours", "stale"),
        (LIMIT, "no limit", "missing"),
        (TODO, "- [ ] mend splits\n- [x] round percentages\n- [ ] ship", "present"),
        (TODO, "- [x] mend splits\n- [ ] round percentages\n- [x] ship", "stale"),
        (TODO, "[completed] mend splits", "missing"),
        (WHOLE, "[ ] round percentages away from zero", "stale"),
        (WHOLE, "[ ] round percentages away", "missing"),
        (WHOLE, "[x] round percentages away", "present"),
        (TODO, "Done:\n- mend splits\n- round percentages\nPending:\n- ship", "present"),
        (TODO, "Done:\n- mend splits\nPending:\n- round percentages\nDone: all", "stale"),
        (TODO, "[ ] round percentages\n[x] round percentages", "present"),
        (TODO, "[x] round percentages\n[ ] round percentages", "stale"),
        (TODO, "[x] round percentages\n[ ] ship\n- [ok] git commit -m 'round percentages'", "present"),
        (TODO, "[x] round percentages in next.config.js", "present"),
        (NEXT, "[x] round percentages\nI round percentages in /site-next/next.config.js now", "present"),
        (NEXT, "[x] ship\nround percentages next.", "stale"),
        (RUN, "FAILED\npython -m unittest\nRan 3 tests\n\nOK", "present"),
        (RUN, "OK\npython -m unittest\nRan 3 tests\n\nFAILED", "stale"),
        (RUN, "[exit 1] make\n[ok] python -m unittest\n[exit 1] lint", "present"),
        (SUITE, WELL.format("money") + BADLY.format("dates") + "test_money", "present"),
        (SUITE, BADLY.format("money") + WELL.format("dates") + "test_money", "missing"),
        (SUITE, "[ok] python -m unittest test_money\nnames: test_money unittest\ncheck: failed", "present"),
    ],
)
def test_an_answer_counts_only_near_what_it_is_about_and_the_newest_decides(
    probe: Probe, text: str, verdict: str
) -> None:
    assert judge(probe, make_context(text)) == verdict


def test_bare_words_may_stand_anywhere() -> None:
    assert has_bare_words(PORT, make_context("8431 " + "x " * WINDOW + "ledger port"))


@pytest.mark.parametrize(
    ("first", "outputs", "verdict"),
    [("python [ok] python -m unittest test_money\ncheck: failed", ["failed"], "missing"),
     ("[ok] python -m unittest test_money", ["[output removed]", "failed"], "present")],
)  # fmt: skip
def test_what_stands_below_a_call_ends_where_the_next_answer_begins(
    first: str, outputs: list[str], verdict: str
) -> None:
    """What stands below a line that says how a command ended counts only after a later call of it."""
    view: list[ChatMessage] = [{"role": "user", "content": first}]
    for number, output in enumerate(outputs):
        call = "make lint" if number else "unittest test_money"
        view += [{"role": "assistant", "content": call}, {"role": "tool", "content": output}]
    assert judge(SUITE, IndexedView(view)) == verdict


def test_arguments_are_read_unescaped_and_items_with_their_status() -> None:
    todos = '[{"content":"mend splits","status":"pending"},{"content":"round percentages","status":"completed"}]'
    function = {"name": "todo", "arguments": f'{{"todos":{todos},"note":"one\\ntwo"}}'}
    call = {"id": "a", "type": "function", "function": function}
    view = IndexedView([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert judge(TODO, view) == "present"
    assert judge(make_probe("task", "one two"), view) == "present"


def test_tallies_count_by_kind_and_age() -> None:
    probes = [PORT, Probe("task", 9, "", build_terms(["mend"])), make_probe("task", "absent")]
    found = count_verdicts(probes, make_context("mend it; ledger port 8431"), 10)
    assert [(t.kind, t.quarter, t.asked, t.present, t.bare) for t in found] == [
        ("number", 1, 1, 1, 1),
        ("task", 1, 1, 0, 0),
        ("task", 4, 1, 1, 1),
    ]
