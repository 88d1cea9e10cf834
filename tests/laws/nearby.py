"""The rules of a wire over what is new in a view: its opening and its newest units, instead of all of it.

A rule looks at a step, at the neighbours of a message, or at the opening; so what an entry adds can only break a rule
near the end. `recent` cuts where no step and no native message is cut. What this cannot see by design (call ids that
are used again far apart) is what the full check is for; `agrees` proves the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages

WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")
UNITS = 3
"""Closed units that are looked at again when a view has grown."""

Units = list[tuple[Message, ...]]


def get_unit_messages(view: View) -> Units:
    """What each closed unit shows, and last what the open step shows, if there is one."""
    units: Units = [tuple(s.message for s in unit.visible_messages) for unit in view.units]
    shown = sum(len(unit) for unit in units)
    return [*units, tuple(view.get_messages()[shown:])] if view.open_step is not None else units


def get_recent_messages(units: Sequence[tuple[Message, ...]], many: int = UNITS) -> list[Message]:
    """The opening, and the last `many` units (more where a native message began before them)."""
    opening = next((n for n, unit in enumerate(units) if any(m.role == "user" for m in unit)), len(units)) + 1
    start = max(opening, len(units) - many)
    while start > opening and _is_continuation(units[start]):
        start -= 1
    if start == opening:
        return [m for unit in units for m in unit]
    return [m for unit in (*units[:opening], *units[start:]) for m in unit]


def _is_continuation(unit: Sequence[Message]) -> bool:
    """Whether the unit shows nothing, or begins in the middle of a native message."""
    return not unit or (unit[0].native is not None and unit[0].native.index > 0)


def compare_checks(units: Units, wire: str) -> int:
    """Asserts that the opening and the newest units break the same rules, as often, as the whole; gives how often.

    Where a violation is said to be may differ: an item of the wire is named by the first of the messages joined in it.
    """
    found = sorted(v.rule for v in check_messages([m for unit in units for m in unit], wire))
    assert sorted(v.rule for v in check_messages(get_recent_messages(units), wire)) == found
    return len(found)


def assert_allowed(view: View, full: Sequence[str] = WIRES) -> None:
    """Law 3: what is new in the view breaks no rule in any wire, and the whole of it none in the wires of `full`."""
    units = get_unit_messages(view)
    near = get_recent_messages(units)
    for wire in WIRES:
        messages = [m for unit in units for m in unit] if wire in full else near
        assert check_messages(messages, wire) == [], f"cut at {view.length}, {wire}, {len(messages)} messages"
