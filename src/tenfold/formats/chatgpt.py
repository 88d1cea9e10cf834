"""ChatGPT's data export, `conversations.json`: a tree of nodes for each conversation, of which one path is current.

docs/formats/chatgpt.md describes the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import (
    Document,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    get_text,
    get_tool_calls,
)
from tenfold.core.wire.splice import find_span, iterate_members
from tenfold.errors import BadInput, UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import dump_json, make_answer, make_prompt, make_result
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import (
    JsonArray,
    JsonItem,
    get_list,
    get_object,
    list_objects,
    parse_array,
    parse_document,
    parse_json,
)
from tenfold.formats.output_pieces import LinkFields, OutputPiece, build_pieces, get_native, link_pieces
from tenfold.formats.session_draft import SessionDraft
from tenfold.store.base import SessionInfo

FORMAT = "chatgpt"
_LINKS = LinkFields("id", "parent", 36)
_THINKING_KINDS = ("thoughts", "reasoning_recap")
_TEXT_KEYS = ("text", "result", "user_profile", "user_instructions", "model_set_context")
_HARNESS_KINDS = ("user_editable_context", "model_editable_context")


class ChatGpt(SessionFormat):
    """Reads and writes exports with one or many conversations."""

    name = FORMAT
    opaque_kinds = ("*_asset_pointer",)

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a conversation with a `mapping` of nodes."""
        shape = inspect_shape(head)
        return any(isinstance(v, dict) and _is_conversation(v) for v in (*shape.items, *shape.lines[:1]))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses one session for each conversation."""
        top = parse_document(data, file)
        if not isinstance(top, list):
            start = data.index(b"{") if isinstance(top, dict) else len(data)
            array = JsonArray(data[:start], [JsonItem(0, b"", data[start:], top)], b"")
        else:
            array = parse_array(data, "", file)
        gap, out = array.before, list[ParsedSession]()
        for element in array.elements:
            if not isinstance(element.value, dict) or not _is_conversation(element.value):
                raise BadInput(
                    f"{file}: element {element.number} is no conversation with a `mapping`; is it an export?"
                )
            out.append(_parse_conversation(element, SessionInfo("", file=file, file_prefix=gap + element.lead)))
            gap = b""
        if out:
            out[-1] = replace(out[-1], info=replace(out[-1].info, file_suffix=array.after))
        return out

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the conversation. Untouched nodes stand in the order of the file."""
        natives = [native for item in items if (native := get_native(item)) is not None and native.format == FORMAT]
        natives.sort(key=lambda native: int(native.group))
        if len(natives) == len(items) and [int(native.group) for native in natives] == list(range(len(items))):
            nodes = [(native.lead, native.body) for native in natives]
        else:
            pieces = link_pieces(build_pieces(items, FORMAT), _LINKS, _render_node)
            nodes = [(piece.lead or b", " + dump_json(piece.source_id) + b": ", piece.raw) for piece in pieces]
            nodes[:1] = [(lead.replace(b",", b"", 1), raw) for lead, raw in nodes[:1]]
        return info.prefix + b"".join(lead + raw for lead, raw in nodes) + info.suffix

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a conversation without nodes."""
        return SessionInfo(session_id, FORMAT, prefix=b'{"title": "", "mapping": {', suffix=b"}}\n")


def _is_conversation(value: Mapping[str, Any]) -> bool:
    nodes = value.get("mapping")
    return isinstance(nodes, dict) and all(
        isinstance(n, dict) and ("parent" in n or "children" in n) for n in nodes.values()
    )


def _parse_conversation(conversation: JsonItem, info: SessionInfo) -> ParsedSession:
    value, raw = conversation.value, conversation.raw
    start, end = find_span(raw, "mapping") or (0, 0)
    mapping = raw[start:end]
    nodes: dict[str, JsonItem] = {}
    after = mapping.index(b"{") + 1
    prefix_end = after
    for number, member in enumerate(iterate_members(mapping)):
        body = mapping[member.start : member.end]
        own = member.key if member.key not in nodes else f"{member.key}#{number}"
        nodes[own] = JsonItem(number, mapping[after : member.start], body, parse_json(body), own=own)
        after = member.end
    draft = SessionDraft(info.file, "node")
    open_calls: dict[str, str] = {}
    for own in _sort_nodes(nodes, str(value.get("current_node") or "")):
        _add_node(draft, nodes[own], open_calls, info.file)
    session = str(value.get("conversation_id") or value.get("id") or "")
    return draft.build_session(
        replace(
            info,
            id=session,
            source_id=session,
            format=FORMAT,
            title=str(value.get("title") or ""),
            model=str(value.get("default_model_slug") or ""),
            prefix=raw[: start + prefix_end],
            suffix=mapping[after:] + raw[end:],
        )
    )


def _sort_nodes(nodes: Mapping[str, JsonItem], current: str) -> list[str]:
    """Sorts the nodes so that parents come first and the current path last, which a log goes on from."""
    on_path: set[str] = set()
    at: object = current
    while isinstance(at, str) and at in nodes and at not in on_path:
        on_path.add(at)
        at = nodes[at].value.get("parent")
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for own, node in nodes.items():
        parent = node.value.get("parent")
        is_child = isinstance(parent, str) and parent in nodes and parent != own
        (children.setdefault(parent, []) if is_child else roots).append(own)
    waiting = _sort_for_stack(roots, on_path)
    out: dict[str, None] = {}
    while waiting:
        own = waiting.pop()
        if own not in out:
            out[own] = None
            waiting += _sort_for_stack(children.get(own, []), on_path)
    return [*out, *(own for own in nodes if own not in out)]  # the last are in a cycle


def _sort_for_stack(siblings: Sequence[str], on_path: set[str]) -> list[str]:
    """Orders siblings for a stack: the one on the current path is put on it first, and so taken last."""
    return [own for own in siblings if own in on_path] + [own for own in reversed(siblings) if own not in on_path]


def _add_node(draft: SessionDraft, node: JsonItem, open_calls: dict[str, str], file: str) -> None:
    """Adds a node. `open_calls` maps nodes to the ids of calls that the next tool's message answers."""
    message = get_object(node.value, "message")
    draft.start_item(node.number, source_id=node.own, timestamp=message.get("create_time"))
    parent = node.value.get("parent")
    draft.set_parent(parent if isinstance(parent, str) else None)
    native = NativeBytes(FORMAT, node.raw, node.lead, group=f"{node.number}")
    try:
        parsed = _parse_message(message, open_calls.pop(str(parent), "")) if message else None
    except UnknownRole as exc:
        raise UnknownRole(
            f"{file}: node {node.own}: {exc.args[0]!r} is not a role of the chatgpt format; correct it"
        ) from exc
    if parsed is None:
        draft.add_custom("node", native)
    else:
        draft.add_messages([replace(parsed, native=native)])
        open_calls.update((node.own, call.id) for call in get_tool_calls(parsed))


def _parse_message(message: dict[str, Any], call_id: str) -> Message | None:
    """Parses the message of a node. `call_id` is that of the call right before it, if there is one."""
    author, content = get_object(message, "author"), get_object(message, "content")
    role, kind = author.get("role"), content.get("content_type")
    parts = _parse_content(content)
    about = get_object(message, "metadata")
    if role == "tool":
        texts = [part.text for part in parts if isinstance(part, Text | Document)]
        if not call_id:  # a tool that says more than once, or unasked
            return Message("user", tuple(parts), "tool")
        return make_result(call_id, author.get("name"), "\n".join(texts))
    if role == "assistant":
        recipient = message.get("recipient") or "all"
        if recipient != "all" and kind in ("code", "text"):
            arguments = parts.pop() if parts else Text("")
            text = arguments.text if isinstance(arguments, Text) else ""
            return make_answer([*parts, ToolCall(str(message.get("id") or ""), str(recipient), text)])
        return make_answer(parts)
    prompt = make_prompt(str(role), parts)
    if kind in _HARNESS_KINDS or about.get("is_user_system_message") is True:
        return replace(prompt, origin="harness")
    return prompt if parts else None


def _parse_content(content: Mapping[str, Any]) -> list[Part]:
    if content.get("content_type") in _THINKING_KINDS:
        thoughts = [each.get("content") or each.get("summary") for each in list_objects(content, "thoughts")]
        texts = [text for text in [*thoughts, content.get("content")] if isinstance(text, str) and text]
        return [Thinking("\n".join(texts))] if texts else []
    texts = [text for key in _TEXT_KEYS if isinstance(text := content.get(key), str) and text]
    return [*map(Text, texts), *map(_parse_part, filter(None, get_list(content, "parts")))]


def _parse_part(part: object) -> Part:
    if isinstance(part, str):
        return Text(part)
    fields = part if isinstance(part, dict) else {}
    if isinstance(text := fields.get("text"), str):
        return Text(text)
    return OpaquePart(str(fields.get("content_type") or ""), dump_json(part, compact=True))


def _render_node(piece: OutputPiece) -> bytes:
    (message,) = piece.messages
    calls = get_tool_calls(message)
    texts = [get_text(message), *(call.arguments for call in calls)]
    body: dict[str, Any] = {
        "id": piece.source_id,
        "author": {"role": "tool" if message.origin == "tool" else message.role},
        "content": {"content_type": "text", "parts": [text for text in texts if text]},
        "recipient": calls[0].name if calls else "all",
    }
    return dump_json({"id": piece.source_id, "message": body, "parent": piece.parent_id or None, "children": []})
