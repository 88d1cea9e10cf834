"""Each hand-made fault is named with its place, and what providers take is clean."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tenfold
from tenfold.core.view.rules import validate
from tests.view.refused import ACCEPTED, FAULTS, Fault, ask, call, give, use

EACH_FAULT = [pytest.param(w, fault, id=f"{w}: {fault.name}") for w, faults in FAULTS.items() for fault in faults]
EACH_ACCEPTED = [pytest.param(w, m, id=f"{w}: {name}") for w, cases in ACCEPTED.items() for name, m in cases.items()]
WHILE_OPEN = frozenset({"last_message", "not_empty"})
"""The rules that hold for a list that is sent only. So do missing results at its end."""


@pytest.mark.parametrize(("wire", "fault"), EACH_FAULT)
def test_a_fault_is_named_with_its_place(wire: str, fault: Fault) -> None:
    found = validate(fault.messages, wire, sending=True)
    assert (fault.rule, fault.at, fault.path) in [(v.rule, v.index, v.path) for v in found]
    assert all(len(v.problem) > 20 for v in found)


@pytest.mark.parametrize(("wire", "messages"), EACH_ACCEPTED)
def test_what_a_provider_takes_is_clean(wire: str, messages: object) -> None:
    assert validate(messages, wire, sending=True) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", FAULTS)
def test_an_open_end_is_fine_until_it_is_sent(wire: str) -> None:
    for fault in FAULTS[wire]:
        if fault.rule in WHILE_OPEN or (fault.rule == "call_answered" and "end" in fault.name):
            assert validate(fault.messages, wire) == [], fault.name


@pytest.mark.parametrize(("wire", "make"), [("anthropic", use), ("openai-chat", call)])
def test_a_violation_says_where_and_what_to_do(wire: str, make: Callable[..., object]) -> None:
    (found,) = tenfold.validate([ask(), make("t1")], wire, sending=True)
    assert (found.rule, found.index) == ("call_answered", 1)
    assert "'t1' has no result; add its result, or leave the call out" in found.problem


def test_a_path_leads_from_the_message_to_the_place() -> None:
    (found,) = tenfold.validate([ask(), use("t1", input=[]), give("t1")], "anthropic")
    assert (found.index, found.path) == (1, "content[0].input")
    assert found.problem == "an object belongs here, not a list"


def test_several_faults_are_all_named_in_order() -> None:
    found = tenfold.validate([ask(), use("a.b", input=""), ask()], "anthropic")
    assert [(v.rule, v.index) for v in found] == [("call_id", 1), ("part_fields", 1), ("call_answered", 1)]
