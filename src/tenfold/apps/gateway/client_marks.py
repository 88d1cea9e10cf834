"""What clients say about their requests: which session one belongs to, and which ones are no part of a conversation.

Each row was seen on the wire: see docs/gateway.md, "What clients send".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.wire import splice

SESSION_HEADER = "x-tenfold-session"
_SESSION_HEADERS = (
    SESSION_HEADER,  # any program that knows its own conversations
    "session-id",  # codex
    "x-session-id",  # opencode, Kilo
    "session_id",  # pi
    "x-session-affinity",  # opencode, pi
    "x-litellm-session-id",  # openhands
)
_NOBODY = (b"null", b'""')
_USER_SESSION = re.compile(r'"session_id"\s*:\s*"([^"]+)"|(session_(?!id")[\w-]+)')
"""The session in `metadata.user_id` of Anthropic's clients."""
_SUMMARY_SYSTEM = re.compile(
    rb"You are a context summarization (?:assistant|agent)"  # pi, opencode
    rb"|<state_snapshot>"  # qwen, gemini
)
"""What the system prompt of a client's own summary holds."""
_SUMMARY_TEXT = re.compile(
    r"You are about to run out of context\. Create a handoff summary"  # kimi
    r"|You are performing a CONTEXT CHECKPOINT COMPACTION"  # codex
    r"|(?:CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\..{0,1000}?\n)?"  # Claude Code since 2.1
    r"Your task is to create a detailed summary of (?:the|this) conversation",  # Claude Code, and what copied it
    re.DOTALL,
)
"""How the last text of such a request begins. It may stand beside results in one message."""
_CHECK = re.compile(rb"You are a (?:sophisticated AI )?diagnostic agent")
"""What the system prompt of gemini and qwen holds where they ask whether their model goes round in circles."""
_TITLE = re.compile(rb"title generator|generate a (?:short|brief|concise) title", re.IGNORECASE)
_SYSTEM_ROLE = re.compile(rb'"role"\s*:\s*"(?:system|developer)"')


def find_client_session(headers: Mapping[str, str], request: ModelRequest) -> str:
    """Returns the client's own id of the session that a request belongs to. "" if it sends none."""
    found = next((headers[name] for name in _SESSION_HEADERS if headers.get(name)), "")
    session = _USER_SESSION.search(_read_user_id(request)) if not found else None
    return (session[1] or session[2]) if session else found


def find_cache_key(request: ModelRequest) -> str:
    """Returns the key under which the client wants its prompt cached, "" without one.

    Many clients give each session its own, but one may also be shared by all users of a program.
    """
    return splice.get_text(dict(request.fields), "prompt_cache_key")


def find_end_user(request: ModelRequest) -> str:
    """Returns whom a program that serves many users by one key names as the user of this request, "" if nobody."""
    metadata = splice.parse_object(request.fields.get("metadata", b"")) or {}
    named = (request.fields.get("user"), request.fields.get("safety_identifier"), metadata.get("user_id"))
    return "\0".join(bytes(raw).decode("utf-8", "replace") for raw in named if raw and bytes(raw) not in _NOBODY)


def _read_user_id(request: ModelRequest) -> str:
    if "metadata" not in request.fields:
        return ""
    return splice.get_text(splice.parse_object(request.fields["metadata"]) or {}, "user_id")


def find_side_reason(headers: Mapping[str, str], request: ModelRequest) -> str:
    """Says why a request is part of no conversation: it asks for a summary or a title. "" if it is part of one."""
    turn = splice.parse_object(headers.get("x-codex-turn-metadata", "").encode()) or {}
    if "compaction" in turn:
        return "the client compacts"
    opening, last = b"".join(request.items[:1]), b"".join(request.items[-1:])
    system = request.get_raw(*_SYSTEM_FIELDS) + (opening if _SYSTEM_ROLE.search(opening) else b"")
    if _SUMMARY_SYSTEM.search(system) or _SUMMARY_TEXT.match(_read_last_text(last)):
        return "the client compacts"
    if _CHECK.search(system):
        return "a check of the client"
    has_tools = bytes(request.fields.get("tools", b"[]")) not in (b"[]", b"null")
    return "a title" if not has_tools and _TITLE.search(system) else ""


def _read_last_text(item: bytes) -> str:
    """Returns the text at the end of a message in any of the forms, "" if it ends with something else."""
    fields = splice.parse_object(item) or {}
    if splice.get_text(fields, "role") not in ("user", ""):
        return ""
    text = splice.find_text(fields, "content")
    if text is not None:
        return text
    blocks = splice.parse_array(fields.get("content") or fields.get("parts"))
    return splice.get_text(splice.parse_object(blocks[-1]) or {}, "text") if blocks else ""


_SYSTEM_FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
"""Where the APIs have their system prompt, if it is not in the list."""
