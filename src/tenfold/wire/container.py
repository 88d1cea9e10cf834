"""Finds a wire by name or by the look of a list, and reads and writes whole JSON arrays of native messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tenfold.errors import BadInput, UnknownFormat
from tenfold.record.message import Message
from tenfold.wire import openai_responses, splice
from tenfold.wire.anthropic import Anthropic
from tenfold.wire.base import Wire
from tenfold.wire.gemini import Gemini
from tenfold.wire.marks import SummaryConfirmer
from tenfold.wire.openai_chat import OpenAIChat
from tenfold.wire.openai_responses import OpenAIResponses

WIRES: Mapping[str, Wire] = {w.name: w for w in (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())}
"""Every wire by its name: anthropic, openai-chat, openai-responses, gemini."""


@runtime_checkable
class _SDKObject(Protocol):
    """A typed object of a provider's SDK."""

    def model_dump(
        self, *, mode: str, by_alias: bool, exclude_unset: bool, exclude_none: bool
    ) -> dict[str, object]: ...


def get_wire(name: str) -> Wire:
    """Returns the wire with that name. Raises `UnknownFormat` with the valid names if there is none."""
    try:
        return WIRES[name]
    except KeyError:
        raise UnknownFormat(f"no wire is called {name!r}; there are {', '.join(WIRES)}") from None


def to_json_bytes(message: object) -> bytes:
    """Returns a native message as JSON bytes. Bytes and text are taken as they are; a dict or SDK object is encoded.

    Raises `BadInput` for anything else.
    """
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        return message.encode("utf-8", "replace")
    if type(message) is not dict and not isinstance(message, Mapping | _SDKObject):
        raise BadInput(
            f"a message is a dict, JSON bytes, or an SDK object with model_dump(), not {type(message).__name__}"
        )
    return encode_value(message)


def encode_value(value: object) -> bytes:
    """Encodes a value of a native message as JSON. Raises `BadInput` if JSON cannot hold it."""
    try:
        return msgspec.json.encode(value, enc_hook=_to_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replace_surrogates(value), enc_hook=_to_plain)
    except (TypeError, ValueError) as exc:
        raise BadInput(f"a message holds what JSON cannot: {exc}; pass plain dicts, lists, texts and numbers") from exc


def _to_plain(value: object) -> object:
    if isinstance(value, _SDKObject):
        google = type(value).__module__.startswith("google.")
        return value.model_dump(mode="json", by_alias=True, exclude_unset=not google, exclude_none=google)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"a value of type {type(value).__name__}")


def _replace_surrogates(value: object) -> object:
    if isinstance(value, str):
        return msgspec.json.decode(splice.quote(value))
    if isinstance(value, Mapping):
        return {_replace_surrogates(k): _replace_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_surrogates(v) for v in value]
    return _replace_surrogates(_to_plain(value)) if isinstance(value, _SDKObject) else value


def decode_bytes(data: bytes, wire: str, *, confirm: SummaryConfirmer | None = None) -> list[Message]:
    """Decodes a whole JSON array of native messages. `encode_bytes` gives the same bytes back.

    The white space inside an empty array is not kept. Raises `BadInput` if it is not an array, `UnknownRole`, and
    `UnknownFormat` for an unknown wire.
    """
    slices = splice.slice_array(data)
    messages = get_wire(wire).decode(slices.items, confirm=confirm)
    out: list[Message] = []
    position = 0
    for at, message in enumerate(messages):
        native = message.native
        assert native is not None
        if native.index == 0:
            count = count_items(message)
            native = msgspec.structs.replace(native, lead=slices.leads[position])
            if count > 1:
                body = slices.items[position] + b"".join(
                    slices.leads[i] + slices.items[i] for i in range(position + 1, position + count)
                )
                native = msgspec.structs.replace(native, body=body)
            position += count
        if at == len(messages) - 1:
            native = msgspec.structs.replace(native, tail=native.tail + slices.end)
        out.append(msgspec.structs.replace(message, native=native))
    return out


def count_items(message: Message) -> int:
    """Counts the native items of a message: one, except for an OpenAI Responses answer, which may have several."""
    native = message.native
    if native is None or native.format != openai_responses.NAME or message.role != "assistant":
        return 1
    return len(splice.slice_array(b"[" + native.body + b"]").items)


def encode_bytes(messages: Sequence[Message], wire: str) -> bytes:
    """Encodes messages as one JSON array, with the separators and the ending they came with.

    For wires that take the system prompt separately, leading system texts are left out: see `encode(...).system`.
    """
    natives = [m.native for m in messages if m.native is not None]
    between = next((n.lead for n in natives if b"," in n.lead), b",")
    end = next((n.tail[n.tail.rindex(b"]") :] for n in reversed(natives) if n.tail.rstrip().endswith(b"]")), b"]")
    out: list[bytes] = []
    part = 0
    leads: tuple[bytes, ...] = ()
    previous: tuple[int, ...] = ()
    items = get_wire(wire).encode(messages).items
    opening = messages[0].native.lead if messages and messages[0].native is not None else b""
    if items and not items[0].indices and b"[" in opening:
        items = items[1:]  # a stub is needed in a request only; in the file the list began without it
    for item in items:
        native = messages[item.indices[0]].native if item.exact else None
        if native is None:
            lead = b""
        elif item.indices == previous:
            part += 1
            lead = leads[part]
        else:
            part, lead = 0, native.lead
            leads = _get_inner_leads(messages[item.indices[0]])
        previous = item.indices if item.exact else ()
        if out:
            out.append(lead if b"," in lead else between)
        else:
            out.append(lead if b"[" in lead else b"[" + between.replace(b",", b""))
        out.append(item.raw)
    if not out:
        return b"[]"
    last = messages[-1].native
    if last is not None and last.tail.rstrip().endswith(b"]"):
        end = last.tail[last.tail.rfind(b"}") + 1 :]
    return b"".join(out) + end


def _get_inner_leads(message: Message) -> tuple[bytes, ...]:
    if count_items(message) == 1:
        return (b"",)
    assert message.native is not None
    return splice.slice_array(b"[" + message.native.body + b"]").leads


# -- detection ---------------------------------------------------------------------------------------------------------

_ANTHROPIC_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "image",
        "document",
        "server_tool_use",
        "compaction",
        "search_result",
        "container_upload",
        "mcp_tool_use",
        "mcp_tool_result",
    }
)
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def detect_wire(items: Sequence[object]) -> str:
    """Finds the wire of a list of native messages (dicts, JSON bytes, SDK objects), by the first conclusive item.

    Lists of plain text look the same in three formats and count as openai-chat. Raises `UnknownFormat`, with the keys
    and role of the first item, if no item is conclusive.
    """
    seen: list[str] = []
    has_chat_role = False
    for item in items:
        fields = splice.parse_object(to_json_bytes(item))
        if fields is None:
            raise UnknownFormat(f"item {len(seen)} is no JSON object; pass a list of messages, or name the format")
        wire = _find_wire(fields)
        if wire:
            return wire
        role = splice.parse_string(fields.get("role"))
        has_chat_role = has_chat_role or role in ("user", "assistant")
        seen.append(f"{{{', '.join(fields)}}}" + (f" with role {role!r}" if role else ""))
    if has_chat_role or not seen:
        return "openai-chat"
    raise UnknownFormat(
        f"none of {', '.join(WIRES)} has messages like {seen[0]}; pass format= with one of these, "
        "or read the file with the reader of its own format"
    )


def read_sign(raw: bytes) -> tuple[str, str]:
    """Returns a native message's role and the only wire it can be of: "" if unsure, "?" if it is no object."""
    fields = splice.parse_object(raw)
    return ("", "?") if fields is None else (splice.parse_string(fields.get("role")) or "", _find_wire(fields))


def _find_wire(fields: splice.Fields) -> str:
    role = splice.parse_string(fields.get("role")) or ""
    kind = splice.parse_string(fields.get("type")) or ""
    if "parts" in fields or role == "model":
        return "gemini"
    if "tool_calls" in fields or (role in ("tool", "function") and kind != "message"):
        blocks = _collect_block_kinds(fields)
        return "openai-responses" if blocks & _RESPONSES_PARTS else "openai-chat"
    if not role and (
        kind in openai_responses.CALL_FIELDS or kind in openai_responses.OUTPUT_FIELDS or kind == "reasoning"
    ):
        return "openai-responses"
    if kind in ("compaction", "item_reference") and not role:
        return "openai-responses"
    blocks = _collect_block_kinds(fields)
    for wire, kinds in (
        ("openai-responses", _RESPONSES_PARTS),
        ("anthropic", _ANTHROPIC_BLOCKS),
        ("openai-chat", _CHAT_PARTS),
    ):
        if blocks & kinds:
            return wire
    return "openai-responses" if kind == "message" and "stop_reason" not in fields and role else ""


def _collect_block_kinds(fields: splice.Fields) -> frozenset[str]:
    kinds: set[str] = set()
    for raw in splice.parse_array(fields.get("content")) or ():
        block = splice.parse_object(raw) or {}
        kind = splice.parse_string(block.get("type")) or ""
        if kind != "file" or "file" in block:
            kinds.add(kind)
    return frozenset(kinds)
