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

from tenfold.calls.shell import Effect, effects, normal, spelled
from tenfold.record.message import Message, Text, ToolCall
from tenfold.text import opening

Verb = Literal["read", "write", "modify", "delete", "rename", "shell", "todo", "view", "other"]

_READ = (
    "read readfile view viewfile open openfile cat readmanyfiles fileread notebookread getfile fsread readtextfile"
    " showfile"
)
_WRITE = (
    "write writefile create createfile writetofile savefile newfile filewrite fswrite overwrite createoroverwritefile"
)
_MODIFY = (
    "edit editfile strreplace replace replaceinfile multiedit patch applypatch applydiff searchreplace notebookedit"
    " insert insertedit"
    " update fileedit edit_existing_file inserteditintofile updatefile fsreplace modify insertatline editnotebook"
    " strreplacebasededit"
)
_DELETE = "delete deletefile remove removefile unlink rm fsdelete"
_RENAME = "rename renamefile move movefile mv fsmove"
_SHELL = (
    "bash shell runshellcommand executebash executecommand run exec terminal runcommand runterminalcmd localshell"
    " shellcommand"
    " containerexec runinterminal cmd powershell execcommand runbash execute runipython ipython"
)
_TODO = "todowrite writetodos updateplan todo todos updatetodos settodos tasklist plan managetodolist updatetodolist"
VERBS: dict[str, Verb] = {
    **dict.fromkeys(_READ.split(), "read"),
    **dict.fromkeys(_WRITE.split(), "write"),
    **dict.fromkeys(_MODIFY.split(), "modify"),
    **dict.fromkeys(_DELETE.split(), "delete"),
    **dict.fromkeys(_RENAME.split(), "rename"),
    **dict.fromkeys(_SHELL.split(), "shell"),
    **dict.fromkeys(_TODO.split(), "todo"),
}
_PATHS = (
    "path",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "notebook_path",
    "file_name",
    "relative_path",
    "source",
    "source_path",
    "old_path",
    "from",
)
_TARGETS = ("destination", "dest", "new_path", "destination_path", "target", "to", "new_name")
_COMMANDS = ("command", "cmd", "code", "script", "commands")
_EDITOR = {
    "view": "read",
    "create": "write",
    "str_replace": "modify",
    "insert": "modify",
    "undo_edit": "modify",
    "edit": "modify",
}
_OPERATIONS: dict[str, Verb] = {"create_file": "write", "update_file": "modify", "delete_file": "delete"}
"""What an `apply_patch_call` of OpenAI's Responses API does to one file."""
_PATCH_FILE = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$|^\+\+\+ b?/?(\S+)", re.MULTILINE
)
_PATCHES = re.compile(r"\*\*\* Begin Patch\n.*?(?:\*\*\* End Patch|\Z)", re.DOTALL)
_PATCHERS = re.compile(r"apply_?patch(?: '\s*')?")
"""Matches a command that does nothing but apply a patch, once the patch itself is taken out."""
_SHELL_SCRIPT = re.compile(r"(?:\S*/)?(?:ba|z|da|k|fi)?sh\n-[a-z]*c")
_OPEN = re.compile(r"\(Open file: ([^)\n]+)\)")
_AGENT_EDIT = re.compile(r"^edit\s+\d+:\d+")


class Doing(Struct, frozen=True):
    """What one tool call does. `source` links its errors to a later success; `label` is the text shown for it."""

    verb: Verb
    label: str
    source: str
    effects: tuple[Effect, ...] = ()
    arguments: dict[str, object] = {}


def arguments_of(call: ToolCall) -> dict[str, object]:
    """Returns the call's arguments as a dict. Arguments that are not a JSON object become `{"command": text}`."""
    try:
        value: object = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"command": call.arguments}
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return {"command": value if isinstance(value, str) else call.arguments}


def verb_of(name: str) -> Verb:
    """Returns the verb for a tool name, ignoring server and namespace prefixes. Unknown names give "other"."""
    short = name.rsplit("__", 1)[-1].rsplit(".", 1)[-1]
    return VERBS.get(re.sub(r"[^a-z]", "", short.lower()), "other")


def path_of(arguments: dict[str, object], names: tuple[str, ...] = _PATHS) -> str:
    """Returns the first path among a call's arguments, "" if there is none."""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value and "\n" not in value and len(value) < 400:
            return value
    return ""


def read_call(call: ToolCall, opened: str = "") -> Doing:
    """Returns what a tool call does. `open_file` is the file that a text-action agent has open.

    Results for short arguments are cached: one compaction interprets the same call for facts, narrative and re-reads.
    """
    return _known(call, opened) if len(call.arguments) <= _LONGEST else _read_call(call, opened)


_LONGEST = 10_000
"""Longest arguments, in characters, whose interpretation is cached."""


def _read_call(call: ToolCall, opened: str) -> Doing:
    arguments = arguments_of(call)
    verb = verb_of(call.name)
    path = path_of(arguments)
    text = command_of(arguments)
    if path and str(arguments.get("type")) in _OPERATIONS:
        verb = _OPERATIONS[str(arguments["type"])]
    elif text in _EDITOR and path:
        verb = "read" if _EDITOR[text] == "read" else "write" if _EDITOR[text] == "write" else "modify"
    elif verb == "shell" or (verb == "other" and text and not path):
        return _shell(text, opened, arguments)
    if verb in {"modify", "other"} and not path:
        patched = _patched(
            call.arguments if not arguments else "\n".join(v for v in arguments.values() if isinstance(v, str))
        )
        if patched:
            return _patching(call.name, patched, arguments)
    return _plain(call, verb, path, arguments)


_known = lru_cache(maxsize=1_024)(_read_call)


def command_of(arguments: dict[str, object]) -> str:
    """Returns the shell command among a call's arguments, "" if there is none. A list of words is quoted and joined."""
    name = next((name for name in _COMMANDS if arguments.get(name)), "")
    value = arguments.get(name, "")
    if not isinstance(value, list):
        return value if isinstance(value, str) else ""
    words = [str(word) for word in value]
    if name == "commands" or len(words) == 1:
        return "\n".join(words)
    return words[2] if _SHELL_SCRIPT.fullmatch("\n".join(words[:2])) and len(words) > 2 else shlex.join(words)


def _plain(call: ToolCall, verb: Verb, path: str, arguments: dict[str, object]) -> Doing:
    subcommand = arguments.get("command")
    name = f"{call.name} {subcommand}" if isinstance(subcommand, str) and subcommand in _EDITOR else call.name
    label = f"{name} {path}" if path else f"{call.name} {_brief(arguments)}".strip()
    if not path or verb in {"other", "todo", "shell"}:
        return Doing(verb="todo" if verb == "todo" else "other", label=label, source=call.name, arguments=arguments)
    target = path_of(arguments, _TARGETS) if verb == "rename" else ""
    if verb == "rename" and not target:
        return Doing(verb="other", label=label, source=call.name, arguments=arguments)
    effect = Effect(verb=verb, path=path, target=target)
    return Doing(verb=verb, label=label, source=path, effects=(effect,), arguments=arguments)


def _brief(arguments: dict[str, object]) -> str:
    if not arguments:
        return ""
    return opening(msgspec.json.encode(arguments).decode("utf-8", "replace"), 160)


def _shell(command: str, opened: str, arguments: dict[str, object]) -> Doing:
    first_line = command.strip().split("\n", 1)[0].strip()
    if _AGENT_EDIT.match(first_line) and opened:
        return Doing(
            verb="modify",
            label=f"edit {opened}",
            source=opened,
            effects=(Effect(verb="modify", path=opened),),
            arguments=arguments,
        )
    patch_effects: tuple[Effect, ...] = ()
    if "*** Begin Patch" in command:
        patch_effects = _patched(command)
        command = _PATCHES.sub("", command)
        if patch_effects and _PATCHERS.fullmatch(normal(command)):
            return _patching("apply_patch", patch_effects, arguments)
    command = spelled(command)
    file_effects = (*patch_effects, *effects(command, opened))
    lines = [line.strip() for line in command.strip().split("\n") if line.strip()]
    label = opening(lines[0], 300) if lines else "(empty command)"
    if len(lines) > 1:
        label = f"{opening(label, 200)} [+{len(lines) - 1} lines]"
    return Doing(verb="shell", label=label, source="$ " + normal(command), effects=file_effects, arguments=arguments)


def _patching(name: str, patched: tuple[Effect, ...], arguments: dict[str, object]) -> Doing:
    first = patched[0].path
    return Doing(verb="modify", label=f"{name} {first}", source=first, effects=patched, arguments=arguments)


def _patched(text: str) -> tuple[Effect, ...]:
    """Returns the file effects named in an apply_patch envelope or a unified diff."""
    if "*** " not in text and "+++ " not in text:
        return ()
    out: list[Effect] = []
    for match in _PATCH_FILE.finditer(text):
        action, path, target, unified = match.groups()
        if action:
            verb: Verb = "write" if action == "Add" else "delete" if action == "Delete" else "modify"
            out.append(Effect(verb=verb, path=path.strip()))
        elif target and out:
            out[-1] = Effect(verb="rename", path=out[-1].path, target=target.strip())
        elif unified and unified != "dev/null":
            out.append(Effect(verb="modify", path=unified))
    return tuple(out)


def opened_by(text: str, before: str) -> str:
    """Returns the file that a text-action agent has open after this output; `previous` if the output does not say."""
    end = text[-400:]
    if "(Open file: " not in end:
        return before
    names = _OPEN.findall(end)
    return "" if not names or names[-1] == "n/a" else str(names[-1])


def text_action(message: Message) -> ToolCall | None:
    """Returns the action that an agent wrote as text, as a shell call.

    That is the last command tag or fenced block, the form SWE-agent uses. None if there is none.
    """
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    end = text.rfind("</command>")
    start = text.rfind("<command>", 0, max(end, 0))
    body = text[start + len("<command>") : end] if 0 <= start < end else _last_fence(text)
    return (
        ToolCall(id="", name="bash", arguments=msgspec.json.encode({"command": body}).decode())
        if body.strip()
        else None
    )


def _last_fence(text: str) -> str:
    """Returns the body of the last fenced block that names a shell or no language, "" if there is none."""
    end = text.rfind("\n```")
    start = text.rfind("```", 0, max(end, 0))
    if not 0 <= start < end:
        return ""
    language, _, body = text[start + 3 : end].partition("\n")
    return body if language.strip() in {"", "bash", "sh", "shell"} else ""
