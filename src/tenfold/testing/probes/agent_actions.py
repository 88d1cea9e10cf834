"""Extracts probes of what was done: files read and edited, errors and outcomes of commands, to-dos with status."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from tenfold.testing.probes.chat_text import RecordedAction, find_actions, get_human_text, get_text
from tenfold.testing.probes.kinds import MAX_ANCHOR_WORDS, ChatMessage, Probe, Term, build_terms, find_content_words

EDIT_WORDS: Term = tuple(
    re.findall(
        r"\S+",
        """edit edits edited editing write writes wrote written change changes changed modify modifies modified update
        updates updated create creates created replace replaces replaced add added patch patched insert
        inserted apply_patch str_replace str_replace_editor write_file edit_file rewrote refactored
        implemented fixed old_string new_string oldtext newtext""",
    )
)
"""Words that say that a file was changed. Views use different ones, so any of them will do."""
READ_WORDS: Term = tuple(
    re.findall(
        r"\S+",
        """read reads reading view viewed views open opened look looked examine examined explored inspected reviewed
        checked analyzed analysed cat sed read_file read_files shown content contents""",
    )
)
"""Words that say that a file was read."""
SUCCESS_WORDS: Term = tuple(
    re.split(
        ", ",
        "ok, passed, pass, passing, succeeded, success, successful, successfully, green, committed, no fixes, "
        "no errors, 0 errors, exit 0, exit code 0",
    )
)
"""Words that say that a command succeeded."""
FAILURE_WORDS: Term = ("failed", "fails", "failing", "failure", "failures", "fail", "error", "errors", "exit status")
"""Words that say that a command failed. The exit code itself is added to them."""
_PATH_ARGUMENTS = (
    "file_path",
    "path",
    "filename",
    "file_name",
    "absolute_path",
    "target_file",
    "notebook_path",
    "relative_path",
)
_FILE_COMMAND = re.compile(
    r"^\s*(?:cat|sed -n|head|tail|less|bat|nl)\s+(?:-\S+\s+|'[^']*'\s+|\d+\S*\s+)*([\w./~-]+\.\w+)"
)
_PATCH_MARK = "*** Begin Patch"
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add) File: (\S+)", re.MULTILINE)
_REFUSAL = re.compile(
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
_USER_REFUSAL = re.compile(
    r"user doesn't want|rejected by the user|user (?:rejected|declined|cancel)|no result was recorded", re.IGNORECASE
)
_COMMIT_MESSAGE = re.compile(r"(\bcommit\b[^\n]*? -m )(?:\"\$\(cat <<-?\s*['\"]?\w+['\"]?\n)?([^\n]+)\n.*", re.DOTALL)
_PRINT_COMMAND = re.compile(
    r"^(?:cat|sed|grep|rg|git (?:diff|show|log|grep)|head|tail|find|ls|awk|gh (?:issue|pr) view|curl|jq|wc)\b"
)
_RUN_SUMMARY = re.compile(
    r"^=* ?(?P<pytest>(?:\d+ (?:passed|failed|skipped|errors?|warnings?|xfailed|deselected)(?:, )?)+) in [\d.]+s|"
    r"^Ran (?P<ran>\d+) tests? in .*\s+(?P<ran_end>OK|FAILED)(?: \((?P<ran_why>[^)]*)\))?|"
    r"^\s*Tests:?\s+(?P<jest>\d+ .*)$|"
    r"^(?P<found>(?:Found|Checked) \d+ (?:errors?|files?|warnings?|problems?).*)$|"
    r"^\[(?:[\w/.-]+) (?:\(root-commit\) )?(?P<commit>[0-9a-f]{7,12})\] ",
    re.MULTILINE,
)
_EXIT_CODE = re.compile(r"(?:exit(?:ed with)? (?:code|status)|exit|rc)[ :=]+([1-9]\d{0,2})\b", re.IGNORECASE)
_CHECKBOX = re.compile(r"^\s*(?:\d+: ?)?[-*] \[([ xX])\] +(.+)$", re.MULTILINE)
_DONE_WORDS: Term = ("completed", "complete", "done", "finished", "[x]", "✓", "✔", "✅", "closed", "resolved")
_ACTIVE_WORDS: Term = ("in_progress", "in progress", "doing", "started", "ongoing", "current", "active", "[~]", "[>]")
_OPEN_WORDS: Term = ("pending", "[ ]", "open", "todo", "to do", "not_started", "not started", "remaining", "next", "☐")
_STATUS_WORDS = {
    "completed": _DONE_WORDS,
    "done": _DONE_WORDS,
    "complete": _DONE_WORDS,
    "in_progress": _ACTIVE_WORDS,
    "pending": _OPEN_WORDS,
    "todo": _OPEN_WORDS,
    "not_started": _OPEN_WORDS,
    "open": _OPEN_WORDS,
}
_MAX_BOXES = 12
"""How many checkboxes of a plan in a file are probed: those changed last. The rest of the file can be read again."""
_LIST_ARGUMENTS = ("todos", "plan", "tasks", "items", "todo_list", "task_list")
_ITEM_NAMES = ("content", "step", "title", "text", "task", "description", "subject")


def extract_actions(past: Sequence[ChatMessage]) -> Iterator[Probe]:
    """Yields the probes of everything the agent did that got a result."""
    acts = find_actions(past)
    yield from _probe_files(acts)
    yield from _probe_errors(acts)
    yield from _probe_outcomes(acts)
    yield from _probe_todos(past, acts)


# -- files -------------------------------------------------------------------------------------------------------------


def _probe_files(actions: Sequence[RecordedAction]) -> Iterator[Probe]:
    edited: dict[str, int] = {}
    read: dict[str, int] = {}
    opened = ""
    for act in actions:
        if not act.arguments:
            file_mark = re.search(r"\(Open file: (\S+)\)|^\[File: ([^\s\]]+)", act.result, re.MULTILINE)
            opened = (file_mark.group(1) or file_mark.group(2)) if file_mark else opened
        if not _REFUSAL.match(act.result):
            edited |= dict.fromkeys(_find_edits(act, opened), act.index)
            read |= dict.fromkeys(_find_reads(act), act.index)
    for path, at in edited.items():
        yield Probe("edited", at, path, ((_shorten_path(path),),), (EDIT_WORDS,))
    for path, at in read.items():
        if path not in edited:
            yield Probe("read", at, path, ((_shorten_path(path),),), (READ_WORDS,))


def _find_edits(action: RecordedAction, open_file: str) -> list[str]:
    name = action.name.lower()
    if action.command and not action.arguments:
        wrote = re.match(r"(?:edit \d|create )", action.command)
        return [open_file] if wrote and open_file not in ("", "n/a") else []
    if name == "apply_patch" or _PATCH_MARK in action.command:
        return _PATCHED_FILE.findall(action.command or "\n".join(map(str, action.arguments.values())))
    if "editor" in name and action.arguments.get("command") in ("view", "undo_edit"):
        return []
    if re.search(r"edit|write|create|replace|patch|insert", name) and "todo" not in name and not action.command:
        return _find_paths(action)
    return []


def _find_reads(action: RecordedAction) -> list[str]:
    name = action.name.lower()
    if "editor" in name and action.arguments.get("command") == "view" and "directories" not in action.result[:200]:
        return [p for p in _find_paths(action) if "." in p.rsplit("/", 1)[-1]]
    if re.match(r"(?:read|open|view)", name) and not action.command:
        return _find_paths(action)
    found = _FILE_COMMAND.match(action.command)
    return [found.group(1)] if found else []


def _find_paths(action: RecordedAction) -> list[str]:
    files = action.arguments.get("files")
    own = [str(action.arguments[key]) for key in _PATH_ARGUMENTS if isinstance(action.arguments.get(key), str)]
    nested = [str(f.get("path", "")) for f in files if isinstance(f, dict)] if isinstance(files, list) else []
    return [path for path in own[:1] + nested if path and not path.startswith("http")]


def _shorten_path(path: str) -> str:
    """Returns folder and name, which tell a file from its namesakes whatever root a view gives its paths."""
    return "/".join([p for p in path.lower().split("/") if p not in ("", ".")][-2:])


# -- errors and outcomes -----------------------------------------------------------------------------------------------


def _probe_errors(actions: Sequence[RecordedAction]) -> Iterator[Probe]:
    """Probes each error once. `place` says whether its command succeeded later ("resolved") or not ("open")."""
    fine = {
        _build_attempt_key(act): act.index for act in actions if not _find_error(act) and not _REFUSAL.match(act.result)
    }
    for act in actions:
        line = _find_error(act)
        line = re.sub(r"\[Python Interpreter.*", "", line)
        answer = find_content_words(re.sub(r"^\S*/|\(\d+,\d+\)", "", line))[:8]
        if len(answer) < 2:
            continue
        anchor = [w for w in find_content_words(_describe_attempt(act)) if w not in answer]
        place = "resolved" if fine.get(_build_attempt_key(act), -1) > act.index else "open"
        yield Probe(
            "error",
            act.result_index,
            line.strip(),
            build_terms(answer),
            build_terms(anchor[:MAX_ANCHOR_WORDS]),
            place=place,
        )


def _build_attempt_key(action: RecordedAction) -> str:
    """Returns a key for what would resolve an error: the same program, on more or fewer files, or the same edit."""
    return " ".join(_strip_command(action.command).split()[:3]) or _describe_attempt(action)


def _describe_attempt(action: RecordedAction) -> str:
    """Describes what was tried: the command, or the tool and its files."""
    paths = _find_edits(action, "") or _find_paths(action)
    return _strip_command(action.command) or " ".join([action.name, *(_shorten_path(p) for p in paths)])


def _find_error(action: RecordedAction) -> str:
    """Returns the line that says what went wrong, or "" if nothing did or if the output is only quoted text."""
    if action.command and not _PRINT_COMMAND.match(_strip_command(action.command)):
        found = [m.group() for m in _ERROR_LINE.finditer(action.result)]
        return (found[-1] if "Traceback" in action.result else found[0]).strip() if found else ""
    if not action.command and _REFUSAL.match(action.result) and not _USER_REFUSAL.search(action.result[:300]):
        lines = [line.strip() for line in action.result.split("\n") if line.strip()]
        tag = lines[0].lower() in ("[tool error]", "<tool_use_error>") and len(lines) > 1
        return re.sub(r"^\[tool error\]|</?tool_use_error>", "", lines[1] if tag else lines[0])
    return ""


def _probe_outcomes(actions: Sequence[RecordedAction]) -> Iterator[Probe]:
    """Probes how each command ended when it last ran. If it had ended otherwise before, that older outcome is stale.

    There is no probe if the last output does not tell how the command ended. Nor is there one if all words of the
    command occur in another command that ended otherwise.
    """
    runs: dict[str, list[tuple[RecordedAction, bool, Term, str]]] = {}
    for act in actions:
        command = _strip_command(act.command)
        ended = _read_outcome(act) if command and not _PRINT_COMMAND.match(command) else None
        if ended is not None:
            runs.setdefault(command, []).append((act, *ended))
        else:
            runs.pop(command, None)
    ends = [(frozenset(find_content_words(command)), found[-1][1]) for command, found in runs.items()]
    for (command, found), (words, well) in zip(runs.items(), ends, strict=True):
        if any(words < others and well != other for others, other in ends):
            continue
        act, _, term, text = found[-1]
        anchor = [w for w in find_content_words(command) if w not in SUCCESS_WORDS + FAILURE_WORDS]
        if anchor:
            old = ((SUCCESS_WORDS,), (FAILURE_WORDS,)) if any(other != well for _, other, _, _ in found) else ()
            text_shown = f"{command} -> {text}"
            answer, rivals = (term, *build_terms(anchor[-3:])), FAILURE_WORDS if well else SUCCESS_WORDS
            yield Probe(
                "outcome",
                act.result_index,
                text_shown,
                answer,
                build_terms(anchor[:-3][:MAX_ANCHOR_WORDS]),
                old[:1],
                rivals,
            )


def _read_outcome(action: RecordedAction) -> tuple[bool, Term, str] | None:
    """Returns whether the command succeeded, the words that say so, and the output's text; None if it does not tell."""
    last = next(iter(deque(_RUN_SUMMARY.finditer(action.result), maxlen=1)), None)
    if last is None:
        code = _EXIT_CODE.search(action.result[-400:])
        forms = ("exit", "exit code", "exit status", "exited with code")
        own = tuple(f"{form} {code.group(1)}" for form in forms) if code else ()
        return (False, (*FAILURE_WORDS, *own, *(f"exit={c[-1]}" for c in own[:1])), own[0]) if code else None
    text = " ".join(last.group().split())
    if last["commit"]:
        return True, (last["commit"], *SUCCESS_WORDS), text
    failed = re.search(r"\bFAILED|[1-9]\d* (?:failed|errors?\b|problems?)", text) or action.result.startswith(
        "[tool error]"
    )
    return (False, (*FAILURE_WORDS, "exit 1", "exit code 1"), text) if failed else (True, SUCCESS_WORDS, text)


def _strip_command(command: str) -> str:
    """Strips the command of its folder and of what only shortens its output. Of a commit message the first line stays.

    Returns "" if the command is an edit by a patch.
    """
    if _PATCH_MARK in command:
        return ""
    text = " ".join(_COMMIT_MESSAGE.sub(r"\1\2", command).split())
    text = re.sub(r"^(?:cd \S+ ?(?:&&|;) ?)+", "", text)
    return re.sub(r"(?: ?2>&1| ?\| ?(?:tail|head|grep|cat)\b[^|]*)+$", "", text)[:300].strip()


# -- to-dos ------------------------------------------------------------------------------------------------------------


def _probe_todos(past: Sequence[ChatMessage], actions: Sequence[RecordedAction]) -> Iterator[Probe]:
    """Probes the items of the newest to-do list, and the newest checkboxes, each with its latest status.

    An ambiguous text is left out: one that a message draws twice with the same mark, and one whose words all occur in
    an item of another status.
    """
    listed: list[tuple[str, Term, int]] = []
    for act in actions:
        listed = _read_todo_list(act) or listed
    boxes: dict[str, tuple[str, Term, int]] = {}
    several: set[str] = set()
    for at, message in enumerate(past):
        text_with_boxes = get_text(message) if message.get("role") == "assistant" else get_human_text(message)
        found = [(mark.lower(), text.split("\\n")[0].strip()) for mark, text in _CHECKBOX.findall(text_with_boxes)]
        several.update(text for (_, text), count in Counter(found).items() if count > 1)
        for mark, plain in found:
            boxes.pop(plain, None)
            boxes[plain] = (plain, _OPEN_WORDS if mark == " " else _DONE_WORDS, at)
    items = [*listed, *[box for box in boxes.values() if box[0] not in several][-_MAX_BOXES:]]
    words = {text: find_content_words(text) for text in (*boxes, *(text for text, _, _ in listed))}
    common = Counter(w for text, _, _ in items for w in words[text])
    status_by_words = [(set(words[text]), status) for text, status, _ in (*listed, *boxes.values())]
    for text, status, at in items:
        own = words[text]
        if len(own) >= 2 and not any(
            set(own) <= item_words and other is not status for item_words, other in status_by_words
        ):
            rare = sorted(own, key=lambda w: (common[w], own.index(w)))
            rivals = tuple(
                form for other in (_DONE_WORDS, _ACTIVE_WORDS, _OPEN_WORDS) if other is not status for form in other
            )
            yield Probe(
                "todo",
                at,
                f"{text} [{status[0]}]",
                (status, *build_terms(rare[:3])),
                build_terms(rare[3:8]),
                (),
                rivals,
            )


def _read_todo_list(action: RecordedAction) -> list[tuple[str, Term, int]]:
    for key in _LIST_ARGUMENTS:
        value = action.arguments.get(key)
        found = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        items = [
            (_get_item_name(item), _STATUS_WORDS.get(str(item.get("status")).lower()), action.index) for item in found
        ]
        kept = [(name, status, at) for name, status, at in items if name and status is not None]
        if kept:
            return kept
    return []


def _get_item_name(item: dict[str, object]) -> str:
    return next((str(item[key]) for key in _ITEM_NAMES if item.get(key)), "")
