"""Anthropic Messages: `{"role", "content": text | [blocks]}`.

A user message that mixes tool results, text of the harness and text of a person is split into several messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

from msgspec import Raw

from tenfold.errors import UnknownRole
from tenfold.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedList, Ledger, ToolNames
from tenfold.wire.encoding import collect_blocks, encode_list, fold_system, wrap_blocks
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.profiles import NativeShape, Profile, RequestFields, UsageFields
from tenfold.wire.segments import (
    Chunk,
    ContentPart,
    EncodingBatch,
    NativeMessage,
    decode_parts,
    parse_list,
    split_content,
)
from tenfold.wire.splice import Fields, build_array, build_object, quote

NAME = "anthropic"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_OWN_BLOCKS = frozenset(
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
"""The content blocks that no other wire has."""


# -- profile -----------------------------------------------------------------------------------------------------------


def _recognize_message(shape: NativeShape) -> bool:
    is_chat = "tool_calls" in shape.fields or shape.role in ("tool", "function")
    return not is_chat and not _OWN_BLOCKS.isdisjoint(shape.block_kinds)


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": parameters}


def _add_system(request: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    system = request.get("system") or []
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    return {**request, "system": [*blocks, *({"type": "text", "text": text} for text in texts)]}


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=False,
    consecutive_roles=True,
    midlist_system="before_assistant",
    results="next_message",
    reasoning_needs_successor=True,
    empty_text=False,
    empty_message=False,
    ids_optional=False,
    id_pattern=r"[a-zA-Z0-9_-]{1,128}",
    native_compaction="in_answer",
    compaction_types=frozenset({"compaction"}),
    evidence={
        "opens_with_assistant": 'long documented as refused (`first message must use the "user" role`); safe side',
        "consecutive_roles": "API reference: consecutive user or assistant turns are combined into one",
        "midlist_system": "refused by most models (`role 'system' is not supported on this model`, "
        "anthropics/claude-code#61412); newer ones want it before an assistant message or last (#73821)",
        "results": "`tool_use` ids were found without `tool_result` blocks immediately after "
        "(anthropics/claude-code#8210, OpenHands/OpenHands#7512)",
        "reasoning_needs_successor": "the last block of an assistant message cannot be `thinking`; edited ones refused",
        "empty_text": "`text content blocks must be non-empty` (anthropics/claude-code#59812), "
        "and `must contain non-whitespace text` (TheValkyrja/Anthropic2Vertex#5)",
        "empty_message": "messages must have non-empty content, except the optional final assistant message",
        "id_pattern": "tool_use.id must match ^[a-zA-Z0-9_-]+$",
        "native_compaction": "all content blocks prior to the `compaction` block are dropped by the API; it is to be "
        "sent back as it came, and with null content it is a failed one and does nothing "
        "(platform.claude.com/docs/en/build-with-claude/compaction; anthropic SDK, BetaCompactionBlockParam)",
    },
    request=RequestFields(
        overhead_fields=("system", "tools"),
        output_fields=("max_tokens", "max_completion_tokens"),  # the second in requests to routers
        own_fields=("system", "anthropic_version"),
        model_word="claude",
        foreign_roles=frozenset({"system", "developer", "tool"}),
    ),
    usage=(
        UsageFields(
            prompt=("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            output="output_tokens",
            cache_read="cache_read_input_tokens",
            cache_write="cache_creation_input_tokens",
            absent=("prompt_tokens", "input_tokens_details"),
        ),
    ),
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    add_system=_add_system,
    session_formats=frozenset({"claude-code", "cline"}),
)


class Anthropic:
    """The Anthropic Messages wire."""

    name = NAME
    profile = PROFILE

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        names = ToolNames(prefix)
        return [m for each in parse_list(items, NAME, prefix) for m in _decode_message(each, names, confirm)]

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        return encode_list(messages, PROFILE, _render_message)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode_message(message: NativeMessage, names: ToolNames, confirm: SummaryConfirmer | None) -> list[Message]:
    name = message.get_text("role")
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(
            f"message {message.index} has role {name!r}; an Anthropic message has one of {', '.join(_ROLES)}"
        )
    decode_block = partial(_decode_chunk, role=role, names=names, confirm=confirm)
    return split_content(message, role, decode_block, partial(find_origin, role, confirm=confirm))


def _decode_chunk(block: Raw, *, role: Role, names: ToolNames, confirm: SummaryConfirmer | None) -> Chunk:
    fields = splice.parse_object(block) or {}
    kind = splice.parse_string(fields.get("type"))
    if kind is None:
        return Chunk(role, find_origin(role, ""), (OpaquePart("", bytes(block)),))
    if kind == "tool_result" and role == "user":
        call_id = splice.parse_string(fields.get("tool_use_id"))
        if call_id is not None:
            name = names.get_name(call_id)
            name = name if name is not None else splice.parse_string(fields.get("name")) or ""
            content = decode_parts(fields.get("content"), _decode_result_block)
            return Chunk("tool", "tool", (ToolResult(call_id, name, content, splice.is_true(fields.get("is_error"))),))
    decode = _READERS.get((role, kind)) or _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    if isinstance(part, ToolCall):
        names.add_calls((part,))
    if part is None:
        is_compaction = role == "assistant" and kind in PROFILE.compaction_types
        has_effect = splice.parse_string(fields.get("content")) is not None  # null content: it failed
        part = OpaquePart(kind, bytes(block), NAME if is_compaction and has_effect else "")
    text = part.text if isinstance(part, Text) else ""
    return Chunk(role, find_origin(role, text, confirm), (part,))


def _decode_result_block(block: Raw) -> ContentPart:
    fields = splice.parse_object(block) or {}
    kind = splice.parse_string(fields.get("type")) or ""
    result = splice.parse_string(fields.get("result"))
    if not kind and result is not None:
        return Text(result)  # Cline writes its results as untyped objects
    decode = _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    return part if isinstance(part, Text | Image | Document) else OpaquePart(kind, bytes(block))


def _decode_text(fields: Fields) -> Part | None:
    text = splice.parse_string(fields.get("text"))
    return Text(text) if text is not None else None


def _decode_thinking(fields: Fields) -> Part | None:
    text = splice.parse_string(fields.get("thinking"))
    return Thinking(text, splice.parse_string(fields.get("signature")) or "") if text is not None else None


def _decode_tool_use(fields: Fields) -> Part | None:
    call, name = splice.parse_string(fields.get("id")), splice.parse_string(fields.get("name"))
    if call is None or name is None:
        return None
    return ToolCall(call, name, bytes(fields["input"]).decode() if "input" in fields else "{}")


def _read_source(fields: Fields) -> tuple[str, str, str]:
    source = splice.parse_object(fields["source"]) if "source" in fields else None
    if source is None:
        return "", "", ""
    kind = splice.parse_string(source.get("type")) or ""
    data = splice.parse_string(source.get("url" if kind == "url" else "data"))
    return (kind, splice.parse_string(source.get("media_type")) or "", data) if data is not None else ("", "", "")


def _decode_image(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    if kind == "base64":
        return Image(media_type=media, data=data)
    return Image(url=data) if kind == "url" else None


def _decode_document(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    name = splice.parse_string(fields.get("title")) or ""
    if kind == "base64":
        return Document(name, media, data=data)
    if kind == "text":
        return Document(name, media, text=data)
    return Document(name, url=data) if kind == "url" else None


def _decode_file(fields: Fields) -> Part | None:
    path, content = splice.parse_string(fields.get("path")), splice.parse_string(fields.get("content"))
    return Document(path, "text/plain", text=content) if path is not None and content is not None else None


_READERS: Mapping[tuple[str, str], Callable[[Fields], Part | None]] = {
    ("", "text"): _decode_text,
    ("", "image"): _decode_image,
    ("", "document"): _decode_document,
    ("user", "file"): _decode_file,
    ("assistant", "thinking"): _decode_thinking,
    ("assistant", "tool_use"): _decode_tool_use,
}


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> list[bytes]:
    collected = collect_blocks(messages, batch, ledger, "content", _render_blocks)
    if not collected.blocks:
        return []
    index = batch.indices[0]
    role = "assistant" if messages[index].role == "assistant" else "user"
    if len(collected.blocks) == 1 and not collected.natives:
        only_block = splice.parse_object(collected.blocks[0]) or {}
        if set(only_block) == {"type", "text"} and splice.parse_string(only_block["type"]) == "text":
            return [build_object(("role", quote(role)), ("content", bytes(only_block["text"])))]
    return [wrap_blocks(collected, role, "content", index, ledger)]


def _render_blocks(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    if message.role == "system":
        text = fold_system(message, index, ledger)
        return [_render_text(text)] if text else []
    out: list[bytes] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text.strip():
                    out.append(_render_text(text))
                else:
                    ledger.note_empty_text(index)
            case Thinking(text, signature):
                if foreign or not signature:
                    ledger.note_lost_thinking(part, index, "not this provider's")
                else:
                    out.append(
                        build_object(
                            ("type", b'"thinking"'), ("thinking", quote(text)), ("signature", quote(signature))
                        )
                    )
            case ToolCall():
                call = quote(ledger.assign_call_id(part, index))
                out.append(
                    build_object(
                        ("type", b'"tool_use"'),
                        ("id", call),
                        ("name", quote(part.name)),
                        ("input", ledger.render_arguments(part, index)),
                    )
                )
            case ToolResult():
                out.append(_render_result(part, index, ledger, foreign=foreign))
            case Image() | Document() | OpaquePart():
                out.extend(_render_attachment(part, index, ledger, foreign=foreign))
            case _:
                assert_never(part)
    return out


def _render_text(text: str) -> bytes:
    return build_object(("type", b'"text"'), ("text", quote(text)))


def _render_result(part: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    fields = [("type", b'"tool_result"'), ("tool_use_id", quote(ledger.assign_result_id(part.call_id)))]
    inner: list[bytes] = []
    for piece in part.content:
        if isinstance(piece, Text):
            if piece.text.strip():
                inner.append(_render_text(piece.text))
            elif len(part.content) > 1:
                ledger.note_empty_text(index)
        else:
            inner.extend(_render_attachment(piece, index, ledger, foreign=foreign))
    if len(part.content) == 1 and isinstance(part.content[0], Text):
        fields.append(("content", quote(part.content[0].text)))
    elif inner:
        fields.append(("content", build_array(inner)))
    if part.is_error:
        fields.append(("is_error", b"true"))
    return build_object(*fields)


def _render_attachment(
    part: Image | Document | OpaquePart, index: int, ledger: Ledger, *, foreign: bool
) -> list[bytes]:
    if isinstance(part, OpaquePart):
        return [] if ledger.should_drop(part, index, foreign=foreign) else [part.raw]
    if isinstance(part, Image):
        if part.data:
            media = quote(part.media_type or "image/png")
            source = build_object(("type", b'"base64"'), ("media_type", media), ("data", quote(part.data)))
        elif part.url:
            source = build_object(("type", b'"url"'), ("url", quote(part.url)))
        else:
            return [_render_text(ledger.replace_by_placeholder(part, index))]
        return [build_object(("type", b'"image"'), ("source", source))]
    return [_render_document(part, index, ledger)]


def _render_document(part: Document, index: int, ledger: Ledger) -> bytes:
    if part.text:
        source = build_object(("type", b'"text"'), ("media_type", b'"text/plain"'), ("data", quote(part.text)))
    elif part.data and part.media_type == "application/pdf":
        source = build_object(("type", b'"base64"'), ("media_type", b'"application/pdf"'), ("data", quote(part.data)))
    elif part.url:
        source = build_object(("type", b'"url"'), ("url", quote(part.url)))
    else:
        return _render_text(ledger.replace_by_placeholder(part, index))
    title = (("title", quote(part.name)),) if part.name else ()
    return build_object(("type", b'"document"'), ("source", source), *title)
