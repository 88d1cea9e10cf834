"""Extracts probes of what was done: files read and edited, errors and outcomes of commands, to-dos with status."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from tenfold.evals.probes.kinds import MOST_ANCHOR, ChatMessage, Probe, Term, content_words, terms
from tenfold.evals.probes.reading import Act, acts_of, human, text_of

EDITED: Term = tuple(
    re.findall(
        r"\S+",
        """edit edits edited editing write writes wrote written change changes changed modify modifies modified update
        updates updated create creates created replace replaces replaced add added patch patched insert
        inserted apply_patch str_replace str_replace_editor write_file edit_file rewrote refactored
        implemented fixed old_string new_string oldtext newtext""",
    )
)
"""Words that say that a file was changed. Views use different ones, so any of them will do."""
READ: Term = tuple(
    re.findall(
        r"\S+",
        """read reads reading view viewed views open opened look looked examine examined explored inspected reviewed
        checked analyzed analysed cat sed read_file read_files shown content contents""",
    )
)
"""Words that say that a file was read."""
PASSED: Term = tuple(
    re.split(
        ", ",
        "ok, passed, pass, passing, succeeded, success, successful, successfully, green, committed, no fixes, "
        "no errors, 0 errors, exit 0, exit code 0",
    )
)
"""Words that say that a command succeeded."""
FAILED: Term = ("failed", "fails", "failing", "failure", "failures", "fail", "error", "errors", "exit status")
"""Words that say that a command failed. The exit code itself is added to them."""
_PATHS = (
    "file_path",
    "path",
    "filename",
    "file_name",
    "absolute_path",
    "target_file",
    "notebook_path",
    "relative_path",
)
_SHOWS = re.compile(r"^\s*(?:cat|sed -n|head|tail|less|bat|nl)\s+(?:-\S+\s+|'[^']*'\s+|\d+\S*\s+)*([\w./~-]+\.\w+)")
_PATCH = "*** Begin Patch"
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add) File: (\S+)", re.MULTILINE)
_REFUSED = re.compile(
    r"^\s*(?:\[tool error\]|<tool_use_error>|error\b|\w*(?:error|exception)\b:|no replacement|failed|invalid|could not|"
    r"cannot|file not found|enoent|string to replace not|your proposed edit|permission denied|operation aborted|"
    r"nothing was changed)",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"^\s*(?!Error: \(none\))(?:E\s+)?(?:[\w.]*(?:Error|Exception)\b(?:: |\s*\[).+|(?:error|fatal|npm ERR!)\b:? .+|"
    r"\S+\(\d+,\d+\): error .+|\S+:\d+(?::\d+)?:? (?:- )?error\b.+|"
    r"FAILED \S+::.+|FAIL: .+|.*: (?:command not found|No such file or directory|"
    r"Permission denied).*)$",
    re.MULTILINE,
)
_NOTHING_CAME = re.compile(
    r"user doesn't want|rejected by the user|user (?:rejected|declined|cancel)|no result was recorded", re.IGNORECASE
)
_COMMITTED = re.compile(r"(\bcommit\b[^\n]*? -m )(?:\"\$\(cat <<-?\s*['\"]?\w+['\"]?\n)?([^\n]+)\n.*", re.DOTALL)
_PRINTS = re.compile(
    r"^(?:cat|sed|grep|rg|git (?:diff|show|log|grep)|head|tail|find|ls|awk|gh (?:issue|pr) view|curl|jq|wc)\b"
)
_SUMMARY = re.compile(
    r"^=* ?(?P<pytest>(?:\d+ (?:passed|failed|skipped|errors?|warnings?|xfailed|deselected)(?:, )?)+) in [\d.]+s|"
    r"^Ran (?P<ran>\d+) tests? in .*\s+(?P<ran_end>OK|FAILED)(?: \((?P<ran_why>[^)]*)\))?|"
    r"^\s*Tests:?\s+(?P<jest>\d+ .*)$|"
    r"^(?P<found>(?:Found|Checked) \d+ (?:errors?|files?|warnings?|problems?).*)$|"
    r"^\[(?:[\w/.-]+) (?:\(root-commit\) )?(?P<commit>[0-9a-f]{7,12})\] ",
    re.MULTILINE,
)
_EXIT = re.compile(r"(?:exit(?:ed with)? (?:code|status)|exit|rc)[ :=]+([1-9]\d{0,2})\b", re.IGNORECASE)
_CHECKBOX = re.compile(r"^\s*(?:\d+: ?)?[-*] \[([ xX])\] +(.+)$", re.MULTILINE)
_DONE: Term = ("completed", "complete", "done", "finished", "[x]", "✓", "✔", "✅", "closed", "resolved")
_DOING: Term = ("in_progress", "in progress", "doing", "started", "ongoing", "current", "active", "[~]", "[>]")
_OPEN: Term = ("pending", "[ ]", "open", "todo", "to do", "not_started", "not started", "remaining", "next", "☐")
_STATUS = {
    "completed": _DONE,
    "done": _DONE,
    "complete": _DONE,
    "in_progress": _DOING,
    "pending": _OPEN,
    "todo": _OPEN,
    "not_started": _OPEN,
    "open": _OPEN,
}
_BOXES = 12
"""How many checkboxes of a plan in a file are probed: those changed last. The rest of the file can be read again."""
_LISTS = ("todos", "plan", "tasks", "items", "todo_list", "task_list")
_NAMES = ("content", "step", "title", "text", "task", "description", "subject")


def acted(past: Sequence[ChatMessage]) -> Iterator[Probe]:
    """Yields the probes of everything the agent did that got a result."""
    acts = acts_of(past)
    yield from _files(acts)
    yield from _errors(acts)
    yield from _outcomes(acts)
    yield from _todos(past, acts)


# -- files -------------------------------------------------------------------------------------------------------------


def _files(acts: Sequence[Act]) -> Iterator[Probe]:
    edited: dict[str, int] = {}
    read: dict[str, int] = {}
    opened = ""
    for act in acts:
        if not act.args:
            file_mark = re.search(r"\(Open file: (\S+)\)|^\[File: ([^\s\]]+)", act.result, re.MULTILINE)
            opened = (file_mark.group(1) or file_mark.group(2)) if file_mark else opened
        if not _REFUSED.match(act.result):
            edited |= dict.fromkeys(_edits(act, opened), act.at)
            read |= dict.fromkeys(_reads(act), act.at)
    for path, at in edited.items():
        yield Probe("edited", at, path, ((_short(path),),), (EDITED,))
    for path, at in read.items():
        if path not in edited:
            yield Probe("read", at, path, ((_short(path),),), (READ,))


def _edits(act: Act, opened: str) -> list[str]:
    name = act.name.lower()
    if act.command and not act.args:
        wrote = re.match(r"(?:edit \d|create )", act.command)
        return [opened] if wrote and opened not in ("", "n/a") else []
    if name == "apply_patch" or _PATCH in act.command:
        return _PATCHED.findall(act.command or "\n".join(map(str, act.args.values())))
    if "editor" in name and act.args.get("command") in ("view", "undo_edit"):
        return []
    if re.search(r"edit|write|create|replace|patch|insert", name) and "todo" not in name and not act.command:
        return _paths(act)
    return []


def _reads(act: Act) -> list[str]:
    name = act.name.lower()
    if "editor" in name and act.args.get("command") == "view" and "directories" not in act.result[:200]:
        return [p for p in _paths(act) if "." in p.rsplit("/", 1)[-1]]
    if re.match(r"(?:read|open|view)", name) and not act.command:
        return _paths(act)
    found = _SHOWS.match(act.command)
    return [found.group(1)] if found else []


def _paths(act: Act) -> list[str]:
    files = act.args.get("files")
    own = [str(act.args[key]) for key in _PATHS if isinstance(act.args.get(key), str)]
    nested = [str(f.get("path", "")) for f in files if isinstance(f, dict)] if isinstance(files, list) else []
    return [path for path in own[:1] + nested if path and not path.startswith("http")]


def _short(path: str) -> str:
    """Returns folder and name, which tell a file from its namesakes whatever root a view gives its paths."""
    return "/".join([p for p in path.lower().split("/") if p not in ("", ".")][-2:])


# -- errors and outcomes -----------------------------------------------------------------------------------------------


def _errors(acts: Sequence[Act]) -> Iterator[Probe]:
    """Probes each error once. `place` says whether its command succeeded later ("resolved") or not ("open")."""
    fine = {_tried(act): act.at for act in acts if not _error_of(act) and not _REFUSED.match(act.result)}
    for act in acts:
        line = _error_of(act)
        line = re.sub(r"\[Python Interpreter.*", "", line)
        answer = content_words(re.sub(r"^\S*/|\(\d+,\d+\)", "", line))[:8]
        if len(answer) < 2:
            continue
        anchor = [w for w in content_words(_about(act)) if w not in answer]
        place = "resolved" if fine.get(_tried(act), -1) > act.at else "open"
        yield Probe("error", act.back, line.strip(), terms(answer), terms(anchor[:MOST_ANCHOR]), place=place)


def _tried(act: Act) -> str:
    """Returns a key for what would resolve an error: the same program, on more or fewer files, or the same edit."""
    return " ".join(_bare_command(act.command).split()[:3]) or _about(act)


def _about(act: Act) -> str:
    """Describes what was tried: the command, or the tool and its files."""
    paths = _edits(act, "") or _paths(act)
    return _bare_command(act.command) or " ".join([act.name, *(_short(p) for p in paths)])


def _error_of(act: Act) -> str:
    """Returns the line that says what went wrong, or "" if nothing did or if the output is only quoted text."""
    if act.command and not _PRINTS.match(_bare_command(act.command)):
        found = [m.group() for m in _ERROR_LINE.finditer(act.result)]
        return (found[-1] if "Traceback" in act.result else found[0]).strip() if found else ""
    if not act.command and _REFUSED.match(act.result) and not _NOTHING_CAME.search(act.result[:300]):
        lines = [line.strip() for line in act.result.split("\n") if line.strip()]
        tag = lines[0].lower() in ("[tool error]", "<tool_use_error>") and len(lines) > 1
        return re.sub(r"^\[tool error\]|</?tool_use_error>", "", lines[1] if tag else lines[0])
    return ""


def _outcomes(acts: Sequence[Act]) -> Iterator[Probe]:
    """Probes how each command ended when it last ran. If it had ended otherwise before, that older outcome is stale.

    There is no probe if the last output does not tell how the command ended. Nor is there one if all words of the
    command occur in another command that ended otherwise.
    """
    runs: dict[str, list[tuple[Act, bool, Term, str]]] = {}
    for act in acts:
        command = _bare_command(act.command)
        ended = _outcome_of(act) if command and not _PRINTS.match(command) else None
        if ended is not None:
            runs.setdefault(command, []).append((act, *ended))
        else:
            runs.pop(command, None)
    ends = [(frozenset(content_words(command)), found[-1][1]) for command, found in runs.items()]
    for (command, found), (words, well) in zip(runs.items(), ends, strict=True):
        if any(words < others and well != other for others, other in ends):
            continue
        act, _, term, text = found[-1]
        anchor = [w for w in content_words(command) if w not in PASSED + FAILED]
        if anchor:
            old = ((PASSED,), (FAILED,)) if any(other != well for _, other, _, _ in found) else ()
            text_shown = f"{command} -> {text}"
            answer, rivals = (term, *terms(anchor[-3:])), FAILED if well else PASSED
            yield Probe("outcome", act.back, text_shown, answer, terms(anchor[:-3][:MOST_ANCHOR]), old[:1], rivals)


def _outcome_of(act: Act) -> tuple[bool, Term, str] | None:
    """Returns whether the command succeeded, the words that say so, and the output's text; None if it does not tell."""
    last = next(iter(deque(_SUMMARY.finditer(act.result), maxlen=1)), None)
    if last is None:
        code = _EXIT.search(act.result[-400:])
        forms = ("exit", "exit code", "exit status", "exited with code")
        own = tuple(f"{form} {code.group(1)}" for form in forms) if code else ()
        return (False, (*FAILED, *own, *(f"exit={c[-1]}" for c in own[:1])), own[0]) if code else None
    text = " ".join(last.group().split())
    if last["commit"]:
        return True, (last["commit"], *PASSED), text
    failed = re.search(r"\bFAILED|[1-9]\d* (?:failed|errors?\b|problems?)", text) or act.result.startswith(
        "[tool error]"
    )
    return (False, (*FAILED, "exit 1", "exit code 1"), text) if failed else (True, PASSED, text)


def _bare_command(command: str) -> str:
    """Strips the command of its folder and of what only shortens its output. Of a commit message the first line stays.

    Returns "" if the command is an edit by a patch.
    """
    if _PATCH in command:
        return ""
    text = " ".join(_COMMITTED.sub(r"\1\2", command).split())
    text = re.sub(r"^(?:cd \S+ ?(?:&&|;) ?)+", "", text)
    return re.sub(r"(?: ?2>&1| ?\| ?(?:tail|head|grep|cat)\b[^|]*)+$", "", text)[:300].strip()


# -- to-dos ------------------------------------------------------------------------------------------------------------


def _todos(past: Sequence[ChatMessage], acts: Sequence[Act]) -> Iterator[Probe]:
    """Probes the items of the newest to-do list, and the newest checkboxes, each with its latest status.

    An ambiguous text is left out: one that a message draws twice with the same mark, and one whose words all occur in
    an item of another status.
    """
    listed: list[tuple[str, Term, int]] = []
    for act in acts:
        listed = _listed(act) or listed
    boxes: dict[str, tuple[str, Term, int]] = {}
    several: set[str] = set()
    for at, message in enumerate(past):
        text_with_boxes = text_of(message) if message.get("role") == "assistant" else human(message)
        found = [(mark.lower(), text.split("\\n")[0].strip()) for mark, text in _CHECKBOX.findall(text_with_boxes)]
        several.update(text for (_, text), count in Counter(found).items() if count > 1)
        for mark, plain in found:
            boxes.pop(plain, None)
            boxes[plain] = (plain, _OPEN if mark == " " else _DONE, at)
    items = [*listed, *[box for box in boxes.values() if box[0] not in several][-_BOXES:]]
    words = {text: content_words(text) for text in (*boxes, *(text for text, _, _ in listed))}
    common = Counter(w for text, _, _ in items for w in words[text])
    status_by_words = [(set(words[text]), status) for text, status, _ in (*listed, *boxes.values())]
    for text, status, at in items:
        own = words[text]
        if len(own) >= 2 and not any(
            set(own) <= item_words and other is not status for item_words, other in status_by_words
        ):
            rare = sorted(own, key=lambda w: (common[w], own.index(w)))
            rivals = tuple(form for other in (_DONE, _DOING, _OPEN) if other is not status for form in other)
            yield Probe("todo", at, f"{text} [{status[0]}]", (status, *terms(rare[:3])), terms(rare[3:8]), (), rivals)


def _listed(act: Act) -> list[tuple[str, Term, int]]:
    for key in _LISTS:
        value = act.args.get(key)
        found = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        items = [(_name(item), _STATUS.get(str(item.get("status")).lower()), act.at) for item in found]
        kept = [(name, status, at) for name, status, at in items if name and status is not None]
        if kept:
            return kept
    return []


def _name(item: dict[str, object]) -> str:
    return next((str(item[key]) for key in _NAMES if item.get(key)), "")
