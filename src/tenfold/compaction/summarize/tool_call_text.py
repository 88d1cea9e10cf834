"""Recognises an answer that calls a tool in words instead of summarizing: as JSON, as tags, or as a line `Action:`.

A summary may tell of tool calls and quote one. So it counts as a call only if the call is more of it than the prose.
"""

from __future__ import annotations

import json
import re

_TAGS = r"(?:antml:)?(?:tool_calls?|function_calls?|invoke|tool_use|tool_code|function(?==))"
_CALL = re.compile(
    rf"^[ \t]*(?:<(?P<tag>{_TAGS})\b[^>]{{0,1000}}>(?:.*?</(?P=tag)>|.*)"
    r"|(?:\[TOOL_CALLS\]|<\|(?:tool|python_tag)|functools\[).*"
    r"|\**Action\**:\**[ \t]*[^\n]+\n+[ \t]*\**Action Input\**:.*)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""A call as tags, as a model's own marks, or as ReAct writes it. A mention within a line is none."""
_JSON_START = re.compile(r"^[ \t]*(?=[{\[])", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[\w-]*[ \t]*$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_HOLDERS = frozenset({"tool_calls", "tool_uses", "tool_use", "tool_call", "function_call", "functionCall", "toolCalls"})
_KINDS = frozenset({"tool_use", "function_call", "tool_call", "function", "custom_tool_call"})
_NAMES = ("name", "tool", "tool_name", "function", "action", "recipient_name")
_ARGUMENTS = frozenset({"arguments", "args", "parameters", "params", "input", "tool_input", "action_input"})
_BROKEN = re.compile(
    r"[\[{\s]+\"(?:name|tool|tool_name|function|action|type|tool_calls|function_call|functionCall)\"\s*:.*"
    r"\"(?:arguments|args|parameters|params|input|tool_input|action_input|tool_use|function_call)\"",
    re.DOTALL,
)


def is_tool_call_text(text: str) -> bool:
    """Returns whether a text is a tool call, with no more prose around it than an announcement has."""
    rest = _FENCE.sub("", text)
    calls = [match.group() for match in _CALL.finditer(rest)]
    rest = _CALL.sub("", rest)
    end = 0
    prose: list[str] = []
    for match in _JSON_START.finditer(rest):
        if match.end() < end:
            continue
        stop = _find_json_call(rest, match.end())
        if stop > match.end():
            prose.append(rest[end : match.start()])
            calls.append(rest[match.end() : stop])
            end = stop
    prose.append(rest[end:])
    return bool(calls) and _count_words(prose) <= _count_words(calls)


def _find_json_call(text: str, start: int) -> int:
    """Returns the end of the tool call in JSON that begins at `start`, or `start` if there is none."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return len(text) if _BROKEN.match(text[start : start + 2_000]) else start
    return end if _is_call(value) else start


def _is_call(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_call, value))
    if not isinstance(value, dict):
        return False
    if _HOLDERS & value.keys() or value.get("type") in _KINDS:
        return True
    return any(isinstance(value.get(name), str | dict) for name in _NAMES) and bool(_ARGUMENTS & value.keys())


def _count_words(texts: list[str]) -> int:
    return sum(len(_WORD.findall(text)) for text in texts)
