"""The last rung of the ladder: a text of counts and positions, which fits any budget and never fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenfold.core.record.message import Message, get_tool_calls
from tenfold.core.text.excerpts import Count, Keep, excerpt, flatten


def write_mechanical(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """States counts, tool names, first and last position. Leaves parts out to fit any budget of at least 1 token."""
    if not items:
        return _choose_fitting(["No messages.", "-"], budget, count)
    roles = Counter(message.role for _, message in items)
    tools = Counter(call.name for _, message in items for call in get_tool_calls(message))
    first, last = items[0][0], items[-1][0]
    head = f"Entries {first} to {last}: {len(items)} messages"
    detail = ", ".join(f"{number} {role}" for role, number in sorted(roles.items()))
    called = ", ".join(f"{name} {number}x" for name, number in tools.most_common(12))
    forms = [f"{head} ({detail}). Tools: {excerpt(flatten(called), 400, Keep.START)}."] if called else []
    return _choose_fitting([*forms, f"{head} ({detail}).", f"{head}.", f"{first}-{last}", "-"], budget, count)


def _choose_fitting(forms: Sequence[str], budget: int, count: Count) -> str:
    sizes = count(forms)
    return next((form for form, size in zip(forms, sizes, strict=True) if size <= budget), "")
