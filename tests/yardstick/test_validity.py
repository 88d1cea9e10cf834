"""The gates: each breaks on the one defect it is for, and holds for lists without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import MethodResult, UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold.testing.validity import GATES, GateFailure, find_failures
from tenfold_yardstick.gates import LEAST_SUMMARY, MIN_BUDGET, check_cuts, count_least, find_failures_within
from tenfold_yardstick.methods import get_methods


def make_call(*ids: str, text: str | None = None) -> ChatMessage:
    calls = [{"id": i, "type": "function", "function": {"name": "run", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def make_result(call_id: str, text: str = "done") -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def make_user_message(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def make_reply(text: str) -> ChatMessage:
    return {"role": "assistant", "content": text}


SOURCE = [
    make_user_message("Mend it."),
    make_call("a"),
    make_result("a"),
    make_call("b", "c"),
    make_result("b"),
    make_result("c"),
    make_reply("Done."),
    make_user_message("Next."),
]


def find_gates(view: list[ChatMessage]) -> set[str]:
    return {each.gate for each in find_failures(SOURCE, view)}


def test_the_source_and_an_honest_view_break_nothing() -> None:
    assert not find_failures_within(SOURCE, SOURCE, 10_000)
    assert not find_failures(SOURCE, [make_user_message("Summary: it was mended."), *SOURCE[3:]])
    assert not find_failures(SOURCE, [*SOURCE[:2], make_result("a", "[output removed]"), *SOURCE[3:]])


@pytest.mark.parametrize(
    ("gate", "view"),
    [
        ("orphan call", [SOURCE[0], make_call("a"), *SOURCE[6:]]),
        ("orphan call", [SOURCE[0], make_call("a"), make_user_message("between"), make_result("a")]),
        ("orphan result", [SOURCE[0], make_result("a"), *SOURCE[6:]]),
        ("orphan result", [SOURCE[0], make_call("a"), make_result("a"), make_result("a")]),
        ("split step", [SOURCE[0], make_call("b"), make_result("b"), *SOURCE[6:]]),
        ("duplicate id", [*SOURCE[:3], make_call("a"), make_result("a")]),
        ("changed order", [SOURCE[0], *SOURCE[3:6], *SOURCE[1:3], SOURCE[7]]),
        ("changed order", [SOURCE[7], SOURCE[0]]),
        ("rejected role", [SOURCE[0], {"role": "summary", "content": "x"}]),
        ("empty content", [SOURCE[0], make_reply("")]),
        ("empty content", [SOURCE[0], make_reply(" \n")]),
        ("changed input", [SOURCE[0], {**make_reply("Done."), "name": "x"}]),
    ],
)
def test_each_gate_breaks_on_its_defect(gate: str, view: list[ChatMessage]) -> None:
    assert gate in find_gates(view)


def test_a_blank_part_is_empty_content() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": " "}]
    assert find_gates([SOURCE[0], {"role": "user", "content": parts}]) == {"empty content"}


def test_over_budget_by_more_than_two_percent() -> None:
    long = [make_user_message("word " * 1_000), make_reply("Done."), make_user_message("Go on.")]
    assert {b.gate for b in find_failures_within(long, long, 900)} == {"over budget"}
    assert not find_failures_within(long, long, count_total_tokens(long) - 10)


def test_a_budget_below_system_prompt_and_request_is_held_to_these() -> None:
    prompt: ChatMessage = {"role": "system", "content": "rule " * 500}
    long = [prompt, *SOURCE[1:], make_user_message("word " * 1_000)]
    shown = "OBSERVATION:\n" + "line " * 400
    assert count_least(long) == count_total_tokens([long[0], long[-1]]) + LEAST_SUMMARY
    assert count_least([*long, make_reply("Looking."), make_user_message(shown)]) == count_least(long), (
        "what a tool printed is no request"
    )
    kept = [long[0], long[-1]]
    step = [make_call("open", "more"), make_result("open", "line " * 400)]
    assert count_least([*long, *step]) == count_total_tokens([*kept, *step]) + LEAST_SUMMARY, (
        "not all its calls are answered"
    )
    assert count_least([*long, *step, make_result("more")]) == count_least(long)
    assert not find_failures_within(long, kept, 100)
    assert {b.gate for b in find_failures_within(long, [*kept, make_reply("More. " * 200)], 100)} == {"over budget"}


def test_what_the_session_already_had_is_not_charged() -> None:
    source = [*SOURCE, make_call("open")]
    assert not find_failures(source, source[-2:])
    empty = [make_user_message("a"), make_reply("")]
    assert not find_failures(empty, empty)
    twice = [
        make_user_message("a"),
        make_call("a"),
        make_result("a"),
        make_reply("Again."),
        make_call("a"),
        make_result("a"),
    ]
    assert not find_failures(twice, twice)
    assert {b.gate for b in find_failures(twice, [*twice, make_call("a"), make_result("a")])} == {
        "duplicate id",
        "changed order",
    }
    assert not find_failures(twice[:-1], twice[:-1]), "its last call has no result yet"
    assert {b.gate for b in find_failures(twice[:-1], [twice[0], *twice[:2], *twice[3:-1]])} >= {"orphan call"}, (
        "its first had"
    )


class Made(Struct, frozen=True):
    """A method of one function."""

    made: Callable[[Sequence[ChatMessage], int], list[ChatMessage]]
    name: str = "made"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        return MethodResult(tuple(self.made(past, budget)), 0, 0.0)


EVERY_CUT = range(1, len(SOURCE) + 1)


def test_check_counts_over_every_cut() -> None:
    found = check_cuts(SOURCE, Made(lambda past, _: [past[-1]]), EVERY_CUT, session="s")
    assert found.cuts == len(SOURCE)
    assert found.counts["orphan result"] == 3
    assert found.first["orphan result"].startswith("cut 3,")
    assert set(found.counts) <= set(GATES)


def test_check_sees_two_runs_that_differ_and_a_list_that_was_changed() -> None:
    runs = iter(range(100))
    differing = Made(lambda _, __: [make_user_message(f"{next(runs)}")])
    assert check_cuts(SOURCE, differing, EVERY_CUT, session="s").counts == {"two runs differ": 8}

    def spoil_input(past: Sequence[ChatMessage], _: int) -> list[ChatMessage]:
        past[0]["content"] = "spoiled"
        return [make_user_message("x")]

    fresh = [make_user_message("a"), make_user_message("b")]
    assert check_cuts(fresh, Made(spoil_input), [1, 2], session="s").counts["changed input"] == 1


def test_check_counts_what_else_is_looked_at_and_what_could_not_be_run() -> None:
    def report_moved(cut: int, budget: int) -> list[GateFailure]:
        return [GateFailure("thinking moved", cut, f"at {budget}")]

    def refuse(_: Sequence[ChatMessage], __: int) -> list[ChatMessage]:
        raise UnableError("no")

    found = check_cuts(SOURCE, Made(lambda past, _: list(past)), [1, 8], session="s", find_more=report_moved)
    assert found.counts == {"thinking moved": 2}
    assert found.first == {"thinking moved": "cut 1, message 1: at 2000"}
    assert check_cuts(SOURCE, Made(refuse), EVERY_CUT, session="s").unable == len(SOURCE)


def make_talk() -> list[ChatMessage]:
    """Eight rounds of parallel calls and of talk."""
    long: list[ChatMessage] = [make_user_message("Mend the totals of the shop. Never touch orders/.")]
    for number in range(8):
        long += [
            make_call(f"x{number}", f"y{number}"),
            make_result(f"x{number}", "line of output " * 200),
            make_result(f"y{number}", "ok"),
            make_reply(f"Step {number} is done, on to the next one."),
            make_user_message(f"Go on with part {number + 1} of it."),
        ]
    return long


@pytest.mark.costly(2)
@pytest.mark.parametrize("name", [*POLICIES, "keep-last", "truncate-middle", "mask-10"])
def test_our_own_methods_pass_the_gates_at_every_cut(name: str) -> None:
    (method,) = get_methods([name])
    talk = make_talk()
    assert count_total_tokens(talk) > 2 * MIN_BUDGET
    assert check_cuts(talk, method, range(1, len(talk) + 1), session="made").first == {}
