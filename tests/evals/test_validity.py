"""The gates: each breaks on the one defect it is for, and holds for lists without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import Struct

from tenfold.evals.cases import ChatMessage, tokens_of
from tenfold.evals.methods import Compacted, Unable, methods
from tenfold.evals.validity import GATES, LEAST_SUMMARY, Broken, broken, check, least
from tenfold.policies import POLICIES


def call(*ids: str, text: str | None = None) -> ChatMessage:
    calls = [{"id": i, "type": "function", "function": {"name": "run", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(call_id: str, text: str = "done") -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def user(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def agent(text: str) -> ChatMessage:
    return {"role": "assistant", "content": text}


SOURCE = [
    user("Mend it."),
    call("a"),
    result("a"),
    call("b", "c"),
    result("b"),
    result("c"),
    agent("Done."),
    user("Next."),
]


def gates(view: list[ChatMessage]) -> set[str]:
    return {each.gate for each in broken(SOURCE, view)}


def test_the_source_and_an_honest_view_break_nothing() -> None:
    assert not broken(SOURCE, SOURCE, budget=10_000)
    assert not broken(SOURCE, [user("Summary: it was mended."), *SOURCE[3:]])
    assert not broken(SOURCE, [*SOURCE[:2], result("a", "[output removed]"), *SOURCE[3:]])


@pytest.mark.parametrize(
    ("gate", "view"),
    [
        ("orphan call", [SOURCE[0], call("a"), *SOURCE[6:]]),
        ("orphan call", [SOURCE[0], call("a"), user("between"), result("a")]),
        ("orphan result", [SOURCE[0], result("a"), *SOURCE[6:]]),
        ("orphan result", [SOURCE[0], call("a"), result("a"), result("a")]),
        ("split step", [SOURCE[0], call("b"), result("b"), *SOURCE[6:]]),
        ("duplicate id", [*SOURCE[:3], call("a"), result("a")]),
        ("changed order", [SOURCE[0], *SOURCE[3:6], *SOURCE[1:3], SOURCE[7]]),
        ("changed order", [SOURCE[7], SOURCE[0]]),
        ("rejected role", [SOURCE[0], {"role": "summary", "content": "x"}]),
        ("empty content", [SOURCE[0], agent("")]),
        ("empty content", [SOURCE[0], agent(" \n")]),
        ("changed input", [SOURCE[0], {**agent("Done."), "name": "x"}]),
    ],
)
def test_each_gate_breaks_on_its_defect(gate: str, view: list[ChatMessage]) -> None:
    assert gate in gates(view)


@pytest.mark.parametrize(
    "view", [[SOURCE[0], {"role": "system", "content": "late"}, SOURCE[7]], [agent("Done."), user("Next.")]]
)
def test_what_only_some_providers_reject(view: list[ChatMessage]) -> None:
    assert not broken(SOURCE, view)
    assert [b.gate for b in broken(SOURCE, view, strict=True)] == ["rejected role"]


def test_a_blank_part_is_empty_content() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": " "}]
    assert gates([SOURCE[0], {"role": "user", "content": parts}]) == {"empty content"}


def test_over_budget_by_more_than_two_percent() -> None:
    long = [user("word " * 1_000), agent("Done."), user("Go on.")]
    assert {b.gate for b in broken(long, long, budget=900)} == {"over budget"}
    assert not broken(long, long, budget=tokens_of(long) - 10)


def test_a_budget_below_system_prompt_and_request_is_held_to_these() -> None:
    prompt: ChatMessage = {"role": "system", "content": "rule " * 500}
    long = [prompt, *SOURCE[1:], user("word " * 1_000)]
    shown = "OBSERVATION:\n" + "line " * 400
    assert least(long) == tokens_of([long[0], long[-1]]) + LEAST_SUMMARY
    assert least([*long, agent("Looking."), user(shown)]) == least(long), "what a tool printed is no request"
    kept = [long[0], long[-1]]
    step = [call("open", "more"), result("open", "line " * 400)]
    assert least([*long, *step]) == tokens_of([*kept, *step]) + LEAST_SUMMARY, "not all its calls are answered"
    assert least([*long, *step, result("more")]) == least(long)
    assert not broken(long, kept, budget=100)
    assert {b.gate for b in broken(long, [*kept, agent("More. " * 200)], budget=100)} == {"over budget"}


def test_what_the_session_already_had_is_not_charged() -> None:
    source = [*SOURCE, call("open")]
    assert not broken(source, source[-2:])
    empty = [user("a"), agent("")]
    assert not broken(empty, empty)
    twice = [user("a"), call("a"), result("a"), agent("Again."), call("a"), result("a")]
    assert not broken(twice, twice)
    assert {b.gate for b in broken(twice, [*twice, call("a"), result("a")])} == {"duplicate id", "changed order"}
    assert not broken(twice[:-1], twice[:-1]), "its last call has no result yet"
    assert {b.gate for b in broken(twice[:-1], [twice[0], *twice[:2], *twice[3:-1]])} >= {"orphan call"}, (
        "its first had"
    )


class Made(Struct, frozen=True):
    """A method of one function."""

    made: Callable[[Sequence[ChatMessage], int], list[ChatMessage]]
    name: str = "made"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        return Compacted(tuple(self.made(past, budget)), 0, 0.0)


def test_check_counts_over_every_cut() -> None:
    found = check(SOURCE, Made(lambda past, _: [past[-1]]), session="s")
    assert found.cuts == len(SOURCE)
    assert found.counts["orphan result"] == 3
    assert found.first["orphan result"].startswith("cut 3,")
    assert set(found.counts) <= set(GATES)


def test_check_sees_two_runs_that_differ_and_a_list_that_was_changed() -> None:
    runs = iter(range(100))
    assert check(SOURCE, Made(lambda _, __: [user(f"{next(runs)}")]), session="s").counts == {"two runs differ": 8}

    def spoiled(past: Sequence[ChatMessage], _: int) -> list[ChatMessage]:
        past[0]["content"] = "spoiled"
        return [user("x")]

    fresh = [user("a"), user("b")]
    assert check(fresh, Made(spoiled), session="s").counts["changed input"] == 1


def test_check_counts_what_else_is_looked_at() -> None:
    def also(cut: int, budget: int) -> list[Broken]:
        return [Broken("thinking moved", cut, f"at {budget}")]

    found = check(SOURCE, Made(lambda past, _: list(past)), session="s", cuts=[1, 8], also=also)
    assert found.counts == {"thinking moved": 2}
    assert found.first == {"thinking moved": "cut 1, message 1: at 2000"}


def test_check_counts_what_could_not_be_run() -> None:
    def unable(_: Sequence[ChatMessage], __: int) -> list[ChatMessage]:
        raise Unable("no")

    assert check(SOURCE, Made(unable), session="s").unable == len(SOURCE)


def talk() -> list[ChatMessage]:
    """Eight rounds of parallel calls and of talk."""
    long: list[ChatMessage] = [user("Mend the totals of the shop. Never touch orders/.")]
    for number in range(8):
        long += [
            call(f"x{number}", f"y{number}"),
            result(f"x{number}", "line of output " * 40),
            result(f"y{number}", "ok"),
        ]
        long += [agent(f"Step {number} is done, on to the next one."), user(f"Go on with part {number + 1} of it.")]
    return long


@pytest.mark.parametrize("name", [*POLICIES, "keep-last", "truncate-middle", "mask-10"])
def test_our_own_methods_pass_the_gates_at_every_cut(name: str) -> None:
    (method,) = methods([name])
    found = check(talk(), method, session="made", budget=900)
    assert not {gate: why for gate, why in found.first.items() if gate != "two runs differ"}


@pytest.mark.parametrize("name", POLICIES)
def test_two_runs_of_our_own_methods_are_the_same(name: str) -> None:
    (method,) = methods([name])
    found = check(talk(), method, session="made", cuts=[41], budget=900)
    assert "two runs differ" not in found.counts
