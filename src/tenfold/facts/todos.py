"""Reads plans and to-do lists: to-do tools, checkbox lists in files or answers, numbered plans."""

from __future__ import annotations

import re
from collections import Counter

from msgspec.structs import replace

from tenfold.facts.instructions import find_plan_steps
from tenfold.record.block import Fact
from tenfold.text.excerpts import excerpt, flatten

TODO_KEY = "todo"
PLAN_KEY = "plan"
MAX_ITEMS = 200
"""Most items kept of one list. Above this, the lists of two ranges may not merge exactly."""

_CHECKBOX = re.compile(r"^\s*[-*]\s+\[([ xX~-])\]\s+(.+)$")
_DONE_STATES = {"completed", "complete", "done", "finished", "closed"}
_ACTIVE_STATES = {"in_progress", "in-progress", "inprogress", "active", "doing", "started"}
_TEXT_KEYS = ("content", "description", "step", "title", "text", "task", "subject", "name")
_LIST_KEYS = ("todos", "plan", "items", "tasks", "todoList", "steps")
_PLAN_WORD = re.compile(r"\b(?:plan|steps?|todo|to-do|next|remaining|phases?|tasks?|milestones?)\b", re.IGNORECASE)
_USER_PLAN = re.compile(r"\bplan\b[^\n]{0,80}\n\s*1[.)]\s", re.IGNORECASE)
_OLD_TEXT_KEYS = ("old_string", "oldText", "old_str", "old_content")
_NEW_TEXT_KEYS = ("content", "contents", "file_text", "new_string", "newText", "new_str", "text", "new_content")


def parse_tool_list(position: int, arguments: dict[str, object]) -> list[Fact]:
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


def _get_mark(status: str) -> str:
    lowered = status.lower()
    if lowered in _DONE_STATES:
        return "[x]"
    if lowered in _ACTIVE_STATES:
        return "[~]"
    return "[-]" if lowered.startswith("cancel") else "[ ]"


def parse_file_list(position: int, path: str, arguments: dict[str, object], *, is_whole_file: bool) -> list[Fact]:
    """Returns the checkbox lines that a call wrote into a file. `is_whole_file` says that it wrote all of the file.

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
    repeated, lines = Counter(old), list[str]()
    for line in new:
        if repeated[line]:
            repeated[line] -= 1
        else:
            lines.append(line)
    facts = _build_facts(position, lines, f"{TODO_KEY}:{path}")
    return facts if is_whole_file else [replace(fact, note="part") for fact in facts]


def parse_text_list(position: int, text: str, *, user: bool) -> list[Fact]:
    """Returns the checkbox list or numbered plan in a text. A numbered list counts only if the text mentions a plan."""
    if "- [" not in text and "* [" not in text and "2." not in text and "2)" not in text:
        return []
    boxes = [line.strip() for line in text.split("\n") if _CHECKBOX.match(line)]
    if len(boxes) >= 2:
        return _build_facts(position, boxes, TODO_KEY)
    if not (_USER_PLAN if user else _PLAN_WORD).search(text):
        return []
    steps = [line.strip() for line in find_plan_steps(text)]
    return [replace(fact, note="user" if user else "") for fact in _build_facts(position, steps, PLAN_KEY)]


def merge_lists(older: Fact, newer: Fact) -> Fact:
    """Merges a changed part into a list: known items take the new mark, new items are added.

    A plan may repeat an item under several headings, ticked from the top: the first one with another mark is changed.
    """
    if newer.note != "part":
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
        elif not same or older.note == "part":  # the list is not known, so this is another item
            same.append(len(lines))
            lines.append(line)
    note = "part" if older.note == "part" else ""
    return Fact(kind="todo", text="\n".join(_limit_items(lines)), key=newer.key, position=newer.position, note=note)


def is_change_of(part: Fact, full_list: Fact | None) -> bool:
    """Tells whether a change belongs to a list parsed from a section, which does not say what file the list was in."""
    if part.note != "part" or full_list is None or not full_list.line:
        return False
    known = {_get_item_text(line) for line in full_list.text.split("\n")}
    return any(_get_item_text(line) in known for line in part.text.split("\n"))


def _get_item_text(line: str) -> str:
    match = _CHECKBOX.match(line)
    return flatten(match.group(2) if match else line).lower()


def _build_facts(position: int, lines: list[str], key: str) -> list[Fact]:
    text = "\n".join(excerpt(line, 300) for line in _limit_items(lines))
    return [Fact(kind="todo", text=text, key=key, position=position)] if lines else []


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
