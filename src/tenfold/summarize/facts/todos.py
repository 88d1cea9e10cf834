"""Reads plans and to-do lists: to-do tools, checkbox lists in files or answers, numbered plans."""

from __future__ import annotations

import re
from collections import Counter

from tenfold.record.block import Fact
from tenfold.summarize.facts.said import steps_of_plan
from tenfold.text import clip, flat

TOOL = "todo"
PLAN = "plan"
MOST = 200
"""Most items kept of one list. Above this, the lists of two ranges may not merge exactly."""

_BOX = re.compile(r"^\s*[-*]\s+\[([ xX~-])\]\s+(.+)$")
_DONE = {"completed", "complete", "done", "finished", "closed"}
_DOING = {"in_progress", "in-progress", "inprogress", "active", "doing", "started"}
_WORDS = ("content", "description", "step", "title", "text", "task", "subject", "name")
_LISTS = ("todos", "plan", "items", "tasks", "todoList", "steps")
_PLAN_WORD = re.compile(r"\b(?:plan|steps?|todo|to-do|next|remaining|phases?|tasks?|milestones?)\b", re.IGNORECASE)
_USER_PLAN = re.compile(r"\bplan\b[^\n]{0,80}\n\s*1[.)]\s", re.IGNORECASE)
_OLD_TEXTS = ("old_string", "oldText", "old_str", "old_content")
_FILE_TEXTS = ("content", "contents", "file_text", "new_string", "newText", "new_str", "text", "new_content")


def from_tool(at: int, arguments: dict[str, object]) -> list[Fact]:
    """Returns the list given to a to-do tool, one line an item: `[x]` done, `[~]` in progress, `[ ]` open."""
    items = next((arguments[name] for name in _LISTS if isinstance(arguments.get(name), list | str)), None)
    if isinstance(items, str):
        return _fact(at, [line for line in items.split("\n") if line.strip()], TOOL)
    lines: list[str] = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            text = next((str(item[name]) for name in _WORDS if item.get(name)), "")
            lines.append(f"{_state(str(item.get('status', '')))} {flat(text)}")
        elif isinstance(item, str):
            lines.append(f"[ ] {flat(item)}")
    return _fact(at, lines, TOOL)


def _state(status: str) -> str:
    lowered = status.lower()
    return (
        "[x]" if lowered in _DONE else "[~]" if lowered in _DOING else "[-]" if lowered.startswith("cancel") else "[ ]"
    )


def from_file(at: int, path: str, arguments: dict[str, object], *, whole: bool) -> list[Fact]:
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
            if _BOX.match(line)
        ]
        for names in (_OLD_TEXTS, _FILE_TEXTS)
    )
    repeated, lines = Counter(old), list[str]()
    for line in new:
        if repeated[line]:
            repeated[line] -= 1
        else:
            lines.append(line)
    facts = _fact(at, lines, f"{TOOL}:{path}")
    return facts if whole else [Fact(kind=f.kind, text=f.text, key=f.key, at=f.at, note="part") for f in facts]


def from_text(at: int, text: str, *, user: bool) -> list[Fact]:
    """Returns the checkbox list or numbered plan in a text. A numbered list counts only if the text mentions a plan."""
    if "- [" not in text and "* [" not in text and "2." not in text and "2)" not in text:
        return []
    boxes = [line.strip() for line in text.split("\n") if _BOX.match(line)]
    if len(boxes) >= 2:
        return _fact(at, boxes, TOOL)
    if not (_USER_PLAN if user else _PLAN_WORD).search(text):
        return []
    steps = [line.strip() for line in steps_of_plan(text)]
    note = "user" if user else ""
    return [Fact(kind=f.kind, text=f.text, key=f.key, at=f.at, note=note) for f in _fact(at, steps, PLAN)]


def joined(older: Fact, newer: Fact) -> Fact:
    """Merges a changed part into a list: known items take the new mark, new items are added.

    A plan may repeat an item under several headings, ticked from the top: the first one with another mark is changed.
    """
    if newer.note != "part":
        return newer
    lines = older.text.split("\n")
    lines_by_text: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        lines_by_text.setdefault(_words(line), []).append(at)
    for line in newer.text.split("\n"):
        same = lines_by_text.setdefault(_words(line), [])
        changed = next((at for at in same if lines[at] != line), None)
        if changed is not None:
            lines[changed] = line
        elif not same or older.note == "part":  # the list is not known, so this is another item
            same.append(len(lines))
            lines.append(line)
    note = "part" if older.note == "part" else ""
    return Fact(kind="todo", text="\n".join(_capped(lines)), key=newer.key, at=newer.at, note=note)


def changes(part: Fact, whole: Fact | None) -> bool:
    """Tells whether a change belongs to a list parsed from a section, which does not say what file the list was in."""
    if part.note != "part" or whole is None or not whole.line:
        return False
    known = {_words(line) for line in whole.text.split("\n")}
    return any(_words(line) in known for line in part.text.split("\n"))


def _words(line: str) -> str:
    match = _BOX.match(line)
    return flat(match.group(2) if match else line).lower()


def _fact(at: int, lines: list[str], key: str) -> list[Fact]:
    if not lines:
        return []
    return [Fact(kind="todo", text="\n".join(clip(line, 300) for line in _capped(lines)), key=key, at=at)]


def _capped(lines: list[str]) -> list[str]:
    """Limits a list to `MAX_ITEMS`. Done items go first, oldest first."""
    spare = len(lines) - MOST
    out: list[str] = []
    for line in lines:
        if spare > 0 and "[x]" in line[:8].lower():
            spare -= 1
        else:
            out.append(line)
    return out[-MOST:]
