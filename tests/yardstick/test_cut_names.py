"""No policy cuts a name so that half of it passes for another one: where a line is cut, dots say so."""

from __future__ import annotations

import pytest

from tenfold.config.policies import POLICIES
from tenfold.testing.false_facts import find_false_facts
from tenfold.testing.methods import Preset
from tenfold.testing.probes.kinds import ChatMessage
from tests.yardstick.chats import make_reply, make_step, make_user_message

WORDS = "please look once more at the items that came and say which it was: "


def make_past() -> list[ChatMessage]:
    """Sentences, first lines and arguments of every length up to where each is cut."""
    out = [make_user_message("Find out what became of the orders, one after the other.")]
    for n in range(40):
        item, padding = f"item_{8551474201 + n * 7919}", "x " * n
        out += [
            make_reply(
                f"Order W{1000 + n} is next, {padding}{WORDS}{item} or item_{9551474201 + n}, and {WORDS}{item}."
            )
        ]
        output = f"{padding}{WORDS[:40]} {item} {item} item_{7551474201 + n}\n" + "more of it\n" * 60
        out += make_step("look_up", {"notes": padding + WORDS, "item": item}, output, id_=f"call_{n}")
    return out


@pytest.mark.parametrize("policy", POLICIES)
def test_half_a_name_never_passes_for_a_whole_one(policy: str) -> None:
    source = make_past()
    for budget in (1_000, 4_000, 6_000, 8_000):
        made = Preset(policy).compact(source, budget=budget)
        assert [fact.text for fact in find_false_facts(source, made.messages)] == []
