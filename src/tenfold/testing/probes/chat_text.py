"""Reads chat messages for the extractors: unescaped text, calls with their results, and the user's own words.

It shares no code with any other reader of this package, on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from tenfold.testing.probes.kinds import ChatMessage

Arguments = dict[str, object]
_HARNESS_NOTE = re.compile(
    r"^\s*(?:<command-|<local-command|<bash-|<session_context|<system|<environment|<task-notification|Caveat: The mess|"
    r"\[Request interrupted|\[result of a tool|\[tool|This session is being continued|Base directory for this skill|"
    r"Here is a demonstration of how|Another language model|The conversation (?:history )?before|# AGENTS\.md)",
    re.IGNORECASE,
)
_TERMINAL_PROMPT = re.compile(r"\n(?:\(Open file: .*\)\s*)?\(Current directory: .*\)\s*bash-\$\s*$")
_FENCE = re.compile(r"```\w*\n(.*?)\n?```|<command>\n(.*?)\n?</command>", re.DOTALL)
_QUOTES = (
    re.compile(r"```.*?(?:```|\Z)", re.DOTALL),
    re.compile(r"<(issue_description|pr_description|uploaded_files|file|document|pasted\w*)\b.*?</\1>", re.DOTALL),
    re.compile(r"\bISSUE:\n.*?(?=\bINSTRUCTIONS:|\Z)", re.DOTALL),
    re.compile(r"\bINSTRUCTIONS:\n.*\Z", re.DOTALL),
    re.compile(r"<(ide_\w+)>.*?</\1>", re.DOTALL),
    re.compile(r"^[ \t]*\d\d:\d\d:\d\d\S*[ \t]*\n.*$", re.MULTILINE),
    re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL),
)


_DEMONSTRATION = "We're currently solving the following issue within our repository."
"""How SWE-agent opens a task. If it occurs more than once, all before the last is a demonstration of another task."""
_PASTED_LENGTH = 2_000
"""Characters. The longest typed message in the recorded sessions has 1,600."""


class RecordedAction(Struct, frozen=True):
    """One tool call with its result. `index` is the message of the call, and `result_index` that of the result.

    `command` is the command, if a shell ran one.
    """

    index: int
    result_index: int
    name: str
    arguments: Arguments
    command: str
    result: str


def get_text(message: ChatMessage) -> str:
    """Returns what a model reads of a message: its text, and the names and arguments of its calls."""
    parts = [_get_content_text(message.get("content"))]
    for _, name, raw in get_tool_calls(message):
        parts += [name, _unescape_arguments(raw)]
    return "\n".join(part for part in parts if part)


def get_own_text(message: ChatMessage) -> str:
    """Returns the message's own text without its calls."""
    return _get_content_text(message.get("content"))


def get_tool_calls(message: ChatMessage) -> Iterator[tuple[str, str, str]]:
    """Yields the id, the name and the raw arguments of each call."""
    found = message.get("tool_calls")
    for call in found if isinstance(found, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            yield str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", ""))


def find_actions(messages: Sequence[ChatMessage]) -> list[RecordedAction]:
    """Returns every call that got a result, in order. If there is none, returns commands that were written as text."""
    results = {str(m.get("tool_call_id")): i for i, m in enumerate(messages) if m.get("role") == "tool"}
    found: list[RecordedAction] = []
    real = max((i for i, m in enumerate(messages) if get_own_text(m).startswith(_DEMONSTRATION)), default=0)
    for at, message in enumerate(messages[real:], start=real):
        for call, name, raw in get_tool_calls(message):
            back = results.get(call)
            if back is not None:
                args = _decode_arguments(raw)
                found.append(
                    RecordedAction(at, back, name, args, get_command(name, args), get_own_text(messages[back]))
                )
    return found or list(_find_typed_actions(messages, real))


def _find_typed_actions(messages: Sequence[ChatMessage], start: int) -> Iterator[RecordedAction]:
    """Yields the commands in code fences that are answered by a user message ending in a prompt."""
    for at, (message, answer) in enumerate(pairwise(messages[start:]), start=start):
        if message.get("role") != "assistant" or not is_terminal(answer):
            continue
        blocks = _FENCE.findall(get_own_text(message))
        if blocks:
            command = "".join(blocks[-1]).strip()
            yield RecordedAction(at, at + 1, "shell", {}, command, _TERMINAL_PROMPT.sub("", get_own_text(answer)))


def get_command(name: str, arguments: Arguments) -> str:
    """Returns the shell command of a call, from `command`, `cmd`, `commands` or `script`, as text or as a list."""
    if "editor" in name.lower():
        return ""
    value = next((arguments[key] for key in ("command", "cmd", "commands", "script") if key in arguments), None)
    if isinstance(value, list):
        parts = [str(part) for part in value]
        return parts[-1] if len(parts) > 2 and parts[1].startswith("-") else " ; ".join(parts)
    return value if isinstance(value, str) else ""


def is_terminal(message: ChatMessage) -> bool:
    """Whether a user message is the output of a terminal."""
    return message.get("role") == "user" and _TERMINAL_PROMPT.search("\n" + get_own_text(message)) is not None


def get_human_text(message: ChatMessage) -> str:
    """Returns a person's own words in a message, without harness notes, terminal output and quotes, or ""."""
    text = get_own_text(message)
    if message.get("role") != "user" or _HARNESS_NOTE.match(text) or is_terminal(message):
        return ""
    for quoted in _QUOTES:
        text = quoted.sub("\n", text)
    return _trim_pasted(text.strip())


def _trim_pasted(text: str) -> str:
    """Shortens a long, mostly pasted message to its first and last lines, where people say what it is."""
    lines = [line for line in text.split("\n") if line.strip()]
    return text if len(text) <= _PASTED_LENGTH else "\n".join(lines[:2] + lines[-2:])


def split_sentences(text: str) -> list[str]:
    """Splits prose into sentences. Pasted output and code are left out."""
    found: list[str] = []
    for line in text.split("\n"):
        plain = re.sub(r"^\s*(?:[-*•>]|\d+[.)])\s+", "", line).strip()
        if plain and _is_prose(plain):
            found += [s.strip() for s in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'`(])", plain) if s.strip()]
    return found


def _is_prose(line: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in line)
    return letters >= 0.75 * len(line) and not re.match(
        r"(?:import|from|def|class|const|let|var|return|if) .*[:;({]$", line
    )


# -- JSON --------------------------------------------------------------------------------------------------------------


def _get_content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(p.get("text") or p.get("refusal") or "") for p in parts if isinstance(p, dict))


def _decode_arguments(raw: str) -> Arguments:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _unescape_arguments(raw: str) -> str:
    try:
        return _format_lines(msgspec.json.decode(raw))
    except msgspec.DecodeError:
        return raw


def _format_lines(value: object) -> str:
    """Formats arguments as lines. An object inside a list becomes one line, so that an item stays beside its status."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_format_lines(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "\n".join(
            _format_lines(v).replace("\n", ", ") if isinstance(v, dict) else _format_lines(v) for v in value
        )
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
