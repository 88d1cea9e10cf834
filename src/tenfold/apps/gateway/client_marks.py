"""What clients say about their requests: which session one belongs to, and which ones are no part of a conversation.

What single clients write is a table of its own: `tenfold.apps.clients.client_habits`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenfold.apps.clients.client_habits import (
    CHECKS,
    SESSION_HEADERS,
    SUMMARY_SYSTEMS,
    SUMMARY_TEXTS,
    TITLES,
    TURN_METADATA,
    USER_SESSIONS,
)
from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.record.message import Text
from tenfold.core.wire import splice

SESSION_HEADER = "x-tenfold-session"
"""Any program that knows its own conversations may name them by it."""
_PRODUCT = re.compile(r"([A-Za-z0-9][\w.+-]{0,39})(?:/|\s|$)")
_NOBODY = (b"null", b'""')
_SYSTEM_ROLE = re.compile(rb'"role"\s*:\s*"(?:system|developer)"')


def find_client(headers: Mapping[str, str]) -> str:
    """Returns the name by which a program calls itself, such as `codex_cli_rs`. "gateway" if it has none."""
    found = _PRODUCT.match(headers.get("user-agent", ""))
    return found[1].lower() if found else "gateway"


def find_client_session(headers: Mapping[str, str], request: ModelRequest) -> str:
    """Returns the client's own id of the session that a request belongs to. "" if it sends none."""
    names = (SESSION_HEADER, *(row.sign for row in SESSION_HEADERS))
    found = next((headers[name] for name in names if headers.get(name)), "")
    user_id = _read_user_id(request) if not found else ""
    return found or next((match[1] for row in USER_SESSIONS if (match := row.sign.search(user_id))), "")


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
    header, member = TURN_METADATA.sign
    if member in (splice.parse_object(headers.get(header, "").encode()) or {}):
        return "the client compacts"
    opening, fields = b"".join(request.items[:1]), request.profile.request.overhead_fields
    beside = request.get_raw(*(name for name in fields if name != "tools"))
    system = beside + (opening if _SYSTEM_ROLE.search(opening) else b"")
    last = _read_last_text(request)
    if any(row.sign.search(system) for row in SUMMARY_SYSTEMS) or any(row.sign.match(last) for row in SUMMARY_TEXTS):
        return "the client compacts"
    if any(row.sign.search(system) for row in CHECKS):
        return "a check of the client"
    has_tools = bytes(request.fields.get("tools", b"[]")) not in (b"[]", b"null")
    return "a title" if not has_tools and any(row.sign.search(system) for row in TITLES) else ""


def _read_last_text(request: ModelRequest) -> str:
    """Returns the text at the end of a list, "" if it ends with something else than a user's text."""
    messages = request.decode_item(len(request.items) - 1) if request.items else []
    last = messages[-1] if messages else None
    part = last.parts[-1] if last is not None and last.role == "user" and last.parts else None
    return part.text if isinstance(part, Text) else ""
