"""Says what a tool call does to files, from its tool name and its arguments.

A table maps tool names to verbs. An unknown tool counts as a plain command. Shell commands are split into words, and
actions that SWE-agent writes as text become tool calls.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct

from tenfold.compaction.facts.shell import FileEffect, FileVerb, find_file_effects, inline_heredocs, normalize_command
from tenfold.compaction.facts.todos import count_items
from tenfold.core.record.message import Message, Text, ToolCall
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.text.json_text import decode_json

Verb = Literal["read", "write", "modify", "delete", "rename", "shell", "todo", "other"]

_READ_NAMES = (
    "read readfile view viewfile open openfile cat readmanyfiles fileread notebookread getfile fsread readtextfile"
    " showfile"
)
_WRITE_NAMES = (
    "write writefile create createfile writetofile savefile newfile filewrite fswrite overwrite createoroverwritefile"
)
_MODIFY_NAMES = (
    "edit editfile strreplace replace replaceinfile multiedit patch applypatch applydiff searchreplace notebookedit"
    " insert insertedit"
    " update fileedit edit_existing_file inserteditintofile updatefile fsreplace modify insertatline editnotebook"
    " strreplacebasededit"
)
_DELETE_NAMES = "delete deletefile remove removefile unlink rm fsdelete"
_RENAME_NAMES = "rename renamefile move movefile mv fsmove"
_SHELL_NAMES = (
    "bash shell runshellcommand executebash executecommand run exec terminal runcommand runterminalcmd localshell"
    " shellcommand"
    " containerexec runinterminal cmd powershell execcommand runbash execute runipython ipython"
)
_TODO_NAMES = (
    "todowrite writetodos updateplan todo todos updatetodos settodos tasklist plan managetodolist updatetodolist"
)
_LOOKUP_NAMES = (
    "browse calculate check count describe fetch find get has inspect is list load lookup query read retrieve search"
    " show status think view"
)
_LOOKUP_WORDS = frozenset(_LOOKUP_NAMES.split())
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
VERBS: dict[str, Verb] = {
    **dict.fromkeys(_READ_NAMES.split(), "read"),
    **dict.fromkeys(_WRITE_NAMES.split(), "write"),
    **dict.fromkeys(_MODIFY_NAMES.split(), "modify"),
    **dict.fromkeys(_DELETE_NAMES.split(), "delete"),
    **dict.fromkeys(_RENAME_NAMES.split(), "rename"),
    **dict.fromkeys(_SHELL_NAMES.split(), "shell"),
    **dict.fromkeys(_TODO_NAMES.split(), "todo"),
}
_PATH_KEY_NAMES = (
    "path file_path filePath filepath filename file target_file absolute_path notebook_path file_name"
    " relative_path source source_path old_path from"
)
_PATH_KEYS = tuple(_PATH_KEY_NAMES.split())
_TARGET_KEYS = ("destination", "dest", "new_path", "destination_path", "target", "to", "new_name")
_COMMAND_KEYS = ("command", "cmd", "code", "script", "commands")
_EDITOR_COMMANDS: dict[str, Verb] = {
    "view": "read",
    "create": "write",
    "str_replace": "modify",
    "insert": "modify",
    "undo_edit": "modify",
    "edit": "modify",
}
_PATCH_OPERATIONS: dict[str, Verb] = {"create_file": "write", "update_file": "modify", "delete_file": "delete"}
"""What an `apply_patch_call` of OpenAI's Responses API does to one file."""
_PATCH_FILE = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$|^\+\+\+ b?/?(\S+)", re.MULTILINE
)
_PATCHES = re.compile(r"\*\*\* Begin Patch\n.*?(?:\*\*\* End Patch|\Z)", re.DOTALL)
_PATCH_COMMAND = re.compile(r"apply_?patch(?: '\s*')?")
_PATCH_PROGRAM = re.compile(r"\b(?:git apply|git am|patch)\b")
_SHELL_SCRIPT = re.compile(r"(?:\S*/)?(?:ba|z|da|k|fi)?sh\n-[a-z]*c")
_OPEN_FILE = re.compile(r"\(Open file: ([^)\n]{1,400})\)")
_AGENT_EDIT = re.compile(r"^edit\s+(?:\d+:\d+|[\"'<])")


class ToolAction(Struct, frozen=True):
    """What one tool call does. `source` links its errors to a later success; `label` is the text shown for it."""

    verb: Verb
    label: str
    source: str
    effects: tuple[FileEffect, ...] = ()
    arguments: dict[str, object] = {}


def parse_arguments(call: ToolCall) -> dict[str, object]:
    """Returns the call's arguments as a dict. Arguments that are not a JSON object become `{"command": text}`."""
    value = decode_json(call.arguments)
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return {"command": value if isinstance(value, str) else call.arguments}


def classify_tool(name: str) -> Verb:
    """Returns the verb for a tool name, ignoring server and namespace prefixes. Unknown names give "other"."""
    short = name.rsplit("__", 1)[-1].rsplit(".", 1)[-1]
    return VERBS.get(re.sub(r"[^a-z]", "", short.lower()), "other")


class ToolNames(Struct, frozen=True):
    """Names of tools, as the model calls them, whose name alone does not tell whether they change the world.

    `acting` do although they sound like a lookup, and `lookups` do not although they sound like an action.
    """

    acting: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()


NO_TOOL_NAMES = ToolNames()


def is_lookup(name: str, known: ToolNames = NO_TOOL_NAMES) -> bool:
    """Tells by a tool's name whether it only looks something up. Any other tool may change the world."""
    if name in known.acting or name in known.lookups:
        return name in known.lookups
    short = name.rsplit("__", 1)[-1].rsplit(".", 1)[-1]
    return next(iter(_NAME_WORD.findall(short)), "").lower() in _LOOKUP_WORDS


def find_path(arguments: dict[str, object], keys: tuple[str, ...] = _PATH_KEYS) -> str:
    """Returns the first path among a call's arguments, "" if there is none."""
    for name in keys:
        value = arguments.get(name)
        if isinstance(value, str) and value and "\n" not in value and len(value) < 400:
            return value
    return ""


def interpret_call(call: ToolCall, open_file: str = "") -> ToolAction:
    """Returns what a tool call does. `open_file` is the file that a text-action agent has open.

    Results for short arguments are cached: one compaction interprets the same call for facts, narrative and re-reads.
    """
    return (
        _interpret_cached(call, open_file)
        if len(call.arguments) + len(call.id) + len(call.name) + len(open_file) <= _MAX_CACHED_CHARS
        else _interpret_call(call, open_file)
    )


_MAX_CACHED_CHARS = 10_000
"""Longest calls, in characters, whose interpretation is cached."""


def _interpret_call(call: ToolCall, open_file: str) -> ToolAction:
    arguments = parse_arguments(call)
    verb = classify_tool(call.name)
    path = find_path(arguments)
    text = find_command(arguments)
    if path and str(arguments.get("type")) in _PATCH_OPERATIONS:
        verb = _PATCH_OPERATIONS[str(arguments["type"])]
    elif text in _EDITOR_COMMANDS and path:
        verb = _EDITOR_COMMANDS[text]
    elif verb == "shell" or (verb == "other" and text and not path):
        return _interpret_shell(text, open_file, arguments)
    if verb in {"modify", "other"} and not path:
        patched = _parse_patch(
            call.arguments if not arguments else "\n".join(v for v in arguments.values() if isinstance(v, str))
        )
        if patched:
            return _build_patch_action(call.name, patched, arguments)
    return _interpret_file_tool(call, verb, path or (open_file if verb == "modify" else ""), arguments)


_interpret_cached = lru_cache(maxsize=1_024)(_interpret_call)


def find_command(arguments: dict[str, object]) -> str:
    """Returns the shell command among a call's arguments, "" if there is none. A list of words is quoted and joined."""
    name = next((name for name in _COMMAND_KEYS if arguments.get(name)), "")
    value = arguments.get(name, "")
    if not isinstance(value, list):
        return value if isinstance(value, str) else ""
    words = [str(word) for word in value]
    if name == "commands" or len(words) == 1:
        return "\n".join(words)
    return words[2] if _SHELL_SCRIPT.fullmatch("\n".join(words[:2])) and len(words) > 2 else shlex.join(words)


def _interpret_file_tool(call: ToolCall, verb: Verb, path: str, arguments: dict[str, object]) -> ToolAction:
    subcommand = arguments.get("command")
    name = f"{call.name} {subcommand}" if isinstance(subcommand, str) and subcommand in _EDITOR_COMMANDS else call.name
    label = f"{name} {path}" if path else f"{call.name} {_preview_arguments(arguments)}".strip()
    target = find_path(arguments, _TARGET_KEYS) if verb == "rename" else ""
    match verb:
        case "read" | "write" | "modify" | "delete" | "rename" if path and (target or verb != "rename"):
            effects = (FileEffect(verb=verb, path=path, target=target),)
            return ToolAction(verb=verb, label=label, source=path, effects=effects, arguments=arguments)
        case "todo" if to_do := count_items(arguments):
            return ToolAction("todo", f"{call.name} ({to_do})", call.name, arguments=arguments)
        case _:
            plain_verb: Verb = "todo" if verb == "todo" else "other"
            return ToolAction(verb=plain_verb, label=label, source=call.name, arguments=arguments)


def _preview_arguments(arguments: dict[str, object]) -> str:
    if not arguments:
        return ""
    return excerpt(msgspec.json.encode(arguments).decode("utf-8", "replace"), 160, Keep.START)


def _interpret_shell(command: str, open_file: str, arguments: dict[str, object]) -> ToolAction:
    first_line = command.strip().split("\n", 1)[0].strip()
    if _AGENT_EDIT.match(first_line) and open_file:
        return ToolAction(
            verb="modify",
            label=f"edit {open_file}",
            source=open_file,
            effects=(FileEffect(verb="modify", path=open_file),),
            arguments=arguments,
        )
    patch_effects: tuple[FileEffect, ...] = ()
    if "*** Begin Patch" in command:
        patch_effects = _parse_patch(command)
        command = _PATCHES.sub("", command)
        if patch_effects and _PATCH_COMMAND.fullmatch(normalize_command(command)):
            return _build_patch_action("apply_patch", patch_effects, arguments)
    elif "+++ " in command and _has_inline_patch(command):
        patch_effects = _parse_patch(command)
    command = inline_heredocs(command)
    file_effects = (*patch_effects, *find_file_effects(command, open_file))
    lines = [line.strip() for line in command.strip().split("\n") if line.strip()]
    label = excerpt(lines[0], 300, Keep.START) if lines else "(empty command)"
    if len(lines) > 1:
        label = f"{excerpt(label, 200, Keep.START)} [+{len(lines) - 1} lines]"
    return ToolAction(
        verb="shell", label=label, source="$ " + normalize_command(command), effects=file_effects, arguments=arguments
    )


def _has_inline_patch(command: str) -> bool:
    """Tells whether a line gives a here-document to a program that applies patches."""
    return any(_PATCH_PROGRAM.search(line.rpartition("<<")[0]) for line in command.split("\n"))


def _build_patch_action(name: str, effects: tuple[FileEffect, ...], arguments: dict[str, object]) -> ToolAction:
    first = effects[0].path
    return ToolAction(verb="modify", label=f"{name} {first}", source=first, effects=effects, arguments=arguments)


def _parse_patch(text: str) -> tuple[FileEffect, ...]:
    """Returns the file effects named in an apply_patch envelope or a unified diff."""
    if "*** " not in text and "+++ " not in text:
        return ()
    out: list[FileEffect] = []
    for match in _PATCH_FILE.finditer(text):
        action, path, target, unified = match.groups()
        if action:
            verb: FileVerb = "write" if action == "Add" else "delete" if action == "Delete" else "modify"
            out.append(FileEffect(verb=verb, path=path.strip()))
        elif target and out:
            out[-1] = FileEffect(verb="rename", path=out[-1].path, target=target.strip())
        elif unified and unified != "dev/null":
            out.append(FileEffect(verb="modify", path=unified))
    return tuple(out)


def find_open_file(text: str, previous: str) -> str:
    """Returns the file that a text-action agent has open after this output; `previous` if the output does not say."""
    end = text[-400:]
    if "(Open file: " not in end:
        return previous
    names = _OPEN_FILE.findall(end)
    return "" if not names or names[-1] == "n/a" else str(names[-1])


def parse_text_action(message: Message) -> ToolCall | None:
    """Returns the action that an agent wrote as text, as a shell call.

    That is the last command tag or fenced block, the form SWE-agent uses. None if there is none.
    """
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    end = text.rfind("</command>")
    start = text.rfind("<command>", 0, max(end, 0))
    body = text[start + len("<command>") : end] if 0 <= start < end else _get_last_fence(text)
    return (
        ToolCall(id="", name="bash", arguments=msgspec.json.encode({"command": body}).decode())
        if body.strip()
        else None
    )


def _get_last_fence(text: str) -> str:
    """Returns the body of the last fenced block that names a shell or no language, "" if there is none."""
    end = text.rfind("\n```")
    start = text.rfind("```", 0, max(end, 0))
    if not 0 <= start < end:
        return ""
    language, _, body = text[start + 3 : end].partition("\n")
    return body if language.strip() in {"", "bash", "sh", "shell"} else ""
