"""Planted rules: where they are put, that nothing else changes, and that their probes answer only to them."""

from __future__ import annotations

from itertools import pairwise

from tenfold.testing.probes import ChatMessage, IndexedView, judge, plant_rules
from tenfold.testing.probes.planted_rules import RULES


def make_session(steps: int = 20) -> list[ChatMessage]:
    made: list[ChatMessage] = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Mend it."}]
    for number in range(steps):
        function = {"name": "run", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": f"c{number}", "content": "done"})
    return made


def test_three_rules_at_top_middle_and_bottom() -> None:
    past = make_session()
    planted = plant_rules(past, "one")
    at = [index for index, m in enumerate(planted.messages) if m not in past]
    assert [p.place for p in planted.probes] == ["top", "middle", "bottom"]
    assert [p.index for p in planted.probes] == at
    assert [p.text for p in planted.probes] == [planted.messages[i]["content"] for i in at]
    shares = [index / len(planted.messages) for index in at]
    assert shares[0] < 0.2
    assert 0.4 < shares[1] < 0.6
    assert shares[2] > 0.75


def test_the_rest_is_as_it_was_and_no_step_is_split() -> None:
    past = make_session()
    messages = plant_rules(past, "one").messages
    texts = {text for text, _, _ in RULES}
    assert [m for m in messages if m.get("content") not in texts] == past
    for before, message in pairwise(messages):
        assert not (before.get("tool_calls") and message["role"] != "tool")


def test_the_same_session_gets_the_same_rules_and_others_get_others() -> None:
    past = make_session()
    assert plant_rules(past, "one") == plant_rules(past, "one")
    assert len({plant_rules(past, f"session {n}").probes[0].text for n in range(20)}) > 3


def test_each_probe_answers_to_its_rule_alone() -> None:
    for number in range(30):
        planted = plant_rules(make_session(), str(number))
        for probe in planted.probes:
            own = [m for m in planted.messages if m.get("content") == probe.text]
            others = [m for m in planted.messages if m.get("content") != probe.text]
            assert judge(probe, IndexedView(own)) == "present"
            assert judge(probe, IndexedView(others)) == "missing"


def test_a_session_with_one_message() -> None:
    planted = plant_rules([{"role": "user", "content": "Mend it."}], "one")
    assert len(planted.messages) == 4
    assert planted.messages[0]["content"] == "Mend it."
