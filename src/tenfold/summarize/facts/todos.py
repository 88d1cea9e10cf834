"""The plan or to-do state: to-do tools, checkbox lists written into files or answers, numbered plans."""

from __future__ import annotations

import re
from collections import Counter

from tenfold.record.block import Fact
from tenfold.summarize.facts.said import steps_of_plan
from tenfold.text import clip, flat

TOOL = "todo"
PLAN = "plan"
MOST = 200
"""Items kept of one list: where it is cut, what two ranges kept of it no longer adds up."""

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
    """The list a to-do tool was given, one line an item: `[x]` done, `[~]` being done, `[ ]` open."""
    listed = next((arguments[name] for name in _LISTS if isinstance(arguments.get(name), list | str)), None)
    if isinstance(listed, str):
        return _fact(at, [line for line in listed.split("\n") if line.strip()], TOOL)
    lines: list[str] = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            words = next((str(item[name]) for name in _WORDS if item.get(name)), "")
            lines.append(f"{_state(str(item.get('status', '')))} {flat(words)}")
        elif isinstance(item, str):
            lines.append(f"[ ] {flat(item)}")
    return _fact(at, lines, TOOL)


def _state(status: str) -> str:
    lowered = status.lower()
    return (
        "[x]" if lowered in _DONE else "[~]" if lowered in _DOING else "[-]" if lowered.startswith("cancel") else "[ ]"
    )


def from_file(at: int, path: str, arguments: dict[str, object], *, whole: bool) -> list[Fact]:
    """Checkbox lines a call wrote into a file. `whole`: the call wrote the file, else it changed a part of it.

    What a change only repeats of the text it replaces is left out: it says nothing of an item elsewhere.
    """
    edits = arguments.get("edits")
    given = [arguments, *(edit for edit in (edits if isinstance(edits, list) else []) if isinstance(edit, dict))]
    old, new = (
        [
            line.strip()
            for each in given
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
    """The checkbox list or numbered plan in a text; a numbered list counts only where the text speaks of a plan."""
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
    """The state of a list after a part of it was changed: known items take the new mark, new ones are added.

    Plans say the same under several headings, and tick it from above: the first such item with another mark is meant.
    """
    if newer.note != "part":
        return newer
    lines = older.text.split("\n")
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        places.setdefault(_words(line), []).append(at)
    for line in newer.text.split("\n"):
        same = places.setdefault(_words(line), [])
        other = next((at for at in same if lines[at] != line), None)
        if other is not None:
            lines[other] = line
        elif not same or older.note == "part":  # of a list that is not known, another item with these words
            same.append(len(lines))
            lines.append(line)
    note = "part" if older.note == "part" else ""
    return Fact(kind="todo", text="\n".join(_capped(lines)), key=newer.key, at=newer.at, note=note)


def changes(part: Fact, whole: Fact | None) -> bool:
    """Whether a change is one of a list that was read back: which file that stood in, its section does not say."""
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
    """At most `MOST` items: what is done goes first, oldest first."""
    spare = len(lines) - MOST
    out: list[str] = []
    for line in lines:
        if spare > 0 and "[x]" in line[:8].lower():
            spare -= 1
        else:
            out.append(line)
    return out[-MOST:]
