"""Reads the lists that agents give to to-do tools."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tenfold.core.record.fact import TodoList
from tenfold.core.text.excerpts import excerpt, flatten

MAX_ITEMS = 200
"""Most items kept of one list."""

_DONE_STATES = {"completed", "complete", "done", "finished", "closed"}
_ACTIVE_STATES = {"in_progress", "in-progress", "inprogress", "active", "doing", "started"}
_TEXT_KEYS = ("content", "description", "step", "title", "text", "task", "subject", "name")
_LIST_KEYS = ("todos", "plan", "items", "tasks", "todoList", "steps")


def parse_tool_list(position: int, arguments: dict[str, object]) -> list[TodoList]:
    """Returns the list given to a to-do tool, one line an item: `[x]` done, `[~]` in progress, `[ ]` open."""
    items = next((arguments[name] for name in _LIST_KEYS if isinstance(arguments.get(name), list | str)), None)
    if isinstance(items, str):
        return _build_facts(position, [line for line in items.split("\n") if line.strip()])
    lines: list[str] = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            text = next((str(item[name]) for name in _TEXT_KEYS if item.get(name)), "")
            lines.append(f"{_get_mark(str(item.get('status', '')))} {flatten(text)}")
        elif isinstance(item, str):
            lines.append(f"[ ] {flatten(item)}")
    return _build_facts(position, lines)


def count_items(arguments: dict[str, object]) -> str:
    """Returns how many items the list given to a to-do tool has and how many are done, "" if it gives no list."""
    lines = [line for fact in parse_tool_list(0, arguments) for line in fact.text.split("\n")]
    done = sum(line.startswith("[x]") for line in lines)
    return f"{len(lines)} items, {done} done" if lines else ""


def _get_mark(status: str) -> str:
    lowered = status.lower()
    if lowered in _DONE_STATES:
        return "[x]"
    if lowered in _ACTIVE_STATES:
        return "[~]"
    return "[-]" if lowered.startswith("cancel") else "[ ]"


def fold_plans(plans: Iterable[TodoList]) -> list[TodoList]:
    """Returns the last state of each list, of which the newest is live. The lists are in order."""
    latest = {plan.name: plan for plan in plans}
    newest = max((plan.position for plan in latest.values()), default=None)
    return [replace(plan, live=plan.position == newest) for plan in latest.values()]


def _build_facts(position: int, lines: list[str]) -> list[TodoList]:
    text = "\n".join(excerpt(line, 300) for line in _limit_items(lines))
    return [TodoList(text, position)] if lines else []


def _limit_items(lines: list[str]) -> list[str]:
    """Limits a list to `MAX_ITEMS`. Done items go first, oldest first."""
    spare = len(lines) - MAX_ITEMS
    out: list[str] = []
    for line in lines:
        if spare > 0 and "[x]" in line[:8].lower():
            spare -= 1
        else:
            out.append(line)
    return out[-MAX_ITEMS:]
