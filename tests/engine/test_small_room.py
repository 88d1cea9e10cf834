"""A target with little room beside the system prompt: it is kept, and what room there is goes where the policy says."""

from __future__ import annotations

import pytest

from tenfold import compact
from tenfold.config.presets import POLICIES

SYSTEM = {"role": "system", "content": "You answer for the workshop. " * 220}
RULES = [f"Never give discount number {n} to anyone but the owner of shop {n * 37 + 1000}." for n in range(20)]
NOTED = {"role": "assistant", "content": "Noted. " + "The work went on as it had been planned before. " * 20}
SAID = [message for rule in RULES for message in ({"role": "user", "content": rule}, NOTED)]
GIVEN = [SYSTEM, *SAID, {"role": "user", "content": "go on"}]
"""6,311 tokens, of which the system prompt takes 1,325 and the rules some 480."""


@pytest.mark.parametrize("target", range(1_560, 2_000, 40))
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_target_above_what_cannot_go_is_not_missed(policy: str, target: int) -> None:
    made = compact(GIVEN, to=target, model="gpt-4o", format="openai-chat", policy=policy)
    assert made.outcome.tokens_after <= target
    assert not made.outcome.target_missed


def test_rules_come_before_the_lines_that_code_picks() -> None:
    made = compact(GIVEN, to=1_880, model="gpt-4o", format="openai-chat", policy="tenfold")
    text = "\n".join(str(message["content"]) for message in made.messages)
    assert [rule for rule in RULES if rule not in text] == []
