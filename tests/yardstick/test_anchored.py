"""Presence: words near what they are about, the newest answer, and the nearest status."""

from __future__ import annotations

from tenfold.testing.probes import IndexedView, Probe, judge
from tenfold.testing.probes.kinds import ChatMessage, build_terms
from tenfold.testing.probes.presence import WINDOW
from tenfold_yardstick.scores import count_verdicts, has_bare_words


def make_context(*texts: str) -> IndexedView:
    return IndexedView([{"role": "user", "content": text} for text in texts])


PORT = Probe("number", 0, "port: 8431", (("8431", "8,431"),), build_terms(["ledger", "port"]))


def test_an_answer_counts_only_near_what_it_is_about() -> None:
    assert judge(PORT, make_context("the ledger listens on port 8431")) == "present"
    assert judge(PORT, make_context("the port is 8,431")) == "present"
    assert judge(PORT, make_context("8431 " + "x " * WINDOW + "ledger port")) == "missing"
    assert has_bare_words(PORT, make_context("8431 " + "x " * WINDOW + "ledger port"))


def test_a_window_of_600_characters_holds_and_601_do_not() -> None:
    probe = Probe("identifier", 0, "", build_terms(["alpha"]), build_terms(["omega"]))
    assert judge(probe, make_context("alpha" + " " * (WINDOW - 10) + "omega")) == "present"
    assert judge(probe, make_context("alpha" + " " * (WINDOW - 9) + "omega")) == "missing"


def test_half_of_the_anchor_is_enough_and_less_is_not() -> None:
    probe = Probe("constraint", 0, "", build_terms(["never"]), build_terms(["restart", "heron", "night"]))
    assert judge(probe, make_context("never restart at night")) == "present"
    assert judge(probe, make_context("never restart")) == "missing"


def test_all_words_of_the_answer_stand_in_one_window() -> None:
    probe = Probe("task", 0, "", build_terms(["mend", "totals"]))
    assert judge(probe, make_context("mend the totals")) == "present"
    assert judge(probe, make_context("mend" + " y" * WINDOW + " totals")) == "missing"


def test_a_number_is_not_found_inside_another() -> None:
    probe = Probe("number", 0, "", build_terms(["12.5"]))
    assert judge(probe, make_context("weighs 12.5.")) == "present"
    for other in ("112.5", "12.51", "3.12.5", "x12.5"):
        assert judge(probe, make_context(other)) == "missing"


def test_a_path_is_found_under_any_root_and_not_as_part_of_a_name() -> None:
    probe = Probe("edited", 0, "", (("shop/money.py",),), (("changed", "edited"),))
    assert judge(probe, make_context("changed /home/dev/shop/money.py")) == "present"
    assert judge(probe, make_context("changed workshop/money.py")) == "missing"
    assert judge(probe, make_context("shop/money.py")) == "missing"


def test_an_older_answer_is_stale() -> None:
    probe = Probe("number", 0, "", build_terms(["4"]), build_terms(["hours", "limit"]), (build_terms(["3"]),))
    assert judge(probe, make_context("limit of 4 hours")) == "present"
    assert judge(probe, make_context("limit of 3 hours, then a limit of 4 hours")) == "present"
    assert judge(probe, make_context("limit of 3 hours")) == "stale"
    assert judge(probe, make_context("no limit")) == "missing"


TODO = Probe(
    "todo",
    0,
    "",
    (("completed", "done", "[x]"), *build_terms(["round", "percentages"])),
    (),
    (),
    ("pending", "[ ]", "open"),
)


def test_a_to_do_has_the_status_on_its_line() -> None:
    assert judge(TODO, make_context("- [ ] mend splits\n- [x] round percentages\n- [ ] ship")) == "present"
    assert judge(TODO, make_context("- [x] mend splits\n- [ ] round percentages\n- [x] ship")) == "stale"
    assert judge(TODO, make_context("[completed] mend splits")) == "missing"


def test_a_to_do_is_stale_only_where_the_line_names_all_of_it() -> None:
    whole = Probe(
        "todo",
        0,
        "",
        (TODO.answer[0], *build_terms(["round", "percentages"])),
        build_terms(["away", "zero"]),
        (),
        ("[ ]",),
    )
    assert judge(whole, make_context("[ ] round percentages away from zero")) == "stale"
    assert judge(whole, make_context("[ ] round percentages away")) == "missing"
    assert judge(whole, make_context("[x] round percentages away")) == "present"


def test_a_to_do_has_the_status_of_the_heading_above_it() -> None:
    assert judge(TODO, make_context("Done:\n- mend splits\n- round percentages\nPending:\n- ship")) == "present"
    assert judge(TODO, make_context("Done:\n- mend splits\nPending:\n- round percentages\nDone: all")) == "stale"


def test_the_newest_place_of_a_to_do_decides() -> None:
    assert judge(TODO, make_context("[ ] round percentages", "[x] round percentages")) == "present"
    assert judge(TODO, make_context("[x] round percentages", "[ ] round percentages")) == "stale"


def test_a_command_ends_as_the_output_below_it_says() -> None:
    probe = Probe(
        "outcome", 0, "", (("ok", "passed"), *build_terms(["unittest"])), (), ((("failed",),),), ("failed", "exit 1")
    )
    assert judge(probe, make_context("FAILED\npython -m unittest\nRan 3 tests\n\nOK")) == "present"
    assert judge(probe, make_context("OK\npython -m unittest\nRan 3 tests\n\nFAILED")) == "stale"
    assert judge(probe, make_context("[exit 1] make\n[ok] python -m unittest\n[exit 1] lint")) == "present"


SUITE = Probe(
    "outcome", 0, "", (("ok",), *build_terms(["unittest", "test_money"])), build_terms(["python"]), (), ("failed",)
)


def test_a_line_that_lacks_a_word_of_the_command_speaks_of_another() -> None:
    well, badly = "[ok] python -m unittest test_{}\n", "[failed] python -m unittest test_{}\n"
    assert judge(SUITE, make_context(well.format("money") + badly.format("dates") + "test_money")) == "present"
    assert judge(SUITE, make_context(badly.format("money") + well.format("dates") + "test_money")) == "missing"


def test_what_stands_below_a_line_that_says_it_counts_only_after_a_later_call() -> None:
    told = "[ok] python -m unittest test_money\nnames: test_money unittest\ncheck: failed"
    assert judge(SUITE, make_context(told)) == "present"
    later: list[ChatMessage] = [
        {"role": "assistant", "content": "unittest test_money"},
        {"role": "tool", "content": "failed"},
    ]
    assert judge(SUITE, IndexedView([{"role": "user", "content": "python " + told}, *later])) == "missing"


def test_arguments_are_read_unescaped_and_items_with_their_status() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "todo", "arguments": ""}}
    call["function"] = {
        "name": "todo",
        "arguments": '{"todos":[{"content":"mend splits","status":"pending"},'
        '{"content":"round percentages","status":"completed"}],"note":"one\\ntwo"}',
    }
    view = IndexedView([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert judge(TODO, view) == "present"
    assert judge(Probe("task", 0, "", build_terms(["one", "two"])), view) == "present"


def test_tallies_count_by_kind_and_age() -> None:
    probes = [PORT, Probe("task", 9, "", build_terms(["mend"])), Probe("task", 0, "", build_terms(["absent"]))]
    found = count_verdicts(probes, make_context("mend it; ledger port 8431"), 10)
    assert [(t.kind, t.quarter, t.asked, t.present, t.bare) for t in found] == [
        ("number", 1, 1, 1, 1),
        ("task", 1, 1, 0, 0),
        ("task", 4, 1, 1, 1),
    ]


def test_a_to_dos_words_in_a_command_say_nothing_of_its_status() -> None:
    view = make_context("[x] round percentages\n[ ] ship\n" + "- [ok] git commit -m 'round percentages'")
    assert judge(TODO, view) == "present"


def test_a_status_word_inside_a_name_is_none() -> None:
    assert judge(TODO, make_context("[x] round percentages in next.config.js")) == "present"
    later = "[x] round percentages\nI round percentages in /site-next/next.config.js now"
    todo = Probe("todo", 0, "", TODO.answer, (), (), ("pending", "next"))
    assert judge(todo, make_context(later)) == "present"
    assert judge(todo, make_context("[x] ship\nround percentages next.")) == "stale"


def test_what_stands_below_a_call_ends_where_the_next_answer_begins() -> None:
    told = "[ok] python -m unittest test_money"
    later: list[ChatMessage] = [
        {"role": "assistant", "content": "unittest test_money"},
        {"role": "tool", "content": "[output removed]"},
        {"role": "assistant", "content": "make lint"},
        {"role": "tool", "content": "failed"},
    ]
    assert judge(SUITE, IndexedView([{"role": "user", "content": told}, *later])) == "present"
