"""System messages within the list: of each series only the newest holds."""

from __future__ import annotations

import pytest

from tenfold.compaction.plan.protected import SYSTEM_PROMPT, find_protected
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.view.fold import View
from tests.engine.making import build_view, make_reply, make_user_message

HOUSE = "You help at the desk.\nBe brief."


def make_prompt(text: str) -> Message:
    return Message("system", (Text(text),), "harness")


def list_in_force(*later: str) -> list[str]:
    talk = [message for text in later for message in (make_user_message("go on"), make_prompt(text), make_reply("ok"))]
    view: View = build_view([make_prompt(HOUSE), *talk])
    protected = find_protected(view)
    shown = [s for unit in view.units for s in unit.visible_messages]
    return [get_text(s.message) for s in shown if protected.get(s.key) == SYSTEM_PROMPT][1:]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("<model_switch>\nYou are A.\n</model_switch>", "<model_switch>\nYou are B, and new.\n</model_switch>"),
        ("# Mode: research\nCollect sources.", "# Mode: draft\nWrite."),
        ("It is 10:41.\nThe build is red.", "It is 11:02.\nThe build is green."),
        ("Plan mode is on.\nWrite nothing.\nAsk first.", "You left plan mode.\nWrite nothing.\nAsk first."),
        ("Use tabs.", "Use tabs."),
    ],
)
def test_the_newest_of_a_series_replaces_the_others(older: str, newer: str) -> None:
    assert list_in_force(older, newer) == [newer]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<mode>plan</mode>", "<budget>200</budget>"),
        ("# Mode: draft\nWrite.", "# Files: two were changed\nLook."),
        ("Reminder: use tabs.", "Reminder: never push."),
        ("Use tabs.", "Sign each commit."),
        ("Be brief.\n---", "Write for children.\n---\nUse pictures."),
    ],
)
def test_messages_of_different_series_all_hold(one: str, other: str) -> None:
    assert list_in_force(one, other) == [one, other]


def test_what_opens_the_list_holds_whatever_comes_later() -> None:
    assert list_in_force(HOUSE) == [HOUSE]


def test_the_work_does_not_grow_with_the_square_of_their_number() -> None:
    """Each of 1,200 was compared with each: that took 18 s, and now a fraction of one."""
    prompts = [make_prompt(f"{'x' * number} is the name\nof rule {number}") for number in range(4_000)]
    found = find_protected(build_view([make_prompt(HOUSE), *prompts, make_user_message("go on")]))
    assert sum(reason == SYSTEM_PROMPT for reason in found.values()) == 4_001
