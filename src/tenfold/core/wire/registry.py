"""The table of all wires, and the choice of the wire of a list or a request: by its name, or by how it looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tenfold.core.record.message import Message, OpaquePart, ToolResult
from tenfold.core.wire import splice
from tenfold.core.wire.anthropic.api import WIRE as ANTHROPIC
from tenfold.core.wire.encoding import Wire, split_answer
from tenfold.core.wire.foreign_shapes import explain_shape, find_shape
from tenfold.core.wire.gemini.api import WIRE as GEMINI
from tenfold.core.wire.media import MediaKind
from tenfold.core.wire.openai_chat.api import WIRE as OPENAI_CHAT
from tenfold.core.wire.openai_responses.api import WIRE as OPENAI_RESPONSES
from tenfold.core.wire.profiles import NativeShape, Profile
from tenfold.core.wire.pydantic_ai import PROFILE as PYDANTIC_AI
from tenfold.core.wire.sdk_values import to_json_bytes
from tenfold.errors import UnknownFormat, UsageError

WIRES: dict[str, Wire] = {wire.name: wire for wire in (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI)}
"""Every wire by its name. A wire of your own is added here: see "Add a wire" in docs/wire.md."""
DEFAULT_WIRE = OPENAI_CHAT.name
"""The wire of a list that looks the same in several: plain texts of user and assistant."""
_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant"})
"""The roles of plain texts. A list of these alone is of the default wire."""
WireChooser = Callable[[Sequence[str], Sequence[str]], str]
"""Chooses the wire of a list from the role and the wire ("" if open) of its items, up to the first conclusive one."""


def get_wire(name: str) -> Wire:
    """Returns the wire with that name. Raises `UnknownFormat` with the valid names if there is none."""
    try:
        return WIRES[name]
    except (KeyError, TypeError):
        raise UnknownFormat(explain_name(name)) from None


def explain_name(name: object) -> str:
    """Says that no wire has this name, which ones there are, and which were probably meant."""
    word = str(name).lower().replace("_", "-")
    near = [wire for wire in WIRES if word and (wire.startswith(word) or word.startswith(wire))]
    called = next((each for each, wire in WIRES.items() if word in wire.profile.other_names), word)
    near = near or get_close_matches(called, WIRES, n=1)
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"no wire is called {name!r}; there are {', '.join(WIRES)}{meant}"


def detect_wire(items: Sequence[object]) -> str:
    """Finds the wire of a list of native messages (dicts, JSON bytes, SDK objects), by the first conclusive item.

    Lists of plain text look the same in three formats and count as openai-chat. Raises `UnknownFormat`, with the keys
    and role of the first item, if no item is conclusive, and with the name of a shape that no provider takes.
    """
    seen: list[str] = []
    has_chat_role = False
    for item in items:
        raw = to_json_bytes(item)
        fields = splice.parse_object(raw)
        if fields is None:
            raise UnknownFormat(
                f"item {len(seen)} is no JSON object: write a text as {{'role': 'user', 'content': ...}}, or name the "
                "format"
            )
        if (shape := find_shape(splice.parse_value(raw))) is not None:
            raise UnknownFormat(f"messages of no wire: {explain_shape(shape)}")
        wire = _recognize_item(fields)
        if wire:
            return wire
        role = splice.find_text(fields, "role")
        has_chat_role = has_chat_role or role in _CHAT_ROLES
        seen.append(f"{{{', '.join(fields)}}}" + (f" with role {role!r}" if role else ""))
    if has_chat_role or not seen:
        return DEFAULT_WIRE
    raise UnknownFormat(
        f"none of {', '.join(WIRES)} has messages like {seen[0]}; pass format= with one of these, "
        "or read the file with the reader of its own format"
    )


_DEFINITION_TYPES = frozenset[str]().union(*(wire.profile.definition_types for wire in WIRES.values()))


def has_tool_definitions(message: Message) -> bool:
    """Whether a message defines tools, or names those that a search has found, in one of its parts or results."""
    return any(
        isinstance(inner, OpaquePart) and inner.kind in _DEFINITION_TYPES
        for part in message.parts
        for inner in (part.content if isinstance(part, ToolResult) else (part,))
    )


def can_take_text(message: Message, call_ids: Collection[str]) -> bool:
    """Whether a tool result can be replaced by text. `call_ids` are the ids of the calls in its step."""
    wire = WIRES.get(message.native.format) if message.native is not None else None
    return wire is None or wire.profile.can_take_text(message, call_ids)


def count_items(message: Message) -> int:
    """Counts the native items of a message: one, unless its wire writes an answer as several items."""
    native = message.native
    wire = WIRES.get(native.format) if native is not None else None
    return 1 if native is None or wire is None else len(split_answer(message, native.body, wire.profile))


def find_media_kind(native_type: str) -> MediaKind | None:
    """Returns what an opaque part of that native type is, None if it is no image, file or recording."""
    profiles = (*(wire.profile for wire in WIRES.values()), PYDANTIC_AI)
    return next((p.media_kinds[native_type] for p in profiles if native_type in p.media_kinds), None)


def read_sign(raw: bytes) -> tuple[str, str]:
    """Returns a native message's role and the only wire it can be of: "" if unsure, "?" if it is of none."""
    fields = splice.parse_object(raw)
    if fields is None or find_shape(splice.parse_value(raw)) is not None:
        return "", "?"
    return splice.get_text(fields, "role"), _recognize_item(fields)


def _recognize_item(fields: splice.Fields) -> str:
    role, kind = (splice.get_text(fields, key) for key in ("role", "type"))
    shape = NativeShape(role, kind, fields, _collect_block_kinds(fields))
    return next((name for name, wire in WIRES.items() if wire.profile.recognize_message(shape)), "")


def _collect_block_kinds(fields: splice.Fields) -> frozenset[str]:
    kinds: set[str] = set()
    for raw in splice.parse_array(fields.get("content")) or ():
        block = splice.parse_object(raw) or {}
        kind = splice.get_text(block, "type")
        if kind != "file" or "file" in block:
            kinds.add(kind)
    return frozenset(kinds)


# -- requests ----------------------------------------------------------------------------------------------------------


def find_list_field(request: Mapping[str, Any]) -> str:
    """Finds the keyword argument of a provider's call that holds the conversation.

    Raises `UsageError` if there is none, or if it holds only what is new.
    """
    list_fields = dict.fromkeys(wire.profile.request.list_field for wire in WIRES.values())
    field = next((f for f in list_fields if f in request), "")
    if not field:
        names = ", ".join(map(str, request)) or "nothing"
        raise UsageError(
            f"a request holds its conversation under one of {', '.join(list_fields)}; this one has {names}"
        )
    for partial in (name for profile in _find_profiles(field) for name in profile.request.partial_fields):
        if request.get(partial):
            raise UsageError(f"a request with {partial} holds only what is new: send the whole list in {field!r}")
    return field


def find_only_wire(list_field: str) -> str:
    """Finds the one wire whose requests hold their conversation in this field. "" if there are several."""
    profiles = _find_profiles(list_field)
    return profiles[0].wire if len(profiles) == 1 else ""


def choose_wire(request: Mapping[str, Any], list_field: str, items: Sequence[object]) -> str | WireChooser:
    """Returns the wire of a request, or a function that chooses it by the messages if nothing else tells it."""
    profiles = _find_profiles(list_field)
    for profile in profiles:
        if not request.keys().isdisjoint(profile.request.own_fields):
            return profile.wire
    model = str(request.get("model") or "")
    named = [p for p in profiles if p.request.model_word and p.request.model_word in model]

    def choose(roles: Sequence[str], wires: Sequence[str]) -> str:
        sign = next(filter(None, wires), "")
        likely = next((p.wire for p in named if p.request.foreign_roles.isdisjoint(roles)), "")
        if likely and not sign:
            return likely
        if sign == "?" or (not sign and _CHAT_ROLES.isdisjoint(roles)):
            return detect_wire(items)  # raises an error that says what was seen
        return sign or DEFAULT_WIRE

    return choose


def _find_profiles(list_field: str) -> list[Profile]:
    return [wire.profile for wire in WIRES.values() if wire.profile.request.list_field == list_field]
