"""Reads plans and to-do lists: to-do tools, checkbox lists in files or answers, numbered plans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from tenfold.compaction.facts.instructions import find_plan_steps
from tenfold.core.record.fact import ChangedFile, TodoList
from tenfold.core.text.excerpts import excerpt, flatten
from tenfold.core.text.language import CueName, has_in_any_language
from tenfold.core.text.sentences import FENCE, split_sentences

TODO_KEY = "todo"
PLAN_KEY = "plan"
MAX_ITEMS = 200
"""Most items kept of one list. Above this, the lists of two ranges may not merge exactly."""

_CHECKBOX = re.compile(r"^\s*[-*]\s+\[([ xX~-])\]\s+(.+)$")
_DONE_STATES = {"completed", "complete", "done", "finished", "closed"}
_ACTIVE_STATES = {"in_progress", "in-progress", "inprogress", "active", "doing", "started"}
_TEXT_KEYS = ("content", "description", "step", "title", "text", "task", "subject", "name")
_LIST_KEYS = ("todos", "plan", "items", "tasks", "todoList", "steps")
_PLAN_FILE = re.compile(
    r"(?:plan|todo|to-do|task|progress|checklist|roadmap|milestone|backlog|notes|refactor|migration|status)"
    r"[^/]*\.(?:md|mdx|markdown|txt|org|rst)$|(?:^|/)(?:PLAN|TODO|TASKS|PROGRESS)$",
    re.IGNORECASE,
)
"""The name of a file in which an agent keeps its plan."""
_OLD_TEXT_KEYS = ("old_string", "oldText", "old_str", "old_content")
_NEW_TEXT_KEYS = ("content", "contents", "file_text", "new_string", "newText", "new_str", "text", "new_content")


def parse_tool_list(position: int, arguments: dict[str, object]) -> list[TodoList]:
    """Returns the list given to a to-do tool, one line an item: `[x]` done, `[~]` in progress, `[ ]` open."""
    items = next((arguments[name] for name in _LIST_KEYS if isinstance(arguments.get(name), list | str)), None)
    if isinstance(items, str):
        return _build_facts(position, [line for line in items.split("\n") if line.strip()], TODO_KEY)
    lines: list[str] = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            text = next((str(item[name]) for name in _TEXT_KEYS if item.get(name)), "")
            lines.append(f"{_get_mark(str(item.get('status', '')))} {flatten(text)}")
        elif isinstance(item, str):
            lines.append(f"[ ] {flatten(item)}")
    return _build_facts(position, lines, TODO_KEY)


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


def parse_file_list(position: int, path: str, arguments: dict[str, object], *, is_whole_file: bool) -> list[TodoList]:
    """Returns the checkbox lines that a call wrote into a file. `is_whole_file` says that it wrote all of the file.

    Only a file that is a plan counts: its name says so, or the change ticks items. Anything else is a sample.
    Lines that a change only repeats from the replaced text are left out: they say nothing about an item elsewhere.
    """
    edits = arguments.get("edits")
    sources = [arguments, *(edit for edit in (edits if isinstance(edits, list) else []) if isinstance(edit, dict))]
    old, new = (
        [
            line.strip()
            for each in sources
            for name in names
            if isinstance(text := each.get(name), str) and "[" in text
            for line in text.split("\n")
            if _CHECKBOX.match(line)
        ]
        for names in (_OLD_TEXT_KEYS, _NEW_TEXT_KEYS)
    )
    old_items = {_get_item_text(line) for line in old}
    is_ticking = any(_get_item_text(line) in old_items and line not in old for line in new)
    if not is_ticking and not _PLAN_FILE.search(path):
        return []
    repeated, lines = Counter(old), list[str]()
    for line in new:
        if repeated[line]:
            repeated[line] -= 1
        else:
            lines.append(line)
    facts = _build_facts(position, lines, f"{TODO_KEY}:{path}")
    return facts if is_whole_file else [replace(fact, is_part=True) for fact in facts]


def parse_text_list(position: int, text: str, *, user: bool) -> list[TodoList]:
    """Returns the checkbox list or numbered plan in a text that the user or the model wrote, without fenced lines.

    The line above the list has to call it a plan, except where the model wrote boxes.
    """
    if "- [" not in text and "* [" not in text and "2." not in text and "2)" not in text:
        return []
    lines = [line.rstrip() for line in FENCE.sub("", text).split("\n")]
    names: tuple[CueName, ...] = ("planning",) if user else ("planning", "stepping")
    boxes = [number for number, line in enumerate(lines) if _CHECKBOX.match(line)]
    if len(boxes) >= 2 and (not user or _is_plan_above(lines, boxes[0], names)):
        return _build_facts(position, [lines[number].strip() for number in boxes], TODO_KEY, user=user)
    steps = find_plan_steps("\n".join(lines))
    if not steps or not _is_plan_above(lines, lines.index(steps[0]), names):
        return []
    return _build_facts(position, [line.strip() for line in steps], PLAN_KEY, user=user)


def _is_plan_above(lines: list[str], number: int, names: Iterable[CueName]) -> bool:
    """Tells whether the last sentence of the nearest line above that is not empty names a plan.

    Else a list is an explanation, a choice or a report.
    """
    line = next((line for line in reversed(lines[:number]) if line.strip()), "")
    *_, sentence = ("", *split_sentences(line))
    return any(has_in_any_language(name, sentence) for name in names)


def fold_plans(plans: Iterable[TodoList], changes: Iterable[ChangedFile]) -> list[TodoList]:
    """Returns the last state of each list. Live are the newest of the to-do lists, and a plan that is newer than all.

    The plans are in order. A list in a deleted file is settled.
    """
    table: dict[str, TodoList] = {}
    for plan in plans:
        before = table.pop(plan.name, None) or _pop_parsed_list(table, plan)
        table[plan.name] = merge_lists(before, plan) if before is not None else plan
    deleted = {f"{TODO_KEY}:{file.text}" for file in changes if file.change == "deleted"}
    lists = [plan for plan in table.values() if plan.name not in deleted]
    newest = max((plan.position for plan in lists), default=None)
    newest_todo = max((plan.position for plan in lists if plan.name.startswith(TODO_KEY)), default=None)

    def is_live(plan: TodoList) -> bool:
        last = newest_todo if plan.name.startswith(TODO_KEY) else newest
        return plan.name not in deleted and plan.position == last

    return [replace(plan, live=is_live(plan)) for plan in table.values()]


def merge_lists(older: TodoList, newer: TodoList) -> TodoList:
    """Merges a changed part into a list: known items take the new mark, new items are added.

    A plan may repeat an item under several headings, ticked from the top: the first one with another mark is changed.
    """
    if not newer.is_part:
        return newer
    lines = older.text.split("\n")
    lines_by_text: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        lines_by_text.setdefault(_get_item_text(line), []).append(at)
    for line in newer.text.split("\n"):
        same = lines_by_text.setdefault(_get_item_text(line), [])
        changed = next((at for at in same if lines[at] != line), None)
        if changed is not None:
            lines[changed] = line
        elif not same or older.is_part:  # the list is not known, so this is another item
            same.append(len(lines))
            lines.append(line)
    return TodoList("\n".join(_limit_items(lines)), newer.position, name=newer.name, is_part=older.is_part)


def _pop_parsed_list(table: dict[str, TodoList], part: TodoList) -> TodoList | None:
    """Removes and returns the list parsed from a section, which does not say its file, if it is the part's list."""
    listed = table.get(TODO_KEY)
    if not part.is_part or listed is None or not listed.line:
        return None
    known = {_get_item_text(line) for line in listed.text.split("\n")}
    is_same = any(_get_item_text(line) in known for line in part.text.split("\n"))
    return table.pop(TODO_KEY) if is_same else None


def _get_item_text(line: str) -> str:
    match = _CHECKBOX.match(line)
    return flatten(match.group(2) if match else line).lower()


def _build_facts(position: int, lines: list[str], name: str, *, user: bool = False) -> list[TodoList]:
    text = "\n".join(excerpt(line, 300) for line in _limit_items(lines))
    return [TodoList(text, position, name=name, is_users=user)] if lines else []


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
