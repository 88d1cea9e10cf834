"""Splits a native message into several of ours, and finds which messages are still one untouched native message.

The messages split from one native message are a group. Their bytes, `head + body + tail` of each in turn, are the
native message. Decoders use the first half of this module, `encoding` the second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Origin,
    Part,
    Role,
    Text,
    get_text,
    get_tool_calls,
)
from tenfold.core.wire import splice
from tenfold.core.wire.marks import is_tool_header
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.splice import Fields
from tenfold.errors import BadInput, UnknownRole

ContentPart = Text | Image | Document | OpaquePart
"""The parts of which a content consists: those of a prompt and of a tool result."""


class Chunk(Struct, frozen=True):
    """One decoded content block of a native message. If it is `separate`, it becomes a message of its own."""

    role: Role
    origin: Origin
    parts: tuple[Part, ...]
    separate: bool = False


class EncodingBatch(Struct, frozen=True):
    """The indices of messages that make one native message. `exact` is its bytes if all are untouched, else None."""

    indices: tuple[int, ...]
    exact: bytes | None


class ParsedMessage(Struct, frozen=True):
    """One native message of a list: its index, its fields as raw JSON, and its bytes."""

    index: int
    fields: Fields
    native: NativeBytes

    @property
    def raw(self) -> bytes:
        """The bytes of the message."""
        return self.native.body

    def get_text(self, key: str) -> str:
        """Returns the text under a key, "" if there is none."""
        return splice.get_text(self.fields, key)

    def get_role(self, roles: Mapping[str, Role], owner: str) -> Role:
        """Returns our role for the role of the message. Raises `UnknownRole`; `owner` names such a message."""
        name = self.get_text("role")
        if name not in roles:
            noun = owner.rpartition(" ")[2]
            raise UnknownRole(f"{noun} {self.index} has role {name!r}; {owner} has one of {', '.join(roles)}")
        return roles[name]


def parse_list(items: Sequence[bytes], wire: str, start: int = 0) -> Iterator[ParsedMessage]:
    """Parses native messages one by one; the first has the index `start`.

    Raises `BadInput`, with its index, for one that is not a JSON object.
    """
    for index, raw in enumerate(items, start):
        yield ParsedMessage(index, _parse_fields(raw, index), NativeBytes(wire, raw, lead=b"," if index else b""))


def _parse_fields(raw: bytes, index: int) -> Fields:
    fields = splice.parse_object(raw)
    if fields is not None:
        return fields
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BadInput(f"message {index} is not valid JSON: {exc}; mend it, or leave it out") from exc
    raise BadInput(
        f"message {index} is not a JSON object but {raw[:40]!r}; pass a list of message objects in one format"
    )


def decode_parts(raw: Raw | None, decode_block: Callable[[Raw], ContentPart]) -> tuple[ContentPart, ...]:
    """Decodes a content that is a text or an array of blocks. An empty text is no part."""
    text = splice.parse_string(raw)
    if text is not None:
        return (Text(text),) if text else ()
    return tuple(decode_block(block) for block in splice.parse_array(raw) or ())


class OriginFinder(Protocol):
    """Finds the origin of a text in a message. `is_whole` says that the text is all of the message."""

    def __call__(self, text: str, *, is_whole: bool = True) -> Origin:
        """Returns the origin."""
        ...


def split_content(
    message: ParsedMessage, role: Role, decode_block: Callable[[Raw], Part | Chunk], get_origin: OriginFinder
) -> list[Message]:
    """Turns a message with a text or an array of blocks under `content` into messages. See `split_message`.

    A block that decodes to a part is of this role, and `get_origin` returns the origin of its text.
    """
    content = message.fields.get("content")
    text = splice.parse_string(content)
    blocks = splice.parse_array(content) if text is None else None
    if blocks is None:
        return [Message(role, (Text(text),) if text else (), get_origin(text or ""), native=message.native)]
    chunks: list[Chunk] = []
    is_announced = False  # by a line of its own, as Cline writes it
    for part in map(decode_block, blocks):
        if isinstance(part, Chunk):
            chunks.append(part)
            continue
        text = part.text if isinstance(part, Text) else ""
        origin = get_origin(text, is_whole=len(blocks) == 1)
        origin = "tool" if origin == "human" and is_announced else origin
        is_announced = role == "user" and (is_tool_header(text) or (is_announced and origin == "tool"))
        chunks.append(Chunk(role, origin, (part,)))
    return split_message(message.native, "content", chunks or [Chunk(role, get_origin(""), ())])


def split_message(native: NativeBytes, key: str, chunks: Sequence[Chunk]) -> list[Message]:
    """Turns a native message into one of ours, or into several if its blocks differ in role or origin.

    `chunks` (at least one) are the elements of the array under `key`.
    """
    raw, runs = native.body, _find_runs(chunks)
    where = splice.find_span(raw, key) if len(runs) > 1 else None
    if where is None:
        parts = tuple(p for c in chunks for p in c.parts)
        return [Message(chunks[0].role, parts, chunks[0].origin, native=native)]
    start, end = where
    slices = splice.slice_array(raw[start:end])
    group = hashlib.sha256(raw).hexdigest()[:16] + ("" if _is_plain(raw, key) else "+")
    out: list[Message] = []
    for index, (first, last) in enumerate(runs):
        body = slices.items[first] + b"".join(slices.leads[i] + slices.items[i] for i in range(first + 1, last + 1))
        out.append(
            Message(
                chunks[first].role,
                tuple(p for c in chunks[first : last + 1] for p in c.parts),
                chunks[first].origin,
                native=NativeBytes(
                    native.format,
                    body,
                    lead=native.lead if index == 0 else b"",
                    head=(raw[:start] if index == 0 else b"") + slices.leads[first],
                    tail=slices.end + raw[end:] if index == len(runs) - 1 else b"",
                    group=group,
                    index=index,
                    count=len(runs),
                ),
            )
        )
    return out


def _find_runs(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for index, chunk in enumerate(chunks):
        before = chunks[index - 1] if index else None
        is_separate = before is None or chunk.role == "tool" or chunk.separate or before.separate
        if before is not None and not is_separate and (before.role, before.origin) == (chunk.role, chunk.origin):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _is_plain(raw: bytes, key: str) -> bool:
    fields = splice.parse_object(raw)
    return fields is not None and not set(fields) - {"role", key}


def join_native_bytes(natives: Sequence[NativeBytes]) -> bytes:
    """Joins all parts of a native message to its bytes, without what the container put after it."""
    last = natives[-1]
    rest = b"".join(n.head + n.body + n.tail for n in natives[:-1]) + last.head + last.body
    if last.group:
        return rest + strip_container_end(last.tail)
    return rest if last.tail.lstrip().startswith(b"]") else rest + last.tail


def batch_messages(
    messages: Sequence[Message], profile: Profile, is_left_out: Callable[[Message, OpaquePart], bool]
) -> list[EncodingBatch]:
    """Groups the messages that make one native message each.

    For providers that want all results in the next message, the results of a step are put into one message as soon as
    one of them was changed. The same is done with tool calls and the answers around them, for providers that want a
    call right after a user message or a result. A part that `is_left_out` is not sent, so it does not separate what
    stands around it. A system message of this wire comes after the user messages and results that follow it, for
    providers that take it only before an answer or last. Those that then stand together make one message.
    """
    wire = profile.wire
    out: list[EncodingBatch] = []
    position = 0
    while position < len(messages):
        native = messages[position].native
        end = position + 1
        exact: bytes | None = None
        if native is not None and native.format == wire:
            group = _find_group(messages, position)
            if group is not None:
                end = position + len(group)
                exact = join_native_bytes(group)
        indices = tuple(range(position, end))
        if (
            exact is None
            and out
            and out[-1].exact is None
            and is_same_native(messages[out[-1].indices[-1]], native, wire)
        ):
            out[-1] = EncodingBatch((*out[-1].indices, *indices), None)
        else:
            out.append(EncodingBatch(indices, exact))
        position = end
    out = out if profile.calls_after_answer else _join_answers(messages, out, is_left_out)
    out = _join_results(messages, out, wire) if profile.results == "next_message" else out
    return _move_system(messages, out, wire) if profile.midlist_system == "before_assistant" else out


def _move_system(messages: Sequence[Message], batches: list[EncodingBatch], wire: str) -> list[EncodingBatch]:
    out: list[EncodingBatch] = []
    moved: list[EncodingBatch] = []
    for batch in [*batches, None]:
        first = messages[batch.indices[0]] if batch is not None else None
        if batch is not None and first is not None and _is_native_system(first, wire):
            moved.append(batch)
            continue
        if moved and (first is None or first.role == "assistant"):
            indices = tuple(index for each in moved for index in each.indices)
            out.append(moved[0] if len(moved) == 1 else EncodingBatch(indices, None))
            moved = []
        if batch is not None:
            out.append(batch)
    return out


def _is_native_system(message: Message, wire: str) -> bool:
    """Whether a message is a system message with words. One with settings alone is taken anywhere."""
    return bool(
        message.role == "system" and message.parts and message.native is not None and message.native.format == wire
    )


def can_divide(messages: Sequence[Message], at: int) -> bool:
    """Whether the messages before `at` make the same native messages whatever follows.

    They do where an answer follows something else that is sent: only what stands between answers is joined across it.
    """
    before, after = messages[at - 1], messages[at]
    if after.role != "assistant" or before.role == "assistant" or _is_blank(before, lambda _message, _part: True):
        return False
    return after.native is None or not is_same_native(before, after.native, after.native.format)


def _find_group(messages: Sequence[Message], start: int) -> list[NativeBytes] | None:
    first = messages[start].native
    assert first is not None
    out: list[NativeBytes] = []
    for index in range(first.count):
        native = messages[start + index].native if start + index < len(messages) else None
        if native is None or (native.format, native.group, native.index) != (first.format, first.group, index):
            return None
        out.append(native)
    return out


def is_same_native(before: Message, native: NativeBytes | None, wire: str) -> bool:
    """Whether two adjacent messages are parts of one native message of this wire."""
    old = before.native
    if old is None or native is None or native.format != wire or not native.group:
        return False
    return (old.format, old.group) == (native.format, native.group)


def _join_answers(
    messages: Sequence[Message], batches: list[EncodingBatch], is_left_out: Callable[[Message, OpaquePart], bool]
) -> list[EncodingBatch]:
    out: list[EncodingBatch] = []
    run: list[EncodingBatch] = []
    for batch in batches:
        first = messages[batch.indices[0]]
        if first.role == "assistant" or (run and batch.exact is None and _is_blank(first, is_left_out)):
            run.append(batch)
        else:
            out.extend((*_join_run(messages, run), batch))
            run = []
    return [*out, *_join_run(messages, run)]


def _join_run(messages: Sequence[Message], run: list[EncodingBatch]) -> list[EncodingBatch]:
    """Joins answers with nothing between them, if one of them holds a call and one was changed."""
    answers = [batch for batch in run if messages[batch.indices[0]].role == "assistant"]
    indices = tuple(i for batch in answers for i in batch.indices)
    is_changed = any(batch.exact is None for batch in answers)
    if len(answers) < 2 or not is_changed or not any(get_tool_calls(messages[i]) for i in indices):
        return run
    return [EncodingBatch(indices, None), *(batch for batch in run if batch not in answers)]


def _is_blank(message: Message, is_left_out: Callable[[Message, OpaquePart], bool]) -> bool:
    """Whether nothing is sent of a message, so that it does not separate those around it."""
    if message.role == "system":
        return not get_text(message).strip()
    return all(is_left_out(message, p) if isinstance(p, OpaquePart) else p == Text("") for p in message.parts)


def _join_results(messages: Sequence[Message], batches: list[EncodingBatch], wire: str) -> list[EncodingBatch]:
    out: list[EncodingBatch] = []
    run: list[EncodingBatch] = []
    for batch in [*batches, None]:
        if batch is not None and any(messages[i].role == "tool" for i in batch.indices):
            run.append(batch)
            continue
        if (
            batch is not None
            and batch.exact is None
            and _collect_groups(messages, run, wire) & _collect_groups(messages, [batch], wire)
        ):
            run.append(batch)  # the text that came in one message with these results
            batch = None  # noqa: PLW2901 - it is in the run now
        if len(run) > 1 and any(b.exact is None for b in run):
            out.append(EncodingBatch(tuple(i for b in run for i in b.indices), None))
        else:
            out.extend(run)
        run = []
        if batch is not None:
            out.append(batch)
    return out


def _collect_groups(messages: Sequence[Message], batches: Sequence[EncodingBatch], wire: str) -> set[str]:
    natives = (messages[i].native for b in batches for i in b.indices)
    return {n.group for n in natives if n is not None and n.group and n.format == wire}


def extract_blocks(native: NativeBytes, key: str) -> list[bytes] | None:
    """Returns the raw content blocks of a message of this wire, None if its content is not an array."""
    if native.group:
        return list(splice.slice_array(b"[" + native.body + b"]").items)
    fields = splice.parse_object(join_native_bytes([native])) or {}
    raws = splice.parse_array(fields.get(key))
    return None if raws is None else [bytes(r) for r in raws]


def build_envelope(natives: Sequence[NativeBytes], role: str, key: str) -> tuple[bytes, bytes, bool]:
    """Returns what to put before and after the blocks of a partly replaced message, and whether a field was lost.

    The beginning and end of the native message are reused if its first and last parts are still there.
    """
    group = natives[0].group if natives else ""
    group_natives = [n for n in natives if n.group and n.group == group] if group else []
    head = next((n.head for n in group_natives if n.index == 0), None)
    tail = next((strip_container_end(n.tail) for n in group_natives if n.index == n.count - 1), None)
    is_lossy = group.endswith("+") and (head is None or tail is None)
    opening = b'{"role":"' + role.encode() + b'","' + key.encode() + b'":['
    if len(group_natives) != len(natives) or (head is None and tail is None):
        return opening, b"]}", group.endswith("+") or any(not n.group and not _is_plain(n.body, key) for n in natives)
    if head is None:
        assert tail is not None
        after = splice.parse_object(b'{"":[' + tail)
        return (b'{"' + key.encode() + b'":[' if after is not None and "role" in after else opening), tail, is_lossy
    if tail is None:
        before = splice.parse_object(head + b"]}")
        return (head if before is not None and "role" in before else opening), b"]}", is_lossy
    return head, tail, is_lossy


def strip_container_end(tail: bytes) -> bytes:
    """Removes the end of the container from the tail of the last message of a group."""
    return tail[: tail.rindex(b"}") + 1] if b"}" in tail else tail
