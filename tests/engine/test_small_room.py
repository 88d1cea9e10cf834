"""A target with little room beside the system prompt: it is kept, and what room there is goes where the policy says."""

from __future__ import annotations

import pytest

from tenfold import compact
from tenfold.config.policies import POLICIES

SYSTEM = {"role": "system", "content": "You answer for the workshop. " * 220}
RULES = [f"Never give discount number {n} to anyone but the owner of shop {n * 37 + 1000}." for n in range(20)]
NOTED = {"role": "assistant", "content": "Noted. " + "The work went on as it had been planned before. " * 20}
SAID = [message for rule in RULES for message in ({"role": "user", "content": rule}, NOTED)]
GIVEN = [SYSTEM, *SAID, {"role": "user", "content": "go on"}]
"""6,311 tokens, of which the system prompt takes 1,325 and the rules some 480."""


@pytest.mark.costly(3)
@pytest.mark.parametrize("target", range(1_560, 2_000, 40))
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_target_above_what_cannot_go_is_not_missed(policy: str, target: int) -> None:
    made = compact(GIVEN, to=target, model="gpt-4o", format="openai-chat", policy=policy)
    assert made.outcome.tokens_after <= target
    assert not made.outcome.target_missed


def test_rules_come_before_the_lines_that_code_picks() -> None:
    made = compact(GIVEN, to=1_920, model="gpt-4o", format="openai-chat", policy="tenfold")
    text = "\n".join(str(message["content"]) for message in made.messages)
    assert [rule for rule in RULES if rule not in text] == []


@pytest.mark.parametrize("target", range(1_750, 2_400, 50))
def test_a_long_request_is_shortened_rather_than_a_target_missed(target: int) -> None:
    request = "Please mend the parser. " + "It has to read every line of the old files, one by one. " * 70
    steps = [{"role": "assistant", "content": f"Step {n} is done. " * 30} for n in range(20)]
    made = compact([SYSTEM, {"role": "user", "content": request}, *steps], to=target, format="openai-chat")
    assert made.outcome.tokens_after <= target
    assert not made.outcome.target_missed
    assert str(made.messages[1]["content"]).startswith("Please mend the parser.")
    assert "characters of the request left out" in str(made.messages[1]["content"])
