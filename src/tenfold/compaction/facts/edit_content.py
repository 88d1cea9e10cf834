"""Says what an edit changed: old and new lines for a change, the names it defines for a new file.

It reads the arguments of the call in the forms that agents use: old and new text, whole contents, patches, text between
`SEARCH` and `REPLACE`, line ranges, and shell commands with here-documents, `sed` and redirections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import takewhile

from tenfold.compaction.facts.shell import FileEffect, is_read_only, list_heredocs, split_pipelines
from tenfold.compaction.facts.tool_calls import ToolAction, find_command
from tenfold.core.text.excerpts import Keep, excerpt, flatten
from tenfold.core.text.memoize import memoize
from tenfold.core.text.redaction import redact_cached

MAX_CHANGE_CHARS = 300
"""Longest description of one change, in characters."""
MAX_CHANGES = 4
"""How many changes of one file are kept; the newest stay."""
_MAX_COMPARED_LINES = 200
_MAX_READ_CHARS = 20_000
_MAX_NAMES = 8
_OLD_KEYS = ("old_string", "old_str", "oldText", "old_text", "old_content", "old_code", "search", "find", "old")
_NEW_KEY_NAMES = (
    "new_string new_str newText new_text new_content new_code insert_text replace replacement new content contents"
    " file_text new_source text code_edit"
)
_NEW_KEYS = tuple(_NEW_KEY_NAMES.split())
_PATCH_KEYS = ("patch", "diff", "input", "patch_text", "patchText", "unified_diff")
_DEFINITION = re.compile(
    r"^[ \t]*(?:(?:export|default|public|private|protected|static|async|abstract|final|pub(?:\([^)]{0,200}\))?) )*"
    r"(?:(?:def|class|function\*?|interface|type|enum|struct|fn|func|trait|impl|module|namespace|mixin|protocol) "
    r"(?:\([^)]{0,200}\) )?([A-Za-z_$][\w.$]*)|(?:const|let|var) ([A-Za-z_$][\w$]*) = (?:async )?(?:\(|function))",
    re.MULTILINE,
)
"""A line that defines a function, class or type."""
_HEADING = re.compile(r"^#{1,3} (\S[^\n]{0,50})", re.MULTILINE)
_PATCH_SECTION = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S[^\t\n]*)", re.MULTILINE)
_PATCH_END = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* End Patch|diff --git |--- )", re.MULTILINE)
_HUNK = re.compile(r"^@@(?: -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)? ?")
_SEARCH_BLOCK = re.compile(
    r"^[<-]{4,} ?SEARCH>?[^\n]*\n(.*?)^={4,}[^\n]*\n(.*?)^[>+]{4,} ?REPLACE", re.MULTILINE | re.DOTALL
)
_LINE_EDIT = re.compile(
    r"\s*(?:edit (\d+):(\d+)|(insert(?: \d+)?|append))[^\S\n]*\n?(.*?)(?:\n?end_of_\w+\s*)?\Z", re.DOTALL
)


def describe_edit(action: ToolAction, effect: FileEffect) -> str:
    """Returns what a call changed in a file, on one line without secrets; "" if its arguments do not say."""
    if effect.verb not in {"write", "modify"}:
        return ""
    command = find_command(action.arguments)
    if command == "undo_edit":
        return "undid the last edit"
    patch = next((text for key in _PATCH_KEYS if isinstance(text := action.arguments.get(key), str)), command)
    if section := _find_patch_section(patch, effect.path):
        return _describe_patch(section)
    if blocks := _SEARCH_BLOCK.findall(patch[:_MAX_READ_CHARS]):
        return _join_changes(_describe_change(old, new) for old, new in blocks)
    if action.verb == "shell":
        return _describe_command(command, effect.path.rpartition("/")[2])
    return _describe_arguments(action.arguments, effect) or _describe_line_edit(command)


def join_contents(older: str, newer: str) -> str:
    """Joins the descriptions of the changes to one file, one line each. The newest stay."""
    newest_first = dict.fromkeys(line for text in (newer, older) for line in reversed(text.split("\n")) if line)
    return "\n".join(reversed(list(newest_first)[:MAX_CHANGES]))


def _describe_arguments(arguments: dict[str, object], effect: FileEffect) -> str:
    edits = arguments.get("edits")
    sources = [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else [arguments]
    changes: list[str] = []
    for source in sources:
        old = next((text for key in _OLD_KEYS if isinstance(text := source.get(key), str)), "")
        new = next((text for key in _NEW_KEYS if isinstance(text := source.get(key), str)), "")
        is_whole = effect.verb == "write" and not old
        changes.append(_describe_new_text(new) if is_whole and new else _describe_change(old, new))
    return _join_changes(changes)


def _describe_line_edit(command: str) -> str:
    """Describes an edit of the open file that an agent wrote as text: `edit 3:5`, the new lines, `end_of_edit`."""
    found = _LINE_EDIT.match(command)
    if found is None:
        return ""
    first, last, command_name, new = found.groups()
    place = command_name or (f"line {first}" if first == last else f"lines {first} to {last}")
    return _limit(f"{place} -> {_shorten(new, 220) or '(removed)'}")


@memoize
def _describe_command(command: str, name: str) -> str:
    for header, body in list_heredocs(command[:_MAX_READ_CHARS]):
        if name in header:
            return f"+ {_shorten(body, 260)}" if ">>" in header else _describe_new_text(body)
    commands = [" ".join(words) for pipe in split_pipelines(command) for words in pipe]
    parts = [
        _shorten(part, 200)
        for part in dict.fromkeys(commands)
        if name in part and not part.startswith(("create ", "touch ")) and (">" in part or not _is_look(part))
    ]
    return _limit(f"by `{'; '.join(parts)}`") if parts else ""


def _is_look(part: str) -> bool:
    return is_read_only(part) and not part.startswith("sed")


def _find_patch_section(text: str, path: str) -> str:
    """Returns the part of a patch that is about one file, "" if the text is no patch of it."""
    if "*** " not in text and "+++ " not in text:
        return ""
    for begin in _PATCH_SECTION.finditer(text):
        if path.endswith(begin[1].strip()) or begin[1].strip().endswith(path):
            end = _PATCH_END.search(text, begin.end())
            return text[begin.end() : end.start() if end else len(text)]
    return ""


def _describe_patch(section: str) -> str:
    lines = section.split("\n")
    old = [line[1:] for line in lines if line.startswith("-")]
    new = [line[1:] for line in lines if line.startswith("+")]
    if not old and all(line.startswith("+") for line in lines if line.strip()):
        return _describe_new_text("\n".join(new))
    context = takewhile(lambda line: line[:1] not in {"-", "+"}, (_HUNK.sub("", line) for line in lines))
    return _render_change(old, new, "\n".join(context))


@memoize
def _describe_change(old: str, new: str) -> str:
    """Describes a replacement by the lines that differ, and the function they stand in if the text shows it."""
    if not old:
        return f"+ {_shorten(new, 260)}" if new.strip() else ""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > _MAX_COMPARED_LINES:
        return _render_change(before, after, "")
    codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    removed = [line for tag, first, last, _, _ in codes if tag != "equal" for line in before[first:last]]
    added = [line for tag, _, _, first, last in codes if tag != "equal" for line in after[first:last]]
    first_change = next((first for tag, first, _, _, _ in codes if tag != "equal"), 0)
    return _render_change(removed, added, "\n".join(before[:first_change]))


def _render_change(removed: list[str], added: list[str], context: str) -> str:
    place = next((f"in {name}: " for name in reversed(_list_definitions(context))), "")
    old, new = _shorten("\n".join(removed), 110), _shorten("\n".join(added), 160)
    if not old and not new:
        return ""
    return _limit(f"{place}{old} -> {new or '(removed)'}" if old else f"{place}+ {new}")


@memoize
def _describe_new_text(text: str) -> str:
    """Describes a whole file: the number of its lines, and the names it defines or else how it begins."""
    names = list(dict.fromkeys(_list_definitions(text)))
    headings = _HEADING.findall(text)
    if not names and text.startswith("#") and len(headings) > 1 and not text.startswith("#!"):
        names = [flatten(heading) for heading in headings]
    size = f"{text.count(chr(10)) + 1} lines"
    if not names:
        return _limit(f"{size}: {_shorten(text, 200)}")
    more = f", +{len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return _limit(f"{size}: {', '.join(names[:_MAX_NAMES])}{more}")


def _list_definitions(text: str) -> list[str]:
    return [flatten(next(name for name in found if name)) for found in _DEFINITION.findall(text[:_MAX_READ_CHARS])]


def _join_changes(changes: Iterator[str] | list[str]) -> str:
    return _limit("; ".join(change for change in changes if change))


def _shorten(text: str, limit: int) -> str:
    """Returns lines of code on one line, without their indentation and without secrets."""
    lines = (flatten(line) for line in redact_cached(excerpt(text, 4_000, Keep.HEAD)).split("\n"))
    return excerpt(" / ".join(line for line in lines if line), limit, Keep.JOINED_ENDS)


def _limit(text: str) -> str:
    return excerpt(text, MAX_CHANGE_CHARS, Keep.START)
